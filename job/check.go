package job

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Check derives again, from scratch, all that the Machine keeps derived, and reports each difference: a count, a
// maximum, a link or an index that is not what the jobs, builds and workers say. It is for tests and the
// simulator, which call it between rounds, with the moment of the last; it looks at everything, and changes nothing. While
// the machine is Behind, what it still has to look at may differ, and nothing else.
func (m *Machine) Check(now Time) error {
	c := check{
		m: m, now: now,
		flow: setOf(m.flow), swept: setOf(slices.Concat(m.ranks.now, m.ranks.next)), unneeded: setOf(m.unneeded), checked: setOf(m.check), ending: setOf(m.ending),
		opening: setOf(m.opening), idle: setOf(m.idle),
	}
	c.lists()
	leases := map[*Job]int{}
	for _, n := range m.Workers() {
		w, used, alone := m.workers[n], 0, 0
		for j := range w.leases {
			used++
			if j.Exclusive() {
				alone++
			}
			leases[j]++
			c.want(j.leased() != nil && j.last.Worker == n, "worker %q holds job %s, which it has no lease for", n, j.id)
		}
		c.want(used == w.used && alone == w.alone, "worker %q holds %d jobs, %d of them alone, counted %d and %d", n, used, alone, w.used, w.alone)
	}
	for _, j := range m.Jobs() {
		c.state(j, leases[j])
		c.edges(j)
		c.demand(j)
		c.alarm(j)
	}
	c.indexes()
	c.builds()
	c.classes()
	c.usage()
	for space, list := range m.settings {
		c.want(len(list) > 0 && len(list) <= MaxSettings, "space %q has %d settings", space, len(list))
	}
	return errors.Join(c.found...)
}

// check is one Check under way.
type check struct {
	m     *Machine
	now   Time
	found []error
	// What Advance still has to look at.
	flow, swept, unneeded, checked map[*Job]bool
	ending                         map[*build]bool
	opening                        map[*buildGate]bool
	idle                           map[Class]bool
}

func setOf[T comparable](list []T) map[T]bool {
	set := make(map[T]bool, len(list))
	for _, x := range list {
		set[x] = true
	}
	return set
}

func (c *check) want(ok bool, format string, args ...any) {
	if !ok {
		c.found = append(c.found, fmt.Errorf(format, args...))
	}
}

// lists: between rounds the scheduler has seen everything, and who is left to look at knows it.
func (c *check) lists() {
	c.want(!c.m.stopping && len(c.m.stops) == 0, "attempts are to be stopped, and were not at once")
	for b := range c.ending {
		c.want(b.ending, "build %s may have ended and is not marked", b.Build.ID)
	}
	for g := range c.opening {
		c.want(g.queued, "gate %q may have room and is not marked", g.key)
	}
	c.want(len(c.m.touched) == 0 && len(c.m.moved) == 0, "changes are left that the scheduler has not seen")
	for i, j := range c.m.timers {
		c.want(j.slot == int32(i+1), "job %s is in place %d of the timers and thinks %d", j.id, i+1, j.slot)
		c.want(i == 0 || c.m.timers[(i-1)/2].due <= j.due, "the timers are out of order at job %s", j.id)
	}
	for i := range c.m.pens {
		c.want(i == 0 || c.m.pens[(i-1)/2].until <= c.m.pens[i].until, "the quarantines are out of order")
	}
}

func (c *check) state(j *Job, leases int) {
	has := 0
	if j.leased() != nil {
		has = 1
	}
	c.want(leases == has, "job %s is in %d lists of leases, want %d", j.id, leases, has)
	c.want((j.leased() != nil) == (j.running() || j.Held()), "job %s is %s, held %t, and its lease is %v", j.id, j.state, j.Held(), j.leased())
	c.want(!j.Held() || j.done(), "job %s is held and %s", j.id, j.state)
	c.want(!j.done() || j.Held() || j.flags.has(openEnd), "job %s is Done, has nothing left to tell, and is in memory", j.id)
	c.want(!j.done() || len(j.needs)+len(j.dependents)+len(j.wishes) == 0, "job %s is Done and has links", j.id)
	listed := j.flags.has(inFlow) == c.flow[j] && j.flags.has(inSweep) == c.swept[j] && j.flags.has(isUnneeded) == c.unneeded[j] &&
		j.flags.has(isChecked) == c.checked[j]
	c.want(listed && !j.flags.has(isTouched), "job %s is marked %b and in the lists %t, %t, %t, %t",
		j.id, j.flags, c.flow[j], c.swept[j], c.unneeded[j], c.checked[j])
	if _, ready := j.state.(Ready); ready {
		active := j.in.active > 0 || c.flow[j] || c.checked[j]
		c.want(j.waits == 0 && active && c.m.lingering[j.Identity()] == nil, "job %s is Ready and must not be", j.id)
	}
}

