package composer

import (
	"cmp"
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
// and so does all below it. Whatever runs of that is cancelled, and its token is good no more. Up to queue.DeleteMost jobs go at once or
// not at all; of more the last go first. Error: Errors.NotExist.
func (q *JobQueue[W]) DeleteJob(ctx context.Context, id uuid.UUID) error {
	r, err := q.record(ctx, id)
	if err != nil {
		return err
	}
	for {
		graph, err := q.alone(ctx, r)
		if err != nil {
			return err
		}
		deleted, err := q.delete(ctx, graph)
		if err != nil || deleted || len(graph) == 0 {
			return err
		}
		// Something that depends on one of them has just been enqueued: of them fewer may go now.
	}
}

// alone gives a job that nothing depends on, and what depends on nothing but that, each after its dependents; none, if something
// depends on the job.
func (q *JobQueue[W]) alone(ctx context.Context, root *job.Record) ([]job.ID, error) {
	var graph []job.ID
	among := map[job.ID]bool{}
	seen := map[job.ID]bool{root.Spec.ID: true}
	// A job is newer than what it depends on: once it is the newest that is left, all that depends on it has been looked at.
	for todo := []*job.Record{root}; len(todo) > 0; {
		slices.SortFunc(todo, func(a, b *job.Record) int { return cmp.Compare(a.Seq, b.Seq) })
		r := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		after, err := q.dependents(ctx, r.Spec.ID)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(after, func(d job.ID) bool { return !among[d] }) {
			continue
		}
		among[r.Spec.ID] = true
		graph = append(graph, r.Spec.ID)
		for _, n := range r.Spec.Needs {
			if seen[n.Job] {
				continue
			}
			seen[n.Job] = true
			below, err := q.record(ctx, uuid.UUID(n.Job))
			switch {
			case err == nil:
				todo = append(todo, below)
			case !errors.Is(err, q.errs.NotExist):
				return nil, err
			}
		}
	}
	return graph, nil
}

// delete deletes jobs, each after its dependents, and reports whether it did: not, if something else depends on one of them.
func (q *JobQueue[W]) delete(ctx context.Context, graph []job.ID) (bool, error) {
	for part := range slices.Chunk(graph, queue.DeleteMost) {
		err := repeatedly(ctx, func(ctx context.Context) error { return q.engine.DeleteJobs(ctx, part...) })
		if errors.Is(err, job.ErrBusy) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// Expire deletes the jobs that were enqueued before the given time, have ended, and that no job depends on which stays: of a graph
// whose last job is not old enough, or has not ended, nothing goes. It gives how many went, or would go if dry.
func (q *JobQueue[W]) Expire(ctx context.Context, before time.Time, dry bool) (int, error) {
	limit := job.At(before)
	gone := map[job.ID]bool{}
	err := q.each(ctx, func(r *job.Record) error {
		id := r.Spec.ID
		goes := r.End != nil && !r.Held && r.At < limit
		switch {
		case !goes:
		case dry:
			// The engine would refuse. Not all that depends on it need be listed: what cannot be read is not.
			after, err := q.dependents(ctx, id)
			if err != nil {
				return err
			}
			goes = !slices.ContainsFunc(after, func(d job.ID) bool { return !gone[d] })
		default:
			var err error
			if goes, err = q.delete(ctx, []job.ID{id}); err != nil {
				return err
			}
		}
		if goes {
			gone[id] = true
		}
		return nil
	})
	return len(gone), err
}
