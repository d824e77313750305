package job

import (
	"fmt"
	"time"
)

// Lease names an attempt and shows the right to it.
type Lease struct {
	Job     ID
	Attempt int32
	Token   Token
}

// Start gives a ready job to a worker. It reports ErrNotReady if the job cannot start, or the worker
// cannot take it; ErrNotFound if either is unknown.
func (m *Machine) Start(at Moment, id ID, name string, token Token) ([]Change, error) {
	j, w := m.jobs[id], m.workers[name]
	if j == nil || w == nil {
		return nil, ErrNotFound
	}
	if _, ok := j.state.(Ready); !ok || j.in.active == 0 || !m.fits(w, j, at.Now) {
		return nil, ErrNotReady
	}
	a := Attempt{
		Number: j.Tally().Attempts + 1, Token: token, Worker: name, Start: at.Now,
		Groups: j.in.audience.groups, Limits: j.limits(),
	}
	return []Change{JobStarted{Job: id, Seq: j.seq, Attempt: a}}, nil
}

// fits reports whether the worker may take the job now, but for what sched decides.
func (m *Machine) fits(w *worker, j *Job, now Time) bool {
	c := m.channels[j.class.Channel]
	return len(w.Lacks(j.class.Class)) == 0 && w.used < int(w.Slots) && w.Free(now) && (c == nil || !c.Closed(j.class.Kind))
}

// Free reports whether the worker is neither drained nor in quarantine.
func (w *Worker) Free(now Time) bool { return !w.Drained && w.Until <= now }

// Closed reports whether the channel, or this kind in it, starts nothing new.
func (c *Channel) Closed(kind string) bool {
	if c.Paused {
		return true
	}
	for _, k := range c.PausedKinds {
		if k == kind {
			return true
		}
	}
	return false
}

// holder finds the job whose attempt the lease gives the right to; held attempts included.
func (m *Machine) holder(l Lease) *Job {
	j := m.jobs[l.Job]
	if j == nil || j.leased() == nil || j.last.Number != l.Attempt || j.last.Token != l.Token {
		return nil
	}
	return j
}

// Renew extends the lease to now plus the channel's TTL. It changes nothing durable. It reports ErrLeaseLost
// if the lease ran out, ended, or was cancelled; the worker must then stop the attempt, and confirm by Finish.
// output is when the attempt last gave a sign of output, zero if that is not known: of a worker that has never said so
// the silence is judged by the worker alone.
func (m *Machine) Renew(now Time, l Lease, output Time) error {
	j := m.holder(l)
	if j == nil {
		return ErrLeaseLost
	}
	m.saw(j.last.Worker, now)
	if j.Held() || now >= j.last.lease.deadline && !m.Channel(j.class.Channel).CallerJudges {
		return ErrLeaseLost
	}
	j.last.lease.deadline = now.Add(m.Channel(j.class.Channel).TTL)
	j.last.lease.beat = now
	if output != 0 {
		j.last.lease.output, j.last.lease.heard = max(j.last.lease.output, min(output, now)), true
	}
	if at, ok := m.nextLook(j); ok {
		m.alarm(j, at) // sooner than before only if the channel's TTL was shortened
	}
	return nil
}

// saw notes that the worker is alive.
func (m *Machine) saw(name string, now Time) {
	if w := m.workers[name]; w != nil && !w.Session.IsZero() {
		w.seen = max(w.seen, now)
	}
}

// Report is what a worker says at the end of an attempt.
type Report struct {
	Lease   Lease
	Outcome Outcome // Succeeded, Failed, TimedOut, Aborted or Cancelled
	Detail  Detail
	Message string
	Result  []byte
	// NoRetry: whatever the budgets say, no further attempt.
	NoRetry bool
	// Silent above 0: it is reported by somebody who takes the attempt for lost, and counts only if its worker has not been heard of
	// for longer.
	Silent time.Duration
}

