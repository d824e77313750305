package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
)

// What follows, without anybody asking, from what happened and from time: one kind of consequence after the other,
// until there is none.

// settle draws all consequences at one moment.
func (m *model) settle() {
	if m.behind {
		return
	}
	for m.expire() || m.drop() || m.condemn() || m.giveUp() || m.endBuilds() || m.openGates() {
	}
	for _, j := range m.jobs {
		j.stop = false
	}
}

// each calls f with the jobs that are unfinished or held, dependents before what they need, and reports whether it did
// something to one.
func (m *model) each(f func(*mJob) bool) (did bool) {
	for _, j := range slices.Backward(m.jobs) {
		if (j.end == nil || j.lease != nil) && (m.only == nil || m.only == j) {
			did = f(j) || did
		}
	}
	return did
}

// expire: rules 5 and 6.
func (m *model) expire() bool {
	return m.each(func(j *mJob) bool {
		l := j.lease
		over := func(from job.Time, limit time.Duration) bool {
			return limit > 0 && from.Add(limit+job.JudgeSlack) <= m.now
		}
		switch {
		case l == nil, j.held() && l.deadline > m.now:
			return false
		case j.held():
			m.free(j)
		case over(j.last.Start, l.limits.Timeout):
			m.halt(j, job.TimedOut, job.TotalTimeout)
		case l.heard && over(l.output, l.limits.Silence):
			m.halt(j, job.TimedOut, job.SilentTimeout)
		case l.deadline <= m.now && !m.channel(j.Channel).CallerJudges:
			m.conclude(j, &job.Report{Outcome: job.Aborted, Detail: job.LeaseLost})
		default:
			return false
		}
		return true
	})
}

// drop: what no live build needs goes, and stops if a cancel was the reason (rule 7).
func (m *model) drop() bool {
	return m.each(func(j *mJob) bool {
		switch {
		case j.end != nil:
			return false
		case m.demand(j).kept:
			j.stop = false
			return false
		case j.waiting():
			m.finish(j, job.End{Outcome: job.Cancelled, Detail: job.NotNeeded})
			return true
		case j.stop:
			m.halt(j, job.Cancelled, job.NotNeeded)
			return true
		}
		return false
	})
}

// condemn: rule 3.
func (m *model) condemn() bool {
	return m.each(func(j *mJob) bool {
		d := m.doom(j)
		if d == nil || !j.waiting() {
			return false
		}
		m.finish(j, *passedOn(d))
		return true
	})
}

// passedOn is the end of what needed the success of d.
func passedOn(d *mJob) *job.End {
	end := &job.End{Outcome: job.DependencyFailed, Root: d.ID, RootOutcome: d.end.Outcome}
	if !d.end.Root.IsZero() {
		end.Root, end.RootOutcome = d.end.Root, d.end.RootOutcome
	}
	return end
}

func (m *model) giveUp() bool {
	return m.each(func(j *mJob) bool {
		at, ok := m.givenUp(j)
		if ok = ok && at <= m.now; ok {
			m.finish(j, job.End{Outcome: job.Unsupported})
		}
		return ok
	})
}

// severity orders outcomes for a build's verdict, the worst last.
var severity = []job.Outcome{
	job.Succeeded, job.Cancelled, job.DependencyFailed, job.Unsupported, job.Aborted, job.TimedOut, job.Failed,
}

// endBuilds: rule 4.
func (m *model) endBuilds() (did bool) {
	for _, b := range m.builds {
		if b.outcome != 0 || m.onlyBuild != nil && m.onlyBuild != b {
			continue
		}
		worst := job.Succeeded
		open := slices.ContainsFunc(b.refs, func(r job.Ref) bool { return r.Ended == 0 && !r.Optional })
		for _, r := range b.refs {
			if !r.Optional && !r.Awaited && slices.Index(severity, r.Ended) > slices.Index(severity, worst) {
				worst = r.Ended
			}
		}
		if !open {
			m.endBuild(b, worst)
			did = true
		}
	}
	return did
}

// openGates lets builds begin whose concurrency key has room: the most urgent first, then the oldest.
func (m *model) openGates() (did bool) {
	for {
		var next *mBuild
		for _, b := range m.builds {
			under := 0
			for _, o := range m.builds {
				if o.outcome == 0 && o.active && o.Gate.Key == b.Gate.Key {
					under++
				}
			}
			room := b.Gate.Key == "" || under < int(max(b.Gate.Limit, 1))
			if b.outcome == 0 && !b.active && room && (next == nil || b.Priority > next.Priority) {
				next = b
			}
		}
		if next == nil {
			return did
		}
		next.active, did = true, true
	}
}

func (m *model) endBuild(b *mBuild, o job.Outcome) {
	b.outcome = o
	m.note("build %s %s", b.ID, o)
}

// note keeps what happened, to be compared with what the engine stored.
func (m *model) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf("%d "+format, append([]any{m.now}, args...)...))
}

// free: the worker confirmed, or the lease ran out.
func (m *model) free(j *mJob) {
	j.lease = nil
	m.note("freed %s", j.ID)
}

// finish ends a job for good.
func (m *model) finish(j *mJob, end job.End) {
	end.At = m.now
	j.end = &end
	m.note("end %s %s %q cached=%t root=%s %s", j.ID, end.Outcome, end.Detail, end.Cached, end.Root, end.RootOutcome)
	if j.stop || end.Outcome == job.Cancelled && end.Detail != job.NotNeeded {
		for _, d := range m.blockers(j) {
			d.stop = true
		}
	}
	for _, b := range m.builds {
		if r := b.ref(j.ID); r != nil && b.outcome == 0 && r.Ended == 0 {
			r.Ended = end.Outcome
		}
	}
}

