package sim

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
)

// How a round goes: what is due happens, and then whoever waits is served (rules 8, 9 and 12).

// round draws all consequences, and hands out work.
func (m *model) round() {
	if m.lead != nil {
		m.lead()
	}
	if !m.behind {
		m.settle()
		m.serve()
	}
}

// settle draws all consequences of one moment: all of the first kind, dependents before what they need, and so on.
func (m *model) settle() {
	var due []func()
	kind := math.MaxInt
	for _, j := range slices.Backward(m.jobs) {
		for i, c := range m.consequences(j) {
			if c.so && c.at <= m.now && i <= kind {
				if i < kind {
					kind, due = i, nil
				}
				due = append(due, c.do)
			}
		}
	}
	for _, do := range due {
		do()
	}
	if len(due) > 0 || slices.ContainsFunc(m.builds, m.endBuild) || m.openGate() {
		m.settle()
	}
}

// advance lets time pass until to: whatever is due happens at its moment. looks are moments at which the engine
// had a look without need.
func (m *model) advance(to job.Time, looks []job.Time) {
	moments := slices.Clone(looks)
	for _, w := range m.workers {
		moments = append(moments, w.Until)
	}
	for _, j := range m.jobs {
		for _, c := range filter(m.consequences(j), func(c consequence) bool { return c.so }) {
			moments = append(moments, c.at)
		}
	}
	moments = filter(moments, func(t job.Time) bool { return t > m.now && t <= to })
	if len(moments) == 0 {
		m.now = max(m.now, to)
		return
	}
	m.now = slices.Min(moments)
	m.round()
	m.advance(to, looks)
}

// serve hands out work until nobody who waits can be given any.
func (m *model) serve() {
	turn := map[*mWorker]bool{}
	for j, w := m.next(turn); j != nil; j, w = m.next(turn) {
		m.start(j, w)
	}
	m.dismiss()
}

// dismiss ends the waiting of those who are given something.
func (m *model) dismiss() {
	for _, w := range m.workers {
		w.waiters = filter(w.waiters, func(x *leaseCall) bool { return len(x.due) == 0 })
	}
}

// next gives the first job that a waiting worker may take, and the best such worker that had none this turn; if there is
// none, in a new turn; nil: nobody is served. An exclusive job sets a worker aside before any job is served that may not
// have it: the best, else the one that is free soonest. Only higher priorities may have it meanwhile (rule 9).
func (m *model) next(turn map[*mWorker]bool) (*mJob, *mWorker) {
	aside := map[*mWorker]*candidate{}
	open := func(w *mWorker, c *candidate) bool {
		return (aside[w] == nil || aside[w] == c) && !w.Drained && w.Until <= m.now && capable(w, c.mJob)
	}
	best := func(c *candidate) *mWorker {
		return least(m.workers, m.better, func(w *mWorker) bool {
			return open(w, c) && !turn[w] && w.wants() > 0 && m.slotFree(w, c.mJob)
		})
	}
	soonest := func(c *candidate) *mWorker {
		return least(m.workers, m.sooner, func(w *mWorker) bool { return open(w, c) && (w.wants() > 0 || len(m.on(w)) > 0) })
	}
	queue := m.queue()
	for _, c := range queue {
		for _, x := range queue {
			if x.Exclusive && x.Channel == c.Channel && x.priority >= c.priority {
				if w := cmp.Or(best(x), soonest(x)); w != nil {
					aside[w] = x
				}
			}
		}
		if w := best(c); w != nil {
			turn[w] = true
			return c.mJob, w
		}
	}
	if len(turn) == 0 {
		return nil, nil
	}
	clear(turn)
	return m.next(turn)
}

func (m *model) start(j *mJob, w *mWorker) {
	x := find(w.waiters, func(x *leaseCall) bool { return len(x.due) < x.want })
	x.due = append(x.due, j)
	m.begin(j, w)
}

// begin begins an attempt.
func (m *model) begin(j *mJob, w *mWorker) {
	d, ttl := m.demand(j), m.policy(j).TTL
	a := job.Attempt{Number: j.last.Number + 1, Worker: w.Name, Start: m.now, Groups: d.groups, Limits: d.limits}
	j.last, j.wake = &mRun{of: j, AttemptEnd: job.AttemptEnd{Attempt: a}, leased: true, ttl: ttl, deadline: m.now.Add(ttl)}, 0
	m.note(job.JobStarted{Job: j.ID, Attempt: a})
}

// candidate is a ready job with all that orders it.
type candidate struct {
	*mJob
	demand
	aged         bool   // its channel goes by age
	channel      string // all those are one, which has no name
	used, shares int64  // by that channel
	group        int64  // what the group of it that used least did, by shares
}

// place orders jobs that go by age.
func (j *mJob) place() turn { return *cmp.Or(j.turn, &turn{age: j.age}) }

func byPlace(a, b *mJob) int {
	x, y := a.place(), b.place()
	return cmp.Or(
		cmp.Compare(x.age, y.age), cmp.Compare(x.drawn, y.drawn), cmp.Compare(a.last.At, b.last.At), cmp.Compare(a.age, b.age),
	)
}