// Finish ends an attempt. lost reports that the lease gives no right to it any more: the finish counts for
// nothing but, where the attempt was being stopped, frees its slot, and the changes must be made all the same.
// A late finish counts if no newer attempt has started and the job has not ended. One that says again what is kept of its
// attempt is no error, however much has happened since: its worker may not have heard the answer, and must not take for lost
// what was recorded. What memory does not hold of that, the ended job or the earlier attempt, facts may.
func (m *Machine) Finish(at Moment, f Report, facts *Facts) (changes []Change, lost bool, err error) {
	if err := f.validate(); err != nil {
		return nil, false, err
	}
	j := m.jobs[f.Lease.Job]
	if j == nil || j.last == nil || j.last.Number != f.Lease.Attempt || j.last.Token != f.Lease.Token {
		return nil, !f.repeats(facts), nil
	}
	if f.Silent > 0 {
		if j.running() && at.Now.Sub(j.last.lease.beat) <= f.Silent {
			return nil, false, ErrBusy
		}
	} else {
		m.saw(j.last.Worker, at.Now)
	}
	end := AttemptEnd{
		Attempt: j.last.Attempt, At: at.Now, Outcome: f.Outcome, Detail: f.Detail, Message: f.Message, Result: f.Result,
	}
	switch {
	case j.running():
		return m.concludeWith(j, at, end, f.NoRetry), false, nil
	case j.Held():
		return []Change{JobFreed{Job: j.id, Seq: j.seq, At: at.Now}}, true, nil
	case j.done():
		return nil, !f.tells(j.last.end), nil
	case f.tells(j.last.end):
		return nil, false, nil // told before: it waits for its next attempt
	case j.last.end != nil && j.last.end.Detail != LeaseLost && j.last.end.Detail != WorkerCrashed:
		return nil, true, nil // the worker itself ended the attempt, and said otherwise then
	default:
		return m.late(j, end), false, nil
	}
}

func (f *Report) validate() error {
	switch f.Outcome {
	case Succeeded, Failed, TimedOut, Aborted, Cancelled:
	default:
		return &InvalidError{"outcome", "want succeeded, failed, timed-out, aborted or cancelled"}
	}
	if int(f.Detail) >= len(detailNames) {
		return &InvalidError{"detail", fmt.Sprintf("%d is none that is known", f.Detail)}
	}
	if len(f.Message) > MaxMessage {
		return &InvalidError{"message", "want at most 64 KiB"}
	}
	return checkResult(f.Result)
}

// tells reports whether the finish says of the attempt how it ended.
func (f *Report) tells(end *AttemptEnd) bool {
	return end != nil && end.Outcome == f.Outcome && end.Detail == f.Detail
}

// repeats reports whether the finish tells what is already stored of an attempt that memory does not hold.
func (f *Report) repeats(facts *Facts) bool {
	if facts == nil {
		return false
	}
	if r := facts.Jobs[f.Lease.Job]; r != nil && r.Last != nil && r.Last.Number == f.Lease.Attempt && r.Last.Token == f.Lease.Token {
		return f.tells(r.LastEnd)
	}
	return f.tells(facts.Ended[f.Lease])
}

// late takes the finish of an attempt whose lease was lost, while the job waits for its next attempt. Only
// what ends the job counts; an abort was already booked as a loss.
func (m *Machine) late(j *Job, end AttemptEnd) []Change {
	if end.Outcome != Succeeded {
		v := judge(j.retry().Or(m.Channel(j.class.Channel).Retry), j.Tally(), end.Outcome, end.Detail, 0)
		if v.again || end.Outcome == Aborted || end.Outcome == Cancelled {
			return nil
		}
	}
	return m.finish(j, end)
}

func (m *Machine) conclude(j *Job, at Moment, end AttemptEnd) []Change {
	return m.concludeWith(j, at, end, false)
}

