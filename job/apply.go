package job

import "fmt"

// Apply makes one change. It is the only way in which the Machine's durable state moves; replaying what a
// store kept is recovery. An error means that the change does not fit the state: the history is corrupt.
func (m *Machine) Apply(c Change) error {
	switch c := c.(type) {
	case BuildAdded, BuildReferred, BuildSealed, BuildActivated, BuildBumped, BuildEnded:
		return m.applyBuild(c)
	case JobAdded:
		return m.applyAdded(&c.Record)
	case WorkerPut:
		m.applyWorker(c.Worker)
	case WorkerRemoved:
		m.applyWorkerRemoved(c.Name)
	case ChannelPut:
		m.applyChannel(c.Channel)
	case SettingPut:
		m.applySetting(c.Setting)
	case SettingRemoved:
		m.applySettingRemoved(c.Space, c.Name)
	case ClassMarked:
		k := m.class(c.Class)
		k.since = c.Since
		m.mayDrop(k)
	case UsagePut:
		m.applyUsage(c)
	case JobDeleted, BuildDeleted, DurationLearned, FailureCached, FailureCleared:
		// The store's alone.
	default:
		return m.applyJob(c)
	}
	return nil
}

// applyJob makes a change of a job that is in memory.
func (m *Machine) applyJob(c Change) error {
	id, ok := jobOf(c)
	j := m.jobs[id]
	if !ok || j == nil {
		return fmt.Errorf("apply %T: job %s is not in memory", c, id)
	}
	switch c := c.(type) {
	case JobKept:
		if j.done() {
			return illegal(c, j)
		}
		own, x := c.Own, j.extra()
		j.in.take(own.offers())
		if x.own != nil {
			j.in.drop(x.own.offers())
		}
		x.own = &own
		m.retouch(j)
	case JobReleased:
		if s, ok := j.state.(Blocked); ok {
			j.become(s.Release())
			m.touch(j)
			return nil
		}
		return illegal(c, j)
	case JobBlocked:
		if s, ok := j.state.(Ready); ok {
			j.become(s.Block())
			m.touch(j)
			return nil
		}
		return illegal(c, j)
	case JobStarted:
		return m.applyStarted(j, &c)
	case JobRetried:
		return m.applyRetried(j, &c)
	case JobEnded:
		return m.applyEnded(j, &c)
	case JobFreed:
		if !j.Held() {
			return illegal(c, j)
		}
		m.applyFreed(j)
	case JobSettled:
		if !j.flags.has(openEnd) {
			return illegal(c, j)
		}
		j.flags.clear(openEnd)
		m.forget(j)
	case JobProgress:
		if !j.running() {
			return illegal(c, j)
		}
	default:
		// Apply has dealt with the others: they name no job in memory.
	}
	return nil
}

func jobOf(c Change) (ID, bool) {
	switch c := c.(type) {
	case JobKept:
		return c.Job, true
	case JobReleased:
		return c.Job, true
	case JobBlocked:
		return c.Job, true
	case JobStarted:
		return c.Job, true
	case JobRetried:
		return c.Job, true
	case JobEnded:
		return c.Job, true
	case JobFreed:
		return c.Job, true
	case JobSettled:
		return c.Job, true
	case JobProgress:
		return c.Job, true
	default:
		return ID{}, false
	}
}

func illegal(c Change, j *Job) error {
	return fmt.Errorf("apply %T: job %s is %s", c, j.id, j.state)
}

