package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/queue"
)

var errSeen = errors.New("seen")

// Whoever watches a build sees what becomes of it and its jobs, and nothing else; from any place, and after a broken connection, the same.
func TestEventsOfABuild(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	before := l.queue.Round()
	other := l.submit(api.JobSpec{Name: "other"})
	r := l.submit(api.JobSpec{Name: "a"}, api.JobSpec{Name: "b", Needs: []api.Need{{Job: "a"}}})
	w := &syncer{lab: l, name: "w", session: newID(), spec: spec(3)}
	names := map[string]api.Start{}
	for _, s := range w.sync(api.Sync{Want: 3}).Start {
		names[s.Name] = s
	}
	w.sync(api.Sync{Running: running(names["other"]), Finished: []api.Finished{{Lease: names["a"].Lease, Outcome: "failed", Message: "no"}}})
	want := []string{"build-added b", "job-added a", "job-added b", "build-grown", "job-ready", "job-started w", "job-ended failed", "job-ended dependency-failed", "build-ended failed"}
	watch := func(after uint64, until int) []string {
		var got []string
		err := l.Events(t.Context(), api.Watch{Build: r.Build}, after, func(e api.Event) error {
			for _, c := range e.Changes {
				if c.Job != nil && *c.Job == other.Jobs[0].ID {
					t.Errorf("told of another's job: %+v", c)
				}
				text := c.What
				for _, s := range []string{c.Name, c.Worker, c.Outcome} {
					if s != "" && (c.What != "job-ended" || s == c.Outcome) {
						text += " " + s
					}
				}
				got = append(got, text)
			}
			if len(got) >= until {
				return errSeen
			}
			return nil
		})
		if !errors.Is(err, errSeen) {
			t.Fatalf("watch: %v", err)
		}
		return got
	}
	all := watch(before, len(want))
	count := map[string]int{}
	for _, s := range all {
		count[s]++
	}
	for _, s := range want {
		if count[s] == 0 {
			t.Errorf("%q is not told: %q", s, all)
		}
	}
	if diff := cmp.Diff(all, watch(before, len(all))); diff != "" {
		t.Errorf("told otherwise the second time: %s", diff)
	}
	if got := watch(l.queue.Round()-1, 1); len(got) == 0 {
		t.Error("nothing from the last place")
	}
}

// A stream goes on over restarts of the server, without gap or repeat.
func TestEventsGoOn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.Patience = api.DefaultPatience
	after := l.queue.Round()
	const builds = 12
	seen := make(chan string)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- l.Events(ctx, api.Watch{Channel: api.DefaultChannel}, after, func(e api.Event) error {
			for _, c := range e.Changes {
				if c.What == "build-added" {
					seen <- c.Name
				}
			}
			return nil
		})
	}()
	for i := range builds {
		name := fmt.Sprintf("b%d", i)
		_, err := l.Submit(t.Context(), &api.Submission{BuildSpec: api.BuildSpec{Name: name}, Jobs: []api.JobSpec{{}}})
		l.must(err)
		if got := <-seen; got != name {
			t.Fatalf("told of %s, want %s", got, name)
		}
		if i%4 == 2 {
			l.restart()
			l.web.CloseClientConnections()
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("watch ended with %v", err)
	}
}

// A place that is not there is refused.
func TestEventsFromNowhere(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	err := l.Events(t.Context(), api.Watch{}, 1_000_000, func(api.Event) error { return nil })
	if !errors.Is(err, queue.ErrFeedAhead) {
		t.Errorf("told %v", err)
	}
	if p := l.problem("GET", "/api/v1/events?after=x", ""); p.Status != 422 {
		t.Errorf("told %+v", p)
	}
}
