package job

import (
	"container/heap"
	"math"
	"math/rand/v2"
)

// Moment is what the owner passes into a decision: the clock, and randomness for jitter.
type Moment struct {
	Now    Time
	Random rand.Source
}

// Advance gives and applies what follows from the changes so far and from the passing of time: jobs
// that become ready, dependents of a job that ended, leases that ran out, builds that are complete. It stops
// after about budget changes; Behind then reports true, and the next call goes on. Whatever the budget, it stops what runs for
// nobody since a cancel: that a cancel was the reason is stored nowhere, so that a new owner would let it run on.
func (m *Machine) Advance(at Moment, budget int) ([]Change, error) {
	a := advance{m: m, at: at, budget: budget}
	for a.err == nil && a.step() {
	}
	m.effort = a.effort()
	m.overdue = len(m.timers) > 0 && m.timers[0].due <= at.Now
	return a.out, a.err
}

// Effort tells how much of its budget the last Advance took.
func (m *Machine) Effort() int { return m.effort }

// passBudget is how many jobs the flow of offers may pass for each change that is allowed: passing is cheap.
const passBudget = 16

type advance struct {
	m      *Machine
	at     Moment
	budget int
	passed int // jobs that the flow of offers passed
	swept  int // jobs that a sweep of ranks passed
	out    []Change
	err    error
}

func (a *advance) effort() int { return len(a.out) + a.passed/passBudget }

// step does one kind of work, and reports whether there may be more.
func (a *advance) step() bool {
	m := a.m
	if m.stopping || len(m.stops) > 0 {
		a.stop()
		return true
	}
	if a.effort() >= a.budget {
		return false
	}
	switch {
	case a.timers():
	case len(m.flow) > 0:
		room := passBudget * (a.budget - a.effort())
		a.passed += room - m.pour(room)
	case len(m.unneeded) > 0:
		a.unneeded()
	case len(m.doomed) > 0:
		a.doomed()
	case len(m.check) > 0:
		a.check()
	case len(m.ending) > 0:
		a.ending()
	case len(m.opening) > 0:
		a.opening()
	case len(m.idle) > 0:
		a.idle()
	case m.ranks.len() > 0 && a.swept < m.ranks.steps:
		m.sweep(1)
		a.swept++
	default:
		return false
	}
	return true
}

func (a *advance) emit(changes ...Change) {
	for _, c := range changes {
		if a.err == nil {
			a.err = a.m.Apply(c)
			a.out = append(a.out, c)
		}
	}
}

// timers looks at each job and worker whose moment has come.
func (a *advance) timers() bool {
	m, now, did := a.m, a.at.Now, false
	for len(m.pens) > 0 && m.pens[0].until <= now {
		p := heap.Pop(&m.pens).(pen)
		m.moved = append(m.moved, p.name)
		did = true
	}
	for len(m.timers) > 0 && m.timers[0].due <= now && len(a.out) < a.budget {
		j := heap.Pop(&m.timers).(*Job)
		a.overdue(j)
		did = true
		if m.jobs[j.id] == j && j.slot == 0 {
			if at, ok := m.nextLook(j); ok && at > now {
				m.alarm(j, at)
			}
		}
	}
	return did
}

// overdue does what the time asks for a job.
func (a *advance) overdue(j *Job) {
	m, now := a.m, a.at.Now
	l := j.leased()
	switch {
	case l == nil && !j.Held():
		m.look(j)
	case j.Held():
		if l == nil || l.deadline <= now {
			a.emit(JobFreed{Job: j.id, Seq: j.seq, At: now})
		}
	case past(j.last.Start, j.last.Limits.Timeout, now):
		a.emit(m.overrun(j, now, TotalTimeout)...)
	case l.heard && past(l.output, j.last.Limits.Silence, now):
		a.emit(m.overrun(j, now, SilentTimeout)...)
	case l.deadline <= now && !m.Channel(j.class.Channel).CallerJudges:
		a.emit(m.conclude(j, a.at, AttemptEnd{
			Attempt: j.last.Attempt, At: now, Outcome: Aborted, Detail: LeaseLost,
			Message: "worker " + j.last.Worker + " was not heard of for a whole lease",
		})...)
	case !l.aged && j.last.Start.Add(UsageWindow) <= now:
		m.age(j)
	}
}

// stop ends the attempts that run for nobody since a cancel. Which these are shows once all offers have flowed, which is
// cheap; and there are no more than workers have slots.
func (a *advance) stop() {
	m := a.m
	m.stopping = false
	a.passed += math.MaxInt32 - m.pour(math.MaxInt32)
	list := m.stops
	m.stops = nil
	for _, j := range list {
		if j.in.keep == 0 && j.running() {
			a.emit(m.halt(j, a.at.Now, End{Outcome: Cancelled, Detail: NotNeeded})...)
		}
	}
}

// unneeded ends what no live build needs any more.
func (a *advance) unneeded() {
	m := a.m
	list := m.unneeded
	m.unneeded = nil
	for i, j := range list {
		if len(a.out) >= a.budget {
			m.unneeded = append(list[i:], m.unneeded...)
			return
		}
		j.flags.clear(isUnneeded)
		if j.in.keep > 0 || j.done() {
			continue
		}
		erased := j.flags.has(erase)
		if j.waiting() {
			a.emit(m.end(j, a.at.Now, End{Outcome: Cancelled, Detail: NotNeeded}))
		}
		if erased && m.jobs[j.id] == nil {
			a.emit(JobDeleted{Job: j.id})
		}
	}
}

