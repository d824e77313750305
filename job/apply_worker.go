package job

import (
	"container/heap"
	"slices"
)

// class finds or makes the class.
func (m *Machine) class(c Class) *class {
	k := m.classes[c]
	if k == nil {
		k = &class{Class: c}
		for _, w := range m.workers {
			if len(w.Lacks(c)) == 0 {
				k.capable++
			}
		}
		m.classes[c] = k
	}
	return k
}

// mayDrop drops the class if it has no jobs. What is stored of it has to go first.
func (m *Machine) mayDrop(k *class) {
	switch {
	case k.jobs > 0:
	case k.since == 0:
		delete(m.classes, k.Class)
	case !m.loading:
		m.idle = append(m.idle, k.Class)
	}
}

func (m *Machine) applyWorker(w Worker) {
	old := m.workers[w.Name]
	unserved := false
	for _, k := range m.classes {
		had := old != nil && len(old.Lacks(k.Class)) == 0
		if had {
			k.capable--
		}
		if len(w.Lacks(k.Class)) == 0 {
			k.capable++
		}
		unserved = unserved || had && k.capable == 0
	}
	if old == nil {
		m.workers[w.Name] = &worker{Worker: w}
	} else {
		old.Worker = w
		if w.Session.IsZero() {
			old.seen = 0
		}
	}
	if w.Until != 0 {
		heap.Push(&m.pens, pen{w.Until, w.Name})
	}
	m.moved = append(m.moved, w.Name)
	if unserved {
		m.lookUnserved()
	}
}

func (m *Machine) applyWorkerRemoved(name string) {
	old := m.workers[name]
	if old == nil {
		return
	}
	for _, k := range m.classes {
		if len(old.Lacks(k.Class)) == 0 {
			k.capable--
		}
	}
	delete(m.workers, name)
	m.moved = append(m.moved, name)
	m.lookUnserved()
}

// lookUnserved looks at each waiting job that no known worker can run: its grace begins or has a new end.
func (m *Machine) lookUnserved() {
	if m.loading {
		return
	}
	for _, j := range m.some(func(j *Job) bool { return j.waiting() && j.class.capable == 0 }) {
		m.look(j)
	}
}

// some gives the jobs in memory that f picks, oldest first.
func (m *Machine) some(f func(*Job) bool) []*Job {
	var some []*Job
	for _, j := range m.jobs {
		if f(j) {
			some = append(some, j)
		}
	}
	slices.SortFunc(some, func(a, b *Job) int { return int(a.seq - b.seq) })
	return some
}

func (m *Machine) applyChannel(c Channel) {
	c.PausedKinds = slices.Clone(c.PausedKinds)
	m.channels[c.Name] = &c
	for a, u := range m.accounts {
		if a.channel == c.Name {
			u.shares = m.groupShares(a.channel, a.group)
		}
	}
	m.moved = append(m.moved, m.Workers()...)
	for _, j := range m.some(func(j *Job) bool { return j.class.Channel == c.Name }) {
		if j.waiting() {
			m.touch(j)
		} else if j.leased() != nil {
			m.retime(j) // who judges its lease may have changed
		}
	}
	m.lookUnserved()
}

// attach gives the job's newest attempt its lease and its slot.
func (m *Machine) attach(j *Job, now Time) {
	if len(j.last.Groups) == 0 {
		j.last.Groups = []string{""}
	}
	ttl := m.Channel(j.class.Channel).TTL
	j.last.lease = &lease{deadline: now.Add(ttl), beat: now, output: now}
	w := m.workers[j.last.Worker]
	if w == nil {
		// Only a damaged store loses a worker that holds a lease; the attempt is still accounted for.
		m.applyWorker(Worker{Name: j.last.Worker, Drained: true})
		w = m.workers[j.last.Worker]
	}
	w.add(j)
	m.moved = append(m.moved, w.Name)
	m.still(j)
	if at, ok := m.nextLook(j); ok {
		m.alarm(j, at)
	}
}

// detach ends the lease and frees the slot.
func (m *Machine) detach(j *Job) {
	w := j.last.lease.worker
	w.remove(j)
	m.moved = append(m.moved, w.Name)
	j.last.lease = nil
	m.still(j)
}
