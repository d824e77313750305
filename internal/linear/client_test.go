package linear

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// history is what all clients have asked and were told. Its clock counts: no two moments are one.
type history struct {
	clock atomic.Int64
	given atomic.Int64 // requests that were given up for good

	mu     sync.Mutex
	ops    []porcupine.Operation
	keys   map[job.ID]string
	jobs   []job.ID    // that are known to be there
	leases []job.Lease // that somebody was given
	wrong  []string    // answers that are wrong by themselves
	stored stored      // in the end
	lapses int         // leases that ran out
}

// mostGiven bounds those: each may have happened at any time after, which to judge takes time without bound.
const mostGiven = 3

func (h *history) now() int64 { return h.clock.Add(1) }

// add notes an operation that ended at a moment; the places of one whose end is never are kept.
func (h *history) add(client int, in *asked, call int64, out *told, end int64) (place int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
	return len(h.ops) - 1
}

// close says when operations had ended for sure that nobody was told of.
func (h *history) close(places []int, end int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range places {
		h.ops[p].Return = end
	}
}

func (h *history) complain(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// pick gives one of a list that all clients share.
func pick[T any](h *history, r *rand.Rand, list *[]T) (v T, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(*list) == 0 {
		return v, false
	}
	// Late ones are more interesting.
	from := len(*list) - 1 - int(math.Abs(r.NormFloat64())*4)
	return (*list)[max(from, 0)], true
}

// wished gives the jobs that somebody asked for.
func (h *history) wished() []job.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(maps.Keys(h.keys), func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
}

func (h *history) keyOf(id job.ID) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.keys[id]
}

// client asks one thing after the other.
type client struct {
	*history
	world  *world
	number int
	random *rand.Rand
	made   uint64 // ids

	// A worker has these, too.
	name    string
	session job.ID
	has     []job.Lease
	open    []int // leases that it was not told of
}

func newClient(w *world, h *history, number int) *client {
	return &client{history: h, world: w, number: number, random: rand.New(rand.NewPCG(w.faults.seed, uint64(number)))}
}

// id makes an id that nobody else makes.
func (c *client) id() (id job.ID) {
	c.made++
	binary.BigEndian.PutUint64(id[8:], uint64(c.number)<<32|c.made)
	id[0] = 'l'
	return id
}

// errUnknown says that nobody can tell whether it happened.
var errUnknown = errors.New("unknown")

// try asks once. errUnknown: the owner died or could not store it, or the client did not wait.
func try[T any](c *client, wait time.Duration, f func(context.Context, *reign) (T, error)) (v T, err error) {
	r := c.world.present()
	for !r.begin() {
		r = c.world.present()
	}
	ctx, stop := context.WithTimeout(context.Background(), wait)
	type answer struct {
		v   T
		err error
	}
	got := make(chan answer, 1)
	go func() {
		defer r.calls.Done()
		defer stop()
		v, err := f(ctx, r)
		got <- answer{v, err}
	}()
	select {
	case <-r.died:
		return v, errUnknown
	case a := <-got:
		select {
		case <-r.died: // What it says may be of what is lost.
			return v, errUnknown
		default:
		}
		var retry *queue.RetryError
		if errors.As(a.err, &retry) || errors.Is(a.err, queue.ErrClosed) || errors.Is(a.err, errDead) || errors.Is(a.err, errPlanned) {
			return a.v, errUnknown
		}
		return a.v, a.err
	}
}

// persist asks under one request until there is an answer. Now and then it does not wait for one, or gives up for good.
func persist[T any](c *client, f func(context.Context, *queue.Queue) (T, error)) (v T, again func() (T, error), err error) {
	request := c.id()
	ask := func(wait time.Duration) (T, error) {
		return try(c, wait, func(ctx context.Context, r *reign) (T, error) { return f(queue.WithRequest(ctx, request), r.q) })
	}
	for {
		wait := time.Minute
		if c.random.IntN(8) == 0 {
			wait = time.Duration(c.random.IntN(3000)) * time.Microsecond
		}
		v, err = ask(wait)
		if errors.Is(err, context.DeadlineExceeded) {
			err = errUnknown
		}
		if !errors.Is(err, errUnknown) || c.random.IntN(10) == 0 && c.given.Add(1) <= mostGiven {
			return v, func() (T, error) { return ask(time.Minute) }, err
		}
	}
}

