package job

import (
	"container/heap"
	"math"
	"slices"
)

// Loaded ends the loading: now is the owner's clock. Each lease gets one full TTL, delays are clamped to their
// original length, and what was derived is derived again.
func (m *Machine) Loaded(now Time) {
	m.pour(math.MaxInt) // before the rest: who needs a job decides what becomes of it
	m.sweep(math.MaxInt)
	for _, k := range m.classes {
		k.since = min(k.since, now)
		if k.jobs == 0 {
			m.idle = append(m.idle, k.Class)
		}
	}
	slices.SortFunc(m.idle, Class.compare)
	for _, j := range m.Jobs() {
		m.clamp(j, now)
	}
	for _, n := range m.Workers() {
		w := m.workers[n]
		if w.used > 0 {
			m.saw(n, now) // as alive as its leases are
		}
		if limit := now.Add(w.Delay); w.Until > limit {
			w.Until = limit
			heap.Push(&m.pens, pen{limit, n})
		}
	}
	m.loading = false
	checks := m.check
	m.check = nil
	for _, j := range checks {
		j.flags.clear(isChecked)
		// What was Ready stays so without a word; a release that the last owner did not come to store is told now.
		if _, ready := j.state.(Ready); ready != m.releasable(j, now) && j.waiting() {
			m.look(j)
		}
		if end, ok := m.patience(j); ok && j.waiting() {
			m.alarm(j, end)
		}
	}
}

func (m *Machine) clamp(j *Job, now Time) {
	j.at = min(j.at, now) // its grace begins no later
	if x := j.more; x != nil && x.wake > now.Add(x.delay) {
		x.wake = now.Add(x.delay)
		m.alarm(j, x.wake)
	}
	if j.leased() == nil {
		return
	}
	if j.running() {
		m.meter(j, -1)
	}
	if j.last.Start > now {
		j.last.Start = now
	}
	ttl := m.Channel(j.class.Channel).TTL
	j.last.lease.deadline, j.last.lease.beat, j.last.lease.output = now.Add(ttl), now, now
	if j.running() {
		m.meter(j, 1)
	}
	m.retime(j)
}

// loadEnded takes up a Done job that still has something to tell or to free.
func (m *Machine) loadEnded(j *Job, r *Record) {
	j.become(Blocked{}.End(r.End))
	if r.Open {
		j.flags.set(openEnd)
		m.doomed = append(m.doomed, doom{nil, j})
	}
	if r.Held && r.Last == nil {
		// What is known of the attempt cannot be read: nobody can let go of it but Advance.
		j.flags.set(heldAttempt)
		m.alarm(j, m.base)
	} else if r.Held {
		j.flags.set(heldAttempt)
		m.lingering[j.Identity()] = j
		m.attach(j, r.Last.Start)
	}
}
