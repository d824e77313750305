package composer_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
)

// To plant it: job/cancel.go, CancelJob: "if j.waits > 0 { return nil, nil }" before "end := End{...}".
func TestF01CancelledDependentIsNotHandedOut(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		first := l.enqueue("first", "")
		second := l.enqueue("second", "", first)
		third := l.enqueue("second", "", second, first)
		l.pick(first)
		if err := l.CancelJob(second); err != nil {
			t.Fatal(err)
		}
		l.finish(first, nil)
		l.refused(second)
		l.is(second, isCanceled)
		if id, _ := l.dequeue("second", ""); id != third {
			t.Errorf("dequeued %s, want %s", id, third)
		}
		l.onlyNext("second", "")
	})
}

// To plant it: store/memory/apply.go, finish: "if r.run != nil" before "r.state = done".
func TestF02CancelledPendingJobStaysSoAtARestart(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		if err := l.CancelJob(id); err != nil {
			t.Fatal(err)
		}
		l.restart()
		l.is(id, isCanceled)
		l.refused(id)
		l.onlyNext("build", "")
		l.gives("CancelJob once more", l.CancelJob(id), nil)
	})
}

// To plant it: job/cancel.go, FailJob: "return nil, nil" for "return []Change{end}, nil".
func TestF03FailedJobIsNotRun(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		if err := l.FailJob(id, "no manifest"); err != nil {
			t.Fatal(err)
		}
		const failed = `finished, result "\"no manifest\""`
		l.is(id, failed)
		l.refused(id)
		l.onlyNext("build", "")
		l.restart()
		l.onlyNext("build", "")
		l.is(id, failed)
		if s := l.status(id); s.Started != s.Finished {
			t.Errorf("it started at %v and finished at %v, want the same", s.Started, s.Finished)
		}
	})
}

// To plant it: composer/payload.go, needs: job.Success for job.Finish.
func TestF05aDependentsOfACancelledJobAreReleased(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		pending, running := l.enqueue("first", ""), l.enqueue("first", "")
		second := l.enqueue("second", "", pending, running)
		l.pick(running)
		for _, id := range []uuid.UUID{pending, running} {
			l.refused(second)
			if err := l.CancelJob(id); err != nil {
				t.Fatal(err)
			}
		}
		if id, _ := l.dequeue("second", ""); id != second {
			t.Errorf("dequeued %s, want %s", id, second)
		}
	})
}

// To plant it: composer/payload.go, needs: job.Success for job.Finish.
func TestF05bJobThatDependsOnACancelledOneIsPendingAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		first := l.enqueue("first", "")
		if err := l.CancelJob(first); err != nil {
			t.Fatal(err)
		}
		second := l.enqueue("second", "", first)
		l.is(second, isPending)
		l.pick(second)
	})
}

// To plant it: composer/jobqueue.go, FailJob: "return q.errs.Finished" for "return q.ended(...)".
func TestF14FailureOfACancelledJobChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		waited, ran := l.enqueue("build", ""), l.enqueue("build", "")
		l.pick(ran)
		for _, id := range []uuid.UUID{waited, ran} {
			if err := l.CancelJob(id); err != nil {
				t.Fatal(err)
			}
			l.gives("FailJob", l.FailJob(id, "too late"), composer.ErrCanceled)
			l.is(id, isCanceled)
			if s := l.status(id); !s.Finished.IsZero() {
				t.Errorf("it was cancelled and has finished, at %v", s.Finished)
			}
		}
	})
}

// No line alone could start it: the record tells, and so does the engine. To plant the other half, composer/dequeue.go, DequeueByID: give
// q.errs.Canceled where rec.End.Outcome is job.Cancelled.
func TestF16CancelledJobIsNotStartedByItsID(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		if err := l.CancelJob(id); err != nil {
			t.Fatal(err)
		}
		l.refused(id)
		l.restart()
		l.refused(id)
		l.is(id, isCanceled)
		l.tokens()
	})
}

// To plant it: queue/leases.go, follow: "ok && !c.Held" for "ok && c.Held".
func TestF18WorkerLearnsThatItsJobWasCancelled(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		token := l.pick(id)
		if err := l.CancelJob(id); err != nil {
			t.Fatal(err)
		}
		for range 2 { // also of the next process
			if got, err := l.IdFromToken(token); got != id || err != nil {
				t.Errorf("the token is that of %s, %v; want %s", got, err, id)
			}
			l.RefreshHeartbeat(token)
			l.is(id, isCanceled)
			l.gives("UpdateJobResult", l.UpdateJobResult(id, "half"), composer.ErrCanceled)
			l.restart()
		}
		_, err := l.RequeueOrFinishJob(id, 0, "whole")
		l.gives("RequeueOrFinishJob", err, composer.ErrCanceled)
		l.noToken(token)
		l.is(id, isCanceled)
	})
}