// record asks, and notes what it was told. refusals are the errors that are answers, too.
func record[T any](c *client, in *asked, refusals []error, f func(context.Context, *queue.Queue) (T, error), read func(T, *told)) *told {
	call := c.now()
	v, again, err := persist(c, f)
	out := &told{}
	end := c.now()
	switch {
	case errors.Is(err, errUnknown):
		out.unknown, end = true, math.MaxInt64
	case err != nil && slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) }):
		out.refused = true
	case err != nil:
		c.complain("client %d: %s: %v", c.number, describe(in, out), err)
	default:
		read(v, out)
	}
	c.add(c.number, in, call, out, end)
	// The repeat of an answered request gives the same answer and does nothing. Refusals are not kept.
	if !out.unknown && (!out.refused || in.kind == finish) && c.random.IntN(4) == 0 {
		c.repeat(in, out, func() (*told, error) {
			v, err := again()
			second := &told{refused: err != nil}
			if err == nil {
				read(v, second)
			}
			return second, err
		})
	}
	return out
}

func (c *client) repeat(in *asked, out *told, again func() (*told, error)) {
	second, err := again()
	if errors.Is(err, errUnknown) {
		return
	}
	if *second != *out {
		c.complain("client %d: %s; repeated: %s (%v)", c.number, describe(in, out), describe(in, second), err)
	}
}

type nothing struct{}

func noReply(nothing, *told) {}

const keys = 4

// person submits, cancels and looks.
func (c *client) person(steps int) {
	for range steps {
		id, known := pick(c.history, c.random, &c.jobs)
		switch n := c.random.IntN(10); {
		case n < 5 || !known:
			c.submit(fmt.Sprintf("key%d", c.random.IntN(keys)))
		case n < 7:
			c.cancel(id)
		default:
			c.look(id)
		}
	}
}

func (c *client) submit(key string) {
	in := &asked{kind: submit, key: key, job: c.id()}
	c.history.mu.Lock()
	c.keys[in.job] = key
	c.history.mu.Unlock()
	wish := job.Spec{ID: in.job, Name: key, Channel: "main", Kind: "test", Key: key, Retry: job.Retry{Failures: failures, Crashes: 1 << 20, Losses: 1 << 20}}
	out := record(c, in, nil, func(ctx context.Context, q *queue.Queue) (queue.Receipt, error) {
		return q.Submit(ctx, queue.Submission{Jobs: []job.Spec{wish}})
	}, func(r queue.Receipt, out *told) { out.job, out.how = r.Jobs[0].ID, r.Jobs[0].How })
	if !out.unknown {
		c.history.mu.Lock()
		c.jobs = append(c.jobs, out.job)
		c.history.mu.Unlock()
	}
}

func (c *client) cancel(id job.ID) {
	record(c, &asked{kind: cancel, key: c.keyOf(id), job: id}, []error{job.ErrEnded}, func(ctx context.Context, q *queue.Queue) (nothing, error) {
		return nothing{}, q.CancelJob(ctx, id, job.ID{}, false, "")
	}, noReply)
}

// look reads the history, which tells what is stored.
func (c *client) look(id job.ID) {
	call := c.now()
	list, err := try(c, time.Minute, func(ctx context.Context, r *reign) ([]job.Record, error) {
		return r.store.Jobs(ctx, queue.JobFilter{IDs: []job.ID{id}})
	})
	end := c.now()
	switch {
	case errors.Is(err, errUnknown):
		return
	case err != nil || len(list) != 1:
		c.complain("client %d: look for %s: %d jobs, %v", c.number, id, len(list), err)
		return
	}
	out := &told{seen: seen{state: waiting, attempts: list[0].Tally.Attempts}}
	switch r := &list[0]; {
	case r.Running:
		out.seen.state = running
	case r.End != nil:
		out.seen.state, out.seen.outcome = done, r.End.Outcome
	}
	c.add(c.number, &asked{kind: look, key: c.keyOf(id), job: id}, call, out, end)
}

// worker leases, works and finishes, with its own leases and now and then with others'.
func (c *client) worker(steps int) {
	c.name = fmt.Sprintf("w%d", c.number)
	c.comeBack()
	for i := range steps {
		if i == steps/2 {
			// The leases of all run out of which nobody hears meanwhile.
			for n := range 3 {
				c.submit(fmt.Sprintf("key%d", keys+n))
				c.lease(2)
			}
			<-time.After(ttl + ttl/8)
		}
		old, known := pick(c.history, c.random, &c.leases)
		if c.random.IntN(4) == 0 {
			old.Token[0]++ // one that was never given
		}
		outcome := []job.Outcome{job.Succeeded, job.Failed}[c.random.IntN(2)]
		switch n := c.random.IntN(20); {
		case n < 8 && len(c.has) < 3 || !known:
			c.lease(1 + c.random.IntN(2))
		case n < 14 && len(c.has) > 0:
			i := c.random.IntN(len(c.has))
			l := c.has[i]
			if !c.finish(l, outcome).unknown {
				c.has = slices.Delete(c.has, i, i+1)
			}
			if c.random.IntN(3) == 0 {
				c.finish(l, outcome) // the same again, but not as a repeat of the request
			}
		case n < 16 && len(c.has) > 0:
			c.heartbeat(c.has[c.random.IntN(len(c.has))])
		case n < 17:
			c.heartbeat(old)
		case n < 19:
			c.finish(old, outcome)
		default:
			c.comeBack()
		}
	}
}