// doomed ends the dependents of jobs that did not succeed.
func (a *advance) doomed() {
	m := a.m
	list := m.doomed
	m.doomed = nil
	for i, d := range list {
		if len(a.out) >= a.budget {
			m.doomed = append(list[i:], m.doomed...)
			return
		}
		if j := d.job; j != nil && j.waiting() && j.more.doom == d.by {
			a.emit(m.end(j, a.at.Now, d.by.state.(Done).End.dooms(d.by.id)))
		}
		if d.by.flags.has(openEnd) && d.by.more.tellsNothing() {
			a.emit(JobSettled{Job: d.by.id, Seq: d.by.seq})
		}
	}
}

func (x *extra) tellsNothing() bool { return x == nil || x.tells == 0 }

// dooms gives the end of a dependent that needed the success of a job that ended like this.
func (e *End) dooms(id ID) End {
	root, outcome := id, e.Outcome
	if e.Outcome == DependencyFailed || e.Cached && !e.Root.IsZero() {
		root, outcome = e.Root, e.RootOutcome
	}
	return End{Outcome: DependencyFailed, Root: root, RootOutcome: outcome}
}

// check looks whether jobs became ready, were blocked again, or have waited too long for a worker that could run them.
func (a *advance) check() {
	m, now := a.m, a.at.Now
	list := m.check
	m.check = nil
	for i, j := range list {
		if len(a.out) >= a.budget {
			m.check = append(list[i:], m.check...)
			return
		}
		j.flags.clear(isChecked)
		if !j.waiting() || m.jobs[j.id] != j {
			continue
		}
		if end, ok := m.patience(j); ok {
			// Whoever of this list ends first: what nobody needs since then was as unsupported as the rest.
			if end <= now {
				a.emit(m.end(j, now, End{Outcome: Unsupported, Message: "no known worker can run it"}))
				continue
			}
			if end > now {
				m.alarm(j, end)
			}
		}
		ready := m.releasable(j, now)
		switch j.state.(type) {
		case Blocked:
			if ready {
				a.emit(JobReleased{Job: j.id, Seq: j.seq})
			}
		case Ready:
			if !ready {
				a.emit(JobBlocked{Job: j.id, Seq: j.seq})
			}
		default:
			// It started or ended meanwhile.
		}
	}
}

// ending ends the builds whose targets and awaited jobs have ended.
func (a *advance) ending() {
	m := a.m
	list := m.ending
	m.ending = nil
	for i, b := range list {
		if len(a.out) >= a.budget {
			m.ending = append(list[i:], m.ending...)
			return
		}
		b.ending = false
		if b.open == 0 && !b.Staged && m.builds[b.Build.ID] == b {
			// Spare: even if the verdict is Cancelled, as a target was, nobody cancelled the build.
			a.emit(BuildEnded{Build: b.Build.ID, At: a.at.Now, Outcome: or(b.worst, Succeeded), Spare: true})
		}
	}
}

// idle forgets since when nobody serves the classes that have no jobs any more.
func (a *advance) idle() {
	m := a.m
	list := m.idle
	m.idle = nil
	for i, c := range list {
		if len(a.out) >= a.budget {
			m.idle = append(list[i:], m.idle...)
			return
		}
		if k := m.classes[c]; k != nil && k.jobs == 0 && k.since != 0 {
			a.emit(ClassMarked{Class: c})
		}
	}
}

// opening lets waiting builds through the gates that have room: the most urgent first, then the oldest.
func (a *advance) opening() {
	m := a.m
	list := m.opening
	m.opening = nil
	for _, g := range list {
		g.queued = false
		for a.err == nil {
			var next *build
			for _, b := range g.waiting {
				if next == nil || b.priority > next.priority || b.priority == next.priority && b.Seq < next.Seq {
					next = b
				}
			}
			if next == nil || g.active >= max(next.Build.Gate.Limit, 1) {
				break
			}
			a.emit(BuildActivated{Build: next.Build.ID})
		}
	}
}

// end gives the change that ends a waiting job.
func (m *Machine) end(j *Job, now Time, e End) Change {
	e.At = now
	return JobEnded{Job: j.id, Seq: j.seq, End: e, Open: m.dooms(j, e.Outcome)}
}

// dooms reports whether the job, ending so, takes dependents with it.
func (m *Machine) dooms(j *Job, o Outcome) bool {
	if o == Succeeded {
		return false
	}
	for _, e := range j.dependents {
		if e.policy == Success {
			return true
		}
	}
	return false
}

// halt gives the changes that end a running job at once, while its worker is still to be told.
func (m *Machine) halt(j *Job, now Time, e End) []Change {
	e.At = now
	end := &AttemptEnd{Attempt: j.last.Attempt, At: now, Outcome: e.Outcome, Detail: e.Detail, Message: e.Message}
	return append(m.charge(j, now), JobEnded{
		Job: j.id, Seq: j.seq, End: e, Attempt: end, Held: true, Open: m.dooms(j, e.Outcome),
	})
}

// overrun ends a running job that is over a time limit.
func (m *Machine) overrun(j *Job, now Time, d Detail) []Change {
	return m.halt(j, now, End{Outcome: TimedOut, Detail: d, Message: "its worker did not end it in time"})
}

// releasable reports whether nothing holds the waiting job back.
func (m *Machine) releasable(j *Job, now Time) bool {
	return j.waits == 0 && j.in.active > 0 && j.Wake() <= now && !m.lingers(j) &&
		(j.more == nil || j.more.doom == nil)
}

// lingers reports whether an attempt of the job's identity is still being stopped.
func (m *Machine) lingers(j *Job) bool {
	return len(m.lingering) > 0 && m.lingering[j.Identity()] != nil
}
