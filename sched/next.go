package sched

import (
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/headrace/headrace/job"
)

// Begin starts a batch of decisions: each waiting worker may be served again.
func (s *Scheduler) Begin() { s.turn++ }

// Next names the job that should start now and the worker that should run it; ok is false if no ready job fits a
// waiting worker. The caller starts it in the machine, lowers the worker's Want if it does not wait on, and
// calls Update before Next again. Within a turn each waiting worker is served once (rule 9).
func (s *Scheduler) Next(now job.Time) (j *job.Job, name string, ok bool) {
	if len(s.open) == 0 || len(s.waiting) == 0 {
		return nil, "", false
	}
	for {
		if j, w := s.choose(s.look(now), now); j != nil {
			w.turn = s.turn
			return j, w.Name, true
		}
		if !slices.ContainsFunc(s.waiting, func(w *worker) bool { return w.turn == s.turn }) {
			return nil, "", false
		}
		s.turn++
	}
}

// head is the best of a heap, with what it is compared by.
type head struct {
	*entry
	channel string
	// What its channel and the neediest of its share groups used, and the shares to divide by.
	channelUse, channelShares int64
	groupUse, groupShares     int64
}

// look gives the head of each heap that a worker could be served from now, in no order, and those that may set a worker aside.
func (s *Scheduler) look(now job.Time) []head {
	s.stamp++
	s.able, s.heads = s.able[:0], s.heads[:0]
	for _, w := range s.waiting {
		if w.turn != s.turn && w.open(now) {
			w.able = s.stamp
			s.able = append(s.able, w)
		}
	}
	if len(s.able) < len(s.open) {
		for _, w := range s.able {
			for _, c := range w.classes {
				if c.place != 0 && c.seen != s.stamp {
					s.lookInto(c, now)
				}
			}
		}
	} else {
		for _, c := range slices.Clone(s.open) {
			if slices.ContainsFunc(c.workers, func(w *worker) bool { return w.able == s.stamp }) {
				s.lookInto(c, now)
			}
		}
	}
	s.lookAside(now)
	s.level(s.heads, now)
	return s.heads
}

// lookAside adds the other exclusive jobs, if there are any among the heads. No worker can be served with them now, but which one
// is set aside for each decides which one is for the next.
func (s *Scheduler) lookAside(now job.Time) {
	if !slices.ContainsFunc(s.heads, func(h head) bool { return h.in.key.exclusive }) {
		return
	}
	for i := 0; i < len(s.alone); i++ {
		r := s.alone[i]
		if r.class.seen != s.stamp && !s.paused(r.class, now) && !s.lookAt(r, now) {
			i-- // it is gone
		}
	}
}

// open: the worker has room for a job.
func (w *worker) open(now job.Time) bool { return w.Free(now) && w.used < int(w.Slots) && w.held == 0 }

func (s *Scheduler) lookInto(c *class, now job.Time) {
	c.seen = s.stamp
	if s.paused(c, now) {
		return
	}
	for i := 0; i < len(c.heaps); i++ {
		if !s.lookAt(c.heaps[i], now) {
			i-- // taken to the last: another heap is in its place
		}
	}
}

// lookAt adds the first of the heap that may start, and reports whether there is one.
func (s *Scheduler) lookAt(r *ready, now job.Time) bool {
	for len(r.entries) > 0 && (s.forsake(r.entries[0]) || r.entries[0].gated && s.park(r.entries[0])) {
	}
	if len(r.entries) == 0 {
		return false
	}
	s.heads = append(s.heads, s.head(r, r.entries[0], now))
	return true
}

// forsake takes the head of a heap away if nobody needs it any more, which the machine may not have come to tell: a
// large cancel goes on over several rounds. It reports whether it did.
func (s *Scheduler) forsake(e *entry) bool {
	if e.job.Needed() {
		return false
	}
	c := e.in.class
	s.pull(e)
	if c.entries--; c.entries == 0 {
		s.idle++ // no sweep: the caller walks the classes
	}
	return true
}

