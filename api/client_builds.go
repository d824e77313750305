package api

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/headrace/headrace/job"
)

// BuildFilter selects builds; zero fields select all.
type BuildFilter struct {
	Name, Prefix, Channel, Outcome string
	Live                           bool
	Job                            job.ID    // builds that refer to this job; zero: all
	After, Until                   time.Time // when it was asked for
	Cursor                         string
	Limit                          int
}

// Builds lists builds, the newest first.
func (c *Client) Builds(ctx context.Context, f BuildFilter) (Page[Build], error) {
	q := values("name", f.Name, "prefix", f.Prefix, "channel", f.Channel, "outcome", f.Outcome, "after", moment(f.After), "until", moment(f.Until),
		"cursor", f.Cursor, "limit", limitOf(f.Limit))
	if f.Live {
		q.Set("live", "true")
	}
	if !f.Job.IsZero() {
		q.Set("job", f.Job.String())
	}
	var page Page[Build]
	err := c.get(ctx, "/builds", q, &page)
	return page, err
}

// Build shows a build with its counts.
func (c *Client) Build(ctx context.Context, id job.ID) (Build, error) {
	var b Build
	err := c.get(ctx, "/builds/"+id.String(), nil, &b)
	return b, err
}

// waitAtOnce is how long one call waits for an end; whoever waits longer calls again.
const waitAtOnce = 50 * time.Second

// AwaitBuild waits until the build has ended.
func (c *Client) AwaitBuild(ctx context.Context, id job.ID) (Build, error) {
	for {
		var b Build
		if err := c.await(ctx, "/builds/"+id.String(), &b); err != nil || b.Ended != nil {
			return b, err
		}
	}
}

// submitWithin is how long a large submission may be on its way.
const submitWithin = 10 * time.Minute

// Submit asks for a build. It is sent job by job, so that no second copy of a large one is made; repeated, it happens once.
func (c *Client) Submit(ctx context.Context, s *Submission) (Receipt, error) {
	k := &call{method: http.MethodPost, path: "/builds", header: http.Header{"Content-Type": {"application/x-ndjson"}}, held: submitWithin}
	k.header.Set("Idempotency-Key", newKey())
	var receipt Receipt
	err := c.again(ctx, false, func() error {
		reader, writer := io.Pipe()
		var writing sync.WaitGroup
		defer writing.Wait()
		defer reader.Close() // It ends the writer, if that is still at it.
		writing.Go(func() { writer.CloseWithError(writeLines(writer, s)) })
		response, err := c.send(ctx, k, reader)
		if err != nil {
			return err
		}
		defer response.Body.Close() // Only read from.
		if err := json.NewDecoder(response.Body).Decode(&receipt); err != nil {
			return lost(ctx, k, err)
		}
		return nil
	})
	return receipt, err
}

func writeLines(w io.Writer, s *Submission) error {
	out := bufio.NewWriterSize(w, 64<<10)
	e := json.NewEncoder(out)
	if err := e.Encode(&s.BuildSpec); err != nil {
		return err
	}
	for i := range s.Jobs {
		if err := e.Encode(&s.Jobs[i]); err != nil {
			return err
		}
	}
	return out.Flush()
}

// CancelBuild ends a build as cancelled; spare lets its running jobs go on.
func (c *Client) CancelBuild(ctx context.Context, id job.ID, spare bool) error {
	return c.post(ctx, "/builds/"+id.String()+"/cancel", map[string]bool{"spare": spare}, nil)
}

// Bump gives a live build a new priority.
func (c *Client) Bump(ctx context.Context, id job.ID, priority int32) error {
	return c.post(ctx, "/builds/"+id.String()+"/bump", map[string]int32{"priority": priority}, nil)
}

// RetryBuild asks again for the part of a build that did not succeed.
func (c *Client) RetryBuild(ctx context.Context, id job.ID) (Receipt, error) {
	var r Receipt
	err := c.post(ctx, "/builds/"+id.String()+"/retry", nil, &r)
	return r, err
}

// DeleteBuild takes an ended build out of the history, but not its jobs.
func (c *Client) DeleteBuild(ctx context.Context, id job.ID) error {
	return c.do(ctx, &call{method: http.MethodDelete, path: "/builds/" + id.String()}, nil)
}