func (m *Machine) applyAdded(r *Record) error {
	if m.jobs[r.Spec.ID] != nil {
		return fmt.Errorf("apply JobAdded: job %s is already in memory", r.Spec.ID)
	}
	s := &r.Spec
	hash := m.byIdentity.hash(s.Identity())
	if twin := m.byIdentity.find(hash, s.Identity()); twin != nil && r.End == nil {
		return fmt.Errorf("apply JobAdded: job %s has the identity of %s, which is unfinished", s.ID, twin.id)
	}
	if (r.Running || r.Held && (r.End == nil || !m.loading)) && r.Last == nil {
		return fmt.Errorf("apply JobAdded: job %s has a lease without an attempt", s.ID)
	}
	j := &Job{
		id: s.ID, seq: r.Seq, at: r.At, name: s.Name, key: s.Key,
		class: m.class(s.Class()), state: Blocked{}, estimate: or(s.Estimate, DefaultEstimate),
	}
	j.class.jobs++
	j.class.where.Blocked++
	if r.Last != nil {
		j.last = &trial{Attempt: *r.Last, end: r.LastEnd}
	}
	if s.Exclusive {
		j.flags.set(exclusive)
	}
	if s.CacheFailure {
		j.flags.set(cacheFailure)
	}
	if r.Own != nil || s.Retry != (Retry{}) || s.Gate != (Gate{}) || r.Tally != (Tally{}) || r.Wake != 0 {
		j.more = &extra{own: r.Own, retry: s.Retry, gate: s.Gate, tally: r.Tally, wake: r.Wake, delay: r.Delay}
	}
	m.jobs[j.id] = j
	m.seq = max(m.seq, r.Seq)
	m.touch(j)
	if r.End != nil {
		m.loadEnded(j, r)
		return nil
	}
	m.byIdentity.put(hash, j)
	if r.Ready {
		j.become(Blocked{}.Release())
	}
	if r.Running {
		if j.more != nil {
			j.more.wake, j.more.delay = 0, 0
		}
		j.become(Blocked{}.Release().Start(&j.last.Attempt))
		m.attach(j, r.Last.Start)
		m.meter(j, 1)
	}
	j.needs = make([]edge, 0, len(s.Needs))
	for _, n := range s.Needs {
		m.need(j, n)
	}
	if r.Own != nil {
		j.in.take(r.Own.offers())
	}
	if r.Wake != 0 && !r.Running {
		m.alarm(j, r.Wake)
	}
	m.retouch(j)
	m.stage(m.builds[r.Staging], j, true)
	m.orphan(j, r.Staging)
	return nil
}

// need joins j to a dependency that still has something to tell it.
func (m *Machine) need(j *Job, n Need) {
	d := m.jobs[n.Job]
	switch {
	case d == nil:
	case !d.done():
		j.join(d, n.Policy, n.Loose)
		m.retouch(d)
	case n.Policy == Success && d.state.(Done).End.Outcome != Succeeded:
		m.condemn(j, d)
	}
}

// condemn notes that j cannot get the success of d that it needs.
func (m *Machine) condemn(j, d *Job) {
	if x := j.extra(); x.doom == nil && j.waiting() {
		x.doom = d
		d.extra().tells++
		m.doomed = append(m.doomed, doom{j, d})
	}
}

func (m *Machine) applyStarted(j *Job, c *JobStarted) error {
	s, ok := j.state.(Ready)
	if !ok {
		return illegal(*c, j)
	}
	a := c.Attempt
	j.last = &trial{Attempt: a}
	j.become(s.Start(&j.last.Attempt))
	if j.more != nil {
		j.more.wake, j.more.delay = 0, 0
	}
	m.attach(j, a.Start)
	m.meter(j, 1)
	m.touch(j)
	return nil
}

func (m *Machine) applyRetried(j *Job, c *JobRetried) error {
	s, ok := j.state.(Running)
	if !ok {
		return illegal(*c, j)
	}
	m.meter(j, -1)
	m.detach(j)
	j.become(s.Again())
	end := c.Attempt
	end.Result = nil
	j.last.end = &end
	x := j.extra()
	x.tally, x.wake, x.delay = c.Tally, c.Wake, c.Delay
	if c.Wake != 0 {
		m.alarm(j, c.Wake)
	}
	// Limits and needs may have changed while it ran.
	m.look(j)
	m.doubt(j)
	m.touch(j)
	return nil
}