// A worker that was silent for longer than a lease comes back, and learns that its job was cancelled meanwhile. Once it has said that it knows,
// or the job is deleted, the token is good no more. To plant it: composer/jobqueue.go, CancelJob: "r.Held && ended" for "(r.Held || !ended)".
func TestF18SilentWorkerLearnsThatItsJobWasCancelled(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		l.enqueue("build", "")
		l.lapse("")
		for name, ends := range map[string]func(id, token uuid.UUID){
			"by its job": func(id, _ uuid.UUID) {
				_, err := l.RequeueOrFinishJob(id, 0, nil)
				l.gives("RequeueOrFinishJob", err, composer.ErrCanceled)
			},
			"by its token": func(_, token uuid.UUID) {
				_, err := l.RequeueOrFinishToken(token, soon, 0, nil)
				l.gives("RequeueOrFinishToken of the watchdog", err, composer.ErrCanceled)
				_, err = l.RequeueOrFinishToken(token, 0, 0, nil)
				l.gives("RequeueOrFinishToken", err, composer.ErrCanceled)
			},
			"deleted": func(id, _ uuid.UUID) { l.gives("DeleteJob", l.DeleteJob(t.Context(), id), nil) },
		} {
			id := l.enqueue(name, "")
			token := l.pick(id)
			l.until("it was silent for longer than a lease", func() bool { return len(l.Heartbeats(1100*time.Millisecond)) == 1 })
			l.gives("CancelJob", l.CancelJob(id), nil)
			l.until("the lease is over", func() bool { return l.freed(token) })
			l.resolves(token, id)
			l.is(id, isCanceled)
			l.tokens()
			l.RefreshHeartbeat(token)
			l.tokens()
			l.resolves(token, id)
			ends(id, token)
			l.noToken(token)
		}
	})
}

// freed reports whether the engine knows no lease of a token.
func (l *lab) freed(token uuid.UUID) bool {
	_, err := l.engine.LeaseBy(l.Context(), job.Token(token))
	return errors.Is(err, queue.ErrNotFound)
}

// The tokens of what was cancelled do not pile up: after some minutes they are good no more. Time passes as in any test with synctest.
func TestF18TokenOfACancelledJobEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &disk{memory.NewDisk()})
		id := l.enqueue("build", "")
		token := l.pick(id)
		time.Sleep(95 * time.Second)
		l.gives("CancelJob", l.CancelJob(id), nil)
		time.Sleep(2 * time.Minute)
		l.resolves(token, id)
		time.Sleep(composer.StopTold - 2*time.Minute + time.Second)
		l.noToken(token)
	})
}

// To plant it: job/workers.go, Lost: leave "j.running() &&" out.
func TestF19aHeartbeatOfACancelledJobIsNotMissed(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id, other := l.enqueue("build", ""), l.enqueue("build", "")
		token, runs := l.pick(id), l.pick(other)
		l.tokens(token, runs)
		if err := l.CancelJob(id); err != nil {
			t.Fatal(err)
		}
		l.tokens(runs)
		l.restart()
		l.tokens(runs)
	})
}

// To plant it: job/attempt.go, Renew: leave "j.Held() ||" out.
func TestF19bLatePollDoesNotKeepACancelledJobAlive(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		l.lapse("")
		token := l.pick(id)
		if err := l.CancelJob(id); err != nil {
			t.Fatal(err)
		}
		l.until("the lease of the cancelled job is over", func() bool {
			l.RefreshHeartbeat(token)
			l.tokens()
			return l.freed(token)
		})
		l.RefreshHeartbeat(token)
		if !l.freed(token) {
			t.Error("a heartbeat brought back the lease of a cancelled job")
		}
		l.tokens()
		l.is(id, isCanceled)
	})
}

// No code here could do this: there is no list of tokens that were asked for. What can be broken is that a heartbeat reaches none but
// its own attempt. To plant that: composer/running.go, RefreshHeartbeat: at an error, take the first of q.engine.Lost for h.Lease.
func TestF21HeartbeatUnderAnUnknownTokenIsNotKept(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		token := l.pick(l.enqueue("build", ""))
		l.until("the job was silent for a while", func() bool { return len(l.Heartbeats(20*time.Millisecond)) == 1 })
		silent := time.Now()
		for range 10 {
			l.RefreshHeartbeat(uuid.New())
		}
		if lost := l.Heartbeats(time.Since(silent)); len(lost) != 1 {
			t.Errorf("the heartbeats of others made %d jobs be silent for too long, want 1", len(lost))
		}
		l.tokens(token)
		l.noToken(uuid.New())
		l.noToken(uuid.Nil)
	})
}

// To plant it: queue/leases.go, drop: leave "delete(l.byToken, ...)" out.
func TestF41TokenOfAnAttemptThatIsOverStaysSo(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		first := l.pick(id)
		if requeued, err := l.RequeueOrFinishJob(id, 1, nil); !requeued || err != nil {
			t.Fatalf("requeued %t, %v", requeued, err)
		}
		l.RefreshHeartbeat(first)
		l.tokens()
		second := l.pick(id)
		l.noToken(first)
		l.RefreshHeartbeat(first)
		l.tokens(second)
		l.finish(id, nil)
		for _, token := range []uuid.UUID{first, second} {
			l.RefreshHeartbeat(token)
			l.noToken(token)
		}
		l.tokens()
		l.restart()
		l.noToken(second)
		l.tokens()
	})
}
