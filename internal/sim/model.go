package sim

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
)

// model predicts what the engine does, from the rules of the design and the docstrings alone: plain structs and full
// scans, nothing counted, cached or indexed. A command (model_commands.go) changes it and gives the reply that is due;
// round then draws the consequences and hands out work, and advance lets time pass (model_rounds.go). The numbers are those
// of the rules; doc.go says where each is.
type model struct {
	compared
	now      job.Time
	made     int     // jobs, in all
	jobs     []*mJob // oldest first, as are builds; deleted ones are gone
	builds   []*mBuild
	workers  []*mWorker // by name
	gone     []*mWorker // what workers were before they changed or went, which is when they were seen last
	past     []*mRun    // the attempts that have ended, in that order
	channels map[string]job.Channel
	failures map[job.Identity]job.FailureCached
	settings map[settingKey]string
}

type mJob struct {
	job.Spec
	needs    map[*mJob]job.Policy // in place of those of the Spec
	at, wake job.Time             // asked for; not to start before
	own      []*mBuild            // what builds of its own would be, if it was asked for outside any
	tally    job.Tally
	age      int   // how many jobs there have been when it was made, itself included
	turn     *turn // where it was put back; nil: it was not
	last     *mRun // the newest attempt; its Number is 0 before the first
	end      *job.End
}

// turn is a place behind all jobs that there were, and behind those that were put back before.
type turn struct {
	age   int
	drawn int64
}

// mRun is an attempt. Without an Outcome it runs.
type mRun struct {
	job.AttemptEnd
	of       *mJob
	leased   bool          // it has its slot, its identity and its concurrency key, also while it is being stopped
	ttl      time.Duration // as its worker was told
	deadline job.Time
	output   job.Time // when its worker told of some last
}

type mBuild struct {
	job.Build
	refs    []mRef // of two to one job the strictest holds, the most urgent, and the widest limits (rule 4)
	active  bool   // under way: its concurrency key has let it in
	outcome job.Outcome
}

type mRef struct {
	job.Ref
	to *mJob
}

type mWorker struct {
	job.Worker
	seen    job.Time
	waiters []*leaseCall
}

// Who is who; nil: nobody.
func (m *model) job(id job.ID) *mJob { return find(m.jobs, func(j *mJob) bool { return j.ID == id }) }

func (m *model) build(id job.ID) *mBuild {
	return find(m.builds, func(b *mBuild) bool { return b.ID == id })
}

func (m *model) worker(name string) *mWorker {
	return find(m.workers, func(w *mWorker) bool { return w.Name == name })
}

// alive notes a sign of life, which one of a session that is over is none.
func (w *mWorker) alive(now job.Time) {
	if w != nil && !w.Session.IsZero() {
		w.seen = now
	}
}

// pardon forgets a worker's faults (rule 10).
func (w *mWorker) pardon() {
	if w != nil {
		w.Faults, w.Until = 0, 0
	}
}

func (m *model) policy(j *mJob) job.Channel { return m.channels[j.Channel] }

// Where a job is. A held one has ended, while its attempt is still being stopped (rule 7).
func (j *mJob) waiting() bool    { return j != nil && j.end == nil && !j.last.leased }
func (j *mJob) running() bool    { return j != nil && j.end == nil && j.last.leased }
func (j *mJob) held() bool       { return j.over() && j.last.leased }
func (j *mJob) over() bool       { return j != nil && j.end != nil }
func (b *mBuild) live() bool     { return b != nil && b.outcome == 0 }
func (r *mRun) lease() job.Lease { return job.Lease{Job: r.of.ID, Attempt: r.Number, Token: r.Token} }

// ready: nothing but a worker is missing (rules 3, 4 and 7).
func (m *model) ready(j *mJob) bool {
	return j.waiting() && len(j.blockers()) == 0 && j.wake <= m.now && m.twin(j) == nil && len(m.demand(j).groups) > 0
}

// twin has the job's identity and is being stopped (rule 7).
func (m *model) twin(j *mJob) *mJob {
	return find(m.jobs, func(k *mJob) bool { return k.held() && k.Identity() == j.Identity() })
}

// blockers are the jobs whose end the job waits for (rule 3).
func (j *mJob) blockers() []*mJob {
	return filter(slices.Collect(maps.Keys(j.needs)), func(d *mJob) bool { return j.needs[d] != job.Order && d.end == nil })
}