// spend books what the running attempt used.
func (m *model) spend(j *mJob) {
	m.spent = append(m.spent, spent{j.Channel, j.last.Groups, j.last.Start, m.now})
}

// halt ends a running job at once, while its slot and identity stay taken (rule 7).
func (m *model) halt(j *mJob, o job.Outcome, d job.Detail) {
	m.spend(j)
	j.lastEnd = &job.AttemptEnd{Outcome: o, Detail: d}
	m.finish(j, job.End{Outcome: o, Detail: d})
}

// conclude ends a running attempt; the job ends with it, or is tried again (rules 5 and 10).
func (m *model) conclude(j *mJob, f *job.Report) {
	m.spend(j)
	j.lease = nil
	j.lastEnd = &job.AttemptEnd{Outcome: f.Outcome, Detail: f.Detail}
	w := m.worker(j.last.Worker)
	if f.Outcome == job.Succeeded {
		if j.last.Start >= w.Until { // else it says nothing of the worker since its fault
			w.Faults, w.Until = 0, 0
		}
		if s := j.Series(); j.Name != "" {
			m.took[s] = append(m.took[s], m.now.Sub(j.last.Start))
		}
	}
	tally := j.tally
	again, wait := m.blame(j, w, f)
	if again && !f.NoRetry && (m.demand(j).kept || m.drawnKept(j)) {
		j.wake = 0
		if wait > 0 {
			j.wake = m.drawnWake(j, wait, m.retry(j).Delay/6)
		}
		m.note("again %s %s %q %d", j.ID, f.Outcome, f.Detail, j.wake)
		return
	}
	j.tally = tally
	m.close(j, f)
}

// close ends a job as its attempt ended.
func (m *model) close(j *mJob, f *job.Report) {
	m.finish(j, job.End{Outcome: f.Outcome, Detail: f.Detail})
	if f.Outcome == job.Failed && j.CacheFailure {
		c := job.FailureCached{Job: j.ID, Outcome: job.Failed}
		if ttl := m.channel(j.Channel).FailureTTL; ttl > 0 {
			c.Until = m.now.Add(ttl)
		}
		m.failures[j.Identity()] = c
	}
}

func (m *model) retry(j *mJob) job.Retry { return j.Retry.Or(m.channel(j.Channel).Retry) }

// blame says whether another attempt is due, and after how long, and counts.
func (m *model) blame(j *mJob, w *mWorker, f *job.Report) (again bool, wait time.Duration) {
	r, t := m.retry(j), &j.tally
	count := func(n *int32, most int32) bool { *n++; return *n <= most }
	switch {
	case f.Outcome == job.Failed && f.Detail != job.LogLimit && f.Detail != job.OutputLimit:
		return count(&t.Failures, r.Failures), 0
	case f.Outcome != job.Aborted:
		return false, 0
	case f.Detail == job.HandedBack && j.attempts > job.HandBacksAtOnce && m.now.Sub(j.last.Start) < job.HandBackPause:
		return true, job.HandBackPause
	case f.Detail == job.HandedBack:
		return true, 0
	case f.Detail == job.LeaseLost:
		return count(&t.Losses, r.Losses), 0
	case f.Detail == job.WorkerCrashed:
		return count(&t.Crashes, r.Crashes), 0
	case f.Detail == job.WorkerFault && (t.Fault == "" || t.Fault == w.Name):
		t.Fault = w.Name
		w.Faults = min(w.Faults+1, 4)
		w.Until = m.drawnUntil(w, power(time.Minute, 3, w.Faults), 10*time.Second)
		return true, 0
	case f.Detail == job.WorkerFault:
		for _, p := range []*mWorker{m.worker(t.Fault), w} {
			if p != nil {
				p.Faults, p.Until = 0, 0
			}
		}
		t.Fault = ""
	}
	again = count(&t.Aborts, r.Aborts-1)
	return again, power(r.Delay, time.Duration(r.Factor), t.Aborts)
}

// power gives d x factor^(n-1), at most a day.
func power(d, factor time.Duration, n int32) time.Duration {
	for ; n > 1 && d < job.MaxBackoff; n-- {
		d *= factor
	}
	return min(d, job.MaxBackoff)
}

// advance lets time pass until to: whatever is due happens at its moment. extra are moments at which the engine
// had a look without need.
func (m *model) advance(to job.Time, extra []job.Time) {
	for {
		next := to + 1
		due := func(t job.Time) {
			if t > m.now && t < next {
				next = t
			}
		}
		for _, t := range extra {
			due(t)
		}
		for _, w := range m.workers {
			due(w.Until)
		}
		for _, j := range m.jobs {
			if at, ok := m.givenUp(j); ok {
				due(at)
			}
			if l := j.lease; l != nil {
				if j.held() || !m.channel(j.Channel).CallerJudges {
					due(l.deadline)
				}
				if l.limits.Timeout > 0 {
					due(j.last.Start.Add(l.limits.Timeout + job.JudgeSlack))
				}
				if l.heard && l.limits.Silence > 0 {
					due(l.output.Add(l.limits.Silence + job.JudgeSlack))
				}
			} else if j.end == nil {
				due(j.wake)
			}
		}
		if next > to {
			m.now = max(m.now, to)
			return
		}
		m.now = next
		m.round()
	}
}
