package job

import (
	"fmt"
	"slices"
	"time"
)

func (m *Machine) applyBuild(c Change) error {
	if a, ok := c.(BuildAdded); ok {
		return m.applyBuildAdded(&a.BuildRecord)
	}
	var id ID
	switch c := c.(type) {
	case BuildReferred:
		id = c.Build
	case BuildSealed:
		id = c.Build
	case BuildActivated:
		id = c.Build
	case BuildBumped:
		id = c.Build
	case BuildEnded:
		id = c.Build
	default:
		// Apply passes on those of builds alone.
	}
	b := m.builds[id]
	if b == nil {
		if r, ok := c.(BuildReferred); ok && r.Build == id {
			return nil // an ended build takes references for its history alone
		}
		return fmt.Errorf("apply %T: build %s is not live", c, id)
	}
	switch c := c.(type) {
	case BuildReferred:
		for _, id := range c.Keeps {
			m.stage(b, m.jobs[id], false)
		}
		for i := range c.Refs {
			m.refer(b, &c.Refs[i])
		}
		m.mayEnd(b)
	case BuildSealed:
		if !b.Staged {
			return fmt.Errorf("apply %T: build %s is complete already", c, id)
		}
		b.Staged = false
		m.unstage(b, 0)
		m.enterGate(b)
		m.mayEnd(b)
	case BuildActivated:
		if b.active {
			return fmt.Errorf("apply %T: build %s is under way already", c, id)
		}
		m.reoffer(b, func() { b.active = true })
		m.leaveQueue(b)
		m.admit(b)
	case BuildBumped:
		m.reoffer(b, func() { b.priority = c.Priority })
	case BuildEnded:
		m.applyBuildEnded(b, &c)
	default:
		// Apply passes on those of builds alone.
	}
	return nil
}

func (m *Machine) applyBuildAdded(r *BuildRecord) error {
	if m.builds[r.Build.ID] != nil {
		return fmt.Errorf("apply BuildAdded: build %s is already live", r.Build.ID)
	}
	b := &build{
		BuildRecord: *r, active: r.Active, priority: r.Build.Priority,
		audience: newAudience(r.Build.Limits, r.Build.Group),
	}
	b.Build.Labels = nil
	m.builds[r.Build.ID] = b
	m.seq = max(m.seq, r.Seq)
	if b.active {
		m.admit(b)
	}
	if !b.Staged {
		m.enterGate(b)
		m.mayEnd(b)
	}
	return nil
}

// enterGate queues a complete build that is not under way yet.
func (m *Machine) enterGate(b *build) {
	if g := m.gate(b); g != nil && !b.active {
		g.waiting = append(g.waiting, b)
		m.mayOpen(g)
	}
}

// admit counts a build that is under way.
func (m *Machine) admit(b *build) {
	if g := m.gate(b); g != nil {
		g.active++
	}
}

// gate finds or makes the build's gate; nil: it has no key. The last build of a key takes the gate with it when it ends,
// whether or not one is still staged.
func (m *Machine) gate(b *build) *buildGate {
	key := b.Build.Gate.Key
	if key == "" {
		return nil
	}
	g := m.gates[key]
	if g == nil {
		g = &buildGate{key: key}
		m.gates[key] = g
	}
	return g
}

func (m *Machine) leaveQueue(b *build) {
	if g := m.gates[b.Build.Gate.Key]; g != nil {
		if i := slices.Index(g.waiting, b); i >= 0 {
			g.waiting = slices.Delete(g.waiting, i, i+1)
		}
	}
}

func (m *Machine) mayOpen(g *buildGate) {
	if !g.queued {
		g.queued = true
		m.opening = append(m.opening, g)
	}
}

// refer makes the build wish for a job.
func (m *Machine) refer(b *build, r *Ref) {
	j := m.jobs[r.Job]
	if r.Ended != 0 || j == nil || j.done() {
		o := r.Ended
		if o == 0 && j != nil && j.done() {
			o = j.state.(Done).End.Outcome
		}
		if !r.Awaited && !r.Optional && o != 0 {
			b.worst = worse(b.worst, o)
		}
		return
	}
	w := wish{build: b, back: int32(len(b.jobs)), priority: r.Priority, awaited: r.Awaited, optional: r.Optional}
	if r.Limits != (Limits{}) {
		l := r.Limits
		w.limits = &l
	}
	j.in.take(w.offers())
	if have := j.wished(b); have != nil {
		// Asked for again: the reference is the sum of both.
		if have.delays() {
			b.open--
		}
		j.in.drop(have.offers())
		w.back = have.back
		*have = w
	} else {
		b.jobs = append(b.jobs, held{j, int32(len(j.wishes))})
		j.wishes = append(j.wishes, w)
	}
	if w.delays() {
		b.open++
	}
	m.retouch(j)
}

