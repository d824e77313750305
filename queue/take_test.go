package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// A job is taken out of turn if it is ready, and is then the worker's as if it had been leased.
func TestTakeStartsTheJobThatIsNamed(t *testing.T) {
	t.Parallel()
	inRounds(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		l.submit(job.Spec{})
		wanted := l.submit(job.Spec{Args: []byte("args")})
		blocked := l.submit(job.Spec{Needs: []job.Need{{Job: wanted.ID}}})
		take := func(id job.ID) (queue.Assignment, error) { return l.Take(t.Context(), w.Name, w.Session, id) }
		if _, err := take(blocked.ID); !errors.Is(err, job.ErrNotReady) {
			t.Errorf("a blocked job: %v, want ErrNotReady", err)
		}
		if _, err := take(l.NewID()); !errors.Is(err, job.ErrNotReady) {
			t.Errorf("a job that is unknown: %v, want ErrNotReady", err)
		}
		got, err := take(wanted.ID)
		if err != nil || got.Lease.Job != wanted.ID || string(got.Spec.Args) != "args" {
			t.Fatalf("took %+v, %v", got, err)
		}
		if _, err := take(wanted.ID); !errors.Is(err, job.ErrNotReady) {
			t.Errorf("a job that runs: %v, want ErrNotReady", err)
		}
		if err := l.CancelJob(t.Context(), wanted.ID, job.ID{}, true, ""); err != nil {
			t.Fatal(err)
		}
		<-got.Stop
		if _, err := l.Take(t.Context(), "stranger", w.Session, wanted.ID); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("a worker that is unknown: %v, want ErrNotFound", err)
		}
		if _, err := l.Take(t.Context(), w.Name, l.NewID(), wanted.ID); !errors.Is(err, job.ErrWorkerLive) {
			t.Errorf("another session: %v, want ErrWorkerLive", err)
		}
	})
}

// One who takes nothing does not wait: a job that cannot start now is refused, whatever the reason.
func TestTakeRefusesWhatCannotStart(t *testing.T) {
	t.Parallel()
	gate := job.Gate{Key: "one", Limit: 1}
	for _, c := range []struct {
		name    string
		before  job.Spec // of a job that runs by then
		wanted  job.Spec
		prepare func(*lab) error
	}{
		{name: "its key is full", before: job.Spec{Gate: gate}, wanted: job.Spec{Gate: gate}},
		{name: "it wants the worker to itself", wanted: job.Spec{Exclusive: true}},
		{name: "the worker has an exclusive one", before: job.Spec{Exclusive: true}},
		{name: "the worker lacks a feature", wanted: job.Spec{Features: []string{"kvm"}}},
		{name: "the channel is paused", prepare: func(l *lab) error { return l.Pause(l.t.Context(), "", "", true) }},
		{name: "the worker is drained", prepare: func(l *lab) error { return l.Drain(l.t.Context(), "w", true) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inLab(t, func(t *testing.T, l *lab) {
				w := l.worker("w", 2)
				l.submit(c.before)
				l.lease(w)
				wanted := l.submit(c.wanted)
				if c.prepare != nil {
					if err := c.prepare(l); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := l.Take(t.Context(), w.Name, w.Session, wanted.ID); !errors.Is(err, job.ErrNotReady) {
					t.Errorf("%v, want ErrNotReady", err)
				}
			})
		})
	}
}

// Who gives up before the owner has come to it has taken nothing; who gives up later is given the job all the same, as nobody else
// would know of it.
func TestTakeThatIsGivenUp(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		j := l.submit(job.Spec{})
		ctx, cancel := context.WithCancel(t.Context())
		l.gate = make(chan struct{})
		given := make(chan queue.Assignment, 1)
		go func() {
			got, err := l.Take(ctx, w.Name, w.Session, j.ID)
			if err != nil {
				t.Errorf("given up while it was being stored: %v", err)
			}
			given <- got
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(l.gate)
		if got := <-given; got.Lease.Job != j.ID {
			t.Errorf("given %v, want job %s", got.Lease, j.ID)
		}
		if _, err := l.Take(ctx, w.Name, w.Session, j.ID); !errors.Is(err, context.Canceled) {
			t.Errorf("given up before: %v", err)
		}
	})
}