// JobFilter selects jobs; zero fields select all.
type JobFilter struct {
	Build                    job.ID
	Prefix, Worker           string
	After, Until             time.Time // when it was asked for
	Channel, Kind, Name, Key string
	State, Outcome           string
	Cursor                   string
	Limit                    int
}

// Jobs lists jobs, the newest first.
func (c *Client) Jobs(ctx context.Context, f JobFilter) (Page[Job], error) {
	q := values("channel", f.Channel, "kind", f.Kind, "name", f.Name, "key", f.Key, "state", f.State, "outcome", f.Outcome,
		"prefix", f.Prefix, "worker", f.Worker, "after", moment(f.After), "until", moment(f.Until), "cursor", f.Cursor, "limit", limitOf(f.Limit))
	if !f.Build.IsZero() {
		q.Set("build", f.Build.String())
	}
	var page Page[Job]
	err := c.get(ctx, "/jobs", q, &page)
	return page, err
}

// Job shows a job with its needs.
func (c *Client) Job(ctx context.Context, id job.ID) (Job, error) {
	var j Job
	err := c.get(ctx, "/jobs/"+id.String(), nil, &j)
	return j, err
}

// AwaitJob waits until the job has ended.
func (c *Client) AwaitJob(ctx context.Context, id job.ID) (Job, error) {
	for {
		var j Job
		if err := c.await(ctx, "/jobs/"+id.String(), &j); err != nil || j.Ended != nil {
			return j, err
		}
	}
}

// Why explains why a job does not run; job.ErrEnded: it has ended.
func (c *Client) Why(ctx context.Context, id job.ID) (Explanation, error) {
	var e Explanation
	err := c.get(ctx, "/jobs/"+id.String()+"/why", nil, &e)
	return e, err
}

// Args gives what a job got.
func (c *Client) Args(ctx context.Context, id job.ID) (Payload, error) {
	var p Payload
	err := c.get(ctx, "/jobs/"+id.String()+"/args", nil, &p)
	return p, err
}

// Result gives what a job left, or reported so far.
func (c *Client) Result(ctx context.Context, id job.ID) (Payload, error) {
	var p Payload
	err := c.get(ctx, "/jobs/"+id.String()+"/result", nil, &p)
	return p, err
}

// Attempts lists the attempts of a job, the first first.
func (c *Client) Attempts(ctx context.Context, id job.ID) ([]Attempt, error) {
	var list struct{ Items []Attempt }
	err := c.get(ctx, "/jobs/"+id.String()+"/attempts", nil, &list)
	return list.Items, err
}

// CancelJob ends a job as cancelled; of is the build on whose behalf, or zero.
func (c *Client) CancelJob(ctx context.Context, id, of job.ID, force bool, reason string) error {
	body := struct {
		Force  bool    `json:"force,omitempty"`
		Build  *job.ID `json:"build,omitempty"`
		Reason string  `json:"reason,omitempty"`
	}{Force: force, Reason: reason}
	if !of.IsZero() {
		body.Build = &of
	}
	return c.post(ctx, "/jobs/"+id.String()+"/cancel", body, nil)
}

// Channels lists the channels whose policy somebody has set, by name.
func (c *Client) Channels(ctx context.Context) ([]Channel, error) {
	var list List[Channel]
	err := c.get(ctx, "/channels", nil, &list)
	return list.Items, err
}

// Channel shows the policy of a channel.
func (c *Client) Channel(ctx context.Context, name string) (Channel, error) {
	var ch Channel
	err := c.get(ctx, "/channels/"+url.PathEscape(name), nil, &ch)
	return ch, err
}

// SetChannel sets the policy of a channel.
func (c *Client) SetChannel(ctx context.Context, ch *Channel) error {
	return c.do(ctx, &call{method: http.MethodPut, path: "/channels/" + url.PathEscape(ch.Name), body: ch}, nil)
}

// Pause has a channel, or a kind in it, start nothing new, or go on.
func (c *Client) Pause(ctx context.Context, channel, kind string, paused bool) error {
	word := "/resume"
	if paused {
		word = "/pause"
	}
	return c.post(ctx, "/channels/"+url.PathEscape(channel)+word, struct {
		Kind string `json:"kind,omitempty"`
	}{kind}, nil)
}
