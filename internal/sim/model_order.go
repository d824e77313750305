package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
)

// Which job goes to which worker: rules 8, 9 and 12.

// round draws all consequences, and hands out work until nobody who waits can be given any.
func (m *model) round() {
	if m.lead != nil {
		m.lead()
	}
	if m.behind {
		return
	}
	m.settle()
	turn := map[string]bool{} // workers served in this turn
	for {
		j, w := m.choose(turn)
		if j != nil {
			m.start(j, w)
			turn[w.Name] = true
		} else if len(turn) > 0 {
			clear(turn)
		} else {
			break
		}
	}
	m.waiters = slices.DeleteFunc(m.waiters, func(w *mWaiter) bool { return len(w.got) > 0 })
}

func (m *model) start(j *mJob, w *mWorker) {
	d := m.demand(j)
	j.attempts++
	j.last = &job.Attempt{Number: j.attempts, Worker: w.Name, Start: m.now, Groups: d.groups}
	j.lastEnd, j.wake = nil, 0
	m.note("start %s %d %s", j.ID, j.attempts, w.Name)
	ttl := m.channel(j.Channel).TTL
	j.lease = &mLease{deadline: m.now.Add(ttl), output: m.now, limits: m.limits(j), ttl: ttl}
	i := slices.IndexFunc(m.waiters, func(x *mWaiter) bool { return x.worker == w.Name && len(x.got) < x.want })
	m.waiters[i].got = append(m.waiters[i].got, j)
	m.settle()
}

// wants is for how many jobs the worker waits.
func (m *model) wants(w *mWorker) (n int) {
	for _, x := range m.waiters {
		if x.worker == w.Name {
			n += x.want - len(x.got)
		}
	}
	return n
}

func (m *model) load(w *mWorker) float64 {
	load := float64(m.used(w, false))
	more := 0.0
	for _, x := range m.waiters {
		if x.worker == w.Name {
			more = max(more, x.load)
		}
	}
	return load + more
}

// used counts the worker's attempts, those being stopped included.
func (m *model) used(w *mWorker, exclusive bool) (n int) {
	for _, j := range m.jobs {
		if j.lease != nil && j.last.Worker == w.Name && (j.Exclusive || !exclusive) {
			n++
		}
	}
	return n
}

// candidate is a ready job with all that orders it.
type candidate struct {
	*mJob
	demand
	byAge         bool
	channel, mine int64 // use, by shares, so that integers compare
}

// crowd tells jobs that the same workers and the same groups stand behind.
type crowd struct {
	class     job.Class
	groups    string
	exclusive bool
}

func (c *candidate) crowd() crowd {
	return crowd{c.Class(), strings.Join(c.groups, ","), c.Exclusive}
}

// scale makes use divided by shares an integer: every number of shares that is used divides it.
const scale = 12

// queued gives the ready jobs in the order in which they are served.
func (m *model) queued() (list []*candidate) {
	for _, j := range m.jobs {
		policy := m.channel(j.Channel)
		if !m.ready(j) || policy.Paused || slices.Contains(policy.PausedKinds, j.Kind) || !m.keyFree(j) {
			continue
		}
		c := &candidate{mJob: j, demand: m.demand(j), byAge: policy.Discipline == job.ByAge}
		c.channel = m.use(j.Channel, func(string) bool { return true }) / int64(max(policy.Shares, 1))
		for i, g := range c.groups {
			use := m.use(j.Channel, func(o string) bool { return o == g }) / int64(max(policy.GroupShares[g], 1))
			if i == 0 || use < c.mine {
				c.mine = use
			}
		}
		list = append(list, c)
	}
	slices.SortFunc(list, (*candidate).compare)
	return list
}

func (c *candidate) compare(o *candidate) int {
	if c.Channel != o.Channel {
		return cmp.Or(cmp.Compare(c.channel, o.channel), strings.Compare(c.Channel, o.Channel))
	}
	if !c.byAge {
		n := cmp.Or(
			cmp.Compare(o.priority, c.priority), cmp.Compare(c.mine, o.mine), cmp.Compare(o.path+o.Estimate, c.path+c.Estimate),
		)
		if n != 0 {
			return n
		}
	}
	return cmp.Compare(c.seq, o.seq)
}

