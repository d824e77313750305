package composer_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/queue"
)

// To plant it: job/apply.go, tellDependents: "e.blocks() && end.Outcome == Succeeded" for "e.blocks()".
func TestF04aFailedJobReleasesItsDependents(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		first := l.enqueue("first", "")
		second := l.enqueue("second", "", first)
		third := l.enqueue("second", "", second)
		if err := l.FailJob(first, "no manifest"); err != nil {
			t.Fatal(err)
		}
		l.pick(second)
		l.refused(third)
		if deps := l.status(second).Deps; !slices.Equal(deps, []uuid.UUID{first}) {
			t.Errorf("it depends on %v, want %s", deps, first)
		}
	})
}

// To plant it: job/apply.go, applyJob, JobReleased: leave "m.touch(j)" out.
func TestF04bFailedJobWakesWhoeverWaitsForItsDependents(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		first := l.enqueue("first", "")
		second := l.enqueue("second", "", first)
		c := l.begin("second", "")
		l.waiting(1)
		if err := l.FailJob(first, "no manifest"); err != nil {
			t.Fatal(err)
		}
		// Nothing else happens that could wake it.
		l.get(c, second)
	})
}

// No code here could hand it out twice, as a job has one state, and the engine takes a dependency that is named twice for one. What is
// told can be wrong. To plant that: composer/payload.go, dependencies: append each twice.
func TestF06aJobThatNamesADependencyTwiceIsHandedOutOnce(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		first := l.enqueue("first", "")
		second := l.enqueue("second", "", first, first)
		l.pick(first)
		l.finish(first, nil)
		id, token, deps, _, _, err := l.Dequeue(l.Context(), uuid.Nil, []string{"second"}, []string{""})
		if err != nil || id != second || !slices.Equal(deps, []uuid.UUID{first}) {
			t.Fatalf("dequeued %s, which depends on %v, %v; want %s, on the first", id, deps, err, second)
		}
		l.refused(second)
		l.tokens(token)
		l.finish(second, nil)
		l.onlyNext("second", "")
	})
}

// To plant it: composer/jobqueue.go, JobStatus: "append(dependents, uuid.UUID(d), uuid.UUID(d))".
func TestF06bDependencyAndDependentAreListedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		a, b := l.enqueue("first", ""), l.enqueue("first", "")
		c := l.enqueue("second", "", b, a, b, a, a)
		_, deps := l.arguments(c)
		for _, got := range [][]uuid.UUID{deps, l.status(c).Deps} {
			if !slices.Equal(got, []uuid.UUID{b, a}) {
				t.Errorf("it depends on %v, want %s and %s, in this order", got, b, a)
			}
		}
		for _, id := range []uuid.UUID{a, b} {
			if got := l.status(id).Dependents; !slices.Equal(got, []uuid.UUID{c}) {
				t.Errorf("its dependents are %v, want %s, once", got, c)
			}
		}
	})
}

// To plant it: job/cancel.go, DeleteJobs: leave the JobDeleted of a job that waits out: it is cancelled, and stays.
func TestF07DequeueGoesOnAfterAPendingJobWasDeleted(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		kept := l.enqueue("build", "")
		gone := []uuid.UUID{l.enqueue("build", ""), l.enqueue("build", ""), l.enqueue("other", "")}
		last := l.enqueue("build", "")
		for _, id := range gone {
			if err := l.DeleteJob(l.Context(), id); err != nil {
				t.Fatal(err)
			}
			_, _, _, _, err := l.Job(id)
			l.gives("Job", err, composer.ErrNotExist)
			_, _, _, _, err = l.DequeueByID(l.Context(), id, uuid.Nil)
			l.gives("DequeueByID", err, composer.ErrNotExist)
		}
		for _, want := range []uuid.UUID{kept, last} {
			if id, _ := l.dequeue("build", ""); id != want {
				t.Errorf("dequeued %s, want %s", id, want)
			}
		}
		l.onlyNext("other", "")
	})
}

// To plant it: job/cancel.go, DeleteJobs: leave the JobFreed of a job that runs out: then its token is good for as long as its lease.
func TestF08TokenOfADeletedJobIsNotGoodAnyMore(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		token := l.pick(id)
		if err := l.DeleteJob(l.Context(), id); err != nil {
			t.Fatal(err)
		}
		l.RefreshHeartbeat(token)
		l.noToken(token)
		l.tokens()
		_, err := l.RequeueOrFinishJob(id, 0, nil)
		l.gives("RequeueOrFinishJob", err, composer.ErrNotExist)
		_, err = l.RequeueOrFinishToken(token, 0, 0, nil)
		l.gives("RequeueOrFinishToken", err, composer.ErrNotExist)
	})
}

// To plant it: composer/retention.go, DeleteJob: "return nil" where the record cannot be found.
func TestF08bUnknownJobCannotBeDeleted(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		l.gives("DeleteJob", l.DeleteJob(l.Context(), uuid.New()), composer.ErrNotExist)
		l.gives("DeleteJob", l.DeleteJob(l.Context(), uuid.Nil), composer.ErrNotExist)
		id := l.enqueue("build", "")
		l.gives("DeleteJob", l.DeleteJob(l.Context(), id), nil)
		l.gives("DeleteJob once more", l.DeleteJob(l.Context(), id), composer.ErrNotExist)
	})
}

