package composer_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/queue"
)

// hasNone checks that none of the jobs is there, and nothing else.
func (l *lab) hasNone(ids ...uuid.UUID) {
	l.Helper()
	for _, id := range ids {
		_, _, _, _, err := l.Job(id)
		l.gives("Job", err, composer.ErrNotExist)
	}
	if roots, err := l.AllRootJobIDs(l.Context()); err != nil || len(roots) != 0 {
		l.Errorf("there are %v still, %v", roots, err)
	}
}

// abreast gives a tap that has calls of a method wait for each other in pairs, so that of two callers none is ahead; but not for long, as
// they may come one after the other.
func abreast(method string, armed *atomic.Bool) func(string) error {
	pair := make(chan struct{})
	return func(call string) error {
		if call != method || !armed.Load() {
			return nil
		}
		select {
		case pair <- struct{}{}:
		case <-pair:
		case <-time.After(20 * time.Millisecond):
		}
		return nil
	}
}

// Two jobs that share what they depend on are deleted at the same time: whichever goes last takes it along. To plant it:
// composer/retention.go, alone: call f at once.
func TestLastDependentTakesADependencyAlong(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		var armed atomic.Bool
		l.tap(nil, abreast("Dependents", &armed))
		shared := l.enqueue("first", "")
		second := l.enqueue("second", "", shared)
		a, b := l.enqueue("third", "", shared, second), l.enqueue("third", "", shared, second)
		armed.Store(true)
		var both sync.WaitGroup
		for _, id := range []uuid.UUID{a, b} {
			both.Go(func() { l.gives("DeleteJob", l.DeleteJob(l.Context(), id), nil) })
		}
		both.Wait()
		l.hasNone(shared, second, a, b)
	})
}

// One of two jobs is old while the other is deleted. What they share has not ended, so that the first is not at an end either: it stays, and
// takes that along when it is deleted. To plant it: composer/retention.go, Expire: leave q.settled out.
func TestExpiryLeavesNothingBehindThatMayRun(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		var armed atomic.Bool
		var expiry sync.WaitGroup
		expire := func() {
			expiry.Go(func() {
				if _, err := l.Expire(l.Context(), time.Now().Add(time.Hour), false); err != nil {
					t.Error(err)
				}
			})
		}
		l.tap(nil, func(call string) error {
			if call == "Dependents" && armed.CompareAndSwap(true, false) {
				expire() // whoever deletes has just read that two depend on it
			}
			return nil
		})
		shared := l.enqueue("first", "")
		second := l.enqueue("second", "", shared)
		old, deleted := l.enqueue("third", "", second, shared), l.enqueue("third", "", shared)
		l.gives("CancelJob", l.CancelJob(second), nil)
		l.gives("FailJob", l.FailJob(old, nil), nil)
		l.expires(0, true)
		armed.Store(true)
		l.gives("DeleteJob", l.DeleteJob(l.Context(), deleted), nil)
		expiry.Wait()
		l.expires(0, true)
		l.gives("DeleteJob", l.DeleteJob(l.Context(), old), nil)
		l.hasNone(shared, second, old, deleted)
	})
}

// A graph that is too large to go at once is cut off at each of its portions, now and then by a restart: a repeat goes on, nothing of it
// runs meanwhile, and nothing is left. To plant it: composer/retention.go, dismantle: begin at the top.
func TestDeletionThatIsCutOffIsFinishedByARepeat(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		var cut atomic.Pointer[context.CancelFunc]
		l.tap(func(call string) error {
			if f := cut.Load(); call == "Commit" && f != nil {
				(*f)()
			}
			return nil
		}, nil)
		kept := l.enqueue("leaf", "")
		var leaves []uuid.UUID
		for range 2*queue.DeleteMost + queue.DeleteMost/2 {
			leaves = append(leaves, l.enqueue("leaf", ""))
		}
		middle := l.enqueue("middle", "", append(leaves[50:], kept)...)
		root := l.enqueue("root", "", append(leaves[:100:100], middle)...)
		other := l.enqueue("other", "", kept)
		runs := l.pick(leaves[7])
		times := 0
		for deleted := false; !deleted; times++ {
			ctx, cancel := context.WithCancel(t.Context())
			cut.Store(&cancel)
			err := l.DeleteJob(ctx, root)
			cut.Store(nil)
			cancel()
			switch {
			case err == nil:
				deleted = true
			case any(err) == any(composer.ErrNotExist): // the commit that was the last happened
				deleted = true
			case times > 1000:
				t.Fatal(err)
			}
			for _, id := range []uuid.UUID{middle, root} {
				if _, _, _, _, err := l.DequeueByID(t.Context(), id, uuid.Nil); err == nil {
					t.Fatal("what is being deleted runs")
				}
			}
			if times%2 == 1 {
				l.restart()
			}
		}
		if times < 3 {
			t.Errorf("it was cut off %d times, want at least at each portion", times-1)
		}
		l.noToken(runs)
		l.gives("DeleteJob", l.DeleteJob(t.Context(), other), nil)
		l.hasNone(append(leaves, kept, middle, root, other)...)
	})
}
