package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

var errHiccup = errors.New("disk hiccup")

// A read that fails for a while costs nothing but time.
func TestLeaseReadsAgain(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		j := l.submit(job.Spec{})
		l.restart() // it remembers no contents
		failures := 3
		l.jobs = func() error {
			if failures--; failures >= 0 {
				return errHiccup
			}
			return nil
		}
		if got := l.lease(w); got.Lease.Job != j.ID {
			t.Errorf("leased %v", got)
		}
	})
}

// What cannot be read is handed back: nobody else knows of the lease. It costs the job no attempt.
func TestLeaseThatCannotBeReadIsHandedBack(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		j := l.submit(job.Spec{})
		l.restart()
		l.jobs = func() error { return errHiccup }
		_, err := l.Lease(t.Context(), w.Name, w.Session, 1, 0)
		var again *queue.RetryError
		if !errors.As(err, &again) {
			t.Errorf("the worker was told %v, want a *RetryError", err)
		}
		if r := l.record(j.ID); r.Running || r.Tally.Aborts+r.Tally.Losses != 0 {
			t.Errorf("running %t, tally %+v", r.Running, r.Tally)
		}
		l.jobs = nil
		if got := l.lease(w); got.Lease.Job != j.ID {
			t.Errorf("leased %v", got)
		}
	})
}

// Of several, those that can be read are given.
func TestLeaseGivesWhatCanBeRead(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 2)
		l.submit(job.Spec{})
		l.restart()
		second := l.submit(job.Spec{}) // this owner remembers it
		l.jobs = func() error { return errHiccup }
		got, err := l.Lease(t.Context(), w.Name, w.Session, 2, 0)
		if err != nil || len(got) != 1 || got[0].Lease.Job != second.ID {
			t.Errorf("leased %v, %v", got, err)
		}
	})
}

// What the owner does not remember is read in one go: a worker with many slots would wait for as many answers of the store.
func TestLeaseReadsAllInOneGo(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		const n = 20
		w := l.worker("w", n+1)
		want := map[job.ID]string{}
		for i := range n {
			s := job.Spec{Args: fmt.Appendf(nil, "args %d", i)}
			want[l.submit(s).ID] = string(s.Args)
		}
		l.restart()
		want[l.submit(job.Spec{Args: []byte("new")}).ID] = "new"
		before := l.reads
		got, err := l.Lease(t.Context(), w.Name, w.Session, n+1, 0)
		if err != nil || len(got) != n+1 {
			t.Fatalf("leased %d, %v", len(got), err)
		}
		for _, a := range got {
			if string(a.Spec.Args) != want[a.Spec.ID] || a.Spec.ID != a.Lease.Job {
				t.Errorf("job %s is leased as %+v, want args %q", a.Lease.Job, a.Spec, want[a.Lease.Job])
			}
		}
		if reads := l.reads - before; reads != 1 {
			t.Errorf("%d reads, want 1", reads)
		}
	})
}

// Calls that change nothing durable end with their ctx, even if there is no owner.
func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		l.stop()
		l.open() // it does not run
		for name, call := range map[string]func(context.Context) error{
			"Heartbeat": func(ctx context.Context) error { _, err := l.Heartbeat(ctx, queue.Beat{}); return err },
			"Lease":     func(ctx context.Context) error { _, err := l.Lease(ctx, "w", job.ID{1}, 1, 0); return err },
			"SignOff":   func(ctx context.Context) error { return l.SignOff(ctx, "w", job.ID{1}) },
			"Inspect":   func(ctx context.Context) error { return l.Inspect(ctx, nil) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		l.start() // what gave up before is not done now
		w := l.worker("w", 1)
		l.submit(job.Spec{})
		l.lease(w)
	})
}

// A lookup that fails refuses those that asked for it; heartbeats, and callers that give up, go on in the same round.
func TestFailedLookupRefusesOnlyWhoAsked(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 2)
		l.submit(job.Spec{})
		a := l.lease(w)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Lease(ctx, w.Name, w.Session, 1, 0)
			waiting <- err
		}()
		synctest.Wait()
		l.lookup = func() error { return errHiccup }
		var finish, beat error
		l.together(
			func() { finish = l.succeed(job.Lease{Job: job.ID{9}, Attempt: 1}) },
			func() { _, beat = l.Heartbeat(t.Context(), queue.Beat{Lease: a.Lease}) },
			cancel,
		)
		var again *queue.RetryError
		if !errors.As(finish, &again) || beat != nil {
			t.Errorf("the finish was told %v, the heartbeat %v", finish, beat)
		}
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("the lease was told %v", err)
		}
	})
}

