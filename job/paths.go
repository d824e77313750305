package job

import (
	"container/heap"
	"math"
)

// The longest path behind a job is as long as the whole chain that was hung on it, so that each job that comes in at the end of
// a long chain changes it for all before. Passed on at once, a chain that grows job by job would cost the square of its
// length. What only lengthens or shortens paths therefore waits until all else is done, and is passed on in sweeps: from the
// youngest job to the oldest, some steps at a time, while what comes up behind a sweep waits for the next. So however many jobs come
// in during one sweep, the next takes the changes of all of them along, and what is passed on reaches the oldest job within two.
//
// Meanwhile a rank may go by a path that is somewhat too short or too long; need, priority and who pays are never late.

// sweeps passes on changed paths.
type sweeps struct {
	now, next flowQueue
	at        int64 // how far it has come: the seq of the job that it passed last
	steps     int   // how many jobs an Advance passes
}

// pathSteps is how many jobs an Advance passes of a sweep, but in tests.
const pathSteps = 256

// lengthen notes that the path offered to j has changed, and nothing else.
func (m *Machine) lengthen(j *Job) {
	if j.flags.has(inSweep) {
		return
	}
	j.flags.set(inSweep)
	if j.seq < m.paths.at {
		heap.Push(&m.paths.now, j)
	} else {
		heap.Push(&m.paths.next, j)
	}
}

// sweep passes at most so many jobs. What only has a longer path is not looked at again for whether it may start.
func (m *Machine) sweep(steps int) {
	p := &m.paths
	for ; steps > 0 && p.len() > 0; steps-- {
		if len(p.now) == 0 {
			p.now, p.next, p.at = p.next, p.now, math.MaxInt64
		}
		j := heap.Pop(&p.now).(*Job)
		j.flags.clear(inSweep)
		p.at = j.seq
		if j.in.stale() {
			m.pass(j)
			continue
		}
		if _, ready := j.state.(Ready); ready {
			m.touch(j)
		}
		m.tell(j)
	}
}

func (p *sweeps) len() int { return len(p.now) + len(p.next) }
