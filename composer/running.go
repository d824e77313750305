package composer

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// IdFromToken gives the job that was given out under a token and has not finished, nor been requeued. One that was cancelled is still
// found, so that its worker can learn of that, for as long as CancelJob says. Error: Errors.NotExist.
func (q *JobQueue[W]) IdFromToken(token uuid.UUID) (uuid.UUID, error) { //nolint:revive,staticcheck // the name is composer's
	h, err := q.byToken(context.Background(), token)
	if err != nil {
		if id, ok := q.stopped.job(token); ok {
			return uuid.UUID(id), nil
		}
		return uuid.Nil, err
	}
	return uuid.UUID(h.Lease.Job), nil
}

func (q *JobQueue[W]) byToken(ctx context.Context, token uuid.UUID) (queue.Held, error) {
	h, err := read(ctx, func(ctx context.Context) (queue.Held, error) { return q.engine.LeaseBy(ctx, job.Token(token)) })
	if errors.Is(err, queue.ErrNotFound) {
		err = q.errs.NotExist
	}
	return h, err
}

// running gives the lease of a job that runs. Errors: Errors.NotExist, Errors.Canceled, Errors.NotRunning.
func (q *JobQueue[W]) running(ctx context.Context, id uuid.UUID) (queue.Held, error) {
	h, err := read(ctx, func(ctx context.Context) (queue.Held, error) { return q.engine.LeaseOf(ctx, job.ID(id)) })
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return h, q.ended(ctx, id, q.errs.NotRunning)
	case err == nil && h.Stopping:
		return h, q.errs.Canceled
	}
	return h, err
}

// UpdateJobResult stores a partial result of a job that runs. Errors: Errors.NotExist, Errors.Canceled, Errors.NotRunning,
// *job.InvalidError if it is larger than job.MaxResult less some bytes.
func (q *JobQueue[W]) UpdateJobResult(id uuid.UUID, result any) error {
	b, err := marshal("result", result)
	if err != nil {
		return err
	}
	ctx := context.Background()
	h, err := q.running(ctx, id)
	if err != nil {
		return err
	}
	b = markPartial(h.Lease.Attempt, b)
	err = steadily(ctx, func(ctx context.Context) error { return q.engine.Progress(ctx, h.Lease, b) })
	if errors.Is(err, job.ErrLeaseLost) {
		return q.gone(ctx, id)
	}
	return err
}

// gone says why a job does not run any more that did a moment ago.
func (q *JobQueue[W]) gone(ctx context.Context, id uuid.UUID) error {
	if _, err := q.running(ctx, id); err != nil {
		return err
	}
	return q.errs.NotRunning // it was requeued, and runs again, for another
}

// RequeueOrFinishJob ends the attempt of a job that runs: the job is pending again, behind those that are, unless it was requeued
// maxRetries times before; then it has finished, with this result. Requeued, it has none. Errors: Errors.NotExist, Errors.Canceled,
// Errors.NotRunning, *job.InvalidError if the result is larger than job.MaxResult.
//
// It goes by the job alone, whoever has it. Who knows a token is safer with RequeueOrFinishToken.
func (q *JobQueue[W]) RequeueOrFinishJob(id uuid.UUID, maxRetries uint64, result any) (requeued bool, err error) {
	ctx := context.Background()
	h, done, err := q.ends(func() (queue.Held, error) { return q.running(ctx, id) })
	defer done()
	switch {
	case err == nil:
		return q.conclude(ctx, h.Lease, 0, maxRetries, result)
	case errors.Is(err, q.errs.Canceled):
		// Whoever says so knows that it is over: the slot is free.
		if h.Stopping {
			if err := q.confirm(ctx, h.Lease); err != nil {
				return false, err
			}
		}
		q.stopped.over(job.ID(id)) // its lease may have been over before
	}
	return false, err
}

// RequeueOrFinishToken is RequeueOrFinishJob for the attempt that was given out under a token, and no other: what comes late does
// not end what another has begun. A silent above zero means that the attempt is taken for lost: it is left alone if it was
// heard of within that time. Errors: Errors.NotExist if the token is not good any more, Errors.Canceled, Errors.Running if it was
// heard of.
func (q *JobQueue[W]) RequeueOrFinishToken(token uuid.UUID, silent time.Duration, maxRetries uint64, result any) (requeued bool, err error) {
	ctx := context.Background()
	h, done, err := q.ends(func() (queue.Held, error) { return q.byToken(ctx, token) })
	defer done()
	if err != nil {
		id, ok := q.stopped.job(token)
		if !ok || !errors.Is(err, q.errs.NotExist) {
			return false, err // it may have its lease still, which is to be ended, too
		}
		h.Lease.Job = id
	}
	switch {
	case err == nil && !h.Stopping:
		return q.conclude(ctx, h.Lease, silent, maxRetries, result)
	case silent == 0:
		if h.Stopping {
			if err := q.confirm(ctx, h.Lease); err != nil {
				return false, err
			}
		}
		q.stopped.over(h.Lease.Job)
	}
	return false, q.errs.Canceled // its worker, if it lives, is still to learn that
}