func (m *Machine) applyEnded(j *Job, c *JobEnded) error {
	if c.Held && !j.running() {
		return illegal(*c, j)
	}
	end := c.End
	switch s := j.state.(type) {
	case Blocked:
		j.become(s.End(&end))
	case Ready:
		j.become(s.End(&end))
	case Running:
		j.become(s.End(&end))
		m.meter(j, -1)
		if c.Held {
			j.flags.set(heldAttempt)
			m.lingering[j.Identity()] = j
			m.retime(j)
		} else {
			m.detach(j)
		}
	case Done:
		return illegal(*c, j)
	}
	if c.Attempt != nil {
		e := *c.Attempt
		e.Result = nil
		j.last.end = &e
	}
	m.byIdentity.remove(j)
	m.touch(j)
	m.leaveBuilds(j, end.Outcome)
	m.leaveNeeds(j, &end)
	m.tellDependents(j, &end)
	if c.Open {
		j.flags.set(openEnd)
		j.extra()
		m.doomed = append(m.doomed, doom{nil, j})
	}
	m.forget(j)
	return nil
}

// leaveBuilds counts the end for the builds that wish for the job.
func (m *Machine) leaveBuilds(j *Job, o Outcome) {
	for i := range j.wishes {
		w := &j.wishes[i]
		b := w.build
		b.remove(w.back)
		b.count(o, w.awaited, w.optional)
		m.mayEnd(b)
	}
	j.wishes = nil
}

// leaveNeeds takes the job's demand off its dependencies. If somebody cancelled it, what only it needed stops, too.
func (m *Machine) leaveNeeds(j *Job, end *End) {
	pass := j.flags & erase
	if end.Outcome == Cancelled && end.Detail != NotNeeded { // else whom to stop is settled already
		pass |= stop
		m.stopping = true
	}
	for len(j.needs) > 0 {
		d := j.needs[len(j.needs)-1].job
		if j.needs[len(j.needs)-1].blocks() {
			d.flags.set(pass)
		}
		j.part(int32(len(j.needs) - 1))
		m.retouch(d)
	}
	if x := j.more; x != nil && x.doom != nil {
		x.doom.more.tells--
		x.doom = nil
	}
	j.out = offer{}
	if slot := j.slot; slot != 0 && !j.flags.has(heldAttempt) {
		m.still(j)
	}
}

// tellDependents releases or dooms each job that waits for this one.
func (m *Machine) tellDependents(j *Job, end *End) {
	for len(j.dependents) > 0 {
		e := j.dependents[len(j.dependents)-1]
		e.job.part(e.back)
		if e.policy == Success && end.Outcome != Succeeded {
			m.condemn(e.job, j)
		} else if e.blocks() {
			m.look(e.job)
		}
	}
	j.in = demand{} // nobody asks for it any more
}

func (m *Machine) applyFreed(j *Job) {
	j.flags.clear(heldAttempt)
	if j.leased() != nil {
		m.detach(j)
	}
	if m.lingering[j.Identity()] == j {
		delete(m.lingering, j.Identity())
	}
	if next := m.byIdentity.get(j.Identity()); next != nil {
		m.look(next)
	}
	m.touch(j) // it holds its concurrency key no longer
	m.forget(j)
}

// become puts the job into a state.
func (j *Job) become(s State) {
	*j.class.where.of(j.state)--
	*j.class.where.of(s)++
	j.state = s
}

// forget drops a Done job that has nothing left to tell or to free.
func (m *Machine) forget(j *Job) {
	if !j.done() || j.flags.has(heldAttempt) || j.flags.has(openEnd) {
		return
	}
	delete(m.jobs, j.id)
	m.left = append(m.left, j)
	m.still(j)
	j.class.jobs--
	j.class.where.Done--
	m.mayDrop(j.class)
}
