package server

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
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
	// Request is the id of the request that made it, and Salt what its text was made of besides: see secretOf.
	Request job.ID `json:"request,omitzero"`
	Salt    []byte `json:"salt,omitempty"`
}

// secretOf gives the secret part of a token that is made under a request id, so that a repeat can be told it again though it is kept
// nowhere. It is made of what is kept and of what whoever asks has alone, their own token. Whoever has that may make tokens anyway.
func secretOf(asker string, request job.ID, salt []byte) string {
	mac := hmac.New(sha256.New, []byte(asker))
	mac.Write(request[:])
	mac.Write(salt)
	return base32.StdEncoding.EncodeToString(mac.Sum(nil))[:26] // as many as rand.Text has: 130 bits
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
	now := time.Now().UTC().Truncate(time.Microsecond)
	kept := keptToken{Role: t.Role, Channels: t.Channels, Created: now}
	if valid > 0 {
		kept.Expires = now.Add(valid)
	}
	secret, asker := rand.Text(), ""
	kept.Request = queue.RequestOf(ctx)
	if a := askingOf(ctx); a != nil && !kept.Request.IsZero() {
		if asker, err = bearer(a.r); err != nil {
			return api.Secret{}, err
		}
	}
	if asker == "" {
		kept.Request = job.ID{} // What a repeat is told would be made of nothing secret.
	} else {
		kept.Salt = []byte(rand.Text())
		secret = secretOf(asker, kept.Request, kept.Salt)
	}
	text := tokenMark + t.Name + "_" + secret
	kept.Hash = hashOf(text)
	body, err := json.Marshal(kept)
	if err != nil {
		return api.Secret{}, err
	}
	if tell != nil {
		if err := tell(text); err != nil {
			return api.Secret{}, err
		}
	}
	// Where the text can be told again it is put once under the request id: a repeat must not bring it back once it is revoked.
	err = s.Queue.PutSetting(queue.WithRequest(ctx, kept.Request), job.Setting{Space: tokenSpace, Name: t.Name, Body: body}, job.IfAbsent)
	if err != nil {
		return api.Secret{}, err
	}
	if !kept.Request.IsZero() {
		first, err := s.firstAnswer(ctx, t, asker, &kept)
		if err != nil || first.Secret != text {
			return first, err
		}
	}
	s.Log.Info("token made", "token", t.Name, "role", t.Role)
	return api.Secret{Token: viewToken(t.Name, &kept), Secret: text}, nil
}

// firstAnswer gives the answer to the request under whose id a token was asked for, which may be a repeat.
func (s *Server) firstAnswer(ctx context.Context, t *api.NewToken, asker string, asked *keptToken) (api.Secret, error) {
	exists := api.ProblemOf(job.ErrExists)
	exists.Detail = fmt.Sprintf("the token %q that was made under this Idempotency-Key is revoked; use another key", t.Name)
	setting, err := s.Queue.Setting(ctx, tokenSpace, t.Name)
	if errors.Is(err, queue.ErrNotFound) {
		return api.Secret{}, exists
	}
	if err != nil {
		return api.Secret{}, err
	}
	var kept keptToken
	if err := json.Unmarshal(setting.Body, &kept); err != nil || kept.Request != asked.Request {
		return api.Secret{}, exists
	}
	text := tokenMark + t.Name + "_" + secretOf(asker, kept.Request, kept.Salt)
	switch {
	case hashOf(text) != kept.Hash: // whoever asks has another token of that name now
		return api.Secret{}, exists
	case kept.Role != asked.Role || !slices.Equal(kept.Channels, asked.Channels) || kept.life() != asked.life():
		return api.Secret{}, api.ProblemOf(queue.ErrRequest)
	}
	return api.Secret{Token: viewToken(t.Name, &kept), Secret: text}, nil
}

// life is how long it is good for in all; 0: for ever.
func (k *keptToken) life() time.Duration {
	if k.Expires.IsZero() {
		return 0
	}
	return k.Expires.Sub(k.Created)
}

// everywhere reports whether it is one of an administrator that is good for all channels, and will be.
func (k *keptToken) everywhere() bool {
	return k.Role == admin.String() && k.Expires.IsZero() && slices.Contains(k.Channels, job.AnyChannel)
}

// revoke takes a token away, but not the last that can make others.
func (s *Server) revoke(ctx context.Context, name string) error {
	s.revoking.Lock()
	defer s.revoking.Unlock()
	all, err := s.Queue.Settings(ctx, tokenSpace)
	if err != nil {
		return err
	}
	masters := map[string]bool{}
	for _, v := range all {
		var kept keptToken
		if json.Unmarshal(v.Body, &kept) == nil && kept.everywhere() {
			masters[v.Name] = true
		}
	}
	if masters[name] && len(masters) == 1 {
		p := api.ProblemOf(job.ErrBusy)
		p.Detail = fmt.Sprintf("%q is the last token of an administrator for all channels that does not expire; make another first", name)
		return p
	}
	if err := s.Queue.RemoveSetting(ctx, tokenSpace, name); err != nil {
		return err
	}
	s.guard.end(name)
	s.Log.Info("token revoked", "token", name)
	return nil
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
		summary: "Make a token", about: "Its text is in this answer, and nowhere else afterwards. A repeat under the same Idempotency-Key with the same token of an administrator is told it again.",
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
		about: "It is good for nothing from the answer on. The last one of an administrator for all channels that does not expire cannot be revoked.",
	}, func(ctx context.Context, in *one) (*struct{}, error) {
		if err := overall(ctx); err != nil {
			return nil, err
		}
		return nil, s.revoke(ctx, in.Name)
	})
}