// queue gives the ready jobs in the order in which they are served (rule 8); oldest first, where that is the channel's. Of
// those behind which the same workers and groups stand it gives the first.
func (m *model) queue() (list []*candidate) {
	places := slices.SortedFunc(slices.Values(m.jobs), byPlace)
	for _, j := range m.jobs {
		policy := m.policy(j)
		waits := func(w *mWorker) bool { return w.wants() > 0 && capable(w, j) } // others come to nothing, and cost time
		if m.paused(j) || !j.Exclusive && !slices.ContainsFunc(m.workers, waits) || !m.ready(j) || !m.keyFree(j) {
			continue
		}
		c := &candidate{mJob: j, demand: m.demand(j), aged: policy.Discipline == job.ByAge, channel: j.Channel, group: math.MaxInt64}
		for name, p := range m.channels {
			if name == j.Channel || c.aged && p.Discipline == job.ByAge {
				c.used += m.use(name)
				c.shares += int64(max(p.Shares, 1))
			}
		}
		for _, g := range c.groups {
			c.group = min(c.group, m.use(j.Channel, g)/int64(max(policy.GroupShares[g], 1)))
		}
		if c.aged {
			c.channel, c.group, c.priority = "", 0, int32(-slices.Index(places, j))
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b *candidate) int {
		return cmp.Or(
			cmp.Compare(a.used*b.shares, b.used*a.shares), later(a.aged, b.aged), strings.Compare(a.channel, b.channel),
			cmp.Compare(b.priority, a.priority),
			cmp.Compare(a.group, b.group), cmp.Compare(b.path+b.Estimate, a.path+a.Estimate),
		)
	})
	return filter(list, func(c *candidate) bool {
		return c == find(list, func(o *candidate) bool {
			return o.Class() == c.Class() && o.Exclusive == c.Exclusive && slices.Equal(o.groups, c.groups)
		})
	})
}

// later puts what is so before what is not.
func later(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func (m *model) paused(j *mJob) bool {
	policy := m.policy(j)
	return policy.Paused || slices.Contains(policy.PausedKinds, j.Kind)
}

// use gives what a channel used in the window, or a group of it. An attempt is divided among the groups of its job
// (rule 8). It is in twelfths of microseconds, so that what is divided by shares here is an integer.
func (m *model) use(channel string, groups ...string) (sum int64) {
	slice, day := job.Time(job.UsageSlice/time.Microsecond), job.Time(job.UsageWindow/time.Microsecond)
	oldest := (m.now/slice - day/slice + 1) * slice // what has ended is kept in slices
	add := func(r *mRun, used job.Time) {
		for _, g := range r.Groups {
			if r.of.Channel == channel && (len(groups) == 0 || slices.Contains(groups, g)) {
				sum += int64(used) * 12 / int64(len(r.Groups))
			}
		}
	}
	for _, r := range m.past {
		add(r, max(0, r.At-max(r.Start, oldest, r.At-day)))
	}
	for _, j := range filter(m.jobs, (*mJob).running) {
		add(j.last, min(m.now-j.last.Start, day))
	}
	return sum
}

// capable: the worker could run the job (rule 9).
func capable(w *mWorker, j *mJob) bool {
	among := func(list []string, words ...string) bool {
		return !slices.ContainsFunc(words, func(s string) bool { return !slices.Contains(list, s) })
	}
	return (among(w.Channels, j.Channel) || among(w.Channels, job.AnyChannel)) && among(w.Kinds, j.Kind) && (j.System == "" || among(w.Systems, j.System)) &&
		(j.Pin == "" || j.Pin == w.Name) && among(w.Features, j.Features...) && among(j.Features, w.Mandatory...)
}

// slotFree: the worker has a slot for the job, or is free if one of them is exclusive (rule 9).
func (m *model) slotFree(w *mWorker, j *mJob) bool {
	alone := func(k *mJob) bool { return k.Exclusive || j.Exclusive }
	return len(m.on(w)) < int(w.Slots) && !slices.ContainsFunc(m.on(w), alone)
}

// on gives the jobs with an attempt on the worker, those being stopped included.
func (m *model) on(w *mWorker) []*mJob {
	return filter(m.jobs, func(j *mJob) bool { return j.last.leased && j.last.Worker == w.Name })
}

// wants is for how many jobs the worker waits.
func (w *mWorker) wants() (n int) {
	for _, x := range w.waiters {
		n += x.want - len(x.due)
	}
	return n
}

// better: the least (load + 1) / speed, then the fewest features, then the name (rule 9).
func (m *model) better(a, b *mWorker) int {
	cost := func(w, o *mWorker) float64 { // times the speeds of both
		load := greatest(0, w.waiters, func(x *leaseCall) float64 { return x.load })
		return (float64(len(m.on(w))) + load + 1) * cmp.Or(o.Speed, 1)
	}
	return cmp.Or(
		cmp.Compare(cost(a, b), cost(b, a)), cmp.Compare(len(a.Features), len(b.Features)), strings.Compare(a.Name, b.Name),
	)
}

// sooner: which worker has probably done first what it has.
func (m *model) sooner(a, b *mWorker) int {
	end := func(j *mJob) job.Time { return j.last.Start.Add(j.Estimate) }
	idle := func(w *mWorker) job.Time { return greatest(m.now, filter(m.on(w), (*mJob).running), end) }
	return cmp.Compare(idle(a), idle(b))
}