// concludeWith gives the changes that follow from the end of a running attempt.
func (m *Machine) concludeWith(j *Job, at Moment, end AttemptEnd, noRetry bool) []Change {
	changes := m.charge(j, end.At)
	if end.Outcome == Succeeded {
		// Only what began after the quarantine shows that the worker is sound again.
		if w := m.workers[end.Worker]; w != nil && w.Faults > 0 && end.Start >= w.Until {
			cleared := w.Worker
			cleared.Faults, cleared.Until, cleared.Delay = 0, 0, 0
			changes = append(changes, WorkerPut{cleared})
		}
		if j.name != "" {
			changes = append(changes, DurationLearned{Series{j.class.Channel, j.class.Kind, j.name}, end.At.Sub(end.Start)})
		}
		return append(changes, m.finish(j, end)...)
	}
	var v verdict
	if end.Outcome == Aborted && end.Detail == WorkerFault {
		var puts []Change
		v, puts = m.blame(j, at, end.Worker)
		changes = append(changes, puts...)
	} else {
		v = judge(j.retry().Or(m.Channel(j.class.Channel).Retry), j.Tally(), end.Outcome, end.Detail, at.Random.Uint64())
	}
	if end.Outcome == Aborted && end.Detail == HandedBack && end.At.Sub(end.Start) < HandBackPause {
		if w := m.workers[end.Worker]; w == nil || !w.Drained {
			v.tally.HandBacks++
			if v.tally.HandBacks > HandBacksAtOnce {
				v.wait = HandBackPause
			}
		}
	}
	if v.again && !noRetry && j.in.keep > 0 {
		if end.Detail != HandedBack {
			v.tally.Turn = m.seq
		}
		wake := Time(0)
		if v.wait > 0 {
			wake = at.Now.Add(v.wait)
		}
		return append(changes, JobRetried{Job: j.id, Seq: j.seq, Attempt: end, Tally: v.tally, Wake: wake, Delay: v.wait})
	}
	return append(changes, m.finish(j, end)...)
}

// finish gives the changes that end a job as its attempt ended.
func (m *Machine) finish(j *Job, end AttemptEnd) []Change {
	e := End{At: end.At, Outcome: end.Outcome, Detail: end.Detail, Message: end.Message}
	result := end.Result
	end.Result = nil
	changes := []Change{JobEnded{
		Job: j.id, Seq: j.seq, End: e, Attempt: &end, Result: result, Open: m.dooms(j, e.Outcome),
	}}
	if e.Outcome == Failed && j.flags.has(cacheFailure) {
		until := Time(0)
		if ttl := m.Channel(j.class.Channel).FailureTTL; ttl > 0 {
			until = end.At.Add(ttl)
		}
		changes = append(changes, FailureCached{
			Identity: j.Identity(), Class: j.class.Class, Job: j.id, Outcome: e.Outcome, At: end.At, Until: until, Message: e.Message,
		})
	}
	return changes
}

// Quarantine (rule 10).
const (
	quarantineDelay  = 60 * time.Second
	quarantineFactor = 3
	quarantineSteps  = 4
)

// blame applies rule 10: the worker is set aside and the job goes on without a charge, until a second worker
// fails under the same job: then the job is charged, and the workers are pardoned.
func (m *Machine) blame(j *Job, at Moment, name string) (verdict, []Change) {
	t := j.Tally()
	w := m.workers[name]
	if t.Fault != "" && t.Fault != name {
		first := t.Fault
		t.Fault = ""
		v := judge(j.retry().Or(m.Channel(j.class.Channel).Retry), t, Aborted, WorkerFault, at.Random.Uint64())
		var puts []Change
		for _, n := range []string{first, name} {
			if p := m.workers[n]; p != nil && p.Faults > 0 {
				pardoned := p.Worker
				pardoned.Faults, pardoned.Until, pardoned.Delay = 0, 0, 0
				puts = append(puts, WorkerPut{pardoned})
			}
		}
		return v, puts
	}
	t.Fault = name
	v := verdict{again: true, tally: t}
	if w == nil {
		return v, nil
	}
	aside := w.Worker
	aside.Faults = min(aside.Faults+1, quarantineSteps)
	aside.Delay = Backoff(quarantineDelay, quarantineFactor, aside.Faults, at.Random.Uint64())
	aside.Until = at.Now.Add(aside.Delay)
	return v, []Change{WorkerPut{aside}}
}

// Progress stores a partial result of a running attempt, which is a sign of output, too.
func (m *Machine) Progress(now Time, l Lease, result []byte) ([]Change, error) {
	if err := checkResult(result); err != nil {
		return nil, err
	}
	j := m.holder(l)
	if j == nil || j.Held() {
		return nil, ErrLeaseLost
	}
	m.saw(j.last.Worker, now)
	j.last.lease.output = max(j.last.lease.output, now)
	return []Change{JobProgress{Job: j.id, Seq: j.seq, Result: result}}, nil
}
