package composer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
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
// not at all. More are all cancelled first, then they go from the bottom up, the job itself last: until it is gone, to repeat the call
// finishes what was cut off; what is enqueued meanwhile on one of them finds that cancelled. Error: Errors.NotExist.
func (q *JobQueue[W]) DeleteJob(ctx context.Context, id uuid.UUID) error {
	r, err := q.record(ctx, id)
	if err != nil {
		return err
	}
	for {
		deleted, err := q.alone(ctx, func() (bool, error) {
			g, err := q.below(ctx, r)
			if err != nil || len(g.jobs) == 0 {
				return true, err
			}
			if len(g.jobs) <= queue.DeleteMost {
				return q.delete(ctx, nil, g.jobs)
			}
			return q.dismantle(ctx, g)
		})
		if err != nil || deleted {
			return err
		}
		// Something that depends on one of them has just been enqueued: of them fewer may go now.
	}
}

// alone calls f while nobody else deletes: what a job that goes leaves for the other dependents of a dependency would be left by them, too,
// if they went at the same time.
func (q *JobQueue[W]) alone(ctx context.Context, f func() (bool, error)) (bool, error) {
	select {
	case q.deleting <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-q.deleting }()
	return f()
}

// whole is a job that nothing depends on, and what depends on nothing but that.
type whole struct {
	jobs  []job.ID            // each after its dependents
	over  map[job.ID][]job.ID // their dependents
	waves [][]job.ID          // what has not ended, so that none depends on another of its wave, or of a later one
}

// below gives a job that nothing depends on, and what depends on nothing but that; nothing, if something depends on the job.
func (q *JobQueue[W]) below(ctx context.Context, root *job.Record) (*whole, error) {
	g := &whole{over: map[job.ID][]job.ID{}}
	wave := map[job.ID]int{}
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
		if slices.ContainsFunc(after, func(d job.ID) bool { _, among := wave[d]; return !among }) {
			continue
		}
		g.add(r, after, wave)
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
	return g, nil
}

func (g *whole) add(r *job.Record, dependents []job.ID, wave map[job.ID]int) {
	id, n := r.Spec.ID, 0
	for _, d := range dependents {
		n = max(n, wave[d]+1)
	}
	wave[id] = n
	g.jobs, g.over[id] = append(g.jobs, id), dependents
	if r.End != nil {
		return
	}
	for len(g.waves) <= n {
		g.waves = append(g.waves, nil)
	}
	g.waves[n] = append(g.waves[n], id)
}

// delete deletes jobs, each after its dependents but those above, and reports whether it did: not, if something else depends on one of them.
func (q *JobQueue[W]) delete(ctx context.Context, above, jobs []job.ID) (bool, error) {
	err := repeatedly(ctx, func(ctx context.Context) error { return q.engine.DeleteUnder(ctx, above, jobs...) })
	if errors.Is(err, job.ErrBusy) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, id := range jobs {
		q.stopped.over(id)
	}
	return true, nil
}

// dismantle deletes more than goes at once. All is cancelled before, from the top, or what is left would be released and run.
func (q *JobQueue[W]) dismantle(ctx context.Context, g *whole) (bool, error) {
	for _, wave := range g.waves {
		for part := range slices.Chunk(wave, queue.DeleteMost) {
			if err := q.cancelAll(ctx, part); err != nil {
				return false, err
			}
		}
	}
	for n := len(g.jobs); n > 0; {
		part := g.jobs[max(0, n-queue.DeleteMost):n]
		n -= len(part)
		var above []job.ID
		for _, id := range part {
			above = append(above, g.over[id]...)
		}
		if deleted, err := q.delete(ctx, above, part); !deleted {
			return false, err
		}
	}
	return true, nil
}

// cancelAll cancels jobs together, so that a round of the engine may take many.
func (q *JobQueue[W]) cancelAll(ctx context.Context, ids []job.ID) error {
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			err := repeatedly(ctx, func(ctx context.Context) error { return q.engine.CancelJob(ctx, id, job.ID{}, true, "deleted") })
			if !errors.Is(err, job.ErrEnded) && !errors.Is(err, queue.ErrNotFound) {
				errs[i] = err
			}
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}

// Expire deletes the jobs that were enqueued before the given time, have ended, and that no job depends on which stays: of a graph
// whose last job is not old enough, or of which any has not ended, nothing goes. It gives how many went, or would go if dry.
func (q *JobQueue[W]) Expire(ctx context.Context, before time.Time, dry bool) (int, error) {
	limit := job.At(before)
	gone := map[job.ID]bool{}
	err := q.each(ctx, func(r *job.Record) error {
		id := r.Spec.ID
		goes := r.End != nil && !r.Held && r.At < limit
		if goes {
			var err error
			if goes, err = q.settled(ctx, r); err != nil {
				return err
			}
		}
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
			if goes, err = q.alone(ctx, func() (bool, error) { return q.delete(ctx, nil, []job.ID{id}) }); err != nil {
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

// settled reports whether all has ended that a job depends on which has, down to the last.
func (q *JobQueue[W]) settled(ctx context.Context, r *job.Record) (bool, error) {
	seen := map[job.ID]bool{}
	for todo := []*job.Record{r}; len(todo) > 0; {
		var ids []job.ID
		for _, r := range todo {
			if r.Last != nil {
				continue // it was begun, and so all had ended by then
			}
			for _, n := range r.Spec.Needs {
				if !seen[n.Job] {
					seen[n.Job] = true
					ids = append(ids, n.Job)
				}
			}
		}
		todo = nil
		for part := range slices.Chunk(ids, page) {
			f := queue.JobFilter{IDs: part, Limit: page}
			list, err := look(ctx, q.engine, func(ctx context.Context) ([]job.Record, error) { return q.history.Jobs(ctx, f) })
			if err != nil {
				return false, err
			}
			for i := range list {
				if list[i].End == nil {
					return false, nil
				}
				todo = append(todo, &list[i])
			}
		}
	}
	return true, nil
}