// Nobody is told anything before it is stored: a cancel whose commit fails took no lease.
func TestHeartbeatCallsNoLeaseLostBeforeTheCommit(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		j := l.submit(job.Spec{})
		a := l.lease(w)
		l.commit = func(*queue.Batch) error { return queue.ErrNumber } // it does not happen: the owner steps down
		var errs []error
		var cancel, beat error
		l.together(
			func() { cancel = l.CancelJob(t.Context(), j.ID, job.ID{}, false, "") },
			func() { errs, beat = l.Heartbeat(t.Context(), queue.Beat{Lease: a.Lease}); l.commit = nil },
		)
		var again *queue.RetryError
		if !errors.As(cancel, &again) || !errors.As(beat, &again) {
			t.Errorf("the cancel was told %v, the heartbeat %v, %v", cancel, errs, beat)
		}
		if r := l.record(j.ID); !r.Running {
			t.Errorf("the job does not run: %+v", r.End)
		}
		errs, err := l.Heartbeat(t.Context(), queue.Beat{Lease: a.Lease})
		if err != nil || errs[0] != nil {
			t.Errorf("the heartbeat was told %v, %v", errs, err)
		}
	})
}

// However much is wanted, the sums do not wrap.
func TestLeaseWantsTooMuch(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan int, 2)
		for range 2 {
			go func() {
				list, _ := l.Lease(ctx, w.Name, w.Session, math.MaxInt, 0)
				got <- len(list)
			}()
		}
		synctest.Wait()
		l.submit(job.Spec{})
		synctest.Wait()
		if len(got) != 1 || <-got != 1 {
			t.Error("nobody was given the ready job")
		}
		cancel()
	})
}

// Each call gets what it asked for at most, and all calls of a worker together what it has slots for.
func TestLeaseGivesNoMoreThanAskedForNorThanSlots(t *testing.T) {
	t.Parallel()
	type call struct{ want, get int }
	for slots, calls := range map[int32][]call{4: {{2, 2}, {1, 1}, {3, 1}}, 9: {{2, 2}, {1, 1}}} {
		inLab(t, func(t *testing.T, l *lab) {
			w := l.worker("w", slots)
			got := make([]chan []queue.Assignment, len(calls))
			for i, c := range calls {
				got[i] = make(chan []queue.Assignment, 1)
				go func() {
					list, err := l.Lease(t.Context(), w.Name, w.Session, c.want, 0)
					l.check(err)
					got[i] <- list
				}()
				synctest.Wait() // one after the other
			}
			_, err := l.Submit(t.Context(), queue.Submission{Jobs: kindK(10)})
			l.must(err)
			synctest.Wait()
			given := map[job.ID]bool{}
			for i, c := range calls {
				if len(got[i]) == 0 {
					t.Fatalf("%d slots: the call for %d was not answered", slots, c.want)
				}
				list := <-got[i]
				if len(list) != c.get {
					t.Errorf("%d slots: the call for %d got %d, want %d", slots, c.want, len(list), c.get)
				}
				for _, a := range list {
					given[a.Lease.Job] = true
				}
			}
			workers, err := l.Workers(t.Context())
			l.must(err)
			sum := 0
			for _, c := range calls {
				sum += c.get
			}
			if len(given) != sum || len(workers[0].Leases) != sum {
				t.Errorf("%d slots: %d jobs were given, and %d run, want %d", slots, len(given), len(workers[0].Leases), sum)
			}
		})
	}
}

// A cancel that is not stored stops nothing: the job runs on under the next owner.
func TestStopIsToldOnceItIsStored(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		j := l.submit(job.Spec{})
		a := l.lease(w)
		stopped := func() bool {
			synctest.Wait()
			select {
			case <-a.Stop:
				return true
			default:
				return false
			}
		}
		l.commit = func(*queue.Batch) error {
			if stopped() {
				t.Error("told to stop before that was stored")
			}
			return queue.ErrFenced
		}
		var again *queue.RetryError
		if err := l.CancelJob(t.Context(), j.ID, job.ID{}, true, ""); !errors.As(err, &again) {
			t.Errorf("the cancel was told %v, want a *RetryError", err)
		}
		if l.commit = nil; stopped() {
			t.Error("told to stop by a round that was lost")
		}
		<-l.done
		l.open()
		l.start()
		if err := l.succeed(a.Lease); err != nil {
			t.Errorf("the attempt that nobody stopped was told %v", err)
		}
	})
}