// wished finds the build's wish for the job; nil: it has none.
func (j *Job) wished(b *build) *wish {
	for i := range j.wishes {
		if j.wishes[i].build == b {
			return &j.wishes[i]
		}
	}
	return nil
}

// delays reports whether the build does not end before the job.
func (w *wish) delays() bool { return w.awaited || !w.optional }

// ref gives the reference that the wish was made by.
func (w *wish) ref(id ID) Ref {
	r := Ref{Job: id, Awaited: w.awaited, Optional: w.optional, Priority: w.priority}
	if w.limits != nil {
		r.Limits = *w.limits
	}
	return r
}

// Over gives the reference that stands where a build, that refers to a job by have, does so again by r. It is r, but
// what was a target stays one, and what delayed the end of the build goes on to. A store that keeps references by
// build and job has to apply it.
func (r Ref) Over(have Ref) Ref {
	target := !r.Awaited && !r.Optional || !have.Awaited && !have.Optional
	r.Awaited = !target && (r.Awaited || have.Awaited)
	r.Optional = r.Optional && have.Optional
	r.Ended = or(have.Ended, r.Ended)
	return r
}

// add sums up two references of a build, that states the limits all, to one job.
func (r Ref) add(o *Ref, all Limits) Ref {
	sum := o.Over(r)
	sum.Priority = max(r.Priority, o.Priority)
	sum.Limits.Timeout = addLimit(r.Limits.Timeout, o.Limits.Timeout, all.Timeout)
	sum.Limits.Silence = addLimit(r.Limits.Silence, o.Limits.Silence, all.Silence)
	return sum
}

// addLimit gives the wider of two limits for one job, where zero means what the build states for all.
func addLimit(a, b, all time.Duration) time.Duration {
	sum := widest(or(a, all), or(b, all))
	if sum == all {
		return 0
	}
	return sum
}

// remove drops the i-th job of the build's list; its wish is the caller's to remove.
func (b *build) remove(i int32) {
	last := int32(len(b.jobs) - 1)
	if i != last {
		moved := b.jobs[last]
		b.jobs[i] = moved
		moved.job.wishes[moved.back].back = i
	}
	b.jobs[last] = held{}
	b.jobs = b.jobs[:last]
}

// unwish drops the i-th wish of the job, whose build has dropped its side.
func (j *Job) unwish(i int32) {
	last := int32(len(j.wishes) - 1)
	if i != last {
		j.wishes[i] = j.wishes[last]
		moved := &j.wishes[i]
		moved.build.jobs[moved.back].back = i
	}
	j.wishes[last] = wish{}
	j.wishes = j.wishes[:last]
}

// count books the end of a referenced job.
func (b *build) count(o Outcome, awaited, optional bool) {
	if !optional || awaited {
		b.open--
	}
	if !awaited && !optional {
		b.worst = worse(b.worst, o)
	}
}

// severity orders outcomes for a build's verdict.
var severity = [...]int{
	Succeeded: 1, Cancelled: 2, DependencyFailed: 3, Unsupported: 4, Aborted: 5, TimedOut: 6, Failed: 7,
}

func worse(a, b Outcome) Outcome {
	if severity[b] > severity[a] {
		return b
	}
	return a
}

// mayEnd notes that the build may have ended.
func (m *Machine) mayEnd(b *build) {
	if b.open == 0 && !b.ending {
		b.ending = true
		m.ending = append(m.ending, b)
	}
}

// reoffer lets change alter what the build offers its jobs.
func (m *Machine) reoffer(b *build, change func()) {
	old := make([]offer, len(b.jobs))
	for i, h := range b.jobs {
		old[i] = h.job.wishes[h.back].offers()
	}
	change()
	for i, h := range b.jobs {
		h.job.in.take(h.job.wishes[h.back].offers())
		h.job.in.drop(old[i])
		m.retouch(h.job)
	}
}

func (m *Machine) applyBuildEnded(b *build, c *BuildEnded) {
	var mark flags
	if c.Outcome == Cancelled && !c.Spare {
		mark = stop
		m.stopping = true
	}
	if c.Erased {
		mark |= erase
	}
	delete(m.builds, b.Build.ID)
	for len(b.jobs) > 0 {
		h := b.jobs[len(b.jobs)-1]
		j := h.job
		j.in.drop(j.wishes[h.back].offers())
		b.jobs = b.jobs[:len(b.jobs)-1]
		j.unwish(h.back)
		j.flags.set(mark)
		m.retouch(j)
	}
	m.unstage(b, mark)
	m.leaveQueue(b)
	if g := m.gates[b.Build.Gate.Key]; g != nil {
		if b.active {
			g.active--
		}
		if g.active == 0 && len(g.waiting) == 0 {
			delete(m.gates, g.key)
		} else {
			m.mayOpen(g)
		}
	}
}