// To plant it: composer/jobqueue.go, EnqueueGroup: submit with spec.Needs cut to those whose q.record is there.
func TestF09RefusedJobLeavesNoTrace(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		first := l.enqueue("first", "")
		for _, deps := range [][]uuid.UUID{{first, uuid.New()}, {uuid.New(), first}, {uuid.Nil}} {
			id, err := l.Enqueue("second", nil, deps, "")
			l.gives("Enqueue", err, composer.ErrNotExist)
			if id != uuid.Nil {
				t.Errorf("the job that was refused is %s", id)
			}
		}
		if _, err := l.Enqueue("second", func() {}, []uuid.UUID{first}, ""); err == nil {
			t.Error("arguments that are no JSON were taken")
		}
		l.restart()
		if after := l.status(first).Dependents; len(after) > 0 {
			t.Errorf("dependents that were refused are there: %v", after)
		}
		roots, err := l.AllRootJobIDs(l.Context())
		if err != nil || !slices.Equal(roots, []uuid.UUID{first}) {
			t.Errorf("the roots are %v, %v; want %s", roots, err, first)
		}
		l.gives("DeleteJob", l.DeleteJob(l.Context(), first), nil)
	})
}

// Upstream deletes in a folder without a lock: a job that somebody has just come to depend on is gone for that. Here a dependent comes
// between the look at the dependents and the deletion. To plant it: job/cancel.go, DeleteJob: leave the loop over the dependents out.
func TestDeletionHeedsADependentThatComesBetween(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		come := make(chan func(), 1)
		l.tap(nil, func(call string) error {
			if call == "Dependents" {
				select {
				case f := <-come:
					f()
				default:
				}
			}
			return nil
		})
		first := l.enqueue("first", "")
		l.pick(first)
		l.finish(first, "done")
		var second uuid.UUID
		come <- func() { second = l.enqueue("second", "", first) }
		l.gives("DeleteJob", l.DeleteJob(l.Context(), first), nil)
		if len(come) > 0 {
			t.Fatal("nobody has looked at the dependents")
		}
		l.is(first, `finished, result "\"done\""`)
		l.pick(second)
		if _, deps := l.arguments(second); !slices.Equal(deps, []uuid.UUID{first}) {
			t.Errorf("it depends on %v, want %s", deps, first)
		}
	})
}

// To plant it: composer/retention.go, AllRootJobIDs: "if after, err := q.dependents(ctx, r.Spec.ID); err == nil && len(after) == 0" for
// "if !needed[...]".
func TestAllRootJobIDsDoesNotAskForEachJob(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		calls := make(chan string, 1000)
		l.tap(func(call string) error { calls <- call; return nil }, nil)
		var want []uuid.UUID
		for range 20 {
			first := l.enqueue("first", "")
			want = append(want, l.enqueue("second", "", first))
		}
		for len(calls) > 0 {
			<-calls
		}
		roots, err := l.AllRootJobIDs(l.Context())
		if err != nil || !slices.Equal(roots, want) {
			t.Errorf("the roots are %v, %v; want %v", roots, err, want)
		}
		reads := 0
		for len(calls) > 0 {
			if call := <-calls; call != "Owned" {
				reads++
			}
		}
		if reads > 3 {
			t.Errorf("the store was asked %d times about 40 jobs, want at most 3", reads)
		}
	})
}

// To plant it: job/cancel.go, DeleteJobs: never find a dependent that is not among the jobs.
func TestD01DependencyOfAnUnfinishedJobDoesNotExpire(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		first := l.enqueue("first", "")
		second := l.enqueue("second", "", first)
		l.pick(first)
		l.finish(first, "done")
		for _, dry := range []bool{true, false} {
			l.expires(0, dry)
		}
		id, _, deps, _, _, err := l.Dequeue(l.Context(), uuid.Nil, []string{"second"}, []string{""})
		if err != nil || id != second || !slices.Equal(deps, []uuid.UUID{first}) {
			t.Fatalf("dequeued %s, which depends on %v, %v; want %s, on the first", id, deps, err, second)
		}
		l.is(first, `finished, result "\"done\""`)
		l.finish(second, nil)
		l.expires(2, true)
		l.expires(2, false)
		if left, err := l.store.Jobs(l.Context(), queue.JobFilter{}); err != nil || len(left) > 0 {
			t.Errorf("%d jobs are left, %v; want none", len(left), err)
		}
	})
}

// To plant it: composer/retention.go, Expire: leave "r.End != nil &&" out.
func TestD02JobThatHasNotEndedDoesNotExpire(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		runs, waits := l.enqueue("build", ""), l.enqueue("build", "")
		token := l.pick(runs)
		ended := l.enqueue("build", "")
		if err := l.FailJob(ended, nil); err != nil {
			t.Fatal(err)
		}
		l.expires(1, false)
		l.is(runs, isRunning)
		l.is(waits, isPending)
		l.tokens(token)
		_, _, _, _, err := l.Job(ended)
		l.gives("Job", err, composer.ErrNotExist)
	})
}
