package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// known are the sentinels of the engine and of this package, by the names under which callers test for them.
var known = map[string]error{
	"job.ErrNotFound": job.ErrNotFound, "job.ErrLeaseLost": job.ErrLeaseLost, "job.ErrNotReady": job.ErrNotReady, "job.ErrEnded": job.ErrEnded,
	"job.ErrBusy": job.ErrBusy, "job.ErrWorkerLive": job.ErrWorkerLive, "job.ErrSignedOff": job.ErrSignedOff, "job.ErrExists": job.ErrExists,
	"queue.ErrFeedTruncated": queue.ErrFeedTruncated, "queue.ErrFeedAhead": queue.ErrFeedAhead, "queue.ErrClosed": queue.ErrClosed,
	"queue.ErrRequest": queue.ErrRequest, "queue.ErrUnfinished": queue.ErrUnfinished, "queue.ErrNotFound": queue.ErrNotFound,
	"api.ErrUnauthorized": api.ErrUnauthorized, "api.ErrForbidden": api.ErrForbidden, "api.ErrTooMany": api.ErrTooMany,
	"api.ErrTooLarge": api.ErrTooLarge, "api.ErrMismatch": api.ErrMismatch, "api.ErrGone": api.ErrGone, "api.ErrVersion": api.ErrVersion,
	"api.ErrInternal": api.ErrInternal,
}

// inner are told to stores and owners alone.
var inner = map[string]bool{"queue.ErrNumber": true, "queue.ErrFenced": true}

// Each sentinel that a caller can be told survives the way over the wire, under a code of its own kind; no new one is forgotten.
func TestEachErrorHasItsProblem(t *testing.T) {
	t.Parallel()
	for _, pkg := range []string{"job", "queue", "api"} {
		for _, name := range sentinels(t, filepath.Join("..", pkg)) {
			full := pkg + "." + name
			err, ok := known[full]
			if !ok {
				if !inner[full] {
					t.Errorf("%s is in no table: say in problem.go what it is on the wire, and here", full)
				}
				continue
			}
			p := overWire(t, api.ProblemOf(fmt.Errorf("job x: %w", err)))
			if !errors.Is(p, err) {
				t.Errorf("%s is told as %+v, which it is not", full, p)
			}
			if p.Status < 400 || !strings.HasPrefix(p.Type, "urn:headrace:") || p.Title == "" || p.Detail == "" {
				t.Errorf("%s is told as %+v", full, p)
			}
			if p.Status == http.StatusInternalServerError && !errors.Is(err, api.ErrInternal) {
				t.Errorf("%s is told as an internal error", full)
			}
			for other, e := range known {
				if !errors.Is(e, err) && errors.Is(p, e) {
					t.Errorf("%s is taken for %s", full, other)
				}
			}
		}
	}
}

// overWire gives the problem as the other side reads it.
func overWire(t *testing.T, p *api.Problem) *api.Problem {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	got := &api.Problem{}
	if err := json.Unmarshal(text, got); err != nil {
		t.Fatal(err)
	}
	return got
}

// sentinels lists the errors that a package exports as variables.
func sentinels(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", dir, err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				for _, n := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(n.Name, "Err") {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// Errors with contents keep what a caller acts upon, and what is nobody's business is not told.
func TestErrorsWithContents(t *testing.T) {
	t.Parallel()
	p := overWire(t, api.ProblemOf(fmt.Errorf("submit: %w", &job.InvalidError{Field: "jobs[3].name", Want: "must not be empty"})))
	var invalid *job.InvalidError
	if !errors.As(p, &invalid) || invalid.Field != "jobs[3].name" || invalid.Want != "must not be empty" || p.Status != 422 {
		t.Errorf("a wrong field is told as %+v", p)
	}
	var retry *queue.RetryError
	p = overWire(t, api.ProblemOf(&queue.RetryError{Cause: errors.New("stepped down")}))
	if !errors.As(p, &retry) || p.Status != 503 || !p.Retry {
		t.Errorf("what may be tried again is told as %+v", p)
	}
	p = overWire(t, api.ProblemOf(&queue.FeedGapError{After: 3, Next: 9}))
	if !errors.Is(p, queue.ErrFeedTruncated) || p.Status != 410 {
		t.Errorf("a gap is told as %+v", p)
	}
	for _, err := range []error{
		&job.ConflictError{Identity: job.Identity{Key: "k"}}, &job.CycleError{Names: []string{"a", "b"}}, &job.NeededError{},
	} {
		if p := overWire(t, api.ProblemOf(err)); p.Status/100 != 4 || !strings.Contains(p.Detail, err.Error()) {
			t.Errorf("%T is told as %+v", err, p)
		}
	}
	p = overWire(t, api.ProblemOf(errors.New("dial postgres://user:secret@host")))
	if p.Status != 500 || strings.Contains(p.Detail, "secret") {
		t.Errorf("what is nobody's business is told as %+v", p)
	}
	if errors.As(p, &retry) {
		t.Error("an internal error is to be tried again")
	}
}
