package composer

import (
	"context"
	"errors"
	"sync"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// handouts knows of which leases callers were told. A lease is stored before its caller hears of it, and the answer may be lost between: the
// owner steps down, or the caller's ctx ends. Such a lease is nobody's, and would keep its job until a watchdog takes it for lost, which
// costs a retry. It is given to the next call in the name of the same worker of the engine that is in doubt, or is handed back once none
// waits any more. What was leased before this process is its holder's.
//
// Several callers share a name; so a lease is the caller's who notes it first. Who comes second to his own has been forestalled by one who
// was in doubt, and asks again.
type handouts struct {
	engine engine

	mu     sync.Mutex
	told   map[job.Token]struct{}
	most   int               // of those, until the ones that are over are forgotten
	doubts map[string]*doubt // by the name of the engine's worker
}

// doubt says that a worker of the engine may have what nobody was told of.
type doubt struct {
	calls int // that wait on, and will look
	news  int // counts the reasons
}

// toldLeast is how many leases are remembered at least before it is looked which of them are over.
const toldLeast = 1024

func newHandouts(e engine) *handouts {
	return &handouts{engine: e, told: map[job.Token]struct{}{}, most: toldLeast, doubts: map[string]*doubt{}}
}

// call is somebody who waits to be given a job.
type call struct {
	h  *handouts
	in *doubt // in which it is; nil: in none
}

// tell notes that a caller is told of a lease, and reports whether he may be: not, if another was.
func (h *handouts) tell(l job.Lease) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.told[l.Token]; ok {
		return false
	}
	h.told[l.Token] = struct{}{}
	if len(h.told) <= h.most {
		return true
	}
	for t := range h.told {
		if _, err := h.engine.LeaseBy(context.Background(), t); errors.Is(err, queue.ErrNotFound) {
			delete(h.told, t)
		}
	}
	h.most = max(toldLeast, 2*len(h.told))
	return true
}

// untell notes that nobody was told of a lease after all. Whoever looked meanwhile found nothing, and was no longer in doubt.
func (h *handouts) untell(name string, l job.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.told, l.Token)
	h.raise(name)
}

// raise gives a worker of the engine a reason for doubt. The caller holds the lock.
func (h *handouts) raise(name string) *doubt {
	d := h.doubts[name]
	if d == nil {
		d = &doubt{}
		h.doubts[name] = d
	}
	d.news++
	return d
}

// inherit takes what a worker of the engine has for told.
func (h *handouts) inherit(name string) error {
	s, _, err := h.engine.Standing(name, nil)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return err
	}
	for _, held := range s.Held {
		h.tell(held.Lease)
	}
	return nil
}

// doubt notes that the call may have been given what it has not heard of.
func (c *call) doubt(name string) {
	c.over()
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	c.in = c.h.raise(name)
	c.in.calls++
}

// over says that the call waits no more.
func (c *call) over() {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if c.in != nil {
		c.in.calls--
		c.in = nil
	}
}

// given gives a job by a lease in the name of a worker of the engine: one of which nobody was told, or else a new one. id is the job that
// it must be; zero: any. Errors: those of lease.
func (c *call) given(ctx context.Context, name string, id job.ID, lease func() (queue.Assignment, error)) (queue.Assignment, error) {
	for {
		got, err := c.h.resume(ctx, name, id)
		if err != nil || !got.Lease.Job.IsZero() {
			return got, err
		}
		got, err = lease()
		var again *queue.RetryError
		switch {
		case errors.As(err, &again):
			c.doubt(name)
			return got, err
		case err != nil || c.h.tell(got.Lease):
			return got, err
		}
	}
}

// untold notes that somebody is told of those leases of a worker of the engine of which nobody was, and that may be is content with. Once
// there is none, there is no doubt any more.
func (h *handouts) untold(name string, may func(*queue.Held) bool) (leases []job.Lease, err error) {
	h.mu.Lock()
	d := h.doubts[name]
	if d == nil {
		h.mu.Unlock()
		return nil, nil
	}
	news := d.news
	h.mu.Unlock()
	s, _, err := h.engine.Standing(name, nil)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	left := false
	for i := range s.Held {
		held := &s.Held[i]
		if _, ok := h.told[held.Lease.Token]; ok {
			continue
		}
		left = true
		if may(held) {
			h.told[held.Lease.Token] = struct{}{}
			leases = append(leases, held.Lease)
		}
	}
	if !left && d.news == news && h.doubts[name] == d {
		delete(h.doubts, name)
	}
	return leases, nil
}

// resume gives one of the leases of which nobody was told; none: a zero one.
func (h *handouts) resume(ctx context.Context, name string, id job.ID) (queue.Assignment, error) {
	for {
		found := false
		leases, err := h.untold(name, func(held *queue.Held) bool {
			if found || held.Stopping || !id.IsZero() && held.Lease.Job != id {
				return false
			}
			found = true
			return true
		})
		if err != nil || len(leases) == 0 {
			return queue.Assignment{}, err
		}
		got, err := h.engine.Resume(ctx, leases...)
		switch {
		case err != nil:
			h.untell(name, leases[0])
			return queue.Assignment{}, err
		case len(got) > 0:
			return got[0], nil
		}
		// It has ended since.
	}
}

// settle hands back what nobody was told of and nobody waits for. What cannot be handed back now is looked at again by the next caller.
func (h *handouts) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	h.mu.Lock()
	var names []string
	for name, d := range h.doubts {
		if d.calls == 0 {
			names = append(names, name)
		}
	}
	h.mu.Unlock()
	for _, name := range names {
		leases, err := h.untold(name, func(*queue.Held) bool { return true })
		if err != nil {
			return
		}
		for _, l := range leases {
			// It costs no attempt. One that was being stopped is over by that.
			f := job.Report{Lease: l, Outcome: job.Aborted, Detail: job.HandedBack, Message: "nobody was told of it"}
			if err := h.engine.Finish(ctx, f); err != nil && !errors.Is(err, job.ErrLeaseLost) {
				h.untell(name, l)
			}
		}
	}
}