// Whoever knows a job, or a token, finds the attempt for as long as it has its lease, also after a restart.
func TestLeaseIsFoundByJobAndByToken(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		j := l.submit(job.Spec{})
		find := func(x job.Lease) (queue.Held, error) {
			byJob, err := l.LeaseOf(t.Context(), x.Job)
			byToken, err2 := l.LeaseBy(t.Context(), x.Token)
			if byJob != byToken || (err == nil) != (err2 == nil) {
				t.Errorf("by job %+v, %v; by token %+v, %v", byJob, err, byToken, err2)
			}
			return byJob, err
		}
		if _, err := find(job.Lease{Job: j.ID}); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("before it runs: %v, want ErrNotFound", err)
		}
		want := queue.Held{Lease: l.lease(w).Lease, Worker: "w"}
		for range 2 {
			if got, err := find(want.Lease); got != want || err != nil {
				t.Errorf("found %+v, %v; want %+v", got, err, want)
			}
			l.restart()
			synctest.Wait()
		}
		if err := l.Finish(t.Context(), job.Report{Lease: want.Lease, Outcome: job.Aborted, Detail: job.LeaseLost}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.LeaseBy(t.Context(), want.Lease.Token); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("the first attempt, after its end: %v, want ErrNotFound", err)
		}
		want.Lease = l.lease(w).Lease
		if err := l.CancelJob(t.Context(), j.ID, job.ID{}, true, ""); err != nil {
			t.Fatal(err)
		}
		want.Stopping = true
		for range 2 {
			if got, err := find(want.Lease); got != want || err != nil {
				t.Errorf("cancelled, found %+v, %v; want %+v", got, err, want)
			}
			l.restart()
			synctest.Wait()
		}
		if err := l.Finish(t.Context(), job.Report{Lease: want.Lease, Outcome: job.Cancelled}); !errors.Is(err, job.ErrLeaseLost) {
			t.Fatal(err)
		}
		if _, err := find(want.Lease); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("after its end: %v, want ErrNotFound", err)
		}
	})
}

// What is not stored is not found, and nothing is while nobody owns the store.
func TestLeaseIsFoundOnceItIsStored(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		j := l.submit(job.Spec{})
		l.gate = make(chan struct{})
		leased := make(chan struct{})
		go func() {
			defer close(leased)
			l.lease(w)
		}()
		synctest.Wait()
		if _, err := l.LeaseOf(t.Context(), j.ID); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("before it is stored: %v, want ErrNotFound", err)
		}
		close(l.gate)
		<-leased
		if _, err := l.LeaseOf(t.Context(), j.ID); err != nil {
			t.Error(err)
		}
		l.stop()
		if _, err := l.LeaseOf(t.Context(), j.ID); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("after the end: %v, want ErrClosed", err)
		}
		l.open()
		var again *queue.RetryError
		if _, err := l.LeaseOf(t.Context(), j.ID); !errors.As(err, &again) {
			t.Errorf("before there is an owner: %v, want a *RetryError", err)
		}
		l.start()
	})
}

// Jobs are deleted all or none: not if another names one of them, whatever has become of that.
func TestDeleteJobsTakesAllOrNone(t *testing.T) {
	t.Parallel()
	inRounds(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		finish := func(j job.ID) job.Need { return job.Need{Job: j, Policy: job.Finish} }
		first := l.submit(job.Spec{}).ID
		got := l.lease(w)
		second := l.submit(job.Spec{Needs: []job.Need{finish(first)}}).ID
		other := l.submit(job.Spec{Needs: []job.Need{finish(first)}}).ID
		l.must(l.FailJob(t.Context(), other, "", nil))
		if err := l.DeleteJobs(t.Context(), second, first); !errors.Is(err, job.ErrBusy) {
			t.Errorf("another job that has ended names one: %v, want ErrBusy", err)
		}
		if l.record(first).End != nil || l.record(second).End != nil {
			t.Error("what was refused has ended")
		}
		before := l.Round()
		l.must(l.DeleteJobs(t.Context(), other, second, l.NewID(), first))
		if n := l.Round() - before; n != 1 {
			t.Errorf("it took %d rounds, want 1", n)
		}
		<-got.Stop
		recs, err := l.Store.Jobs(t.Context(), queue.JobFilter{})
		if err != nil || len(recs) != 0 {
			t.Errorf("%d jobs are left, %v", len(recs), err)
		}
		last := l.submit(job.Spec{})
		if l.lease(w).Lease.Job != last.ID {
			t.Error("the slot of what was deleted is not free")
		}
		var invalid *job.InvalidError
		if err := l.DeleteJobs(t.Context(), make([]job.ID, queue.DeleteMost+1)...); !errors.As(err, &invalid) {
			t.Errorf("too many: %v, want *job.InvalidError", err)
		}
	})
}

// What is too much for one deletion goes from the bottom up, once all above has ended: before, it would be released.
func TestDeleteUnder(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		first := l.submit(job.Spec{}).ID
		second := l.submit(job.Spec{Needs: []job.Need{{Job: first, Policy: job.Finish}}}).ID
		above := []job.ID{second}
		if err := l.DeleteUnder(t.Context(), above, first); !errors.Is(err, job.ErrBusy) {
			t.Errorf("below a job that waits: %v, want job.ErrBusy", err)
		}
		l.must(l.CancelJob(t.Context(), second, job.ID{}, true, ""))
		other := l.submit(job.Spec{Needs: []job.Need{{Job: first, Policy: job.Finish}}}).ID
		if err := l.DeleteUnder(t.Context(), above, first); !errors.Is(err, job.ErrBusy) {
			t.Errorf("below another job: %v, want job.ErrBusy", err)
		}
		l.must(l.DeleteJobs(t.Context(), other))
		l.must(l.DeleteUnder(t.Context(), above, first))
		l.must(l.DeleteJobs(t.Context(), second))
		if list, err := l.History.Jobs(t.Context(), queue.JobFilter{}); err != nil || len(list) > 0 {
			t.Errorf("%d jobs are left, %v", len(list), err)
		}
	})
}