func (c *check) edges(j *Job) {
	waits := int32(0)
	for i, e := range j.needs {
		back := edge{}
		if int(e.back) < len(e.job.dependents) {
			back = e.job.dependents[e.back]
		}
		c.want(back == edge{j, int32(i), e.policy, e.loose}, "job %s: need %d is not known to job %s", j.id, i, e.job.id)
		if e.blocks() {
			waits++
		}
	}
	c.want(waits == j.waits, "job %s waits for %d, counted %d", j.id, waits, j.waits)
	for i, e := range j.dependents {
		ok := int(e.back) < len(e.job.needs) && e.job.needs[e.back] == edge{j, int32(i), e.policy, e.loose}
		c.want(ok, "job %s: dependent %d is not known to job %s", j.id, i, e.job.id)
	}
	for i, w := range j.wishes {
		ok := int(w.back) < len(w.build.jobs) && w.build.jobs[w.back] == held{j, int32(i)}
		c.want(ok, "job %s: wish %d is not known to its build", j.id, i)
		c.want(c.m.builds[w.build.Build.ID] == w.build, "job %s is wished for by a build that is not live", j.id)
	}
}

func (c *check) demand(j *Job) {
	c.want(j.out == j.offers() || c.flow[j] || c.swept[j], "job %s offers %+v, and has told %+v", j.id, j.offers(), j.out)
	if j.done() {
		c.want(j.in == demand{}, "job %s is Done and asked for: %+v", j.id, j.in)
		return
	}
	fresh := &Job{wishes: j.wishes, dependents: j.dependents, more: j.more, class: j.class, id: j.id, flags: j.flags, stagers: j.stagers}
	fresh.recount()
	have, want := j.in, fresh.in
	if have.stale() && (c.flow[j] || c.swept[j]) {
		c.want(have.keep == want.keep && have.active == want.active, "job %s has the demand %+v, recounted %+v", j.id, have, want)
		return
	}
	c.want(have.audience.same(want.audience), "job %s is asked for by %q, recounted %q", j.id, have.audience.Key(), want.audience.Key())
	c.want(have.crowd.equal(want.crowd), "job %s is asked for by the crowd %v, recounted %v", j.id, have.crowd, want.crowd)
	have.audience, want.audience, have.crowd, want.crowd = nil, nil, nil, nil
	c.want(have == want, "job %s has the demand %+v, recounted %+v", j.id, have, want)
}

func (a *crowd) equal(b *crowd) bool {
	if a == nil || b == nil {
		return a == b
	}
	return maps.EqualFunc(*a, *b, func(x, y counted) bool { return x.n == y.n && x.audience.same(y.audience) })
}

// alarm: whatever time alone changes for the job is seen when it comes.
func (c *check) alarm(j *Job) {
	at, ok := c.m.nextLook(j)
	c.want(!ok || at <= c.now || c.flow[j] || c.checked[j] || j.slot != 0 && j.due <= at, "job %s must be looked at by %d, and its alarm is at %d (place %d)", j.id, at, j.due, j.slot)
}

func (c *check) indexes() {
	m := c.m
	unfinished, lingering := 0, 0
	for id, j := range m.jobs {
		c.want(id == j.id, "job %s is filed under %s", j.id, id)
		if !j.done() {
			unfinished++
			c.want(m.byIdentity.get(j.Identity()) == j, "job %s is not found by its identity", j.id)
		}
		if j.Held() {
			lingering++
			c.want(m.lingering[j.Identity()] == j, "job %s lingers and is not found by its identity", j.id)
		}
	}
	c.want(unfinished == m.byIdentity.len(), "%d jobs are unfinished, %d identities taken", unfinished, m.byIdentity.len())
	c.want(lingering == len(m.lingering), "%d jobs linger, %d identities taken", lingering, len(m.lingering))
}

