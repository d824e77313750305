package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// tokenSpace is the space of the settings that tokens are.
const tokenSpace = "token"

// tokenMark begins every token, so that people and scanners for secrets know one.
const tokenMark = "hr_"

// keptToken is a token as it is stored: of the secret there is the hash alone.
type keptToken struct {
	Hash     string    `json:"hash"` // SHA-256 of the whole text, in hexadecimal
	Role     string    `json:"role"`
	Channels []string  `json:"channels"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// errToken says that a token is none, is not known, or is no longer valid: which of them is nobody's business.
var errToken = errors.New("the token is not valid")

// lookUp gives the pass of a token.
func (s *Server) lookUp(ctx context.Context, text string) (*pass, error) {
	name, ok := strings.CutPrefix(text, tokenMark)
	at := strings.LastIndexByte(name, '_')
	if !ok || at < 1 || len(text) > 512 {
		return nil, errToken
	}
	name = name[:at]
	setting, err := s.Queue.Setting(ctx, tokenSpace, name)
	if errors.Is(err, queue.ErrNotFound) {
		return nil, errToken
	}
	if err != nil {
		return nil, err
	}
	var kept keptToken
	if err := json.Unmarshal(setting.Body, &kept); err != nil {
		s.Log.Error("a stored token cannot be read", "token", name, "err", err)
		return nil, errToken
	}
	if subtle.ConstantTimeCompare([]byte(kept.Hash), []byte(hashOf(text))) != 1 {
		return nil, errToken
	}
	if !kept.Expires.IsZero() && !time.Now().Before(kept.Expires) {
		return nil, errToken
	}
	r := slices.Index(roles[:], kept.Role)
	if r <= int(nobody) {
		return nil, errToken
	}
	return &pass{name: name, role: role(r), channels: kept.Channels, kept: true, until: kept.Expires}, nil
}

// NewToken makes a token. Its text is told once, and kept nowhere. It reports *job.InvalidError, and job.ErrExists if the name
// is taken.
func (s *Server) NewToken(ctx context.Context, t *api.NewToken) (api.Secret, error) {
	return s.newToken(ctx, t, nil)
}

// newToken makes a token. tell, if not nil, is called with its text before it is good; its error takes the token back.
func (s *Server) newToken(ctx context.Context, t *api.NewToken, tell func(secret string) error) (api.Secret, error) {
	switch {
	case !plainName(t.Name):
		return api.Secret{}, api.Invalid("body.name", "want 1 to 64 letters, digits, dots, hyphens and underscores, none of the marks at the start")
	case slices.Index(roles[:], t.Role) <= int(nobody):
		return api.Secret{}, api.Invalid("body.role", "want read, work, submit or admin")
	case len(t.Channels) == 0:
		return api.Secret{}, api.Invalid("body.channels", `want at least one, or ["*"] for all`)
	case len(t.Channels) > maxTokenChannels:
		return api.Secret{}, api.Invalid("body.channels", fmt.Sprintf("want at most %d", maxTokenChannels))
	}
	for i, c := range t.Channels {
		if c == "" || len(c) > job.MaxName {
			return api.Secret{}, api.Invalid(fmt.Sprintf("body.channels[%d]", i), fmt.Sprintf("want 1 to %d bytes", job.MaxName))
		}
	}
	valid, err := spanOf("body.expires_seconds", t.Expires)
	if err != nil {
		return api.Secret{}, err
	}
	text := tokenMark + t.Name + "_" + rand.Text()
	now := time.Now().UTC().Truncate(time.Microsecond)
	kept := keptToken{Hash: hashOf(text), Role: t.Role, Channels: t.Channels, Created: now}
	if valid > 0 {
		kept.Expires = now.Add(valid)
	}
	body, err := json.Marshal(kept)
	if err != nil {
		return api.Secret{}, err
	}
	if tell != nil {
		if err := tell(text); err != nil {
			return api.Secret{}, err
		}
	}
	// Not under a request id: whoever repeats it has not heard the secret, and nobody can tell it again.
	ctx = queue.WithRequest(ctx, job.ID{})
	if err := s.Queue.PutSetting(ctx, job.Setting{Space: tokenSpace, Name: t.Name, Body: body}, job.IfAbsent); err != nil {
		return api.Secret{}, err
	}
	s.Log.Info("token made", "token", t.Name, "role", t.Role)
	return api.Secret{Token: viewToken(t.Name, &kept), Secret: text}, nil
}

const maxTokenChannels = 100

// plainName reports whether a name can stand in a token, a path and a command without quotes.
func plainName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_')
	}) && name[0] != '.' && name[0] != '-' && name[0] != '_'
}

// AdminToken makes a token of an administrator: one of the name or, if that is "", the first one, named admin, unless there is a token
// already. tell is called with its text before it is good: if that cannot be told, there is none. It reports *job.InvalidError, and
// job.ErrExists if the name is taken.
func (s *Server) AdminToken(ctx context.Context, name string, tell func(secret string) error) error {
	if name == "" {
		have, err := s.Queue.Settings(ctx, tokenSpace)
		if err != nil || len(have) > 0 {
			return err
		}
		name = "admin"
	}
	_, err := s.newToken(ctx, &api.NewToken{Name: name, Role: admin.String(), Channels: []string{job.AnyChannel}}, tell)
	return err
}

func viewToken(name string, kept *keptToken) api.Token {
	t := api.Token{Name: name, Role: kept.Role, Channels: kept.Channels, Created: kept.Created}
	if !kept.Expires.IsZero() {
		t.Expires = &kept.Expires
		t.Expired = !time.Now().Before(kept.Expires)
	}
	if t.Channels == nil {
		t.Channels = []string{}
	}
	return t
}

func (s *Server) tokenOperations() {
	handle(s, operation{
		id: "whoami", method: http.MethodGet, path: "/token", tag: "tokens", role: reader, summary: "Show the token of the request",
	}, func(ctx context.Context, _ *struct{}) (*out[api.Identity], error) {
		p := passOf(ctx)
		return &out[api.Identity]{api.Identity{Name: p.name, Role: p.role.String(), Channels: p.channels}}, nil
	})
	handle(s, operation{
		id: "list-tokens", method: http.MethodGet, path: "/tokens", tag: "tokens", role: admin, summary: "List tokens by name, without their secrets",
	}, func(ctx context.Context, _ *struct{}) (*out[api.List[api.Token]], error) {
		if err := overall(ctx); err != nil {
			return nil, err
		}
		settings, err := s.Queue.Settings(ctx, tokenSpace)
		if err != nil {
			return nil, err
		}
		list := api.List[api.Token]{Items: []api.Token{}}
		for _, v := range settings {
			var kept keptToken
			if err := json.Unmarshal(v.Body, &kept); err != nil {
				s.Log.Error("a stored token cannot be read", "token", v.Name, "err", err)
				kept = keptToken{Role: "unreadable"}
			}
			list.Items = append(list.Items, viewToken(v.Name, &kept))
		}
		return &out[api.List[api.Token]]{list}, nil
	})
	type create struct{ Body api.NewToken }
	type created struct {
		Status int
		Body   api.Secret
	}
	handle(s, operation{
		id: "create-token", method: http.MethodPost, path: "/tokens", tag: "tokens", role: admin, status: http.StatusCreated,
		summary: "Make a token", about: "Its text is in this answer, and nowhere else afterwards.",
	}, func(ctx context.Context, in *create) (*created, error) {
		if err := overall(ctx); err != nil {
			return nil, err
		}
		made, err := s.NewToken(ctx, &in.Body)
		return &created{http.StatusCreated, made}, err
	})
	type one struct {
		Name string `path:"name" maxLength:"64" doc:"The token."`
	}
	handle(s, operation{
		id: "revoke-token", method: http.MethodDelete, path: "/tokens/{name}", tag: "tokens", role: admin, summary: "Revoke a token",
		about: "It is good for nothing from the answer on.",
	}, func(ctx context.Context, in *one) (*struct{}, error) {
		if err := overall(ctx); err != nil {
			return nil, err
		}
		err := s.Queue.RemoveSetting(ctx, tokenSpace, in.Name)
		if err == nil {
			s.guard.end(in.Name)
			s.Log.Info("token revoked", "token", in.Name)
		}
		return nil, err
	})
}
