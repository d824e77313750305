package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// role is what a token allows.
type role int

const (
	nobody    role = iota // no token is needed
	reader                // sees what is in its channels
	worker                // reader, and works
	submitter             // reader, and asks for work, cancels it, and the like
	admin                 // all of it
)

var roles = [...]string{nobody: "", reader: "read", worker: "work", submitter: "submit", admin: "admin"}

func (r role) String() string { return roles[r] }

// allows reports whether one who has r may do what needs the other.
func (r role) allows(need role) bool {
	return need == nobody || r == admin || r == need || need == reader && r != nobody
}

// pass is what a request may do: it comes from its token.
type pass struct {
	name     string
	role     role
	channels []string // job.AnyChannel among them: all
	// kept: it is that of a stored token, which may be revoked, and is good until then; zero: for ever.
	kept  bool
	until time.Time
}

// everywhere reports whether it is good for all channels, those to come included.
func (p *pass) everywhere() bool { return slices.Contains(p.channels, job.AnyChannel) }

// sees reports whether it is good for the channel.
func (p *pass) sees(channel string) bool {
	return p.everywhere() || slices.Contains(p.channels, channel)
}

// asking is a request under way: whose it is, what it asks for, and where the answer goes.
type asking struct {
	pass *pass // nil: it has none
	r    *http.Request
	w    http.ResponseWriter
}

type askingKey struct{}

// askingOf gives the request that a context is of; nil: it is of none.
func askingOf(ctx context.Context) *asking {
	a, _ := ctx.Value(askingKey{}).(*asking)
	return a
}

// passOf gives the pass of a request; nil: it has none.
func passOf(ctx context.Context) *pass {
	if a := askingOf(ctx); a != nil {
		return a.pass
	}
	return nil
}

// admit reports whether the request may do what needs a role.
func (s *Server) admit(ctx context.Context, need role) error {
	if need == nobody {
		return nil
	}
	p := passOf(ctx)
	switch {
	case p == nil:
		return api.ProblemOf(api.ErrUnauthorized)
	case !p.role.allows(need):
		return forbidden("a token with the role %s may not do this; it needs %s", p.role, need)
	}
	return nil
}

func forbidden(format string, args ...any) error {
	p := api.ProblemOf(api.ErrForbidden)
	p.Detail = fmt.Sprintf(format, args...)
	return p
}

// within reports whether the request may name the channel.
func within(ctx context.Context, channel string) error {
	if p := passOf(ctx); p == nil || !p.sees(channel) {
		return forbidden("the token is not good for channel %q", channel)
	}
	return nil
}

// overall reports whether the request is good for all channels, as what it asks for concerns them all.
func overall(ctx context.Context) error {
	if p := passOf(ctx); p == nil || !p.everywhere() {
		return forbidden("this concerns all channels, and the token is good for some alone")
	}
	return nil
}

// requested gives the context the request id of the header Idempotency-Key. Two tokens never share one, and one key for two requests is
// two.
func (s *Server) requested(ctx context.Context) (context.Context, error) {
	a := askingOf(ctx)
	if a == nil {
		return ctx, nil
	}
	key := a.r.Header.Get("Idempotency-Key")
	if key == "" {
		return ctx, nil
	}
	if len(key) > maxKey {
		return nil, api.Invalid("header.Idempotency-Key", fmt.Sprintf("has %d bytes, want at most %d", len(key), maxKey))
	}
	name := ""
	if a.pass != nil {
		name = a.pass.name
	}
	asked := a.r.Method + " " + a.r.URL.Path
	if a.r.URL.RawQuery != "" {
		asked += "?" + a.r.URL.RawQuery
	}
	sum := sha256.Sum256([]byte(name + "\x00" + asked + "\x00" + key))
	var id job.ID
	copy(id[:], sum[:])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8: of our own making
	return queue.WithRequest(ctx, id), nil
}

const maxKey = 256

// bearer gives the text of the token that a request came with; "": it has none.
func bearer(r *http.Request) (string, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", nil
	}
	scheme, text, ok := strings.Cut(header, " ")
	if text = strings.TrimSpace(text); !ok || text == "" || !strings.EqualFold(scheme, "bearer") {
		return "", api.Invalid("header.Authorization", "want Bearer and a token")
	}
	return text, nil
}
