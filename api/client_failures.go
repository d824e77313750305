package api

import (
	"context"
	"net/http"
)

// ClearFailure forgets a remembered verdict, if there is one, so that the job is run again when asked for.
func (c *Client) ClearFailure(ctx context.Context, f *CachedFailure) error {
	return c.do(ctx, &call{
		method: http.MethodDelete, path: "/cached-failures", query: values("channel", f.Channel, "kind", f.Kind, "key", f.Key),
	}, nil)
}