// read gives the class's channel as it is at this decision.
func (s *Scheduler) read(c *class, now job.Time) *channel {
	if c.channel.seen != s.stamp {
		c.channel.policy = s.m.Channel(c.key.Channel)
		c.channel.use, c.channel.shares = s.m.ChannelUse(c.key.Channel, now)
		c.channel.seen = s.stamp
	}
	return c.channel
}

// paused: nothing of the class may start.
func (s *Scheduler) paused(c *class, now job.Time) bool {
	return s.read(c, now).policy.Closed(c.key.Kind)
}

func (s *Scheduler) head(r *ready, e *entry, now job.Time) head {
	c := s.read(r.class, now)
	h := head{entry: e, channel: r.key.class.Channel, channelUse: c.use, channelShares: c.shares}
	for i, g := range r.groups {
		use, shares := g.Use(now)
		if i == 0 || lessUse(use, shares, h.groupUse, h.groupShares) {
			h.groupUse, h.groupShares = use, shares
		}
	}
	return h
}

// lessUse reports whether use a, divided by its shares, is below use b.
func lessUse(a, aShares, b, bShares int64) bool {
	ah, al := bits.Mul64(uint64(max(a, 0)), uint64(bShares))
	bh, bl := bits.Mul64(uint64(max(b, 0)), uint64(aShares))
	return ah < bh || ah == bh && al < bl
}

// compare is rule 8 among heads: channels by share, then within one by its discipline. Channels that go by age are one.
func (h *head) compare(o *head) int {
	switch {
	case h.in.byAge && o.in.byAge:
	case h.in.byAge || h.channel != o.channel:
		switch {
		case lessUse(h.channelUse, h.channelShares, o.channelUse, o.channelShares):
			return -1
		case lessUse(o.channelUse, o.channelShares, h.channelUse, h.channelShares):
			return 1
		case h.in.byAge:
			return -1
		case o.in.byAge:
			return 1
		}
		return strings.Compare(h.channel, o.channel)
	default:
		switch {
		case h.priority != o.priority:
			return int(o.priority) - int(h.priority)
		case lessUse(h.groupUse, h.groupShares, o.groupUse, o.groupShares):
			return -1
		case lessUse(o.groupUse, o.groupShares, h.groupUse, h.groupShares):
			return 1
		case h.path > o.path:
			return -1
		case h.path < o.path:
			return 1
		}
		return int(h.job.Seq() - o.job.Seq())
	}
	switch {
	case h.job == o.job:
		return 0
	case h.job.Before(o.job):
		return -1
	}
	return 1
}

// level sees to it that, where channels that go by age stand beside others, all of them stand as one.
func (s *Scheduler) level(heads []head, now job.Time) {
	aged := func(h head) bool { return h.in.byAge }
	ranked := func(h head) bool { return !h.in.byAge }
	if !slices.ContainsFunc(heads, aged) || !slices.ContainsFunc(heads, ranked) {
		return
	}
	use, shares := s.m.AgeUse(now)
	for i := range heads {
		if heads[i].in.byAge {
			heads[i].channelUse, heads[i].channelShares = use, shares
		}
	}
}

// choose gives the first job in order that a waiting worker may take, and the best such worker. What an exclusive job
// may not lose to is served only after it has set its worker aside, whatever the order says: else each time the
// worker is empty at last, one that comes before it by share, path or age would fill it again.
func (s *Scheduler) choose(heads []head, now job.Time) (*job.Job, *worker) {
	for _, w := range s.reserved {
		w.reserved = nil
	}
	s.reserved = s.reserved[:0]
	exclusive := s.exclusive[:0]
	for i := range heads {
		if heads[i].in.key.exclusive {
			exclusive = append(exclusive, heads[i])
		}
	}
	s.exclusive = exclusive
	slices.SortFunc(exclusive, func(a, b head) int { return a.compare(&b) })
	for h := range s.inOrder(heads) {
		for len(exclusive) > 0 && exclusive[0].holdsBack(h) {
			s.reserve(&exclusive[0], now)
			exclusive = exclusive[1:]
		}
		if w := s.best(h); w != nil {
			return h.job, w
		}
		if !h.in.key.exclusive {
			h.in.class.passed = s.stamp
		}
	}
	return nil, nil
}

