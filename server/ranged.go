package server

import (
	"io"
	"net/http"
	"time"

	"github.com/headrace/headrace/api"
)

// serveContent answers with what is asked for of a content, as http.ServeContent does; what that refuses in plain text is told as a problem.
func serveContent(w http.ResponseWriter, r *http.Request, modified time.Time, content io.ReadSeeker) {
	http.ServeContent(&ranged{ResponseWriter: w}, r, "", modified, content)
}

type ranged struct {
	http.ResponseWriter
	refused bool
}

// WriteHeader implements http.ResponseWriter.
func (w *ranged) WriteHeader(status int) {
	switch status {
	case http.StatusRequestedRangeNotSatisfiable:
		w.refuse(status, "header.Range is not within it: "+w.Header().Get("Content-Range"))
	case http.StatusPreconditionFailed:
		w.refuse(status, "it is not the one that header.If-Match or header.If-Unmodified-Since names")
	default:
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *ranged) refuse(status int, detail string) {
	w.refused = true
	h := w.Header()
	h.Del("Content-Length")
	h.Del("Content-Disposition")
	h.Del("Headrace-Log-Offset")
	writeProblem(w.ResponseWriter, api.Plain(status, detail))
}

// Write implements http.ResponseWriter.
func (w *ranged) Write(text []byte) (int, error) {
	if w.refused {
		return len(text), nil // the plain text
	}
	return w.ResponseWriter.Write(text)
}

// ReadFrom implements io.ReaderFrom, so that a file goes out by way of the system.
func (w *ranged) ReadFrom(r io.Reader) (int64, error) {
	if w.refused {
		return io.Copy(io.Discard, r)
	}
	return io.Copy(w.ResponseWriter, r)
}
