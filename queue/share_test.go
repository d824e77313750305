package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// lent is a call with memory of its caller's, which that changes once the call has returned.
type lent struct {
	call   func(context.Context, *lab) error
	change func()
}

// lending gives each call of the queue that takes memory of its caller's.
func lending(l *lab, lease job.Lease, waiting job.ID) map[string]lent {
	w := job.Worker{
		Name: "other", Channels: []string{""}, Kinds: []string{"none"}, Systems: []string{"s"}, Features: []string{"f"},
		Mandatory: []string{"f"}, Slots: 1, Session: l.NewID(),
	}
	running := []job.Lease{lease}
	c := job.DefaultChannel("other")
	c.GroupShares, c.PausedKinds = map[string]int32{"g": 2}, []string{"k"}
	failures := []job.Identity{{Kind: "k", Key: "a"}}
	beats := []queue.Beat{{Lease: lease}}
	spec := job.Spec{Kind: "none", Features: []string{"f"}, Needs: []job.Need{{Job: job.ID{1}, Policy: job.Order}}, Args: []byte("args")}
	build := &job.Build{Labels: map[string]string{"a": "b"}}
	jobs, refs := []job.Spec{spec}, []job.Ref{{Job: waiting}}
	result := []byte("result")
	spoil := func() { result[0]++ }
	return map[string]lent{
		"Register": {
			func(ctx context.Context, l *lab) error { return l.Register(ctx, w, running...) },
			func() {
				for _, list := range [][]string{w.Channels, w.Kinds, w.Systems, w.Features, w.Mandatory} {
					list[0] = "x"
				}
				running[0].Attempt++
			},
		},
		"SetChannel": {
			func(ctx context.Context, l *lab) error { return l.SetChannel(ctx, c) },
			func() { c.GroupShares["g"], c.PausedKinds[0] = 3, "x" },
		},
		"ClearFailures": {
			func(ctx context.Context, l *lab) error { return l.ClearFailures(ctx, failures...) },
			func() { failures[0].Key = "x" },
		},
		"Heartbeat": {
			func(ctx context.Context, l *lab) error { _, err := l.Heartbeat(ctx, beats...); return err },
			func() { beats[0].Lease.Attempt++ },
		},
		"Submit": {
			func(ctx context.Context, l *lab) error {
				_, err := l.Submit(ctx, queue.Submission{Build: build, Jobs: jobs, Refs: refs})
				return err
			},
			func() {
				build.Labels["a"], spec.Features[0], spec.Needs[0].Job, spec.Args[0] = "x", "x", job.ID{2}, 'x'
				jobs[0].Name, refs[0].Job, build.Name = "x", job.ID{2}, "x"
			},
		},
		"Finish": {
			func(ctx context.Context, l *lab) error {
				return l.Finish(ctx, job.Report{Lease: lease, Outcome: job.Failed, Result: result})
			}, spoil,
		},
		"Progress": {func(ctx context.Context, l *lab) error { return l.Progress(ctx, lease, result) }, spoil},
		"FailJob":  {func(ctx context.Context, l *lab) error { return l.FailJob(ctx, waiting, "", result) }, spoil},
	}
}

// lendingLab has a running attempt and a waiting job that the calls may name.
func lendingLab(l *lab) (lease job.Lease, waiting job.ID) {
	w := l.worker("w", 1)
	l.submit(job.Spec{})
	return l.lease(w).Lease, l.submit(job.Spec{}).ID
}

// A call may return with ctx's error while the owner decides, or the store writes, what it asked for; the race detector sees
// if either reads the caller's memory.
func TestCallsThatGiveUpShareNothing(t *testing.T) {
	t.Parallel()
	for name := range lending(&lab{Queue: idle(t)}, job.Lease{}, job.ID{}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inLab(t, func(t *testing.T, l *lab) {
				lease, waiting := lendingLab(l)
				lent := lending(l, lease, waiting)[name]
				in, out := make(chan struct{}), make(chan struct{})
				l.commit = func(*queue.Batch) error { close(in); <-out; return nil }
				ctx, cancel := context.WithCancel(t.Context())
				told := make(chan error, 1)
				go func() { told <- lent.call(ctx, l) }()
				synctest.Wait()
				cancel()
				if err := <-told; err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				close(out)
				<-time.After(time.Second) // the owner has written it by now, in virtual time, and nothing has told this goroutine so
				lent.change()
				if name != "Heartbeat" { // which costs no commit
					<-in
				}
				l.commit = nil
			})
		})
	}
}

// idle gives a queue that never runs.
func idle(t *testing.T) *queue.Queue {
	t.Helper()
	l := &lab{t: t, bench: &bench{}}
	l.open()
	return l.Queue
}

// What a call was given stays as it was given, and what another gives is the caller's to change.
func TestCallsShareNothing(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		lease, waiting := lendingLab(l)
		calls := lending(l, lease, waiting)
		for _, name := range []string{"Register", "SetChannel"} {
			l.must(calls[name].call(t.Context(), l))
			calls[name].change()
		}
		for range 2 { // the second sees whether the first has spoilt anything
			workers, err := l.Workers(t.Context())
			l.must(err)
			other := workers[0].Worker
			if diff := cmp.Diff([][]string{{""}, {"none"}, {"s"}, {"f"}, {"f"}},
				[][]string{other.Channels, other.Kinds, other.Systems, other.Features, other.Mandatory}); diff != "" {
				t.Errorf("the worker (-registered +now):\n%s", diff)
			}
			c, err := l.Channel(t.Context(), "other")
			l.must(err)
			if c.GroupShares["g"] != 2 || c.PausedKinds[0] != "k" {
				t.Errorf("the channel has shares %v and paused kinds %v", c.GroupShares, c.PausedKinds)
			}
			other.Channels[0], other.Kinds[0], other.Systems[0], other.Features[0], other.Mandatory[0] = "x", "x", "x", "x", "x"
			c.GroupShares["g"], c.PausedKinds[0] = 3, "x"
		}
	})
}

// Two calls under one request, in one round, are told the same, each in memory of its own.
func TestRepeatOfTheSameRoundSharesNothing(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		ctx := queue.WithRequest(t.Context(), l.NewID())
		s := queue.Submission{Jobs: []job.Spec{{Kind: "k"}}}
		var told [2]queue.Receipt
		ask := func(i int) func() {
			return func() {
				var err error
				told[i], err = l.Submit(ctx, s)
				l.check(err)
			}
		}
		l.together(ask(0), ask(1))
		if diff := cmp.Diff(told[0], told[1]); diff != "" {
			t.Errorf("they were told different things:\n%s", diff)
		}
		told[0].Jobs[0].ID = job.ID{}
		if told[1].Jobs[0].ID.IsZero() {
			t.Error("they share what they were told")
		}
	})
}
