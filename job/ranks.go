package job

import (
	"container/heap"
	"math"
)

// The longest path behind a job is as long as the whole chain that was hung on it, so that each job that comes in at the end of
// a long chain changes it for all before. So does the priority, if each is more urgent than the last. Passed on at once, a chain
// that grows job by job would cost the square of its length. What only changes ranks therefore waits until all else is done, and
// is passed on in sweeps: from the youngest job to the oldest, some steps at a time, while what comes up behind a sweep waits for
// the next. So however many jobs come in during one sweep, the next takes the changes of all of them along, and what is passed on
// reaches the oldest job within two.
//
// Meanwhile a rank may go by a path, and by a priority, that dependents offered before; need and who pays never are late, and
// neither is what a build offers the jobs that it names.

// sweeps passes on changed ranks.
type sweeps struct {
	now, next flowQueue
	at        int64 // how far it has come: the seq of the job that it passed last
	steps     int   // how many jobs an Advance passes
}

// rankSteps is how many jobs an Advance passes of a sweep, but in tests.
const rankSteps = 256

// rerank notes that the path or the priority offered to j has changed, and nothing else.
func (m *Machine) rerank(j *Job) {
	if j.flags.has(inSweep) {
		return
	}
	j.flags.set(inSweep)
	if j.seq < m.ranks.at {
		heap.Push(&m.ranks.now, j)
	} else {
		heap.Push(&m.ranks.next, j)
	}
}

// sweep passes at most so many jobs. What only has another rank is not looked at again for whether it may start.
func (m *Machine) sweep(steps int) {
	p := &m.ranks
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
