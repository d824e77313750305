package queue

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/job"
)

// readPatience is how long a failing read of what was leased is repeated before the attempt is handed back.
const readPatience = 10 * time.Second

// complete reads what the owner does not keep in memory: the jobs' contents. An attempt whose job cannot be read is handed
// back, as nobody would ever run it; what can be read is given.
func (q *Queue) complete(ctx context.Context, got []*grant) ([]Assignment, error) {
	specs, err := q.contents(ctx, got)
	out := make([]Assignment, 0, len(got))
	var failed error
	for _, g := range got {
		if spec := specs[g.Lease.Job]; spec != nil {
			g.Spec = *spec
			out = append(out, g.Assignment)
			continue
		}
		why := err
		if why == nil {
			why = ErrNotFound
		}
		failed = fmt.Errorf("lease: job %s: %w", g.Lease.Job, why)
		q.handBack(ctx, g.Lease, why)
	}
	if len(out) == 0 && failed != nil {
		return nil, &RetryError{Cause: failed}
	}
	return out, nil
}

// readAtOnce is how many jobs one question to the store is about: enough that the way there does not count.
const readAtOnce = 1000

// contents gives the jobs of a lease as they were asked for, with their Args: those that it remembers, and those that it can
// read. The error is why some are left out, unless they are not there.
func (q *Queue) contents(ctx context.Context, got []*grant) (map[job.ID]*job.Spec, error) {
	specs := make(map[job.ID]*job.Spec, len(got))
	var missing []job.ID
	for _, g := range got {
		id := g.Lease.Job
		if specs[id] = q.specs.take(id); specs[id] == nil {
			missing = append(missing, id)
		}
	}
	deadline := time.Now().Add(readPatience)
	for ids := range slices.Chunk(missing, readAtOnce) {
		recs, err := q.read(ctx, ids, deadline)
		if err != nil {
			return specs, err
		}
		for i := range recs {
			specs[recs[i].Spec.ID] = &recs[i].Spec
		}
	}
	return specs, nil
}

// read reads jobs, until the deadline again and again if the store fails.
func (q *Queue) read(ctx context.Context, ids []job.ID, deadline time.Time) ([]job.Record, error) {
	filter := JobFilter{IDs: ids, Args: true, Limit: len(ids)}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		// The last look is worth its while even if the caller has given up: else the attempt is for nothing.
		recs, err := q.History.Jobs(context.WithoutCancel(ctx), filter)
		if err == nil || !time.Now().Add(pause).Before(deadline) {
			return recs, err
		}
		q.Log.Warn("leased jobs cannot be read; trying again", "jobs", len(ids), "err", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-q.done:
			return nil, err
		case <-time.After(pause):
		}
	}
}

// handBack ends an attempt that never began. If that fails, too, its lease runs out.
func (q *Queue) handBack(ctx context.Context, l job.Lease, why error) {
	f := job.Report{Lease: l, Outcome: job.Aborted, Detail: job.HandedBack, Message: "the job could not be read: " + why.Error()}
	if errors.Is(why, ErrNotFound) {
		f.Detail = 0 // it counts as an attempt: a record that is set aside does not come back
	}
	if err := q.Finish(context.WithValue(context.WithoutCancel(ctx), requestKey{}, nil), f); err != nil {
		q.Log.Warn("an attempt cannot be handed back", "job", l.Job, "err", err)
	}
}

// specCache remembers what was submitted lately, as it is often leased soon: it spares the owner's readers the store.
// It is a cache, not state: it holds at most so many bytes, the oldest go first.
type specCache struct {
	mu    sync.Mutex
	room  int
	order *list.List // of *job.Spec, oldest first
	byID  map[job.ID]*list.Element
}

func newSpecCache(room int) *specCache {
	return &specCache{room: room, order: list.New(), byID: map[job.ID]*list.Element{}}
}

func specSize(s *job.Spec) int {
	return 400 + len(s.Args) + len(s.Name) + len(s.Key) + 24*len(s.Needs) + 24*len(s.Features)
}

func (c *specCache) put(s *job.Spec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room -= specSize(s)
	c.byID[s.ID] = c.order.PushBack(s)
	for c.room < 0 {
		c.remove(c.order.Front())
	}
}

func (c *specCache) remove(e *list.Element) *job.Spec {
	s := c.order.Remove(e).(*job.Spec)
	delete(c.byID, s.ID)
	c.room += specSize(s)
	return s
}

// take gives a job and forgets it: it is rarely leased twice.
func (c *specCache) take(id job.ID) *job.Spec {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byID[id]; e != nil {
		return c.remove(e)
	}
	return nil
}
