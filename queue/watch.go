package queue

import (
	"context"

	"github.com/headrace/headrace/job"
)

// Round gives the number of the last stored round: the place from which a watcher sees what comes next.
func (q *Queue) Round() uint64 { return q.round.Load() }

// Watch calls f with each stored round after the given number, in order, without gap or repeat, until f gives an error
// or ctx ends; it reports that error. ErrFeedTruncated: the place is gone; start again from a snapshot.
func (q *Queue) Watch(ctx context.Context, after uint64, f func(Round) error) error {
	const page = 256
	for {
		news := *q.news.Load()
		rounds, err := q.Store.Feed(ctx, after, page)
		if err != nil {
			return err
		}
		for _, r := range rounds {
			if err := f(r); err != nil {
				return err
			}
			after = r.Number
		}
		if len(rounds) == page {
			continue
		}
		if err := wait(ctx, q, news); err != nil {
			return err
		}
	}
}

// wait blocks until the next round is stored.
func wait(ctx context.Context, q *Queue, news <-chan struct{}) error {
	select {
	case <-news:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-q.done:
		return ErrClosed
	}
}

// AwaitBuild waits until the build has ended, and gives its record.
func (q *Queue) AwaitBuild(ctx context.Context, id job.ID) (job.BuildRecord, error) {
	live := func() bool { _, ok := q.machine.Build(id); return ok }
	if err := q.await(ctx, id, live); err != nil {
		return job.BuildRecord{}, err
	}
	recs, err := q.History.Builds(ctx, BuildFilter{IDs: []job.ID{id}})
	switch {
	case err != nil:
		return job.BuildRecord{}, err
	case len(recs) == 0:
		return job.BuildRecord{}, ErrNotFound
	}
	return recs[0], nil
}

// AwaitJob waits until the job is Done, and gives its record.
func (q *Queue) AwaitJob(ctx context.Context, id job.ID) (job.Record, error) {
	live := func() bool {
		j, ok := q.machine.Job(id)
		if !ok {
			return false
		}
		_, done := j.State().(job.Done)
		return !done
	}
	if err := q.await(ctx, id, live); err != nil {
		return job.Record{}, err
	}
	recs, err := q.History.Jobs(ctx, JobFilter{IDs: []job.ID{id}})
	switch {
	case err != nil:
		return job.Record{}, err
	case len(recs) == 0:
		return job.Record{}, ErrNotFound
	}
	return recs[0], nil
}

// await blocks while live, which is asked in the owner's goroutine, says so.
func (q *Queue) await(ctx context.Context, id job.ID, live func() bool) error {
	for {
		c := make(chan struct{})
		waits, err := ask(ctx, q, func(*round) (bool, error) {
			if !live() {
				return false, nil
			}
			q.awaited[id] = append(q.awaited[id], c)
			return true, nil
		})
		if err != nil || !waits {
			return err
		}
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		case <-q.done:
			return ErrClosed
		}
	}
}

// wake tells those who wait for the end of a job or build to look.
func (q *Queue) wake(id job.ID) {
	for _, c := range q.awaited[id] {
		close(c)
	}
	delete(q.awaited, id)
}
