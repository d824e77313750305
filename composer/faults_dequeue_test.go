package composer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

// To plant it: job/node.go, Before: "a > b" for "a < b".
func TestF25OrderOutlivesARestart(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		var want []uuid.UUID
		for n := range 30 {
			want = append(want, l.enqueue("build", []string{"", "org"}[n%2]))
		}
		l.restart()
		for n, id := range want {
			got, _, _, _, _, err := l.DequeueAnyChannel(l.Context(), uuid.Nil, []string{"build"})
			if err != nil || got != id {
				t.Fatalf("dequeue %d: %s, %v; want %s", n, got, err, id)
			}
		}
	})
}

// To plant it: job/attempt.go, concludeWith: leave "v.tally.Turn = m.seq" out.
func TestF26RequeuedJobGoesToTheBack(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		crasher := l.enqueue("build", "")
		waits := []uuid.UUID{l.enqueue("build", ""), l.enqueue("build", "")}
		l.pick(crasher)
		if requeued, err := l.RequeueOrFinishJob(crasher, 2, nil); !requeued || err != nil {
			t.Fatalf("requeued %t, %v", requeued, err)
		}
		after := l.enqueue("build", "")
		if id, _ := l.dequeue("build", ""); id != waits[0] {
			t.Errorf("dequeued %s, want %s", id, waits[0])
		}
		l.restart()
		for _, want := range []uuid.UUID{waits[1], crasher, after} {
			if id, _ := l.dequeue("build", ""); id != want {
				t.Errorf("dequeued %s, want %s", id, want)
			}
		}
	})
}

// To plant it: queue/serve.go, launch: "if len(r.batch.Changes) > 0" before "r.match()": who comes to a job that waits is not seen.
func TestF36NoWaiterIsForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		const waiters = 5
		for n := range 21 {
			var got []<-chan given
			wait := func() {
				for range waiters {
					got = append(got, l.begin("build", "org"))
				}
			}
			// The jobs come to those who wait, or while they begin to, or before.
			if n%3 < 2 {
				wait()
			}
			if n%3 == 0 {
				l.waiting(waiters)
			}
			left := l.enqueueAtOnce(waiters)
			if n%3 == 2 {
				wait()
			}
			var served []uuid.UUID
			for _, c := range got {
				g := <-c
				if g.err != nil || !left[g.id] {
					t.Fatalf("Dequeue gives %s, %v; want one that was enqueued, and each once", g.id, g.err)
				}
				delete(left, g.id)
				served = append(served, g.id)
			}
			for _, id := range served {
				l.finish(id, nil) // not before: that would have the engine look again
			}
		}
	})
}

// enqueueAtOnce asks for jobs in as many goroutines.
func (l *lab) enqueueAtOnce(n int) map[uuid.UUID]bool {
	l.Helper()
	enqueued := make(chan given, n)
	for range n {
		q := l.JobQueue
		go func() {
			var g given
			g.id, g.err = q.Enqueue("build", nil, nil, "org")
			enqueued <- g
		}()
	}
	ids := map[uuid.UUID]bool{}
	for range n {
		g := <-enqueued
		if g.err != nil {
			l.Error(g.err)
		}
		ids[g.id] = true
	}
	return ids
}

// Upstream has all that wait try when one job comes. Here the engine is asked by nobody but the one that is served. To plant it:
// queue/round.go, match, after q.assign: settle all of q.waiters[name] with a *RetryError.
func TestOneJobWakesOneWaiter(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		var calls atomic.Int64
		l.tap(func(string) error { calls.Add(1); return nil }, nil)
		l.finish(l.pickNew("build"), nil) // so that channel and callers are known
		const waiters = 50
		var got []<-chan given
		for range waiters {
			got = append(got, l.begin("build", ""))
		}
		l.waiting(waiters)
		before := calls.Load()
		id := l.enqueue("build", "")
		l.until("the job runs", func() bool { return len(l.Heartbeats(always)) == 1 })
		l.waiting(waiters - 1)
		if n := calls.Load() - before; n > waiters/2 {
			t.Errorf("one job made %d calls of the store, with %d callers that wait", n, waiters)
		}
		if l.status(id).state() != "running" {
			t.Errorf("the job is %v", l.status(id))
		}
		for range waiters - 1 {
			l.enqueue("build", "")
		}
		for _, c := range got {
			if g := <-c; g.err != nil {
				t.Error(g.err)
			}
		}
	})
}

