package farm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/progress"
)

// ShowChannel shows the policy of a channel.
func (f *Farm) ShowChannel(ctx context.Context, name string) error {
	c, err := f.Channel(ctx, name)
	if err != nil {
		return err
	}
	if f.JSON {
		return encode(f.Out, c)
	}
	state, tone := "open", progress.Good
	switch {
	case c.Paused:
		state, tone = "paused: nothing new starts", progress.Warn
	case len(c.PausedKinds) > 0:
		state, tone = "paused for the kinds "+strings.Join(c.PausedKinds, ", "), progress.Warn
	}
	grace := "for ever"
	if c.Grace >= 0 {
		grace = span(c.Grace)
	}
	failures := "for ever"
	if c.FailureTTL > 0 {
		failures = span(c.FailureTTL)
	}
	var shares []string
	for _, group := range slices.Sorted(maps.Keys(c.GroupShares)) {
		shares = append(shares, fmt.Sprintf("%s %d", group, c.GroupShares[group]))
	}
	r := &c.Retry
	return f.fields(
		field{"channel", c.Name, progress.Bold},
		field{"state", state, tone},
		field{"discipline", map[string]string{"age": "age: first come, first served"}[c.Discipline] + map[bool]string{true: "rank: priority, share, longest path, age"}[c.Discipline != "age"], 0},
		field{"grace", grace + ", for a job that no known worker could run", 0},
		field{"ttl", span(c.TTL) + ", of a lease", 0},
		field{"failure-ttl", failures + ", are failures remembered", 0},
		field{"shares", number(float64(c.Shares)), 0},
		field{"shares of groups", strings.Join(shares, ", "), 0},
		field{"retries", fmt.Sprintf("%d of failures, %d attempts that abort, %d lost leases, %d crashes; first after %s, then %d times as long each time",
			r.Failures, r.Aborts, r.Losses, r.Crashes, span(r.Delay), r.Factor), 0},
	)
}

// span writes a wire's number of seconds.
func span(seconds float64) string {
	const day = 24 * time.Hour
	if d := api.Duration(seconds); d >= 2*day && d%day == 0 {
		return coarse(d)
	}
	return progress.Span(api.Duration(seconds))
}