func (c *check) builds() {
	active, waiting, staged := map[string]int32{}, map[string]int{}, map[string]bool{}
	for id, b := range c.m.builds {
		open := 0
		for i, h := range b.jobs {
			ok := int(h.back) < len(h.job.wishes) && h.job.wishes[h.back].build == b && h.job.wishes[h.back].back == int32(i)
			c.want(ok, "build %s: job %s does not know the wish", id, h.job.id)
			if ok && (!h.job.wishes[h.back].optional || h.job.wishes[h.back].awaited) {
				open++
			}
		}
		c.want(open == b.open, "build %s waits for %d jobs, counted %d", id, open, b.open)
		c.want(open > 0 || b.Staged || c.ending[b], "build %s waits for nothing and has not ended", id)
		switch key := b.Build.Gate.Key; {
		case b.active:
			active[key]++
		case b.Staged:
			staged[key] = true
		default:
			waiting[key]++
			g := c.m.gates[key]
			c.want(g != nil && slices.Contains(g.waiting, b), "build %s waits at no gate", id)
		}
	}
	for key, g := range c.m.gates {
		c.want(key == g.key && key != "", "gate %q is filed under %q", g.key, key)
		c.want(g.active == active[key], "gate %q counts %d builds, %d are under way", key, g.active, active[key])
		c.want(len(g.waiting) == waiting[key], "gate %q has %d builds waiting, %d wait", key, len(g.waiting), waiting[key])
		c.want(g.active > 0 || len(g.waiting) > 0 || staged[key] || c.opening[g], "gate %q is of no use any more", key)
	}
}

func (c *check) classes() {
	jobs, where := map[*class]int{}, map[*class]*Counts{}
	for _, j := range c.m.jobs {
		jobs[j.class]++
		if where[j.class] == nil {
			where[j.class] = &Counts{}
		}
		*where[j.class].of(j.state)++
		c.want(c.m.classes[j.class.Class] == j.class, "job %s is in a class that is not filed", j.id)
	}
	for key, k := range c.m.classes {
		capable := 0
		for _, w := range c.m.workers {
			if len(w.Lacks(key)) == 0 {
				capable++
			}
		}
		c.want(k.jobs == jobs[k], "class %v counts %d jobs, want %d", key, k.jobs, jobs[k])
		c.want(where[k] == nil && k.where == Counts{} || where[k] != nil && *where[k] == k.where, "class %v counts %+v, want %+v", key, k.where, where[k])
		c.want(k.capable == capable, "class %v counts %d workers, want %d", key, k.capable, capable)
		c.want(k.jobs > 0 || c.idle[key], "class %v is of no use any more", key)
		c.want(k.capable == 0 || k.since == 0, "class %v is unserved since %d, and %d workers serve it", key, k.since, capable)
	}
}

func (c *check) usage() {
	accounts, channels := map[account]usage{}, map[string]usage{}
	fresh := &Machine{base: c.m.base, accounts: map[account]*usage{}, channelUse: map[string]*usage{}}
	for _, j := range c.m.Jobs() {
		if j.running() {
			fresh.meter(j, 1)
		}
	}
	for a, u := range fresh.accounts {
		accounts[a] = *u
	}
	for n, u := range fresh.channelUse {
		channels[n] = *u
	}
	for a, u := range c.m.accounts {
		c.account(fmt.Sprintf("group %q of channel %q", a.group, a.channel), u, accounts[a])
		c.want(u.shares == c.m.groupShares(a.channel, a.group), "group %q of channel %q has %d shares", a.group, a.channel, u.shares)
	}
	for n, u := range c.m.channelUse {
		c.account(fmt.Sprintf("channel %q", n), u, channels[n])
	}
}

func (c *check) account(who string, have *usage, running usage) {
	sum := int64(0)
	for i, s := range have.slices {
		sum += s.used
		c.want(i == 0 || have.slices[i-1].index < s.index, "%s: slices are out of order", who)
	}
	c.want(sum == have.sum, "%s used %d, counted %d", who, sum, have.sum)
	c.want(have.weight == running.weight && have.start == running.start && have.full == running.full,
		"%s uses %d from %d and %d in full, counted %d, %d, %d",
		who, running.weight, running.start, running.full, have.weight, have.start, have.full)
}
