package sched

import (
	"errors"
	"fmt"
	"slices"

	"github.com/headrace/headrace/job"
)

// Check derives again, from the Machine, all that the Scheduler keeps, and reports each difference: a ready job that
// is in no heap, or in the wrong one; a heap out of order; a worker, class or concurrency key with a wrong count.
// It is for tests and the simulator, which call it between rounds; it looks at everything, and changes nothing.
func (s *Scheduler) Check() error {
	c := check{s: s, holders: map[gateKey]int{}}
	for _, j := range s.m.Jobs() {
		c.job(j)
	}
	for j := range s.entries {
		have, ok := s.m.Job(j.ID())
		c.want(ok && have == j, "job %s is kept and not in memory", j.ID())
	}
	c.gates()
	c.heaps()
	c.workers()
	return errors.Join(c.found...)
}

// check is one Check under way.
type check struct {
	s       *Scheduler
	holders map[gateKey]int
	found   []error
}

func (c *check) want(ok bool, format string, args ...any) {
	if !ok {
		c.found = append(c.found, fmt.Errorf(format, args...))
	}
}

func (c *check) job(j *job.Job) {
	e := c.s.entries[j]
	_, running := j.State().(job.Running)
	holds := (running || j.Held()) && j.Gate().Key != ""
	if holds {
		c.holders[gateKey{j.Class().Channel, j.Gate().Key}]++
	}
	c.want((e != nil && e.holds) == holds, "job %s holds its concurrency key: want %t", j.ID(), holds)
	if _, ready := j.State().(job.Ready); !ready {
		c.want(e == nil || e.in == nil, "job %s is %s and in a heap", j.ID(), j.State())
		c.want(e == nil || holds, "job %s is %s and kept", j.ID(), j.State())
		return
	}
	if !j.Needed() {
		return // it is about to end
	}
	if e == nil || e.in == nil {
		c.want(c.s.m.Behind(), "job %s is Ready and in no heap", j.ID()) // or the machine has still to tell that it is needed again
		return
	}
	if !c.s.m.Behind() { // else the machine has still to tell of new ranks
		key := heapOf(j)
		c.want(e.in.key == key, "job %s is in heap %v, want %v", j.ID(), e.in.key, key)
		c.want(e.priority == j.Priority() && e.path == int64(j.Path()), "job %s is ranked (%d, %d), want (%d, %d)",
			j.ID(), e.priority, e.path, j.Priority(), j.Path())
	}
	list := e.in.entries
	if e.parked != nil {
		list = e.parked.ready.entries
	}
	c.want(e.index < len(list) && list[e.index] == e, "job %s is not in its place %d", j.ID(), e.index)
}

// gates: holders are counted, and no job is parked at a key that has room, unless another like it has its turn.
func (c *check) gates() {
	for k, g := range c.s.gates {
		c.want(g.holders == c.holders[k], "concurrency key %v counts %d holders, want %d", k, g.holders, c.holders[k])
		for _, p := range g.parked {
			c.want(len(p.ready.entries) > 0, "concurrency key %v keeps an empty parking", k)
			c.order(&p.ready)
			turn := slices.ContainsFunc(c.entriesOf(p.heap), func(e *entry) bool {
				return e.job.Gate() == job.Gate{Key: k.key, Limit: p.limit}
			})
			c.want(g.full(p.limit) || turn, "concurrency key %v has room, and %d jobs are parked", k, len(p.ready.entries))
		}
	}
	for k, n := range c.holders {
		c.want(c.s.gates[k] != nil, "concurrency key %v has %d holders and is not kept", k, n)
	}
}

func (c *check) entriesOf(k heapKey) []*entry {
	if r := c.s.heaps[k]; r != nil {
		return r.entries
	}
	return nil
}

func (c *check) order(r *ready) {
	for i, e := range r.entries {
		c.want(i == 0 || !e.before(r.entries[(i-1)/2], r.byAge), "heap %v is out of order at %d", r.key, i)
	}
}

func (c *check) heaps() {
	entries := map[*class]int{}
	for j, e := range c.s.entries {
		if e.in != nil {
			entries[e.in.class]++
			c.want(e.in.class == c.s.classes[j.Class()], "job %s is in a class that is not kept", j.ID())
		}
	}
	for _, r := range c.s.alone {
		c.want(r.key.exclusive && c.s.heaps[r.key] == r, "heap %v is kept as one of exclusive jobs", r.key)
	}
	for k, r := range c.s.heaps {
		c.want(len(r.entries) > 0, "heap %v is empty", k)
		c.want(r.key == k && r.byAge == (c.s.m.Channel(k.class.Channel).Discipline == job.ByAge), "heap %v has the wrong discipline", k)
		c.want(r.place > 0 && r.class.heaps[r.place-1] == r, "heap %v is not in its class", k)
		c.want(!k.exclusive || slices.Contains(c.s.alone, r), "heap %v is not among those of exclusive jobs", k)
		c.order(r)
	}
	for k, class := range c.s.classes {
		c.want(class.entries == entries[class], "class %v counts %d jobs, want %d", k, class.entries, entries[class])
		c.want((class.place > 0) == (len(class.heaps) > 0), "class %v is open at %d with %d heaps", k, class.place, len(class.heaps))
		c.want(class.place == 0 || c.s.open[class.place-1] == class, "class %v is not in its place", k)
		capable := 0
		for _, n := range c.s.m.Workers() {
			w, _ := c.s.m.Worker(n)
			able := len(w.Lacks(k)) == 0
			if able {
				capable++
			}
			known := slices.ContainsFunc(class.workers, func(w *worker) bool { return w.Name == n })
			mine := c.s.workers[n] != nil && slices.Contains(c.s.workers[n].classes, class)
			c.want(known == able && mine == able, "class %v and worker %q know each other: %t and %t, want %t", k, n, known, mine, able)
		}
		c.want(capable == len(class.workers), "class %v has %d workers, want %d", k, len(class.workers), capable)
	}
}

func (c *check) workers() {
	waiting := 0
	for n, w := range c.s.workers {
		_, known := c.s.m.Worker(n)
		held := 0
		c.s.m.Leases(n, func(j *job.Job) {
			if j.Exclusive() {
				held++
			}
		})
		c.want(known && w.used == c.s.m.Used(n) && w.held == held, "worker %q (known %t) uses %d slots and %d exclusive jobs, want %d and %d",
			n, known, w.used, w.held, c.s.m.Used(n), held)
		c.want((w.place > 0) == (w.want > 0), "worker %q wants %d and waits at %d", n, w.want, w.place)
		c.want(w.place == 0 || c.s.waiting[w.place-1] == w, "worker %q is not in its place", n)
		if w.place > 0 {
			waiting++
		}
	}
	c.want(waiting == len(c.s.waiting), "%d workers wait, counted %d", waiting, len(c.s.waiting))
	c.want(len(c.s.workers) == len(c.s.m.Workers()), "%d workers are kept, %d known", len(c.s.workers), len(c.s.m.Workers()))
}
