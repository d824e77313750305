package apitest

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/headrace/headrace/api"
)

// Checked passes requests on to a server, and reports each answer of its API that the document does not have so: its status, its media type,
// or its body. Of bodies that are streamed (logs, artifacts, events) the media type alone is looked at.
func Checked(next http.Handler, report func(error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{ResponseWriter: w, head: r.Method == http.MethodHead}
		next.ServeHTTP(a, r)
		if a.status == 0 {
			if r.Context().Err() != nil {
				return // Whoever asked has gone.
			}
			a.WriteHeader(http.StatusOK)
		}
		path, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix)
		if !ok {
			return
		}
		d, err := load()
		if err == nil {
			err = d.check(r.Method, path, a)
		}
		if err != nil {
			report(fmt.Errorf("%s %s: %d %s: %w", r.Method, r.URL.Path, a.status, a.body.Bytes(), err))
		}
	})
}

// answer notes what is answered on its way.
type answer struct {
	http.ResponseWriter
	head   bool
	status int
	size   int64
	body   bytes.Buffer // unless it is streamed
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(text []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	a.size += int64(len(text))
	if a.judged() {
		a.body.Write(text)
	}
	return a.ResponseWriter.Write(text)
}

func (a *answer) mediaType() string {
	kind, _, err := mime.ParseMediaType(a.Header().Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// judged reports whether the body is one that the document describes.
func (a *answer) judged() bool {
	kind := a.mediaType()
	return !a.head && (kind == "application/json" || kind == api.ProblemType)
}
