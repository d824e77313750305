package job

import (
	"slices"
	"strings"
	"time"
)

// Register makes a worker known, or takes it back after a restart. running lists the attempts that it still runs;
// others that it had are ended as crashed. A second process under a live name is refused with ErrWorkerLive. Drain and
// quarantine outlive it.
func (m *Machine) Register(at Moment, w Worker, running []Lease) ([]Change, error) {
	if err := w.validate(); err != nil {
		return nil, err
	}
	w.Features, w.Mandatory = sorted(w.Features), sorted(w.Mandatory)
	w.Drained, w.Faults, w.Until, w.Delay = false, 0, 0, 0
	old := m.workers[w.Name]
	var changes []Change
	if old != nil {
		if old.Session != w.Session && old.seen != 0 && at.Now < old.seen.Add(DefaultTTL) {
			return nil, ErrWorkerLive
		}
		w.Drained, w.Faults, w.Until, w.Delay = old.Drained, old.Faults, old.Until, old.Delay
	}
	changes = append(changes, WorkerPut{w})
	changes = append(changes, m.marks(at.Now, old, &w)...)
	if old != nil && old.Session != w.Session {
		changes = append(changes, m.crashed(at, old, running)...)
	}
	return changes, nil
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// Saw notes that the worker is alive; it changes nothing durable. ErrNotFound: no such worker; ErrWorkerLive: another
// session has the name; ErrSignedOff: the last session is over.
func (m *Machine) Saw(name string, session ID, now Time) error {
	w := m.workers[name]
	switch {
	case w == nil:
		return ErrNotFound
	case w.Session.IsZero():
		return ErrSignedOff
	case w.Session != session:
		return ErrWorkerLive
	}
	m.saw(name, now)
	return nil
}

// SignOn notes that a session has just registered: it is alive. It changes nothing durable.
func (m *Machine) SignOn(name string, session ID, now Time) {
	if w := m.workers[name]; w != nil && w.Session == session {
		m.saw(name, now)
	}
}

// SignOff ends a session of the worker, so that the next need not wait until it looks dead: nothing of the session is a sign
// of life any more. What the worker still has is ended when it comes back without it, or when the leases run out. One that is over
// already, or another's turn, changes nothing.
func (m *Machine) SignOff(name string, session ID) []Change {
	w := m.workers[name]
	if w == nil || w.Session != session || session.IsZero() {
		return nil
	}
	over := w.Worker
	over.Session = ID{}
	return []Change{WorkerPut{over}}
}

// leases gives the jobs that the worker has a lease for, the oldest lease first.
func (w *worker) leases(yield func(*Job) bool) {
	for j := w.oldest; j != nil; {
		next := j.last.lease.next
		if !yield(j) {
			return
		}
		j = next
	}
}

// add takes in a job with a new lease.
func (w *worker) add(j *Job) {
	l := j.last.lease
	l.worker = w
	if l.prev = w.newest; l.prev != nil {
		l.prev.last.lease.next = j
	} else {
		w.oldest = j
	}
	w.newest = j
	w.used++
	if j.Exclusive() {
		w.alone++
	}
}

// remove takes out a job that still has its lease.
func (w *worker) remove(j *Job) {
	l := j.last.lease
	if l.prev != nil {
		l.prev.last.lease.next = l.next
	} else {
		w.oldest = l.next
	}
	if l.next != nil {
		l.next.last.lease.prev = l.prev
	} else {
		w.newest = l.prev
	}
	w.used--
	if j.Exclusive() {
		w.alone--
	}
}

// crashed ends the attempts that the worker had and no longer runs, and frees those that were being stopped.
func (m *Machine) crashed(at Moment, w *worker, running []Lease) []Change {
	var changes []Change
	for j := range w.leases {
		if slices.ContainsFunc(running, func(l Lease) bool { return m.holder(l) == j }) {
			continue
		}
		if j.Held() {
			changes = append(changes, JobFreed{Job: j.id, Seq: j.seq, At: at.Now})
			continue
		}
		changes = append(changes, m.merge(changes, m.conclude(j, at, AttemptEnd{
			Attempt: j.last.Attempt, At: at.Now, Outcome: Aborted, Detail: WorkerCrashed,
			Message: "worker " + w.Name + " came back without it",
		}))...)
	}
	return changes
}

// merge makes usage that is booked twice in one decision add up: each was decided against the same state.
func (m *Machine) merge(before, more []Change) []Change {
	for i, c := range more {
		put, ok := c.(UsagePut)
		if !ok {
			continue
		}
		for k := len(before) - 1; k >= 0; k-- {
			b, ok := before[k].(UsagePut)
			if ok && b.Channel == put.Channel && b.Group == put.Group && b.Slice == put.Slice {
				have := m.account(put.Channel, put.Group).get(put.Slice)
				put.Used += b.Used - microseconds(have)
				more[i] = put
				break
			}
		}
	}
	return more
}

// marks gives the changes for classes that lose their last capable worker, or find one.
func (m *Machine) marks(now Time, old *worker, w *Worker) []Change {
	var changes []Change
	for c, k := range m.classes {
		had := old != nil && len(old.Lacks(c)) == 0
		has := w != nil && len(w.Lacks(c)) == 0
		switch {
		case has && k.since != 0:
			changes = append(changes, ClassMarked{Class: c})
		case had && !has && k.capable == 1:
			changes = append(changes, ClassMarked{Class: c, Since: now})
		}
	}
	// Sorted: map order must not reach the log, or replay differs.
	slices.SortFunc(changes, func(a, b Change) int { return a.(ClassMarked).Class.compare(b.(ClassMarked).Class) })
	return changes
}

func (c Class) compare(o Class) int {
	for _, p := range [][2]string{
		{c.Channel, o.Channel}, {c.Kind, o.Kind}, {c.System, o.System}, {c.Features, o.Features}, {c.Pin, o.Pin},
	} {
		if n := strings.Compare(p[0], p[1]); n != 0 {
			return n
		}
	}
	return 0
}

// RemoveWorker makes a worker unknown. ErrBusy: it has attempts; with force they are ended as crashed.
func (m *Machine) RemoveWorker(at Moment, name string, force bool) ([]Change, error) {
	w := m.workers[name]
	if w == nil {
		return nil, ErrNotFound
	}
	if w.used > 0 && !force {
		return nil, ErrBusy
	}
	changes := m.crashed(at, w, nil)
	changes = append(changes, WorkerRemoved{name})
	return append(changes, m.marks(at.Now, w, nil)...), nil
}

// Drain sets or lifts the drain of a worker: drained, it gets nothing new.
func (m *Machine) Drain(name string, drained bool) ([]Change, error) {
	w := m.workers[name]
	if w == nil {
		return nil, ErrNotFound
	}
	if w.Drained == drained {
		return nil, nil
	}
	put := w.Worker
	put.Drained = drained
	return []Change{WorkerPut{put}}, nil
}

// Pardon ends the quarantine of a worker.
func (m *Machine) Pardon(name string) ([]Change, error) {
	w := m.workers[name]
	if w == nil {
		return nil, ErrNotFound
	}
	if w.Faults == 0 && w.Until == 0 {
		return nil, nil
	}
	put := w.Worker
	put.Faults, put.Until, put.Delay = 0, 0, 0
	return []Change{WorkerPut{put}}, nil
}

// SetChannel sets the policy of a channel.
func (m *Machine) SetChannel(c Channel) ([]Change, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c.PausedKinds = sorted(c.PausedKinds)
	return []Change{ChannelPut{c}}, nil
}

// ClearFailures lets identities be run again that are remembered as failing; failures are those that match.
func (m *Machine) ClearFailures(failures []Identity) []Change {
	changes := make([]Change, 0, len(failures))
	for _, i := range failures {
		changes = append(changes, FailureCleared{i})
	}
	return changes
}

// Lost lists the attempts of a channel whose worker has not been heard of for longer than the given time, for channels
// whose caller judges lost leases; AnyChannel: of all channels whose caller does.
func (m *Machine) Lost(channel string, now Time, silent time.Duration) []*Job {
	var lost []*Job
	among := func(j *Job) bool {
		if channel == AnyChannel {
			return m.Channel(j.class.Channel).CallerJudges
		}
		return j.class.Channel == channel
	}
	for _, n := range m.Workers() {
		for j := range m.workers[n].leases {
			if j.running() && among(j) && now.Sub(j.last.lease.beat) > silent {
				lost = append(lost, j)
			}
		}
	}
	return lost
}