// use gives what groups of a channel used in the window, times scale, in microseconds.
func (m *model) use(channel string, counts func(group string) bool) (sum int64) {
	slice := job.Time(job.UsageSlice / time.Microsecond)
	day := job.Time(job.UsageWindow / time.Microsecond)
	oldest := (m.now/slice - day/slice + 1) * slice // what has ended is kept in slices
	add := func(groups []string, used job.Time) {
		for _, g := range groups {
			if counts(g) {
				sum += int64(max(used, 0)) * scale / int64(len(groups))
			}
		}
	}
	for _, s := range m.spent {
		if s.channel == channel {
			add(s.groups, s.end-max(s.start, oldest, s.end-day))
		}
	}
	for _, j := range m.jobs {
		if j.running() && j.Channel == channel {
			add(j.last.Groups, min(m.now-j.last.Start, day))
		}
	}
	return sum
}

// keyFree: the job's concurrency key has room.
func (m *model) keyFree(j *mJob) bool {
	n := 0
	for _, k := range m.jobs {
		if k.lease != nil && k.Gate.Key == j.Gate.Key && k.Channel == j.Channel {
			n++
		}
	}
	return j.Gate.Key == "" || n < int(max(j.Gate.Limit, 1))
}

// choose gives the first job that a waiting worker may take, and the best such worker. An exclusive job sets a worker
// aside before any job is served that may not have it.
func (m *model) choose(turn map[string]bool) (*mJob, *mWorker) {
	heads := m.heads()
	reserved := map[string]*candidate{}
	asked := map[*candidate]bool{}
	for _, c := range heads {
		for _, x := range heads {
			if x.Exclusive && x.holdsBack(c) && !asked[x] {
				asked[x] = true
				w := m.best(x, turn, reserved)
				if w == nil {
					w = m.soonest(x.mJob, reserved)
				}
				if w != nil {
					reserved[w.Name] = x
				}
			}
		}
		if w := m.best(c, turn, reserved); w != nil {
			return c.mJob, w
		}
	}
	return nil, nil
}

// heads gives the first job of each crowd that somebody who waits could run, in order.
func (m *model) heads() (list []*candidate) {
	passed := map[crowd]bool{}
	for _, c := range m.queued() {
		waits := func(w *mWorker) bool { return m.wants(w) > 0 && capable(w, c.mJob) }
		if !passed[c.crowd()] && slices.ContainsFunc(m.workers, waits) {
			passed[c.crowd()] = true
			list = append(list, c)
		}
	}
	return list
}

// holdsBack: o may not have the worker that is set aside for c.
func (c *candidate) holdsBack(o *candidate) bool {
	if c.byAge {
		return c.Channel == o.Channel && c.seq <= o.seq
	}
	return c.Channel == o.Channel && c.priority >= o.priority
}

// best gives the best of the workers that wait and may take the job now.
func (m *model) best(c *candidate, turn map[string]bool, reserved map[string]*candidate) (best *mWorker) {
	for _, w := range m.workers {
		r := reserved[w.Name]
		if m.wants(w) == 0 || turn[w.Name] || r != nil && r != c || !capable(w, c.mJob) || !m.takes(w, c.mJob) {
			continue
		}
		if best == nil || m.better(w, best) {
			best = w
		}
	}
	return best
}

func (m *model) takes(w *mWorker, j *mJob) bool {
	used := m.used(w, false)
	return !w.Drained && w.Until <= m.now && used < int(w.Slots) && m.used(w, true) == 0 && !(j.Exclusive && used > 0)
}

// better: the least (load + 1) / speed, then the fewest features, then the name.
func (m *model) better(a, b *mWorker) bool {
	pace := func(w *mWorker) float64 {
		if w.Speed > 0 {
			return w.Speed
		}
		return 1
	}
	x, y := (m.load(a)+1)*pace(b), (m.load(b)+1)*pace(a)
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a.Features), len(b.Features)), strings.Compare(a.Name, b.Name)) < 0
}

// soonest gives the worker to set aside for an exclusive job: the one free soonest, of those that wait or work.
func (m *model) soonest(j *mJob, reserved map[string]*candidate) (best *mWorker) {
	var at job.Time
	for _, w := range m.workers {
		if !capable(w, j) || reserved[w.Name] != nil || w.Drained || w.Until > m.now || m.wants(w) == 0 && m.used(w, false) == 0 {
			continue
		}
		free := m.now
		for _, k := range m.jobs {
			if k.running() && k.last.Worker == w.Name {
				free = max(free, k.last.Start.Add(k.Estimate))
			}
		}
		if best == nil || free < at {
			best, at = w, free
		}
	}
	return best
}
