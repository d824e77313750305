package composer

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// Dequeue waits for a job of one of the types in one of the channels, the one that was enqueued first, and gives it to the worker;
// uuid.Nil, and a worker that is not known, stand for nobody in particular. Until it ends, its token is good. Without a type or a
// channel it waits for nothing. Errors: Errors.DequeueTimeout if ctx ends first, *job.InvalidError.
func (q *JobQueue[W]) Dequeue(ctx context.Context, workerID uuid.UUID, jobTypes, channels []string) (
	id, token uuid.UUID, deps []uuid.UUID, jobType string, args json.RawMessage, err error,
) {
	places, err := words(channels, channelWord)
	if err != nil {
		return id, token, nil, "", nil, err
	}
	return q.dequeue(ctx, workerID, jobTypes, places)
}

// DequeueAnyChannel is Dequeue from all channels.
func (q *JobQueue[W]) DequeueAnyChannel(ctx context.Context, workerID uuid.UUID, jobTypes []string) (
	id, token uuid.UUID, deps []uuid.UUID, jobType string, args json.RawMessage, err error,
) {
	return q.dequeue(ctx, workerID, jobTypes, []string{job.AnyChannel})
}

func (q *JobQueue[W]) dequeue(ctx context.Context, workerID uuid.UUID, jobTypes, channels []string) (
	id, token uuid.UUID, deps []uuid.UUID, jobType string, args json.RawMessage, err error,
) {
	kinds, err := types(jobTypes)
	if err != nil {
		return id, token, nil, "", nil, err
	}
	r := reach{worker: workerID, types: kinds, channels: channels}
	if len(r.types) == 0 || len(r.channels) == 0 {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return id, token, nil, "", nil, q.errs.DequeueTimeout
	}
	q.handouts.settle(ctx)
	got, err := q.give(ctx, r, job.ID{}, func(name string, session job.ID) (queue.Assignment, error) {
		list, err := q.engine.Lease(ctx, name, session, 1, 0)
		if err != nil {
			return queue.Assignment{}, err
		}
		return list[0], nil
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return id, token, nil, "", nil, q.errs.DequeueTimeout
	default:
		return id, token, nil, "", nil, err
	}
	s := &got.Spec
	return uuid.UUID(s.ID), uuid.UUID(got.Lease.Token), dependencies(s.Needs), unescape(s.Kind), s.Args, nil
}

// give gives a job in the name of an engine's worker that has the reach, until ctx ends. id is the job that it must be; zero: any.
func (q *JobQueue[W]) give(
	ctx context.Context, r reach, id job.ID, lease func(name string, session job.ID) (queue.Assignment, error),
) (got queue.Assignment, err error) {
	c := &call{h: q.handouts}
	defer c.over()
	err = untilDone(ctx, func(ctx context.Context) error {
		return q.roster.as(ctx, r, func(name string, session job.ID) (err error) {
			got, err = c.given(ctx, name, id, func() (queue.Assignment, error) { return lease(name, session) })
			return err
		})
	})
	return got, err
}

// DequeueByID gives a job that is pending to the worker, out of turn and at once. Errors: Errors.NotExist, Errors.NotPending,
// Errors.DequeueTimeout if ctx has ended.
func (q *JobQueue[W]) DequeueByID(ctx context.Context, id, workerID uuid.UUID) (
	token uuid.UUID, deps []uuid.UUID, jobType string, args json.RawMessage, err error,
) {
	if ctx.Err() != nil {
		return token, nil, "", nil, q.errs.DequeueTimeout
	}
	q.handouts.settle(ctx)
	rec, err := q.record(ctx, id)
	switch {
	case err != nil && ctx.Err() != nil:
		return token, nil, "", nil, q.errs.DequeueTimeout
	case err != nil:
		return token, nil, "", nil, err
	}
	if rec.End != nil || rec.Running {
		return token, nil, "", nil, q.errs.NotPending
	}
	r := reach{worker: workerID, types: []string{rec.Spec.Kind}, channels: []string{rec.Spec.Channel}}
	got, err := q.give(ctx, r, rec.Spec.ID, func(name string, session job.ID) (queue.Assignment, error) {
		return q.engine.Take(ctx, name, session, rec.Spec.ID)
	})
	switch {
	case err == nil:
	case errors.Is(err, job.ErrNotReady):
		return token, nil, "", nil, q.errs.NotPending
	case ctx.Err() != nil:
		return token, nil, "", nil, q.errs.DequeueTimeout
	default:
		return token, nil, "", nil, err
	}
	s := &got.Spec
	return uuid.UUID(got.Lease.Token), dependencies(s.Needs), unescape(s.Kind), s.Args, nil
}
