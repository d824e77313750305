package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/job"
)

// Assignment is an attempt handed to a worker.
type Assignment struct {
	Lease job.Lease
	// Spec is the job with its Args.
	Spec   job.Spec
	Start  time.Time
	TTL    time.Duration // of the lease; renew it at a third of that
	Limits job.Limits
	// Stop is closed when the attempt is to be stopped: it was cancelled, ran over a limit, or lost its lease.
	// The worker confirms by Finish, which then reports ErrLeaseLost and frees the slot.
	Stop <-chan struct{}
}

// waiter is a worker's Lease call that has not been served.
type waiter struct {
	name    string
	session job.ID
	want    int
	load    float64
	ready   bool // it takes what is ready, and does not wait
	got     []*grant
	reply   chan granted
	settled bool
	state   atomic.Int32 // waits, served or gone
}

// What becomes of a waiter: its caller and the owner may decide that at the same moment, and the first does.
const (
	waits = iota
	served
	gone // its caller gave up
)

// serve reports whether the waiter may be given something: from then on its caller waits for that.
func (w *waiter) serve() bool { return len(w.got) > 0 || w.state.CompareAndSwap(waits, served) }

type granted struct {
	got []*grant
	err error
}

// grant is an assignment but for what the store holds.
type grant struct {
	Assignment
	stop *stopper
}

// settle never blocks: a waiter is settled once, into a buffer of one.
func (w *waiter) settle(got []*grant, err error) {
	if !w.settled {
		w.settled = true
		w.reply <- granted{got, err}
	}
}

// stopper tells a worker to stop an attempt.
type stopper struct {
	attempt int32
	once    sync.Once
	c       chan struct{}
}

func (s *stopper) close() { s.once.Do(func() { close(s.c) }) }

// drop forgets the attempt without telling the worker.
func (s *stopper) drop() { s.once.Do(func() {}) }

// Lease waits until jobs are ready that the worker may run, and takes up to want of them. session is the one that it
// registered with. It reports ctx's error if ctx ends first, and at once unless it is just being served; ErrNotFound if the worker is unknown,
// job.ErrWorkerLive if another session has taken the name, job.ErrSignedOff if this one is over, *RetryError if the owner
// stepped down; each of them at once, if what it tells of happens while the call waits.
func (q *Queue) Lease(ctx context.Context, name string, session job.ID, want int, load float64) ([]Assignment, error) {
	return q.leaseAs(ctx, &waiter{name: name, session: session, want: want, load: load})
}

// LeaseReady is a Lease that does not wait: it gives what is ready for the worker, up to want jobs, which may be none.
func (q *Queue) LeaseReady(ctx context.Context, name string, session job.ID, want int, load float64) ([]Assignment, error) {
	return q.leaseAs(ctx, &waiter{name: name, session: session, want: want, load: load, ready: true})
}

func (q *Queue) leaseAs(ctx context.Context, w *waiter) ([]Assignment, error) {
	if w.want < 1 {
		return nil, &job.InvalidError{Field: "want", Want: "at least 1"}
	}
	w.want, w.reply = min(w.want, job.MaxSlots), make(chan granted, 1)
	if err := q.volatile(ctx, func(r *round) error { return r.enlist(w) }); err != nil {
		return nil, err
	}
	var g granted
	select {
	case g = <-w.reply:
	case <-q.done:
		select {
		case g = <-w.reply:
		default:
			g.err = q.end
		}
	case <-ctx.Done():
		if w.state.CompareAndSwap(waits, gone) {
			q.forget(w)
			return nil, ctx.Err()
		}
		g = q.awaitServed(w)
	}
	if g.err != nil {
		return nil, g.err
	}
	return q.complete(ctx, g.got)
}

// Take starts a job that is ready for a worker, out of turn; it does not wait. It reports ErrNotFound if the worker is unknown;
// job.ErrNotReady if there is no such job, it is not ready, or the worker cannot have it now; and what Lease does of the session. Once the
// job has been started it is given, whatever becomes of ctx.
func (q *Queue) Take(ctx context.Context, name string, session, id job.ID) (Assignment, error) {
	e := &errand{call: call{command: command{name: "take a job"}, ctx: ctx, reply: make(chan answer, 1)}}
	e.decide = func(r *round) ([]job.Change, any, error) {
		if !e.begin() {
			return nil, nil, errVolatile
		}
		return r.take(name, session, id)
	}
	v, err := q.deliver(ctx, e)
	if err != nil {
		return Assignment{}, err
	}
	got, err := q.complete(ctx, []*grant{v.(*grant)})
	if err != nil {
		return Assignment{}, err
	}
	return got[0], nil
}

