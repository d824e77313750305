package job

import "container/heap"

// timers is a heap of the jobs that have a moment at which they must be looked at. A job is in it once, with its
// nearest moment; one that moved later (a renewed lease) is put right when the old moment comes.
type timers []*Job

func (q timers) Len() int { return len(q) }
func (q timers) Less(a, b int) bool {
	if q[a].due != q[b].due {
		return q[a].due < q[b].due
	}
	return q[a].seq < q[b].seq
}

func (q timers) Swap(a, b int) {
	q[a], q[b] = q[b], q[a]
	q[a].slot, q[b].slot = int32(a+1), int32(b+1)
}

// Push is for container/heap.
func (q *timers) Push(x any) {
	j := x.(*Job)
	*q = append(*q, j)
	j.slot = int32(len(*q))
}

// Pop is for container/heap.
func (q *timers) Pop() any {
	old := *q
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	j.slot = 0
	return j
}

// alarm sees to it that j is looked at by the given moment.
func (m *Machine) alarm(j *Job, at Time) {
	switch {
	case j.slot == 0:
		j.due = at
		heap.Push(&m.timers, j)
	case at < j.due:
		j.due = at
		heap.Fix(&m.timers, int(j.slot-1))
	}
}

// still takes j's alarm away.
func (m *Machine) still(j *Job) {
	if j.slot != 0 {
		heap.Remove(&m.timers, int(j.slot-1))
	}
}

// pens is a heap of the ends of quarantines. An entry that is no longer true finds nothing to do.
type pens []pen

type pen struct {
	until Time
	name  string
}

func (q pens) Len() int { return len(q) }
func (q pens) Less(a, b int) bool {
	if q[a].until != q[b].until {
		return q[a].until < q[b].until
	}
	return q[a].name < q[b].name
}
func (q pens) Swap(a, b int) { q[a], q[b] = q[b], q[a] }

// Push is for container/heap.
func (q *pens) Push(x any) { *q = append(*q, x.(pen)) }

// Pop is for container/heap.
func (q *pens) Pop() any {
	old := *q
	p := old[len(old)-1]
	*q = old[:len(old)-1]
	return p
}

// retime sets the alarm of a job with a lease anew.
func (m *Machine) retime(j *Job) {
	m.still(j)
	if at, ok := m.nextLook(j); ok {
		m.alarm(j, at)
	}
}

// nextLook gives the nearest moment at which the passing of time alone changes something for the job.
func (m *Machine) nextLook(j *Job) (at Time, ok bool) {
	sooner := func(t Time) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if l := j.leased(); l != nil {
		if j.Held() || !m.Channel(j.class.Channel).CallerJudges {
			sooner(l.deadline)
		}
		if j.running() {
			if limit := j.last.Limits.Timeout; limit > 0 {
				sooner(j.last.Start.Add(limit).Add(JudgeSlack))
			}
			if limit := j.last.Limits.Silence; limit > 0 && l.heard {
				sooner(l.output.Add(limit).Add(JudgeSlack))
			}
			if !l.aged {
				sooner(j.last.Start.Add(UsageWindow))
			}
		}
		return at, ok
	}
	if !j.waiting() {
		return 0, false
	}
	if j.more != nil && j.more.wake != 0 {
		sooner(j.more.wake)
	}
	if end, has := m.patience(j); has {
		sooner(end)
	}
	return at, ok
}
