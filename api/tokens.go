package api

import (
	"context"
	"net/http"
	"net/url"
)

// NewToken asks for a token.
type NewToken struct {
	Name     string   `json:"name" minLength:"1" maxLength:"64" doc:"Letters, digits, dots, hyphens and underscores."`
	Role     string   `json:"role" enum:"read,work,submit,admin" doc:"read: see. work: see, and work. submit: see, and ask for work. admin: everything."`
	Channels []string `json:"channels" minItems:"1" maxItems:"100" doc:"For which it is good; [\"*\"]: all."`
	Expires  float64  `json:"expires_seconds,omitempty" minimum:"0" maximum:"315360000" doc:"For how long it is good; left out, until it is revoked."`
}

// Token is a token without its secret.
type Token struct {
	Name     string   `json:"name"`
	Role     string   `json:"role"`
	Channels []string `json:"channels"`
	Created  Time     `json:"created" format:"date-time"`
	Expires  *Time    `json:"expires,omitempty" format:"date-time"`
	Expired  bool     `json:"expired,omitempty"`
}

// Secret is a token with its secret, which is told once.
type Secret struct {
	Token
	Secret string `json:"secret" doc:"What is shown as Authorization: Bearer. It is told once."`
}

// Identity is what a request is known as.
type Identity struct {
	Name     string   `json:"name"`
	Role     string   `json:"role"`
	Channels []string `json:"channels"`
}

// WhoAmI tells what this client's token is.
func (c *Client) WhoAmI(ctx context.Context) (Identity, error) {
	var i Identity
	err := c.get(ctx, "/token", nil, &i)
	return i, err
}

// Tokens lists tokens by name.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	var list List[Token]
	err := c.get(ctx, "/tokens", nil, &list)
	return list.Items, err
}

// CreateToken makes a token; job.ErrExists: the name is taken. It is not repeated by itself: an answer that is lost takes the secret with it.
func (c *Client) CreateToken(ctx context.Context, t *NewToken) (Secret, error) {
	var s Secret
	err := c.do(ctx, &call{method: http.MethodPost, path: "/tokens", body: t, once: true}, &s)
	return s, err
}

// RevokeToken revokes a token.
func (c *Client) RevokeToken(ctx context.Context, name string) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: "/tokens/" + url.PathEscape(name)}, nil)
}