// follows: the job needs d, by an edge that counts. An order edge on a circle does not (rule 3).
func (j *mJob) follows(d *mJob) bool {
	policy, needs := j.needs[d]
	return needs && (policy != job.Order || !slices.Contains(d.beyond(job.Order, nil), j))
}

// beyond adds to seen what the job leads to, over needs of the policies up to the one given.
func (j *mJob) beyond(most job.Policy, seen []*mJob) []*mJob {
	for d, policy := range j.needs {
		if policy <= most && !slices.Contains(seen, d) {
			seen = d.beyond(most, append(seen, d))
		}
	}
	return seen
}

// demand is what all who need a job make of it together.
type demand struct {
	by       []*mBuild     // who want it
	groups   []string      // who pay for it: those of them that are under way; none: it is not wanted now
	limits   job.Limits    // the widest
	priority int32         // the greatest
	path     time.Duration // the longest of what waits for it
}

// demand visits all who need the job: live builds, those who asked for it alone, and the same for each dependent. An
// order edge lifts the rank within the channel, no more (rules 1, 3, 4 and 8).
func (m *model) demand(j *mJob) (d demand) {
	d.priority, d.limits = math.MinInt32, job.Limits{Timeout: -1, Silence: -1} // less than any
	for _, b := range slices.Concat(j.own, m.builds) {
		for _, r := range b.refs {
			if r.to == j && b.live() {
				d.by = append(d.by, b)
				if b.active {
					d.priority, d.limits = max(d.priority, b.Priority+r.Priority), widest(d.limits, r.Limits)
				}
			}
		}
	}
	for _, k := range m.jobs {
		sorts := k.needs[j] == job.Order
		if k.end != nil || !k.follows(j) || sorts && k.Channel != j.Channel {
			continue
		}
		above := m.demand(k)
		if !sorts {
			d.by = append(d.by, above.by...)
		}
		if len(above.groups) > 0 {
			d.priority, d.path = max(d.priority, above.priority), max(d.path, above.path+k.Estimate)
		}
	}
	for _, b := range filter(d.by, func(b *mBuild) bool { return b.active }) {
		d.groups = append(d.groups, b.Group)
		if !slices.ContainsFunc(b.refs, func(r mRef) bool { return r.to == j }) {
			d.limits = widest(d.limits, b.Limits) // it states none for this very job
		}
	}
	slices.Sort(d.groups)
	d.groups = slices.Compact(d.groups)
	return d
}

func widest(a, b job.Limits) job.Limits {
	wider := func(a, b time.Duration) time.Duration {
		if a == 0 || b == 0 {
			return 0 // no limit is the widest
		}
		return max(a, b)
	}
	return job.Limits{Timeout: wider(a.Timeout, b.Timeout), Silence: wider(a.Silence, b.Silence)}
}

// consequence is what befalls a job from a moment on, without anybody asking, if it is so.
type consequence struct {
	so bool
	at job.Time
	of job.Outcome // that it has, or 0
	do func()
}

// consequences are in the order in which they are drawn at one moment.
func (m *model) consequences(j *mJob) []consequence {
	if !j.waiting() && !j.last.leased {
		return nil
	}
	r, policy, doom := j.last, m.policy(j), m.doom(j)
	unserved, since := m.unserved(j)
	lose := func() { m.conclude(j, &job.Report{Outcome: job.Aborted, Detail: job.LeaseLost}) }
	end := func(so bool, at job.Time, o job.Outcome, d job.Detail) consequence {
		return consequence{so, at, o, func() { m.finish(j, job.End{Outcome: o, Detail: d}) }}
	}
	timeOut := func(so bool, from job.Time, limit time.Duration, d job.Detail) consequence {
		return end(so && j.running() && limit > 0, from.Add(limit+job.JudgeSlack), job.TimedOut, d)
	}
	return []consequence{
		// The slot of what was ended, the limits, and the lease (rules 5, 6 and 7).
		{j.held(), r.deadline, 0, func() { m.free(j) }},
		timeOut(true, r.Start, r.Limits.Timeout, job.TotalTimeout),
		timeOut(r.output > 0, r.output, r.Limits.Silence, job.SilentTimeout),
		{j.running() && !policy.CallerJudges, r.deadline, job.Aborted, lose},
		// What no live build needs (rule 7), what needed another in vain (3), and what nobody can run (11).
		end(j.waiting() && len(m.demand(j).by) == 0, 0, job.Cancelled, job.NotNeeded),
		{j.waiting() && doom != nil, 0, job.DependencyFailed, func() { m.finish(j, *doom) }},
		end(j.waiting() && policy.Grace >= 0 && unserved, since.Add(policy.Grace), job.Unsupported, job.NoDetail),
		// Nothing befalls what wakes up, but it may be ready (rule 4).
		{j.waiting() && j.wake > m.now, j.wake, 0, nil},
	}
}

