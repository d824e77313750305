package composer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// Retention is how long composer keeps jobs after they were enqueued.
const Retention = 14 * 24 * time.Hour

// page is how many jobs are read at once.
const page = 10_000

// each calls f with the jobs of all channels of this door, the newest first. A job is newer than what it depends on.
func (q *JobQueue[W]) each(ctx context.Context, f func(*job.Record) error) error {
	mine := map[string]bool{}
	filter := queue.JobFilter{Limit: page}
	for {
		list, err := look(ctx, q.engine, func(ctx context.Context) ([]job.Record, error) { return q.history.Jobs(ctx, filter) })
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			r := &list[i]
			filter.Before = r.Seq
			own, known := mine[r.Spec.Channel]
			if !known {
				c, err := read(ctx, func(ctx context.Context) (job.Channel, error) { return q.engine.Channel(ctx, r.Spec.Channel) })
				if err != nil {
					return err
				}
				own = ours(&c)
				mine[r.Spec.Channel] = own
			}
			if !own {
				continue
			}
			if err := f(r); err != nil {
				return err
			}
		}
	}
}

// AllRootJobIDs gives the jobs of all channels that no other depends on, oldest first.
func (q *JobQueue[W]) AllRootJobIDs(ctx context.Context) ([]uuid.UUID, error) {
	var roots []uuid.UUID
	needed := map[job.ID]bool{}
	err := q.each(ctx, func(r *job.Record) error {
		if !needed[r.Spec.ID] {
			roots = append(roots, uuid.UUID(r.Spec.ID))
		}
		delete(needed, r.Spec.ID)
		for _, n := range r.Spec.Needs {
			needed[n.Job] = true
		}
		return nil
	})
	slices.Reverse(roots)
	return roots, err
}

// DeleteJob deletes a job, and of what it depends on whatever nothing else does, down to the last; a job that others depend on stays,
// and so does all below it. A job that runs is cancelled first, and its token is good no more. Error: Errors.NotExist.
func (q *JobQueue[W]) DeleteJob(ctx context.Context, id uuid.UUID) error {
	r, err := q.record(ctx, id)
	if err != nil {
		return err
	}
	todo := []*job.Record{r}
	for len(todo) > 0 {
		r := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		deleted, err := q.delete(ctx, r)
		if err != nil {
			return err
		}
		if !deleted {
			continue
		}
		for _, n := range r.Spec.Needs {
			below, err := q.record(ctx, uuid.UUID(n.Job))
			switch {
			case err == nil:
				todo = append(todo, below)
			case !errors.Is(err, q.errs.NotExist):
				return err
			}
		}
	}
	return nil
}

// delete deletes a job that nothing depends on, and reports whether it did.
func (q *JobQueue[W]) delete(ctx context.Context, r *job.Record) (bool, error) {
	after, err := q.dependents(ctx, r.Spec.ID)
	if err != nil || len(after) > 0 {
		return false, err
	}
	if r.End == nil {
		if err := q.CancelJob(uuid.UUID(r.Spec.ID)); err != nil && !errors.Is(err, q.errs.NotExist) && !errors.Is(err, q.errs.NotRunning) {
			return false, err
		}
	}
	// Nobody is told any more that it was cancelled: it is over.
	if err := q.letGo(ctx, r.Spec.ID); err != nil {
		return false, err
	}
	err = steadily(ctx, func(ctx context.Context) error { return q.engine.DeleteJob(ctx, r.Spec.ID) })
	switch {
	case errors.Is(err, job.ErrBusy): // something that depends on it has just been enqueued
		return false, nil
	case errors.Is(err, queue.ErrNotFound): // by another
		return true, nil
	}
	return err == nil, err
}

// Expire deletes the jobs that were enqueued before the given time, have ended, and that no job depends on which stays: of a graph
// whose last job is not old enough, or has not ended, nothing goes. It gives how many went, or would go if dry.
func (q *JobQueue[W]) Expire(ctx context.Context, before time.Time, dry bool) (int, error) {
	gone := 0
	limit := job.At(before)
	needed := map[job.ID]bool{}
	err := q.each(ctx, func(r *job.Record) error {
		stays := needed[r.Spec.ID] || r.End == nil || r.Held || r.At >= limit
		delete(needed, r.Spec.ID)
		if !stays && !dry {
			deleted, err := q.delete(ctx, r)
			if err != nil {
				return err
			}
			stays = !deleted
		}
		if !stays {
			gone++
			return nil
		}
		for _, n := range r.Spec.Needs {
			needed[n.Job] = true
		}
		return nil
	})
	return gone, err
}
