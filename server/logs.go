package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/depot"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// maxChunk bounds what one call appends to a log.
const maxChunk = 4 << 20

// tailReach is how far back the last lines of a log are looked for.
const tailReach = 64 << 20

var (
	jobParam     = param{name: "id", in: "path", about: "The job.", kind: "string"}
	attemptParam = param{name: "attempt", in: "path", about: "The number of the attempt.", kind: "integer"}
	leaseParam   = param{name: api.LeaseHeader, in: "header", about: "The token of the lease.", kind: "string", must: true}
)

func (s *Server) logOperations() {
	s.raw(operation{
		id: "append-log", own: true, method: http.MethodPost, path: "/jobs/{id}/attempts/{attempt}/log", tag: "logs", role: worker, summary: "Append to the log of an attempt",
		about: "The body is what the job wrote, at most 4 MiB; offset says where it belongs. What is there already is not written again, so that a repeat is harmless. The problem mismatch says by size where to go on.",
	}, &body{mediaType: "application/octet-stream"}, &body{mediaType: "application/json", of: reflect.TypeFor[api.LogSize]()},
		[]param{jobParam, attemptParam, leaseParam, {name: "offset", in: "query", about: "Where the first byte of the body stands in the log, from 0.", kind: "integer", must: true}},
		s.appendLog)
	params := []param{
		jobParam, attemptParam,
		{name: "offset", in: "query", about: "Begin here.", kind: "integer"},
		{name: "tail", in: "query", about: "Begin with so many of the last lines.", kind: "integer"},
		{name: "follow", in: "query", about: "Go on as it grows, to the end of the attempt.", kind: "boolean"},
	}
	for _, o := range []struct {
		id, path string
		params   []param
	}{{"get-log", "/jobs/{id}/attempts/{attempt}/log", params}, {"get-last-log", "/jobs/{id}/log", append([]param{jobParam}, params[2:]...)}} {
		what := "of an attempt"
		if o.id == "get-last-log" {
			what = "of the last attempt of a job"
		}
		s.raw(operation{
			id: o.id, method: http.MethodGet, path: o.path, tag: "logs", role: reader, also: []int{http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable},
			summary: "Read the log " + what, about: "As it was written. Ranges of bytes can be asked for; the header Headrace-Log-Offset says where the answer begins.",
		}, nil, &body{mediaType: "text/plain"}, o.params, s.readLog)
	}
}

// attempt gives the attempt that a request names, with its job, if the request may see it.
func (s *Server) attempt(r *http.Request) (depot.Attempt, *job.Record, error) {
	rec, err := s.job(r.Context(), r.PathValue("id"))
	if err != nil {
		return depot.Attempt{}, nil, err
	}
	at := depot.Attempt{Job: rec.Spec.ID}
	if r.PathValue("attempt") != "" {
		if at.Number, err = attemptIn(r); err != nil {
			return at, nil, err
		}
	} else if rec.Last != nil {
		at.Number = rec.Last.Number
	}
	if rec.Last == nil || at.Number > rec.Last.Number {
		p := api.ProblemOf(job.ErrNotFound)
		p.Detail = fmt.Sprintf("job %s has no attempt %d", rec.Spec.ID, at.Number)
		if rec.Last == nil {
			p.Detail = fmt.Sprintf("job %s has had no attempt yet", rec.Spec.ID)
		}
		return at, nil, p
	}
	return at, rec, nil
}

// holds reports whether the request has the right to the log of an attempt: its lease, or that it had it, as what comes late of a log is
// still of use. A log that was not begun in time is not begun any more.
func (s *Server) holds(ctx context.Context, l job.Lease) error {
	held, err := s.Queue.LeaseOf(ctx, l.Job)
	if err == nil && held.Lease == l {
		return nil
	}
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return err
	}
	ended, err := s.History.Attempts(ctx, l.Job)
	if err != nil {
		return err
	}
	for i := range ended {
		if ended[i].Number != l.Attempt || ended[i].Token != l.Token {
			continue
		}
		if s.Depot == nil || time.Since(ended[i].At.Std()) <= sealAfter {
			return nil
		}
		log, err := s.Depot.OpenLog(ctx, depot.Attempt{Job: l.Job, Number: l.Attempt})
		if errors.Is(err, depot.ErrNotKept) {
			return kept(depot.ErrSealed, nil)
		}
		if err != nil {
			return kept(err, nil)
		}
		return log.Close()
	}
	return job.ErrLeaseLost
}

func (s *Server) appendLog(w http.ResponseWriter, r *http.Request) error {
	l, err := s.leaseIn(r)
	if err != nil {
		return err
	}
	offset, err := wholeIn(r, "offset", -1)
	if err != nil || offset < 0 {
		return api.Invalid("query.offset", "want a whole number from 0")
	}
	if err := s.holds(r.Context(), l); err != nil {
		return err
	}
	if s.Depot == nil {
		return api.ErrGone
	}
	from := s.newPaced(w, http.MaxBytesReader(w, r.Body, maxChunk), bodyPatience)
	chunk, err := io.ReadAll(from)
	if err != nil {
		return misread(err, "body")
	}
	from.done()
	size, err := s.Depot.Append(r.Context(), depot.Attempt{Job: l.Job, Number: l.Attempt}, offset, chunk, 0)
	if err != nil {
		return kept(err, &size)
	}
	return write(w, http.StatusOK, api.LogSize{Size: size})
}

