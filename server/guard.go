package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"golang.org/x/time/rate"
)

// Limits on wrong tokens, by address: so many at once, and so many a second after that.
const (
	wrongBurst = 20
	wrongRate  = 1
	// addresses bounds how many are remembered.
	addresses = 10_000
)

// guard counts wrong tokens.
type guard struct {
	mu    sync.Mutex
	wrong map[string]*rate.Limiter
	// open are the requests under way, by token: they end with it.
	open map[string]map[*context.CancelCauseFunc]struct{}
}

func (g *guard) init() {
	g.wrong, g.open = map[string]*rate.Limiter{}, map[string]map[*context.CancelCauseFunc]struct{}{}
}

// let lets a request in for as long as its token is good. leave must be called in the end.
func (g *guard) let(ctx context.Context, p *pass) (held context.Context, leave func()) {
	held, cancel := context.WithCancelCause(ctx)
	stop := func() {}
	if !p.until.IsZero() {
		timer := time.AfterFunc(time.Until(p.until), func() { cancel(errToken) })
		stop = func() { timer.Stop() }
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[p.name] == nil {
		g.open[p.name] = map[*context.CancelCauseFunc]struct{}{}
	}
	g.open[p.name][&cancel] = struct{}{}
	return held, func() {
		stop()
		cancel(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		if delete(g.open[p.name], &cancel); len(g.open[p.name]) == 0 {
			delete(g.open, p.name)
		}
	}
}

// end ends the requests under way of a token.
func (g *guard) end(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for cancel := range g.open[name] {
		(*cancel)(errToken)
	}
}

// strike notes a wrong token; ok is false if there were too many from that address.
func (g *guard) strike(address string) (ok bool) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.wrong[host]
	if l == nil {
		if len(g.wrong) >= addresses {
			clear(g.wrong) // Whoever has so many addresses is held up by no count.
		}
		l = rate.NewLimiter(wrongRate, wrongBurst)
		g.wrong[host] = l
	}
	return l.AllowN(time.Now(), 1)
}

// identify finds out whose a request is. A request without a token has no pass; one with a wrong token is refused even
// where none is needed, as it was meant to be somebody's.
func (s *Server) identify(r *http.Request) (*pass, error) {
	if s.Open {
		return &pass{name: "open", role: admin, channels: []string{job.AnyChannel}}, nil
	}
	text, err := bearer(r)
	if err != nil {
		return nil, err
	}
	if text == "" {
		if s.Public {
			return &pass{name: "public", role: reader, channels: []string{job.AnyChannel}}, nil
		}
		return nil, nil
	}
	p, err := s.lookUp(r.Context(), text)
	if errors.Is(err, errToken) {
		if !s.guard.strike(r.RemoteAddr) {
			p := api.ProblemOf(api.ErrTooMany)
			p.Detail = "too many wrong tokens from this address; try again later"
			return nil, p
		}
		s.Log.Warn("wrong token", "address", r.RemoteAddr)
		p := api.ProblemOf(api.ErrUnauthorized)
		p.Detail = errToken.Error()
		return nil, p
	}
	return p, err
}

// What all answers share: a call that is held keeps none of its own.
var noSniff, noStore, closing = []string{"nosniff"}, []string{"no-store"}, []string{"close"}

// plainPath reports whether a path has no part that is empty, or stands for another.
func plainPath(text string) bool {
	clean := path.Clean(text)
	return text == clean || text == clean+"/"
}

// unread has a body whose reader does not say how long it may take come in time. done is to be called where it is not read at all, after
// the answer: else it would be waited for, so that anybody could hold connections.
func (s *Server) unread(w http.ResponseWriter) (done func()) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(s.BodyPatience)) // A server that cannot has none.
	return func() { _ = c.SetReadDeadline(time.Unix(1, 0)) }
}

// guarded finds out whose each request is, and lets nothing that goes wrong in one end the others.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["X-Content-Type-Options"], h["Cache-Control"] = noSniff, noStore
		done := func() {}
		if r.ContentLength != 0 {
			done = s.unread(w)
		}
		if !plainPath(r.URL.EscapedPath()) { // The mux would answer with a page that sends people elsewhere.
			defer done()
			h["Connection"] = closing // else the body would be waited for before the answer is sent
			s.unknown(w, r)
			return
		}
		p, err := s.identify(r)
		if (err != nil || p == nil) && r.ContentLength != 0 {
			defer done()
			h["Connection"] = closing
		}
		if err != nil {
			writeProblem(w, s.told(r.Context(), err))
			return
		}
		ctx := r.Context()
		if p != nil && p.kept {
			var leave func()
			ctx, leave = s.guard.let(ctx, p)
			defer leave()
		}
		if kind := r.Header.Get("Content-Type"); r.Body != nil && !strings.HasPrefix(kind, "application/octet-stream") {
			r.Body = &textBody{ReadCloser: r.Body}
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, askingKey{}, &asking{p, r, w})))
	})
}