// doom is the end of a job that needed in vain that another succeeds (rule 3). It ends with the first, so that there is
// one, but for those that end at one moment or had ended before it was asked for. Of these the engine may name any.
func (m *model) doom(j *mJob) (end *job.End) {
	for d, policy := range j.needs {
		if policy == job.Success && d.over() && d.end.Outcome != job.Succeeded {
			root := cmp.Or(d.end.Root, d.ID)
			if end == nil || root == m.drawnRoot(j) {
				end = &job.End{Outcome: job.DependencyFailed, Root: root, RootOutcome: cmp.Or(d.end.RootOutcome, d.end.Outcome)}
			}
		}
	}
	return end
}

// unserved: no worker could run the job, since it was asked for, or since the last that could went (rule 11).
func (m *model) unserved(j *mJob) (so bool, since job.Time) {
	could := func(w *mWorker) bool { return capable(w, j) }
	since = greatest(j.at, filter(m.gone, could), func(w *mWorker) job.Time { return w.seen })
	return !slices.ContainsFunc(m.workers, could), since
}

// severity orders outcomes for a build's verdict, the worst last.
var severity = []job.Outcome{
	job.Succeeded, job.Cancelled, job.DependencyFailed, job.Unsupported, job.Aborted, job.TimedOut, job.Failed,
}

// endBuild ends a build whose targets and awaited jobs have ended, by the worst target (rule 4).
func (m *model) endBuild(b *mBuild) bool {
	open := func(r mRef) bool { return !r.Optional && r.to.end == nil }
	if !b.live() || slices.ContainsFunc(b.refs, open) {
		return false
	}
	targets := filter(b.refs, func(r mRef) bool { return !r.Optional && !r.Awaited })
	worst := greatest(0, targets, func(r mRef) int { return slices.Index(severity, r.to.end.Outcome) })
	m.closeBuild(b, severity[worst])
	return true
}

func (m *model) closeBuild(b *mBuild, o job.Outcome) {
	b.outcome = o
	m.note(job.BuildEnded{Build: b.ID, Outcome: o})
}

// openGate lets a build begin whose concurrency key has room: the most urgent, then the oldest (rule 4).
func (m *model) openGate() bool {
	urgency := func(a, b *mBuild) int { return cmp.Compare(b.Priority, a.Priority) }
	next := least(m.builds, urgency, func(b *mBuild) bool { return b.live() && !b.active && m.gateFree(b) })
	if next != nil {
		next.active = true
	}
	return next != nil
}

// gateFree and keyFree: the concurrency key of the build, or of the job in its channel, has room (rule 4).
func (m *model) gateFree(b *mBuild) bool {
	return room(b.Gate, m.builds, func(o *mBuild) bool { return o.live() && o.active && o.Gate.Key == b.Gate.Key })
}

func (m *model) keyFree(j *mJob) bool {
	return room(j.Gate, m.jobs, func(k *mJob) bool { return k.last.leased && k.Gate.Key == j.Gate.Key && k.Channel == j.Channel })
}

func room[T any](g job.Gate, all []T, under func(T) bool) bool {
	return g.Key == "" || len(filter(all, under)) < int(max(g.Limit, 1))
}

// free: the worker confirmed, or the lease ran out (rule 7).
func (m *model) free(j *mJob) {
	j.last.leased = false
	m.note(job.JobFreed{Job: j.ID})
}

// book keeps how the running attempt ended.
func (m *model) book(j *mJob, o job.Outcome, d job.Detail) {
	j.last.At, j.last.Outcome, j.last.Detail = m.now, o, d
	m.past = append(m.past, j.last)
}

// finish ends a job for good; if it runs, at once, while its attempt is held (rule 7).
func (m *model) finish(j *mJob, end job.End) {
	if j.running() {
		m.book(j, end.Outcome, end.Detail)
	}
	j.end = &end
	m.note(job.JobEnded{Job: j.ID, End: end})
}

