package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/headrace/headrace/job"
)

// Round gives the number of the last stored round: the place from which a watcher sees what comes next.
func (q *Queue) Round() uint64 { return q.round.Load() }

// Watch calls f with each stored round after the given number, in order, without gap or repeat, until f gives an error
// or ctx ends; it reports that error. A *FeedGapError, which is an ErrFeedTruncated: what comes next is gone; start again
// from a snapshot, or watch on after its Next. ErrFeedAhead: there is no such place yet, so that it is another store's.
func (q *Queue) Watch(ctx context.Context, after uint64, f func(Round) error) error {
	const page = 256
	for {
		news := *q.news.Load()
		rounds, err := q.feed(ctx, after, page, news)
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
		if after > q.round.Load() {
			if err := q.known(ctx, after); err != nil {
				return err
			}
		}
		if err := wait(ctx, q, news); err != nil {
			return err
		}
	}
}

// glance is what the feed has after a place, until there is news: most who watch stand at the newest round, and all of them look at once.
type glance struct {
	after  uint64
	news   <-chan struct{}
	done   chan struct{} // closed when the rest is set
	rounds []Round
	err    error
}

// errUnread: whoever began to read did not come to an end.
var errUnread = errors.New("unread")

// serves reports whether it is what stands after that place, as of those news.
func (g *glance) serves(after uint64, news <-chan struct{}) bool {
	return g != nil && g.after == after && g.news == news
}

// large reports whether it is too much to be kept until there is news.
func (g *glance) large() bool {
	const most = 1 << 14
	changes := 0
	for i := range g.rounds {
		changes += len(g.rounds[i].Changes)
	}
	return changes > most
}

// feed reads what the feed has after a place, or waits for somebody who does.
func (q *Queue) feed(ctx context.Context, after uint64, limit int, news <-chan struct{}) ([]Round, error) {
	g := q.glance.Load()
	if !g.serves(after, news) {
		mine := &glance{after: after, news: news, done: make(chan struct{}), err: errUnread}
		if q.glance.CompareAndSwap(g, mine) {
			defer close(mine.done)
			mine.rounds, mine.err = q.Store.Feed(ctx, after, limit)
			if mine.large() {
				q.glance.CompareAndSwap(mine, nil)
			}
			return mine.rounds, mine.err
		}
		g = q.glance.Load()
	}
	if g.serves(after, news) {
		select {
		case <-g.done:
			if g.err == nil {
				return g.rounds, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return q.Store.Feed(ctx, after, limit)
}

// known reports ErrFeedAhead for a place that the owner does not know. It may have to load first.
func (q *Queue) known(ctx context.Context, place uint64) error {
	number, err := ask(ctx, q, func(*round) (uint64, error) { return q.number, nil })
	var again *RetryError
	if err == nil && place > number {
		return fmt.Errorf("watch after %d: the store is at %d: %w", place, number, ErrFeedAhead)
	}
	if errors.As(err, &again) {
		return nil // the owner stepped down; it will tell when it is back
	}
	return err
}

// wait blocks until the next round is stored.
func wait(ctx context.Context, q *Queue, news <-chan struct{}) error {
	select {
	case <-news:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-q.done:
		return q.end
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
		c := q.awaited.join(id)
		waits, err := ask(ctx, q, func(*round) (bool, error) { return live(), nil })
		if err == nil && waits {
			err = wait(ctx, q, c)
		}
		q.awaited.leave(id, c)
		if err != nil || !waits {
			return err
		}
	}
}

// awaited holds those who wait for the end of a job or build. Its zero value holds nobody.
type awaited struct {
	mu   sync.Mutex
	byID map[job.ID]map[chan struct{}]struct{}
}

// join gives what is closed when the job or build has ended, or the owner steps down.
func (a *awaited) join(id job.ID) chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := make(chan struct{})
	if a.byID == nil {
		a.byID = map[job.ID]map[chan struct{}]struct{}{}
	}
	if a.byID[id] == nil {
		a.byID[id] = map[chan struct{}]struct{}{}
	}
	a.byID[id][c] = struct{}{}
	return c
}

// leave takes back what join gave: nothing is kept of who gave up.
func (a *awaited) leave(id job.ID, c chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if delete(a.byID[id], c); len(a.byID[id]) == 0 {
		delete(a.byID, id)
	}
}

// wake tells those who wait for it to look.
func (a *awaited) wake(id job.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.byID[id] {
		close(c)
	}
	delete(a.byID, id)
}

func (a *awaited) wakeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, all := range a.byID {
		for c := range all {
			close(c)
		}
	}
	a.byID = nil
}