func (r *round) take(name string, session, id job.ID) ([]job.Change, any, error) {
	q := r.q
	if err := q.machine.Saw(name, session, r.at.Now); err != nil {
		return nil, nil, fmt.Errorf("worker %q: %w", name, err)
	}
	j, ok := q.machine.Job(id)
	if !ok || !q.sched.Free(j, name) {
		return nil, nil, job.ErrNotReady
	}
	changes, err := q.machine.Start(r.at, id, name, q.NewToken())
	if err != nil {
		return nil, nil, err
	}
	a := changes[0].(job.JobStarted).Attempt
	return changes, q.grant(j, &a), nil
}

// forget tells the owner of a waiter whose caller gave up. It does not wait for him, who may stand before his store: until he hears of it he
// serves nobody who is gone, and finds out.
func (q *Queue) forget(w *waiter) {
	c := &call{ctx: context.Background(), reply: make(chan answer, 1)}
	c.decide = func(*round) ([]job.Change, any, error) {
		q.want(w.name)
		return nil, nil, errVolatile
	}
	select {
	case q.calls <- c:
	default:
	}
}

// awaitServed gives what a waiter is served, once that is stored or cannot be.
func (q *Queue) awaitServed(w *waiter) granted {
	select {
	case g := <-w.reply:
		return g
	case <-q.done:
		select {
		case g := <-w.reply:
			return g
		default:
			return granted{err: q.end}
		}
	}
}

// enlist makes a worker wait.
func (r *round) enlist(w *waiter) error {
	q := r.q
	if err := q.machine.Saw(w.name, w.session, r.at.Now); err != nil {
		return fmt.Errorf("worker %q: %w", w.name, err)
	}
	q.waiters[w.name] = append(q.waiters[w.name], w)
	q.want(w.name)
	if w.ready {
		// The round matches before it is finished, and takes back nobody whom it has served.
		r.after = append(r.after, func(err error) { q.dismiss(w, err) })
	}
	return nil
}

// want tells the scheduler for how many jobs the worker waits in all.
func (q *Queue) want(name string) {
	n, load := 0, 0.0
	q.waiters[name] = slices.DeleteFunc(q.waiters[name], func(w *waiter) bool { return w.state.Load() == gone })
	for _, w := range q.waiters[name] {
		n += w.want - len(w.got)
		load = max(load, w.load)
	}
	if len(q.waiters[name]) == 0 {
		delete(q.waiters, name)
	}
	q.sched.Want(name, n, load)
}

// dismiss takes a waiter back.
func (q *Queue) dismiss(w *waiter, err error) {
	list := q.waiters[w.name]
	for i := range list {
		if list[i] == w && len(w.got) == 0 {
			q.waiters[w.name] = append(list[:i:i], list[i+1:]...)
			q.want(w.name)
			w.settle(nil, err)
			return
		}
	}
}

// evict ends the waiting of those sessions of the worker that are over: what they were given would be lost. Commands are
// decided before jobs are matched, so that no waiter has been given one in this round.
func (r *round) evict(name string, over func(session job.ID) bool, why error) {
	q := r.q
	list := q.waiters[name]
	stay := make([]*waiter, 0, len(list))
	for _, w := range list {
		if !over(w.session) {
			stay = append(stay, w)
			continue
		}
		err := fmt.Errorf("worker %q: %w", name, why)
		r.after = append(r.after, func(failed error) { w.settle(nil, or(failed, err)) })
	}
	if len(stay) < len(list) {
		q.waiters[name] = stay
		q.sched.Update() // it may not know the worker yet, or any more
		q.want(name)
	}
}

// grant makes what a worker is given of an attempt.
func (q *Queue) grant(j *job.Job, a *job.Attempt) *grant {
	s := q.stops[j.ID()]
	if s == nil || s.attempt != a.Number {
		s = &stopper{attempt: a.Number, c: make(chan struct{})}
		q.stops[j.ID()] = s
	}
	return &grant{stop: s, Assignment: Assignment{
		Lease:  job.Lease{Job: j.ID(), Attempt: a.Number, Token: a.Token},
		Start:  a.Start.Std(),
		TTL:    q.machine.Channel(j.Class().Channel).TTL,
		Limits: a.Limits,
		Stop:   s.c,
	}}
}

// next gives the worker's first waiter that wants more; nil: those that did are gone.
func (q *Queue) next(name string) *waiter {
	for _, w := range q.waiters[name] {
		if len(w.got) < w.want && w.serve() {
			return w
		}
	}
	q.want(name)
	return nil
}