// cancel ends jobs, and with them what runs and nobody needs any more for that reason (rule 7).
func (m *model) cancel(d job.Detail, jobs ...*mJob) {
	for _, j := range jobs {
		if j.end == nil && (d != job.NotNeeded || len(m.demand(j).by) == 0) {
			needed := j.blockers()
			if d != job.NotNeeded || j.running() { // else it goes by itself
				m.finish(j, job.End{Outcome: job.Cancelled, Detail: d})
			}
			m.cancel(job.NotNeeded, needed...)
		}
	}
}

// conclude ends a running attempt; the job ends with it, or is tried again (rules 5 and 10).
func (m *model) conclude(j *mJob, f *job.Report) {
	w := m.worker(j.last.Worker)
	m.book(j, f.Outcome, f.Detail)
	j.last.leased = false
	if f.Outcome == job.Succeeded && j.last.Start >= w.Until { // else it says nothing of the worker since its fault
		w.pardon()
	}
	tally, again, wait := m.blame(j, w, f)
	if !again || f.NoRetry || len(m.demand(j).by) == 0 && !m.drawnKept(j) {
		m.close(j, f)
		return
	}
	j.tally, j.wake = tally, 0
	if f.Detail != job.HandedBack {
		j.turn = &turn{m.made, m.drawnTurn(j)}
	}
	if wait > 0 {
		j.wake = m.drawnWake(j, wait, cmp.Or(j.Retry.Delay, m.policy(j).Retry.Delay)/6)
	}
	m.note(job.JobRetried{Job: j.ID, Attempt: j.last.AttemptEnd, Wake: j.wake})
}

// close ends a job as its attempt ended. A verdict may be remembered, for ever if no TTL is set (rule 1).
func (m *model) close(j *mJob, f *job.Report) {
	m.finish(j, job.End{Outcome: f.Outcome, Detail: f.Detail})
	if ttl := m.policy(j).FailureTTL; f.Outcome == job.Failed && j.CacheFailure {
		m.failures[j.Identity()] = job.FailureCached{Class: j.Class(), Job: j.ID, Until: m.now.Add(cmp.Or(ttl, math.MaxInt64))}
	}
}

// blame charges the job or the worker, and says whether another attempt is due, and after how long (rules 5 and 10).
func (m *model) blame(j *mJob, w *mWorker, f *job.Report) (t job.Tally, again bool, wait time.Duration) {
	t, r, c := j.tally, j.Retry, m.policy(j).Retry // its own, else the channel's
	charge := func(n *int32, own, most int32) bool { *n++; return *n <= cmp.Or(own, most) }
	switch {
	case f.Outcome == job.Failed && f.Detail != job.LogLimit && f.Detail != job.OutputLimit:
		again = charge(&t.Failures, r.Failures, c.Failures)
	case f.Outcome != job.Aborted: // final
	case f.Detail == job.LeaseLost:
		again = charge(&t.Losses, r.Losses, c.Losses)
	case f.Detail == job.WorkerCrashed:
		again = charge(&t.Crashes, r.Crashes, c.Crashes)
	case f.Detail == job.HandedBack:
		again = true
		quick := !w.Drained && m.now.Sub(j.last.Start) < job.HandBackPause
		if quick && !charge(&t.HandBacks, 0, job.HandBacksAtOnce) {
			wait = job.HandBackPause
		}
	case f.Detail == job.WorkerFault && (t.Fault == "" || t.Fault == w.Name):
		again = true
		t.Fault, w.Faults = w.Name, min(w.Faults+1, 4)
		w.Until = m.drawnUntil(w, power(time.Minute, 3, w.Faults), 10*time.Second)
	default:
		if f.Detail == job.WorkerFault { // the second worker: it was the job
			m.worker(t.Fault).pardon()
			w.pardon()
			t.Fault = ""
		}
		t.Aborts++
		again = t.Aborts < cmp.Or(r.Aborts, c.Aborts)
		wait = power(cmp.Or(r.Delay, c.Delay), cmp.Or(r.Factor, c.Factor), t.Aborts)
	}
	return t, again, wait
}

// power gives d x factor^(n-1), at most a day.
func power(d time.Duration, factor, n int32) time.Duration {
	return time.Duration(min(float64(d)*math.Pow(float64(factor), float64(n-1)), float64(job.MaxBackoff)))
}