// ends finds an attempt that its caller is about to end, once nobody else is: of two who end it, the second finds that it is over. The
// engine would take him for the first, who says it again. done is called when it has ended, or not.
func (q *JobQueue[W]) ends(find func() (queue.Held, error)) (h queue.Held, done func(), err error) {
	var wait turn
	for {
		if h, err = find(); err != nil {
			return h, func() {}, err
		}
		q.mu.Lock()
		other := q.ending[h.Lease]
		if other != nil {
			q.mu.Unlock()
			if err := wait.behind(other); err != nil {
				return h, func() {}, err
			}
			continue
		}
		mine := make(chan struct{})
		q.ending[h.Lease] = mine
		q.mu.Unlock()
		done = func() {
			q.mu.Lock()
			delete(q.ending, h.Lease)
			q.mu.Unlock()
			close(mine)
		}
		// Somebody may have ended it since it was found. Now nobody can.
		if again, err := find(); err == nil && again.Lease == h.Lease {
			return again, done, nil
		}
		done()
	}
}

// conclude ends an attempt.
func (q *JobQueue[W]) conclude(
	ctx context.Context, l job.Lease, silent time.Duration, maxRetries uint64, result any,
) (requeued bool, err error) {
	id := uuid.UUID(l.Job)
	f := job.Report{Lease: l, Outcome: job.Succeeded, NoRetry: true, Silent: silent}
	if maxRetries > 0 {
		r, err := q.record(ctx, id)
		if err != nil {
			return false, err
		}
		f.Outcome, f.Detail, f.Message = job.Aborted, job.LeaseLost, "requeued by the server"
		f.NoRetry = uint64(r.Tally.Losses) >= maxRetries
	}
	if f.NoRetry {
		if f.Result, err = marshal("result", result); err != nil {
			return false, err
		}
	}
	err = repeatedly(ctx, func(ctx context.Context) error { return q.engine.Finish(ctx, f) })
	switch {
	case errors.Is(err, job.ErrLeaseLost):
		err := q.gone(ctx, id)
		if errors.Is(err, q.errs.Canceled) && silent == 0 {
			q.stopped.over(l.Job) // it was cancelled meanwhile, and its worker is told so by this
		}
		return false, err
	case errors.Is(err, job.ErrBusy):
		return false, q.errs.Running
	case err != nil:
		return false, err
	}
	return !f.NoRetry, nil
}

// confirm says of an attempt that was being stopped that it is over.
func (q *JobQueue[W]) confirm(ctx context.Context, l job.Lease) error {
	err := repeatedly(ctx, func(ctx context.Context) error {
		return q.engine.Finish(ctx, job.Report{Lease: l, Outcome: job.Cancelled})
	})
	if err != nil && !errors.Is(err, job.ErrLeaseLost) {
		return err
	}
	q.stopped.over(l.Job)
	return nil
}

// Heartbeats gives the tokens of the jobs that run and were not heard of for longer than the given time; after a restart, from then
// on. None, if the engine does not answer.
func (q *JobQueue[W]) Heartbeats(olderThan time.Duration) []uuid.UUID {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	q.handouts.settle(ctx)
	lost, err := q.engine.Lost(ctx, job.AnyChannel, olderThan)
	if err != nil {
		return nil
	}
	list := make([]uuid.UUID, 0, len(lost))
	for _, l := range lost {
		list = append(list, uuid.UUID(l.Token))
	}
	return list
}

// RefreshHeartbeat notes that whoever has the token lives. A token that is not good any more stays so.
func (q *JobQueue[W]) RefreshHeartbeat(token uuid.UUID) {
	ctx := context.Background()
	h, err := q.byToken(ctx, token)
	if err != nil {
		return
	}
	// Nobody can be told of an error: it is heard of at the next heartbeat.
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	_, _ = q.engine.Heartbeat(ctx, queue.Beat{Lease: h.Lease})
}
