package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
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

type passKey struct{}

// passOf gives the pass of a request; nil: it has none.
func passOf(ctx context.Context) *pass {
	p, _ := ctx.Value(passKey{}).(*pass)
	return p
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

// requested gives the context the request id of the header Idempotency-Key. Two tokens never share one.
func (s *Server) requested(ctx context.Context) (context.Context, error) {
	key, _ := ctx.Value(keyKey{}).(string)
	if key == "" {
		return ctx, nil
	}
	if len(key) > maxKey {
		return nil, api.Invalid("header.Idempotency-Key", fmt.Sprintf("has %d bytes, want at most %d", len(key), maxKey))
	}
	name := ""
	if p := passOf(ctx); p != nil {
		name = p.name
	}
	// One key for two requests is two keys.
	asked, _ := ctx.Value(askedKey{}).(string)
	sum := sha256.Sum256([]byte(name + "\x00" + asked + "\x00" + key))
	var id job.ID
	copy(id[:], sum[:])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8: of our own making
	return queue.WithRequest(ctx, id), nil
}

type keyKey struct{}

// askedKey has what a request asks for: its method and path.
type askedKey struct{}

const maxKey = 256
