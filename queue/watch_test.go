package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
)

// A commit happened, and its owner could not learn that before it stepped down: whoever watches is told by the next.
func TestWatchIsToldAfterTheOwnerSteppedDown(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		l.worker("w", 1)
		seen := make(chan uint64, 10)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		from := l.Round()
		go func() {
			ended <- l.Watch(ctx, from, func(r queue.Round) error { seen <- r.Number; return nil })
		}()
		synctest.Wait()
		l.ask = func() error { return errHiccup }
		l.committed = func(*queue.Batch) error { return errHiccup }
		_, err := l.Submit(t.Context(), queue.Submission{Jobs: []job.Spec{{Kind: "k"}}})
		var again *queue.RetryError
		if !errors.As(err, &again) {
			t.Errorf("the submission was told %v, want a *RetryError", err)
		}
		l.ask, l.committed = nil, nil
		<-time.After(time.Minute) // to load anew
		synctest.Wait()
		if len(seen) == 0 {
			t.Errorf("the store is at round %d, and who watched from %d saw nothing", l.Round(), from)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestWatchFromAPlaceThatIsNotThere(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		l.worker("w", 1)
		err := l.Watch(t.Context(), l.Round()+1, func(queue.Round) error { return nil })
		if !errors.Is(err, queue.ErrFeedAhead) {
			t.Errorf("told %v, want %v", err, queue.ErrFeedAhead)
		}
		// A watcher may begin before the owner has loaded: its place counts then.
		from := l.Round()
		l.stop()
		l.open()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Watch(ctx, from, func(queue.Round) error { return nil }) }()
		synctest.Wait()
		l.start()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a watcher from before the load was told %v", err)
		}
	})
}

// Leases are bounded in a round, and the rest follows in the next without anything else happening.
func TestManyLeasesTakeMoreRoundsThanOne(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		const count = 9000
		w := l.worker("w", 2*count)
		if _, err := l.Submit(t.Context(), queue.Submission{Jobs: kindK(count)}); err != nil {
			t.Fatal(err)
		}
		most, leased := 0, 0
		between := func(f func()) {
			l.must(l.Inspect(t.Context(), func(*job.Machine, *sched.Scheduler) { f() }))
		}
		between(func() {
			l.commit = func(b *queue.Batch) error {
				most = max(most, len(b.Changes))
				return nil
			}
		})
		got := make(chan int, 3)
		for range 3 {
			go func() {
				list, err := l.Lease(t.Context(), w.Name, w.Session, count, 0)
				l.check(err)
				got <- len(list)
			}()
		}
		for range 3 {
			leased += <-got
		}
		between(func() { l.commit = nil })
		if leased != count || most > 5000 {
			t.Errorf("%d leased, want %d; a round of %d changes", leased, count, most)
		}
	})
}

func kindK(n int) []job.Spec {
	specs := make([]job.Spec, n)
	for i := range specs {
		specs[i].Kind = "k"
	}
	return specs
}
