package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/sched"
)

// Nothing is kept of a caller that gave up.
func TestAwaitedForgetsWhoGaveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := job.New(1)
		m.Loaded(1)
		q := &Queue{calls: make(chan *call), done: make(chan struct{}), machine: m, sched: sched.New(m)}
		owner := make(chan struct{})
		go func() {
			defer close(owner)
			for c := range q.calls {
				r := &round{q: q}
				r.decide(c)
				r.finish(nil)
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan error)
		for range 2 {
			go func() { told <- q.await(ctx, job.ID{1}, func() bool { return true }) }()
		}
		synctest.Wait()
		if n := len(q.awaited.byID[job.ID{1}]); n != 2 {
			t.Errorf("%d wait, want 2", n)
		}
		cancel()
		for range 2 {
			if err := <-told; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if n := len(q.awaited.byID); n != 0 {
			t.Errorf("%d are kept", n)
		}
		close(q.calls)
		<-owner
	})
}
