package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// Event tells what one round of the engine changed of what is watched.
type Event struct {
	// Round is its place in the feed: the cursor after it.
	Round   uint64   `json:"round"`
	At      Time     `json:"at" format:"date-time"`
	Changes []Change `json:"changes"`
}

// Change is one thing that changed.
type Change struct {
	// What says which.
	What    string  `json:"what" enum:"build-added,build-grown,build-started,build-bumped,build-ended,build-deleted,job-added,job-ready,job-blocked,job-started,job-retried,job-ended,job-freed,job-progress,job-deleted,worker,worker-removed,channel"`
	Build   *job.ID `json:"build,omitempty" format:"uuid"`
	Job     *job.ID `json:"job,omitempty" format:"uuid"`
	Name    string  `json:"name,omitempty" doc:"Of the build, job, worker or channel, where the change has it."`
	Worker  string  `json:"worker,omitempty" doc:"That runs the attempt."`
	Attempt int32   `json:"attempt,omitempty"`
	Outcome string  `json:"outcome,omitempty" doc:"Of the build, the job or the attempt."`
	Detail  string  `json:"detail,omitempty"`
	Message string  `json:"message,omitempty"`
	Until   *Time   `json:"until,omitempty" format:"date-time" doc:"The next attempt does not start before."`
}

// Watch selects what is watched; zero fields select all.
type Watch struct {
	Build   job.ID
	Job     job.ID
	Channel string
}

// Events calls f with each event after a round of the feed, in order, without gap or repeat, over broken connections, until f gives an error
// or ctx ends; it gives that error. queue.ErrFeedTruncated: what comes next is not kept any more; start again from what lists tell.
func (c *Client) Events(ctx context.Context, w Watch, after uint64, f func(Event) error) error {
	q := values("channel", w.Channel)
	if !w.Build.IsZero() {
		q.Set("build", w.Build.String())
	}
	if !w.Job.IsZero() {
		q.Set("job", w.Job.String())
	}
	for {
		came := false
		err := c.again(ctx, false, func() error {
			q.Set("after", strconv.FormatUint(after, 10))
			return c.events(ctx, &call{method: http.MethodGet, path: "/events", query: q}, func(e Event, place uint64) error {
				after, came = place, true
				if len(e.Changes) == 0 {
					return nil
				}
				return f(e)
			})
		})
		var retry *queue.RetryError
		if !came || !errors.As(err, &retry) || ctx.Err() != nil {
			return err
		}
	}
}

// Place gives the newest place of the feed: events after it tell of all that happens from now on.
func (c *Client) Place(ctx context.Context) (uint64, error) {
	var newest uint64
	there := errors.New("it is there")
	err := c.again(ctx, false, func() error {
		return c.events(ctx, &call{method: http.MethodGet, path: "/events"}, func(_ Event, place uint64) error {
			newest = place
			return there
		})
	})
	if errors.Is(err, there) {
		return newest, nil
	}
	return 0, err
}

// errCut says that a stream ended, as all do some time.
var errCut = errors.New("the stream of events was cut off")

// events reads one stream, to its end.
func (c *Client) events(ctx context.Context, k *call, f func(e Event, place uint64) error) error {
	response, err := c.send(ctx, k, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close() // Only read from.
	const longest = 64 << 20
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(make([]byte, 64<<10), longest)
	var kind, data string
	var place uint64
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			kind = value
		case "data":
			data = value
		case "id":
			if place, err = strconv.ParseUint(value, 10, 64); err != nil {
				return fmt.Errorf("watch: the server told %q as a place", value)
			}
		case "":
			if lines.Text() != "" {
				continue // a comment, which keeps the connection alive
			}
			if err := dispatch(kind, data, place, f); err != nil {
				return err
			}
			kind, data = "", ""
		}
	}
	err = lines.Err()
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCut
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &queue.RetryError{Cause: err}
}

func dispatch(kind, data string, place uint64, f func(Event, uint64) error) error {
	switch kind {
	case "":
		return nil
	case "problem":
		p := &Problem{}
		if err := json.Unmarshal([]byte(data), p); err != nil {
			return fmt.Errorf("watch: %v", err)
		}
		return p
	case "place":
		return f(Event{}, place)
	}
	var e Event
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return fmt.Errorf("watch: %v", err)
	}
	return f(e, place)
}