// pickNew enqueues a job and takes it.
func (l *lab) pickNew(jobType string) uuid.UUID {
	l.Helper()
	l.enqueue(jobType, "")
	id, _ := l.dequeue(jobType, "")
	return id
}

// An error after the dequeue, upstream, leaves the job with a worker that does not know of it. To plant it: queue/contents.go, handBack:
// "Detail: job.LeaseLost" for "Detail: job.HandedBack": the job is not stranded, but the caller has one try less.
func TestErrorAfterTheDequeueStrandsNoJob(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		var broken atomic.Bool
		ctx, cancel := context.WithCancel(l.Context())
		defer cancel()
		l.tap(func(call string) error {
			if call == "Jobs" && broken.Load() {
				cancel() // the caller goes away while what was leased is read
				return errOutage
			}
			return nil
		}, nil)
		broken.Store(true)
		_, _, _, _, _, err := l.Dequeue(ctx, uuid.Nil, []string{"build"}, []string{""})
		l.gives("Dequeue", err, composer.ErrDequeueTimeout)
		broken.Store(false)
		l.until("the job was handed back", func() bool { return l.status(id).state() == "pending" })
		l.tokens()
		if got, _ := l.dequeue("build", ""); got != id {
			t.Errorf("dequeued %s, want %s", got, id)
		}
		if requeued, err := l.RequeueOrFinishJob(id, 1, nil); !requeued || err != nil {
			t.Errorf("requeued %t, %v; want that nothing was lost before", requeued, err)
		}
	})
}

// Upstream finishes by the job: whoever has lost it finishes the next one's run. To plant it: queue/leases.go, drop: leave
// "delete(l.byToken, ...)" out.
func TestLateResultDoesNotFinishTheNextRun(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		late := l.pick(id)
		if requeued, err := l.RequeueOrFinishToken(late, 0, 1, nil); !requeued || err != nil {
			t.Fatalf("requeued %t, %v", requeued, err)
		}
		_, err := l.RequeueOrFinishToken(late, 0, 0, "late")
		l.gives("RequeueOrFinishToken", err, composer.ErrNotExist)
		l.is(id, isPending)
		runs := l.pick(id)
		_, err = l.RequeueOrFinishToken(late, 0, 0, "late")
		l.gives("RequeueOrFinishToken", err, composer.ErrNotExist)
		l.is(id, isRunning)
		l.tokens(runs)
		if _, err := l.RequeueOrFinishToken(runs, 0, 0, "done"); err != nil {
			t.Error(err)
		}
		l.is(id, `finished, result "\"done\""`)
	})
}

// Upstream lists what is silent, and then ends it, whatever was heard of it meanwhile. To plant it: job/attempt.go,
// Finish: let "if j.running() && at.Now.Sub(j.last.lease.beat) <= f.Silent" never hold.
func TestWatchdogHeedsAHeartbeatInBetween(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		token := l.pick(id)
		const silent = 20 * time.Millisecond
		l.until("it was silent for too long", func() bool { return len(l.Heartbeats(silent)) == 1 })
		l.RefreshHeartbeat(token)
		_, err := l.RequeueOrFinishToken(token, soon, 2, nil)
		l.gives("RequeueOrFinishToken", err, composer.ErrRunning)
		l.is(id, isRunning)
		l.until("it was silent again", func() bool { return len(l.Heartbeats(silent)) == 1 })
		if requeued, err := l.RequeueOrFinishToken(token, silent, 2, nil); !requeued || err != nil {
			t.Errorf("requeued %t, %v; want that it is", requeued, err)
		}
		l.is(id, isPending)
	})
}

// Upstream's jobs of the server itself send no heartbeats, and are run again after two minutes. Here nobody but the caller calls a job
// lost. To plant it: composer/jobqueue.go, Policy and ours: false for c.CallerJudges.
func TestJobWithoutHeartbeatsRunsOn(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		l.lapse("")
		token := l.pick(id)
		started := time.Now()
		l.until("the time of a lease has passed twice", func() bool {
			l.onlyNext("other", "") // the engine works meanwhile
			return time.Since(started) > 2*time.Second
		})
		l.is(id, isRunning)
		l.tokens(token)
		l.restart()
		l.tokens(token)
		l.finish(id, nil)
	})
}