// assign gives a started job to a waiter, and serves it after the commit.
func (q *Queue) assign(r *round, j *job.Job, w *waiter) {
	if w.got = append(w.got, q.grant(j, j.Attempt())); len(w.got) == 1 {
		r.after = append(r.after, func(err error) { q.serveWaiter(w, err) })
	}
	q.want(w.name)
}

// serveWaiter hands over what a waiter got in the round.
func (q *Queue) serveWaiter(w *waiter, err error) {
	list := q.waiters[w.name]
	for i := range list {
		if list[i] == w {
			q.waiters[w.name] = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	q.want(w.name)
	if err != nil {
		w.settle(nil, err)
		return
	}
	w.settle(w.got, nil)
}

// stop tells the worker of an attempt, if it is one of this owner's, that it is over, once that is stored.
func (r *round) stop(id job.ID, attempt int32) {
	q := r.q
	s := q.stops[id]
	if s == nil || s.attempt != attempt {
		return
	}
	delete(q.stops, id)
	r.after = append(r.after, func(err error) {
		if err == nil {
			s.close()
		}
	})
}

// Beat renews one lease.
type Beat struct {
	Lease job.Lease
	// Output is when the attempt last gave a sign of output; zero: not known. An attempt of which none was ever told has
	// its silence judged by its worker alone.
	Output time.Time
}

// Heartbeat renews leases. It gives one error for each, in order: nil, or job.ErrLeaseLost, after which the worker
// stops the attempt and confirms by Finish. It costs no commit of its own, but a lease is not called lost before what took it
// is stored.
func (q *Queue) Heartbeat(ctx context.Context, beats ...Beat) ([]error, error) {
	beats = slices.Clone(beats)
	var errs []error
	err := q.volatile(ctx, func(r *round) (lost error) {
		errs = make([]error, len(beats))
		for i, b := range beats {
			if errs[i] = q.machine.Renew(r.at.Now, b.Lease, q.shows(b.Output)); errs[i] != nil {
				lost = errLost
			}
		}
		return lost
	})
	if err != nil && !errors.Is(err, errLost) {
		return nil, err
	}
	return errs, nil
}

// errLost says that at least one lease was lost.
var errLost = errors.New("lost")

// Finish ends an attempt. job.ErrLeaseLost: it counted for nothing, as the lease was lost or the job cancelled; if the
// attempt was being stopped, this confirms that it is over. A repeated finish with the same outcome succeeds, even if the next
// attempt has begun, and changes nothing. job.ErrBusy: the attempt runs, and its worker was heard of within Report.Silent.
func (q *Queue) Finish(ctx context.Context, f job.Report) error {
	query := func(m *job.Machine, query *Query) {
		j, ok := m.Job(f.Lease.Job)
		if !ok {
			query.Jobs = append(query.Jobs, f.Lease.Job)
		}
		if !ok || j.Attempt() != nil && j.Attempt().Number != f.Lease.Attempt {
			query.Leases = append(query.Leases, f.Lease)
		}
	}
	f.Result = bytes.Clone(f.Result)
	lost, err := do(ctx, q, command{name: "finish an attempt", query: query}, func(r *round) ([]job.Change, bool, error) {
		return r.q.machine.Finish(r.at, f, &r.found.Facts)
	})
	if err == nil && lost {
		return job.ErrLeaseLost
	}
	return err
}

// Progress stores a partial result of a running attempt; job.ErrLeaseLost if it runs no more.
func (q *Queue) Progress(ctx context.Context, l job.Lease, result []byte) error {
	result = bytes.Clone(result)
	return change(ctx, q, command{name: "store a partial result"}, func(r *round) ([]job.Change, error) {
		return r.q.machine.Progress(r.at.Now, l, result)
	})
}

// Lost lists the running attempts of a channel whose worker has not been heard of for longer than the given time, or of all
// channels whose caller judges lost leases, if it is job.AnyChannel. Who judges one lost says so by Finish, with Aborted and LeaseLost.
func (q *Queue) Lost(ctx context.Context, channel string, silent time.Duration) ([]job.Lease, error) {
	return ask(ctx, q, func(r *round) ([]job.Lease, error) {
		var list []job.Lease
		for _, j := range q.machine.Lost(channel, r.at.Now, silent) {
			a := j.Attempt()
			list = append(list, job.Lease{Job: j.ID(), Attempt: a.Number, Token: a.Token})
		}
		return list, nil
	})
}
