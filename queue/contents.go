package queue

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headrace/headrace/job"
)

// readPatience is how long a failing read of what was leased is repeated before the attempt is handed back.
const readPatience = 10 * time.Second

// complete reads what the owner does not keep in memory: the jobs' contents. An attempt whose job cannot be read is handed
// back, as nobody would ever run it; what can be read is given.
func (q *Queue) complete(ctx context.Context, got []*grant) ([]Assignment, error) {
	out := make([]Assignment, 0, len(got))
	var failed error
	deadline := time.Now().Add(readPatience)
	for _, g := range got {
		spec, err := q.read(ctx, g.Lease.Job, deadline)
		if err != nil {
			failed = fmt.Errorf("lease: job %s: %w", g.Lease.Job, err)
			q.handBack(ctx, g.Lease, err)
			continue
		}
		g.Spec = *spec
		out = append(out, g.Assignment)
	}
	if len(out) == 0 && failed != nil {
		return nil, &RetryError{Cause: failed}
	}
	return out, nil
}

// read reads a job, until the deadline again and again if the store fails.
func (q *Queue) read(ctx context.Context, id job.ID, deadline time.Time) (*job.Spec, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		// The last look is worth its while even if the caller has given up: else the attempt is for nothing.
		spec, err := q.spec(context.WithoutCancel(ctx), id)
		if err == nil || errors.Is(err, ErrNotFound) || !time.Now().Add(pause).Before(deadline) {
			return spec, err
		}
		q.Log.Warn("a leased job cannot be read; trying again", "job", id, "err", err)
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

// spec reads a job as it was asked for, with its Args.
func (q *Queue) spec(ctx context.Context, id job.ID) (*job.Spec, error) {
	if s := q.specs.take(id); s != nil {
		return s, nil
	}
	recs, err := q.History.Jobs(ctx, JobFilter{IDs: []job.ID{id}})
	if err != nil {
		return nil, err
	}
	if len(recs) == 0 {
		return nil, ErrNotFound
	}
	p, err := q.History.Payload(ctx, id)
	if err != nil {
		return nil, err
	}
	s := recs[0].Spec
	s.Args = p.Args
	return &s, nil
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