// inOrder gives the heads in order, and spares the rest the sorting: unless a worker is set aside, the first is
// placed, and where one of a class finds no worker, no later one does.
func (s *Scheduler) inOrder(heads []head) iter.Seq[*head] {
	passed := func(h head) bool { return h.in.class.passed == s.stamp && !h.in.key.exclusive }
	return func(yield func(*head) bool) {
		if len(heads) == 0 {
			return
		}
		first := 0
		for i := range heads {
			if heads[i].compare(&heads[first]) < 0 {
				first = i
			}
		}
		heads[0], heads[first] = heads[first], heads[0]
		if !yield(&heads[0]) {
			return
		}
		rest := slices.DeleteFunc(heads[1:], passed)
		slices.SortFunc(rest, func(a, b head) int { return a.compare(&b) })
		for i := range rest {
			if !passed(rest[i]) && !yield(&rest[i]) {
				return
			}
		}
	}
}

// holdsBack reports whether the worker set aside for h, which is exclusive, is not for o: only a higher priority may
// have it, or, where jobs go by age, an older job.
func (h *head) holdsBack(o *head) bool {
	if h.channel != o.channel {
		return false
	}
	if h.in.byAge {
		return !o.job.Before(h.job)
	}
	return h.priority >= o.priority
}

// best gives the best waiting worker that may take the job now: the least loaded for its speed, then the one with the
// fewest features that the job does not need, then by name.
func (s *Scheduler) best(h *head) *worker {
	var best *worker
	for _, w := range h.in.class.workers {
		if w.able != s.stamp || h.in.key.exclusive && w.used > 0 || w.reserved != nil && w.reserved != h.job {
			continue // those that come before whom it is set aside for have had their turn
		}
		if best == nil || w.better(best) {
			best = w
		}
	}
	return best
}

func (w *worker) better(o *worker) bool {
	a, b := (float64(w.used)+w.load+1)*o.Pace(), (float64(o.used)+o.load+1)*w.Pace()
	if a != b {
		return a < b
	}
	if len(w.Features) != len(o.Features) {
		return len(w.Features) < len(o.Features)
	}
	return w.Name < o.Name
}

// Free reports whether nothing that is decided here keeps the ready job from starting on the worker out of turn: its concurrency key has
// room, and an exclusive one has the worker to itself.
func (s *Scheduler) Free(j *job.Job, name string) bool {
	w := s.workers[name]
	if w == nil || w.held > 0 || j.Exclusive() && w.used > 0 {
		return false
	}
	c, limits := j.Class(), j.Gate()
	g := s.gates[gateKey{c.Channel, limits.Key}]
	return limits.Key == "" || g == nil || !g.full(limits.Limit)
}

// reserve sets the worker aside that is free soonest, among those that are alive: they wait or work.
func (s *Scheduler) reserve(h *head, now job.Time) {
	best := s.best(h)
	if best == nil {
		best = s.soonestFor(h, now)
	}
	if best != nil {
		best.reserved = h.job
		s.reserved = append(s.reserved, best)
	}
}

// soonestFor finds the worker that is free soonest, where none is free.
func (s *Scheduler) soonestFor(h *head, now job.Time) *worker {
	var best *worker
	var soonest job.Time
	for _, w := range h.in.class.workers {
		if w.reserved != nil || !w.Free(now) || w.place == 0 && w.used == 0 {
			continue
		}
		free := s.freeAt(w, now)
		if best == nil || free < soonest || free == soonest && w.Name < best.Name {
			best, soonest = w, free
		}
	}
	return best
}

// freeAt guesses when the last of the worker's attempts ends.
func (s *Scheduler) freeAt(w *worker, now job.Time) job.Time {
	free := now
	s.m.Leases(w.Name, func(j *job.Job) {
		if !j.Held() {
			free = max(free, j.Attempt().Start.Add(j.Estimate()))
		}
	})
	return free
}
