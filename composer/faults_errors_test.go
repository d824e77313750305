package composer_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// F10 to F13, F15 and F23 are wrong errors: one test for each call of which that was said.

// stages gives a job in each state.
func (l *lab) stages() (pending, running, finished, canceled uuid.UUID) {
	l.Helper()
	pending, running, finished, canceled = l.enqueue("build", ""), l.enqueue("build", ""), l.enqueue("build", ""), l.enqueue("build", "")
	l.pick(running)
	l.pick(finished)
	l.finish(finished, "done")
	if err := l.CancelJob(canceled); err != nil {
		l.Fatal(err)
	}
	return pending, running, finished, canceled
}

// To plant it: composer/jobqueue.go, EnqueueGroup: leave the case of queue.ErrNotFound out.
func TestF10UnknownDependencyIsOneThatDoesNotExist(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id, err := l.Enqueue("build", nil, []uuid.UUID{uuid.New()}, "")
		l.gives("Enqueue", err, composer.ErrNotExist)
		if id != uuid.Nil {
			t.Errorf("its id is %s", id)
		}
		_, _, _, _, err = l.Job(id)
		l.gives("Job", err, composer.ErrNotExist)
	})
}

// To plant it: composer/jobqueue.go, lookUp: "return nil, queue.ErrNotFound" for "return nil, q.errs.NotExist".
func TestF11StatusOfAnUnknownJob(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		for _, id := range []uuid.UUID{uuid.New(), uuid.Nil} {
			typ, channel, result, queued, started, finished, canceled, deps, after, err := l.JobStatus(id)
			l.gives("JobStatus", err, composer.ErrNotExist)
			if typ != "" || channel != "" || result != nil || canceled || deps != nil || after != nil ||
				!queued.IsZero() || !started.IsZero() || !finished.IsZero() {
				t.Error("something is told of a job that does not exist")
			}
			_, err = l.GroupID(id)
			l.gives("GroupID", err, composer.ErrNotExist)
		}
	})
}

// To plant it: composer/jobqueue.go, CancelJob: "return q.errs.NotRunning" in the case of queue.ErrNotFound.
func TestF12CancelOfWhatCannotBeCancelled(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		_, _, finished, canceled := l.stages()
		l.gives("CancelJob of an unknown job", l.CancelJob(uuid.New()), composer.ErrNotExist)
		l.gives("CancelJob of a finished job", l.CancelJob(finished), composer.ErrNotRunning)
		l.gives("CancelJob of a cancelled job", l.CancelJob(canceled), nil)
		l.is(finished, `finished, result "\"done\""`)
	})
}

// To plant it: composer/jobqueue.go, FailJob: "return q.errs.NotRunning" in the case of job.ErrBusy.
func TestF13FailureOfWhatCannotFail(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		pending, running, finished, canceled := l.stages()
		l.gives("FailJob of an unknown job", l.FailJob(uuid.New(), 1), composer.ErrNotExist)
		l.gives("FailJob of a running job", l.FailJob(running, 1), composer.ErrRunning)
		l.gives("FailJob of a finished job", l.FailJob(finished, 1), composer.ErrFinished)
		l.gives("FailJob of a cancelled job", l.FailJob(canceled, 1), composer.ErrCanceled)
		l.gives("FailJob of a pending job", l.FailJob(pending, 1), nil)
		l.gives("FailJob once more", l.FailJob(pending, 2), composer.ErrFinished)
		l.is(pending, `finished, result "1"`)
		l.is(finished, `finished, result "\"done\""`)
		l.is(running, isRunning)
	})
}

// To plant it: composer/dequeue.go, DequeueByID: "return ..., q.errs.NotPending" where the record cannot be found.
func TestF15DequeueByIDTellsWhatIsThere(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		pending, running, finished, canceled := l.stages()
		blocked := l.enqueue("build", "", pending)
		_, _, _, _, err := l.DequeueByID(l.Context(), uuid.New(), uuid.Nil)
		l.gives("DequeueByID of an unknown job", err, composer.ErrNotExist)
		for _, id := range []uuid.UUID{running, finished, canceled, blocked} {
			l.refused(id)
		}
		l.pick(pending)
		l.refused(pending)
	})
}

// To plant it: composer/dequeue.go, DequeueByID: leave "if ctx.Err() != nil" out.
func TestF17DequeueByIDHeedsItsContext(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		ctx, cancel := context.WithCancel(l.Context())
		cancel()
		_, _, _, _, err := l.DequeueByID(ctx, id, uuid.Nil)
		l.gives("DequeueByID", err, composer.ErrDequeueTimeout)
		l.is(id, isPending)
		l.tokens()
	})
}

// To plant it: composer/roster.go, DeleteWorker: "return q.errs.ActiveJobs" for a worker that is not known.
func TestF23UnknownWorkerCannotBeDeleted(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		for _, id := range []uuid.UUID{uuid.New(), uuid.Nil} {
			l.gives("DeleteWorker", l.DeleteWorker(id), composer.ErrWorkerNotExist)
			l.gives("UpdateWorkerStatus", l.UpdateWorkerStatus(id), composer.ErrWorkerNotExist)
		}
	})
}

// To plant it: composer/running.go, conclude: "f.Result, _ = marshal(...)".
func TestF28ResultThatIsNoJSONLeavesTheJobRunning(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		token := l.pick(id)
		for _, result := range []any{func() {}, []byte("{"), make(chan int)} {
			if _, err := l.RequeueOrFinishJob(id, 0, result); err == nil {
				t.Errorf("a result of %T was taken", result)
			}
			if err := l.UpdateJobResult(id, result); err == nil {
				t.Errorf("a partial result of %T was taken", result)
			}
			if err := l.FailJob(id, result); err == nil || errors.Is(err, composer.ErrRunning) {
				t.Errorf("a failure of %T gives %v", result, err)
			}
		}
		l.is(id, isRunning)
		l.tokens(token)
		l.finish(id, "done")
		l.is(id, `finished, result "\"done\""`)
	})
}

// Upstream takes each error of the store, here and elsewhere, for a job that does not exist. To plant it: composer/running.go,
// UpdateJobResult: "err != nil" for "errors.Is(err, job.ErrLeaseLost)"; or byToken: "err != nil" for "errors.Is(err, queue.ErrNotFound)".
func TestErrorIsNotTakenForAJobThatDoesNotExist(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		token := l.pick(id)
		tooLong := slices.Concat([]byte{'"'}, slices.Repeat([]byte{'x'}, job.MaxResult), []byte{'"'})
		var invalid *job.InvalidError
		if err := l.UpdateJobResult(id, tooLong); !errors.As(err, &invalid) {
			t.Errorf("UpdateJobResult gives %v, want that it is too long", err)
		}
		if _, err := l.RequeueOrFinishJob(id, 0, tooLong); !errors.As(err, &invalid) {
			t.Errorf("RequeueOrFinishJob gives %v, want that it is too long", err)
		}
		l.is(id, isRunning)
		q := l.JobQueue
		l.stop()
		_, byToken := q.IdFromToken(token)
		for call, err := range map[string]error{
			"UpdateJobResult": q.UpdateJobResult(id, "half"), "CancelJob": q.CancelJob(id), "FailJob": q.FailJob(id, nil),
			"IdFromToken": byToken, "DeleteJob": q.DeleteJob(l.Context(), id), // at once, though the store is closed, too
		} {
			if !errors.Is(err, queue.ErrClosed) {
				t.Errorf("%s of an engine that has ended gives %v, want %v", call, err, queue.ErrClosed)
			}
		}
	})
}
