package api

import (
	"context"
	"net/http"
)

// FailureFilter selects remembered verdicts; zero fields select all.
type FailureFilter struct {
	Channel, Kind string
	Cursor        string
	Limit         int
}

// CachedFailures lists remembered verdicts by channel, kind and key.
func (c *Client) CachedFailures(ctx context.Context, f FailureFilter) (Page[CachedFailure], error) {
	var page Page[CachedFailure]
	err := c.get(ctx, "/cached-failures", values("channel", f.Channel, "kind", f.Kind, "cursor", f.Cursor, "limit", limitOf(f.Limit)), &page)
	return page, err
}

// ClearFailure forgets a remembered verdict, if there is one, so that the job is run again when asked for.
func (c *Client) ClearFailure(ctx context.Context, f *CachedFailure) error {
	return c.do(ctx, &call{
		method: http.MethodDelete, path: "/cached-failures", query: values("channel", f.Channel, "kind", f.Kind, "key", f.Key),
	}, nil)
}
