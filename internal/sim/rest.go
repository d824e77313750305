package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/sched"
)

// restWithin bounds how long everything may take to end once nothing goes wrong any more.
const restWithin = 30 * 24 * time.Hour

// rest ends the faults and the refusals, lets all workers work, and wants everything to end: nobody waits for ever
// (rule 3).
func (w *world) rest() {
	w.note("from now on, nothing goes wrong")
	w.faulty = false
	for _, name := range channels {
		c := job.DefaultChannel(name)
		c.Grace = time.Hour
		w.put(c)
	}
	w.sleep(job.DefaultTTL)
	for i, name := range workers {
		k := job.Worker{
			Name: name, Channels: channels, Kinds: kinds, Systems: systems[1:], Slots: 2, Features: features, Session: w.newID(),
			Speed: float64(i),
		}
		if name == "w1" {
			k.Slots = 3
		}
		w.enroll(k, false)
		w.drainTo(name, false)
	}
	end := w.m.now.Add(restWithin)
	for w.unfinished() {
		if w.m.now > end {
			w.fail("after %v without faults, not everything has ended: %s", restWithin, w.left())
		}
		w.step++
		w.labour()
		w.verify()
	}
	w.compareHistory()
	w.inspect(func(m *job.Machine, _ *sched.Scheduler) {
		if m.Len() > 0 || len(m.Builds()) > 0 {
			w.fail("all has ended, and %d jobs and %d builds are in memory", m.Len(), len(m.Builds()))
		}
	})
}

func (w *world) unfinished() bool {
	live := func(j *mJob) bool { return j.end == nil || j.held() }
	return slices.ContainsFunc(w.m.jobs, live) ||
		slices.ContainsFunc(w.m.builds, (*mBuild).live)
}

func (w *world) left() (text string) {
	for _, j := range w.m.jobs {
		if j.end == nil {
			text += fmt.Sprintf("%s %s, ", short(j.ID), w.stateOf(j))
		}
	}
	return text
}

// labour lets each worker ask for work, and finish what it has.
func (w *world) labour() {
	for _, k := range w.m.workers {
		if k.wants() == 0 {
			w.askFor(k.Worker, int(k.Slots), 0)
		}
	}
	w.verify()
	worked := false
	for _, k := range w.work {
		if j := w.m.job(k.Lease.Job); !k.over && j != nil && j.last.leased && j.last.lease() == k.Lease {
			k.over, worked = true, true
			w.finish("finish", job.Report{Lease: k.Lease, Outcome: job.Succeeded})
		}
	}
	if worked {
		w.sleep(time.Second)
	} else {
		w.sleep(time.Hour)
	}
}
