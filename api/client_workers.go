package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/headrace/headrace/job"
)

func workerPath(name string) string { return "/workers/" + url.PathEscape(name) }

// Sync makes a worker's call. It is not repeated: the worker calls again.
func (c *Client) Sync(ctx context.Context, name string, s *Sync) (SyncReply, error) {
	var reply SyncReply
	err := c.do(ctx, &call{method: http.MethodPost, path: workerPath(name) + "/sync", body: s, once: true, held: Duration(s.WaitSeconds)}, &reply)
	return reply, err
}

// SignOff says that a session of a worker is over.
func (c *Client) SignOff(ctx context.Context, name string, session job.ID) error {
	return c.post(ctx, workerPath(name)+"/sign-off", map[string]job.ID{"session": session}, nil)
}

// Progress stores a partial result, which must be JSON, of a running attempt; job.ErrLeaseLost if it runs no more.
func (c *Client) Progress(ctx context.Context, l job.Lease, result []byte) error {
	return c.do(ctx, &call{
		method: http.MethodPut, path: attemptPath(l.Job, l.Attempt) + "/progress", body: rawJSON(result),
		header: http.Header{LeaseHeader: {l.Token.Reveal()}},
	}, nil)
}

func attemptPath(id job.ID, attempt int32) string {
	return "/jobs/" + id.String() + "/attempts/" + number(int(attempt))
}

// Workers lists workers by name.
func (c *Client) Workers(ctx context.Context) ([]Worker, error) {
	var list struct{ Items []Worker }
	err := c.get(ctx, "/workers", nil, &list)
	return list.Items, err
}

// Worker shows a worker.
func (c *Client) Worker(ctx context.Context, name string) (Worker, error) {
	var w Worker
	err := c.get(ctx, workerPath(name), nil, &w)
	return w, err
}

// Drain gives a worker nothing new, or jobs again.
func (c *Client) Drain(ctx context.Context, name string, drained bool) error {
	word := "/undrain"
	if drained {
		word = "/drain"
	}
	return c.post(ctx, workerPath(name)+word, nil, nil)
}

// Pardon ends the quarantine of a worker.
func (c *Client) Pardon(ctx context.Context, name string) error {
	return c.post(ctx, workerPath(name)+"/pardon", nil, nil)
}

// RemoveWorker forgets a worker; job.ErrBusy while it has attempts, unless forced.
func (c *Client) RemoveWorker(ctx context.Context, name string, force bool) error {
	q := url.Values{}
	if force {
		q.Set("force", "true")
	}
	return c.do(ctx, &call{method: http.MethodDelete, path: workerPath(name), query: q}, nil)
}