// lease waits for a little while.
func (c *client) lease(want int) {
	call, session := c.now(), c.session // A call that is given up may still be under way when there is another.
	got, err := try(c, 10*time.Millisecond, func(ctx context.Context, r *reign) ([]queue.Assignment, error) {
		return r.q.Lease(ctx, c.name, session, want, 0)
	})
	end := c.now()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, errUnknown):
		// What it may have been given is over when it comes back.
		c.open = append(c.open, c.add(c.number, &asked{kind: lease, worker: c.name}, call, &told{unknown: true}, math.MaxInt64))
		c.comeBack()
	case err != nil:
		c.complain("client %d: lease: %v", c.number, err)
	}
	for _, a := range got {
		if err != nil {
			break
		}
		c.add(c.number, &asked{kind: lease, key: a.Spec.Key, worker: c.name, lease: a.Lease}, call, &told{}, end)
		c.has = append(c.has, a.Lease)
		c.history.mu.Lock()
		c.leases = append(c.leases, a.Lease)
		c.history.mu.Unlock()
	}
}

func (c *client) finish(l job.Lease, o job.Outcome) *told {
	in := &asked{kind: finish, key: c.keyOf(l.Job), lease: l, outcome: o}
	return record(c, in, []error{job.ErrLeaseLost}, func(ctx context.Context, q *queue.Queue) (nothing, error) {
		return nothing{}, q.Finish(ctx, job.Report{Lease: l, Outcome: o})
	}, noReply)
}

func (c *client) heartbeat(l job.Lease) {
	call := c.now()
	errs, err := try(c, time.Minute, func(ctx context.Context, r *reign) ([]error, error) { return r.q.Heartbeat(ctx, queue.Beat{Lease: l}) })
	end := c.now()
	switch {
	case errors.Is(err, errUnknown):
		return
	case err != nil || errs[0] != nil && !errors.Is(errs[0], job.ErrLeaseLost):
		c.complain("client %d: heartbeat: %v, %v", c.number, errs, err)
		return
	}
	c.add(c.number, &asked{kind: heartbeat, key: c.keyOf(l.Job), lease: l}, call, &told{refused: errs[0] != nil}, end)
}

// comeBack registers a new session of the worker, which has lost some of its leases. However often it asks, that is one operation: once
// the worker has lost them nothing is left for the others to do.
func (c *client) comeBack() {
	c.has = slices.DeleteFunc(c.has, func(job.Lease) bool { return c.random.IntN(3) == 0 })
	in := &asked{kind: register, worker: c.name, running: slices.Clone(c.has)}
	call := c.now()
	for {
		last := c.session
		w := job.Worker{Name: c.name, Channels: []string{"main"}, Kinds: []string{"test"}, Slots: 100, Session: c.id()}
		_, err := try(c, time.Minute, func(ctx context.Context, r *reign) (nothing, error) {
			if err := r.q.SignOff(ctx, c.name, last); err != nil {
				return nothing{}, err
			}
			return nothing{}, r.q.Register(ctx, w, in.running...)
		})
		switch {
		case errors.Is(err, errUnknown):
			// It may have happened, so that the session may be the new one or the last.
			c.session = c.registered(last, w.Session)
		case errors.Is(err, job.ErrWorkerLive):
			// Somebody used one of its leases just then: it is alive.
		case err != nil:
			c.complain("client %d: register: %v", c.number, err)
			return
		default:
			c.session = w.Session
			end := c.now()
			c.add(c.number, in, call, &told{}, end)
			c.history.close(c.open, end)
			c.open = nil
			return
		}
	}
}

// registered finds out which of two sessions the worker has.
func (c *client) registered(last, next job.ID) job.ID {
	for {
		list, err := try(c, time.Minute, func(ctx context.Context, r *reign) ([]queue.WorkerView, error) { return r.q.Workers(ctx) })
		if errors.Is(err, errUnknown) {
			continue
		}
		for _, v := range list {
			if v.Name == c.name && v.Session == next {
				return next
			}
		}
		return last
	}
}