// kept tells an error of the depot as a problem, without the folder of which it speaks.
func kept(err error, size *int64) error {
	var gap *depot.GapError
	var limit *depot.LimitError
	var sum *depot.SumError
	var taken *depot.TakenError
	var p *api.Problem
	switch {
	case errors.As(err, &gap):
		p, err = api.ProblemOf(api.ErrMismatch), gap
		size = &gap.Have
	case errors.As(err, &limit):
		p, err = api.ProblemOf(api.ErrTooLarge), limit
	case errors.As(err, &sum):
		p, err = api.ProblemOf(api.ErrMismatch), sum
	case errors.As(err, &taken):
		p, err = api.ProblemOf(job.ErrExists), taken
	case errors.Is(err, depot.ErrSealed):
		p, err = api.ProblemOf(job.ErrEnded), depot.ErrSealed
	case errors.Is(err, depot.ErrBusy):
		p, err = api.ProblemOf(job.ErrBusy), depot.ErrBusy
		p.Retry = true
	case errors.Is(err, depot.ErrNotKept):
		return api.ErrGone
	case errors.Is(err, depot.ErrClosed):
		return &queue.RetryError{Cause: err}
	default:
		return err
	}
	p.Detail, p.Size = err.Error(), size
	return p
}

// wholeIn reads a whole number of the query.
func wholeIn(r *http.Request, name string, missing int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return missing, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, api.Invalid("query."+name, "want a whole number from 0")
	}
	return n, nil
}

func (s *Server) readLog(w http.ResponseWriter, r *http.Request) error {
	at, rec, err := s.attempt(r)
	if err != nil {
		return err
	}
	if s.Depot == nil {
		return api.ErrGone
	}
	follow := r.URL.Query().Get("follow") == "true"
	offset, err := wholeIn(r, "offset", 0)
	if err != nil {
		return err
	}
	lines, err := wholeIn(r, "tail", -1)
	if err != nil {
		return err
	}
	runs := rec.Running && rec.Last.Number == at.Number
	log, err := s.Depot.OpenLog(r.Context(), at)
	var content io.ReaderAt = nothing{}
	size := int64(0)
	switch {
	case err == nil:
		defer log.Close() // Only read from.
		content, size = log, log.Size()
	case !errors.Is(err, depot.ErrNotKept) || !runs:
		return kept(err, nil)
	}
	if lines >= 0 {
		if offset, err = depot.Tail(content, size, int(min(lines, 1<<30)), tailReach); err != nil {
			return err
		}
	}
	offset = min(offset, size)
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Headrace-Log-Offset", strconv.FormatInt(offset, 10))
	if !follow {
		serveContent(w, r, time.Time{}, io.NewSectionReader(content, offset, size-offset))
		return nil
	}
	w.WriteHeader(http.StatusOK)
	f := follower{s: s, w: w, c: http.NewResponseController(w), at: at, offset: offset}
	f.copy(content, size)
	if runs {
		f.run(r.Context())
	}
	return nil
}

// nothing is the content of a log to which nothing was written yet.
type nothing struct{}

// ReadAt implements io.ReaderAt.
func (nothing) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

// follower sends a log as it grows.
type follower struct {
	s      *Server
	w      http.ResponseWriter
	c      *http.ResponseController
	at     depot.Attempt
	offset int64
	gone   bool // nobody reads any more
}

// writePatience is how long a follower may take to read what it is sent.
const writePatience = 30 * time.Second

func (f *follower) copy(content io.ReaderAt, size int64) {
	const piece = 1 << 20
	for f.offset < size && !f.gone {
		_ = f.c.SetWriteDeadline(time.Now().Add(writePatience)) // A server that cannot has none.
		n, err := io.Copy(f.w, io.NewSectionReader(content, f.offset, min(piece, size-f.offset)))
		f.offset += n
		f.gone = err != nil || n == 0
	}
	if err := f.c.Flush(); err != nil {
		f.gone = true
	}
}

// run sends what comes until the attempt is over.
func (f *follower) run(ctx context.Context) {
	over, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(f.s.closing, cancel)()
	for !f.gone && over.Err() == nil {
		held, ended := f.s.attemptHeld(over, f.at)
		_, sealed, err := f.s.Depot.Wait(held, f.at, f.offset)
		finished := ended()
		if err != nil && held.Err() == nil {
			return
		}
		log, err := f.s.Depot.OpenLog(ctx, f.at)
		if err == nil {
			f.copy(log, log.Size())
			_ = log.Close() // Only read from.
		}
		if sealed || finished {
			return
		}
	}
}

// attemptHeld gives a context that ends with the attempt; ended says whether it did, and must be called.
func (s *Server) attemptHeld(ctx context.Context, at depot.Attempt) (held context.Context, ended func() bool) {
	held, cancel := context.WithCancel(ctx)
	stop := func() {}
	runs := func() bool {
		h, err := s.Queue.LeaseOf(ctx, at.Job)
		return err == nil && h.Lease.Attempt == at.Number || err != nil && !errors.Is(err, queue.ErrNotFound)
	}
	if h, err := s.Queue.LeaseOf(ctx, at.Job); err == nil {
		if _, forget, err := s.Queue.Standing(h.Worker, cancel); err == nil {
			stop = forget
		}
	}
	if !runs() {
		cancel()
	}
	return held, func() bool { stop(); cancel(); return !runs() }
}
