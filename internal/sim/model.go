package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
)

// model predicts what the engine does, from the rules of the design and the docstrings alone: plain structs and full
// scans, nothing counted, cached or indexed. A command (model_commands.go) changes it and gives the reply that is due;
// round then draws the consequences and hands out work; advance lets time pass. The numbers are those of the rules.
type model struct {
	now      job.Time
	jobs     []*mJob // oldest first, as are builds; deleted ones are gone
	builds   []*mBuild
	workers  []*mWorker // by name
	gone     []mWorker  // what workers were before they changed or went, which is when they were seen last
	past     []*mRun    // the attempts that have ended, in that order
	stored   []*mRun    // if it is set, those of them that ended before the round under way
	channels map[string]job.Channel
	failures map[job.Identity]job.FailureCached
	log      []string // what happened since the last comparison
	// lead, if it is set, has the model do what the engine did in rounds over their budget: see follow.go. While behind, nothing
	// follows by itself.
	lead   func()
	behind bool
	// Jitter is the engine's to draw, and which of equals comes first: these tell what it drew, and check that it may.
	drawnRoot  func(j *mJob) job.ID
	drawnWake  func(j *mJob, least, span time.Duration) job.Time
	drawnKept  func(j *mJob) bool
	drawnUntil func(w *mWorker, least, span time.Duration) job.Time
}

type mJob struct {
	job.Spec
	needs    map[*mJob]job.Policy // in place of those of the Spec
	at, wake job.Time             // asked for; not to start before
	own      []*mBuild            // what builds of its own would be, if it was asked for outside any
	tally    job.Tally
	last     *mRun // the newest attempt, all zero before the first
	end      *job.End
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

// known gives the attempts that have ended, as far as that is stored.
func (m *model) known() []*mRun {
	if m.stored != nil {
		return m.stored
	}
	return m.past
}

// Who is who; nil: nobody.
func (m *model) job(id job.ID) *mJob { return find(m.jobs, func(j *mJob) bool { return j.ID == id }) }

func (m *model) build(id job.ID) *mBuild {
	return find(m.builds, func(b *mBuild) bool { return b.ID == id })
}

func (m *model) worker(name string) *mWorker {
	return find(m.workers, func(w *mWorker) bool { return w.Name == name })
}

func (m *model) channel(name string) job.Channel { return m.channels[name] }

// note keeps what happened, to be compared with what the engine stored.
func (m *model) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf("%d "+format, append([]any{m.now}, args...)...))
}

// least gives the first in the order of those that may be; nil if none may.
func least[T any](list []*T, compare func(a, b *T) int, may func(*T) bool) (first *T) {
	for _, t := range list {
		if may(t) && (first == nil || compare(t, first) < 0) {
			first = t
		}
	}
	return first
}

func find[T any](list []*T, is func(*T) bool) *T {
	return least(list, func(*T, *T) int { return 0 }, is)
}

func without[T comparable](list []T, t T) []T { return filter(list, func(o T) bool { return o != t }) }

func filter[T any](list []T, is func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(t T) bool { return !is(t) })
}

func (b *mBuild) live() bool { return b != nil && b.outcome == 0 }

// lease is the right to the attempt.
func (r *mRun) lease() job.Lease { return job.Lease{Job: r.of.ID, Attempt: r.Number, Token: r.Token} }

// Where a job is. A held one has ended, while its attempt is still being stopped (rule 7).
func (j *mJob) waiting() bool { return j != nil && j.end == nil && !j.last.leased }
func (j *mJob) running() bool { return j != nil && j.end == nil && j.last.leased }
func (j *mJob) held() bool    { return j.over() && j.last.leased }
func (j *mJob) over() bool    { return j != nil && j.end != nil }

// ready: nothing but a worker is missing (rules 3, 4 and 7).
func (m *model) ready(j *mJob) bool {
	twin := func(k *mJob) bool { return k.held() && k.Identity() == j.Identity() }
	return j.waiting() && len(j.blockers()) == 0 && j.wake <= m.now && !slices.ContainsFunc(m.jobs, twin) &&
		len(m.demand(j).groups) > 0
}

// blockers are the jobs whose end the job waits for (rule 3).
func (j *mJob) blockers() (list []*mJob) {
	for d, policy := range j.needs {
		if policy != job.Order && d.end == nil {
			list = append(list, d)
		}
	}
	return list
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
	d.limits = job.Limits{Timeout: -1, Silence: -1} // narrower than any
	var priorities []int32
	for _, b := range slices.Concat(j.own, m.builds) {
		for _, r := range b.refs {
			if r.to == j && b.live() {
				d.by = append(d.by, b)
				if b.active {
					priorities, d.limits = append(priorities, b.Priority+r.Priority), widest(d.limits, r.Limits)
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
			priorities, d.path = append(priorities, above.priority), max(d.path, above.path+k.Estimate)
		}
	}
	for _, b := range filter(d.by, func(b *mBuild) bool { return b.active }) {
		d.groups = append(d.groups, b.Group)
		if !slices.ContainsFunc(b.refs, func(r mRef) bool { return r.to == j }) {
			d.limits = widest(d.limits, b.Limits) // it states none for this very job
		}
	}
	if len(priorities) > 0 {
		d.priority = slices.Max(priorities)
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
	r, policy, doom := j.last, m.channel(j.Channel), m.doom(j)
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

// settle draws all consequences of one moment: all of the first kind, dependents before what they need, and so on.
func (m *model) settle() {
	var due []func()
	kind := math.MaxInt
	for _, j := range slices.Backward(m.jobs) {
		for i, c := range m.consequences(j) {
			switch {
			case !c.so || c.at > m.now || i > kind:
			case i < kind:
				kind, due = i, []func(){c.do}
			default:
				due = append(due, c.do)
			}
		}
	}
	for _, do := range due {
		do()
	}
	if len(due) > 0 || slices.ContainsFunc(m.builds, m.endBuild) || m.openGate() {
		m.settle()
	}
}

// advance lets time pass until to: whatever is due happens at its moment. looks are moments at which the engine
// had a look without need.
func (m *model) advance(to job.Time, looks []job.Time) {
	for {
		moments := slices.Clone(looks)
		for _, w := range m.workers {
			moments = append(moments, w.Until)
		}
		for _, j := range m.jobs {
			for _, c := range m.consequences(j) {
				if c.so {
					moments = append(moments, c.at)
				}
			}
		}
		moments = filter(moments, func(t job.Time) bool { return t > m.now && t <= to })
		if len(moments) == 0 {
			m.now = max(m.now, to)
			return
		}
		m.now = slices.Min(moments)
		m.round()
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
	since = j.at
	for _, w := range m.gone {
		if capable(&w, j) {
			since = max(since, w.seen)
		}
	}
	return !slices.ContainsFunc(m.workers, func(w *mWorker) bool { return capable(w, j) }), since
}

// severity orders outcomes for a build's verdict, the worst last.
var severity = []job.Outcome{
	job.Succeeded, job.Cancelled, job.DependencyFailed, job.Unsupported, job.Aborted, job.TimedOut, job.Failed,
}

// endBuild ends a build whose targets and awaited jobs have ended, by the worst target (rule 4).
func (m *model) endBuild(b *mBuild) bool {
	worst := 0
	for _, r := range b.refs {
		switch {
		case r.Optional:
		case r.to.end == nil:
			return false
		case !r.Awaited:
			worst = max(worst, slices.Index(severity, r.to.end.Outcome))
		}
	}
	if b.outcome != 0 {
		return false
	}
	m.closeBuild(b, severity[worst])
	return true
}

func (m *model) closeBuild(b *mBuild, o job.Outcome) {
	b.outcome = o
	m.note("build %s %s", b.ID, o)
}

// openGate lets a build begin whose concurrency key has room: the most urgent, then the oldest (rule 4).
func (m *model) openGate() bool {
	urgency := func(a, b *mBuild) int { return cmp.Compare(b.Priority, a.Priority) }
	next := least(m.builds, urgency, func(b *mBuild) bool {
		under := filter(m.builds, func(o *mBuild) bool { return o.live() && o.active && o.Gate.Key == b.Gate.Key })
		return b.live() && !b.active && room(b.Gate, len(under))
	})
	if next != nil {
		next.active = true
	}
	return next != nil
}

func room(g job.Gate, under int) bool { return g.Key == "" || under < int(max(g.Limit, 1)) }

// free: the worker confirmed, or the lease ran out (rule 7).
func (m *model) free(j *mJob) {
	j.last.leased = false
	m.note("freed %s", j.ID)
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
	m.note("end %s %s %q cached=%t root=%s %s", j.ID, end.Outcome, end.Detail, end.Cached, end.Root, end.RootOutcome)
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
	if wait > 0 {
		j.wake = m.drawnWake(j, wait, cmp.Or(j.Retry.Delay, m.channel(j.Channel).Retry.Delay)/6)
	}
	m.note("again %s %s %q %d", j.ID, f.Outcome, f.Detail, j.wake)
}

// close ends a job as its attempt ended. A verdict may be remembered, for ever if no TTL is set (rule 1).
func (m *model) close(j *mJob, f *job.Report) {
	m.finish(j, job.End{Outcome: f.Outcome, Detail: f.Detail})
	if ttl := m.channel(j.Channel).FailureTTL; f.Outcome == job.Failed && j.CacheFailure {
		m.failures[j.Identity()] = job.FailureCached{Class: j.Class(), Job: j.ID, Until: m.now.Add(cmp.Or(ttl, math.MaxInt64))}
	}
}

// blame charges the job or the worker, and says whether another attempt is due, and after how long (rules 5 and 10).
func (m *model) blame(j *mJob, w *mWorker, f *job.Report) (t job.Tally, again bool, wait time.Duration) {
	t, r, c := j.tally, j.Retry, m.channel(j.Channel).Retry // its own, else the channel's
	charge := func(n *int32, own, most int32) bool { *n++; return *n <= cmp.Or(own, most) }
	switch {
	case f.Outcome == job.Failed && f.Detail != job.LogLimit && f.Detail != job.OutputLimit:
		return t, charge(&t.Failures, r.Failures, c.Failures), 0
	case f.Outcome != job.Aborted:
		return t, false, 0
	case f.Detail == job.HandedBack:
		quick := !w.Drained && m.now.Sub(j.last.Start) < job.HandBackPause
		if quick && !charge(&t.HandBacks, 0, job.HandBacksAtOnce) {
			wait = job.HandBackPause
		}
		return t, true, wait
	case f.Detail == job.LeaseLost:
		return t, charge(&t.Losses, r.Losses, c.Losses), 0
	case f.Detail == job.WorkerCrashed:
		return t, charge(&t.Crashes, r.Crashes, c.Crashes), 0
	case f.Detail == job.WorkerFault && (t.Fault == "" || t.Fault == w.Name):
		t.Fault, w.Faults = w.Name, min(w.Faults+1, 4)
		w.Until = m.drawnUntil(w, power(time.Minute, 3, w.Faults), 10*time.Second)
		return t, true, 0
	case f.Detail == job.WorkerFault:
		m.worker(t.Fault).pardon()
		w.pardon()
		t.Fault = ""
	}
	t.Aborts++
	again = t.Aborts < cmp.Or(r.Aborts, c.Aborts)
	return t, again, power(cmp.Or(r.Delay, c.Delay), time.Duration(cmp.Or(r.Factor, c.Factor)), t.Aborts)
}

// power gives d x factor^(n-1), at most a day.
func power(d, factor time.Duration, n int32) time.Duration {
	for ; n > 1 && d < job.MaxBackoff; n-- {
		d *= factor
	}
	return min(d, job.MaxBackoff)
}

// round draws all consequences, and hands out work until nobody who waits can be given any. A worker is given one job
// in each turn (rules 9 and 12).
func (m *model) round() {
	if m.lead != nil {
		m.lead()
	}
	if m.behind {
		return
	}
	m.settle()
	turn := map[*mWorker]bool{}
	for j, w := m.next(turn); j != nil; j, w = m.next(turn) {
		m.start(j, w)
	}
	m.dismiss()
}

// dismiss ends the waiting of those who are given something.
func (m *model) dismiss() {
	for _, w := range m.workers {
		w.waiters = filter(w.waiters, func(x *leaseCall) bool { return len(x.due) == 0 })
	}
}

// next gives who is served next, in this turn or in one that begins; nil: nobody.
func (m *model) next(turn map[*mWorker]bool) (*mJob, *mWorker) {
	j, w := m.choose(turn)
	if j == nil && len(turn) > 0 {
		clear(turn)
		j, w = m.choose(turn)
	}
	turn[w] = true
	return j, w
}

// choose gives the first job that a waiting worker may take, and the best such worker that had none this turn. An
// exclusive job sets a worker aside before any job is served that may not have it: the best, else the one that is free
// soonest. Only higher priorities may have it meanwhile (rule 9).
func (m *model) choose(turn map[*mWorker]bool) (*mJob, *mWorker) {
	aside := map[*mWorker]*candidate{}
	open := func(w *mWorker, c *candidate) bool {
		return (aside[w] == nil || aside[w] == c) && !w.Drained && w.Until <= m.now && capable(w, c.mJob)
	}
	best := func(c *candidate) *mWorker {
		return least(m.workers, m.better, func(w *mWorker) bool {
			return open(w, c) && !turn[w] && w.wants() > 0 && m.slotFree(w, c.mJob)
		})
	}
	soonest := func(c *candidate) *mWorker {
		sooner := func(a, b *mWorker) int { return cmp.Compare(m.idle(a), m.idle(b)) }
		return least(m.workers, sooner, func(w *mWorker) bool { return open(w, c) && (w.wants() > 0 || len(m.on(w)) > 0) })
	}
	queue := m.queue()
	for _, c := range queue {
		for _, x := range queue {
			if x.Exclusive && x.Channel == c.Channel && x.priority >= c.priority {
				if w := cmp.Or(best(x), soonest(x)); w != nil {
					aside[w] = x
				}
			}
		}
		if w := best(c); w != nil {
			return c.mJob, w
		}
	}
	return nil, nil
}

func (m *model) start(j *mJob, w *mWorker) {
	d, ttl := m.demand(j), m.channel(j.Channel).TTL
	a := job.Attempt{Number: j.last.Number + 1, Worker: w.Name, Start: m.now, Groups: d.groups, Limits: d.limits}
	j.last, j.wake = &mRun{of: j, AttemptEnd: job.AttemptEnd{Attempt: a}, leased: true, ttl: ttl, deadline: m.now.Add(ttl)}, 0
	x := find(w.waiters, func(x *leaseCall) bool { return len(x.due) < x.want })
	x.due = append(x.due, j)
	m.note("start %s %d %s", j.ID, a.Number, w.Name)
}

// candidate is a ready job with all that orders it.
type candidate struct {
	*mJob
	demand
	channel, mine int64 // what the channel used, and the group that used least, by shares
}

// queue gives the ready jobs that somebody who waits could run, and all exclusive ones, in the order in which they are served
// (rule 8); oldest first, where that is the channel's. Of those behind which the same workers and groups stand it gives the first.
func (m *model) queue() (list []*candidate) {
	for age, j := range m.jobs {
		policy := m.channel(j.Channel)
		paused := policy.Paused || slices.Contains(policy.PausedKinds, j.Kind)
		waits := func(w *mWorker) bool { return w.wants() > 0 && capable(w, j) }
		if paused || !j.Exclusive && !slices.ContainsFunc(m.workers, waits) || !m.ready(j) || !m.keyFree(j) {
			continue
		}
		c := &candidate{j, m.demand(j), m.use(j.Channel) / int64(max(policy.Shares, 1)), math.MaxInt64}
		for _, g := range c.groups {
			c.mine = min(c.mine, m.use(j.Channel, g)/int64(max(policy.GroupShares[g], 1)))
		}
		if policy.Discipline == job.ByAge {
			c.priority = int32(-age)
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b *candidate) int {
		return cmp.Or(
			cmp.Compare(a.channel, b.channel), strings.Compare(a.Channel, b.Channel), cmp.Compare(b.priority, a.priority),
			cmp.Compare(a.mine, b.mine), cmp.Compare(b.path+b.Estimate, a.path+a.Estimate),
		)
	})
	passed := map[string]bool{}
	return filter(list, func(c *candidate) bool {
		crowd := fmt.Sprint(c.Class(), c.groups, c.Exclusive)
		first := !passed[crowd]
		passed[crowd] = true
		return first
	})
}

// use gives what a channel used in the window, or a group of it. An attempt is divided among the groups of its job
// (rule 8). It is in twelfths of microseconds, so that what is divided by shares here is an integer.
func (m *model) use(channel string, groups ...string) (sum int64) {
	slice, day := job.Time(job.UsageSlice/time.Microsecond), job.Time(job.UsageWindow/time.Microsecond)
	oldest := (m.now/slice - day/slice + 1) * slice // what has ended is kept in slices
	runs := slices.Clone(m.past)
	for _, j := range filter(m.jobs, (*mJob).running) {
		runs = append(runs, j.last)
	}
	for _, r := range runs {
		used := min(m.now-r.Start, day)
		if r.Outcome != 0 {
			used = max(0, r.At-max(r.Start, oldest, r.At-day))
		}
		for _, g := range r.Groups {
			if r.of.Channel == channel && (len(groups) == 0 || slices.Contains(groups, g)) {
				sum += int64(used) * 12 / int64(len(r.Groups))
			}
		}
	}
	return sum
}

// keyFree: the job's concurrency key has room (rule 4).
func (m *model) keyFree(j *mJob) bool {
	holds := func(k *mJob) bool { return k.last.leased && k.Gate.Key == j.Gate.Key && k.Channel == j.Channel }
	return room(j.Gate, len(filter(m.jobs, holds)))
}

// capable: the worker could run the job (rule 9).
func capable(w *mWorker, j *mJob) bool {
	among := func(list []string, words ...string) bool {
		return !slices.ContainsFunc(words, func(s string) bool { return !slices.Contains(list, s) })
	}
	return among(w.Channels, j.Channel) && among(w.Kinds, j.Kind) && (j.System == "" || among(w.Systems, j.System)) &&
		(j.Pin == "" || j.Pin == w.Name) && among(w.Features, j.Features...) && among(j.Features, w.Mandatory...)
}

// slotFree: the worker has a slot for the job, or is free if one of them is exclusive (rule 9).
func (m *model) slotFree(w *mWorker, j *mJob) bool {
	alone := func(k *mJob) bool { return k.Exclusive || j.Exclusive }
	return len(m.on(w)) < int(w.Slots) && !slices.ContainsFunc(m.on(w), alone)
}

// on gives the jobs with an attempt on the worker, those being stopped included.
func (m *model) on(w *mWorker) []*mJob {
	return filter(m.jobs, func(j *mJob) bool { return j.last.leased && j.last.Worker == w.Name })
}

// wants is for how many jobs the worker waits.
func (w *mWorker) wants() (n int) {
	for _, x := range w.waiters {
		n += x.want - len(x.due)
	}
	return n
}

// better: the least (load + 1) / speed, then the fewest features, then the name (rule 9).
func (m *model) better(a, b *mWorker) int {
	cost := func(w, o *mWorker) float64 { // times the speeds of both
		load := 0.0
		for _, x := range w.waiters {
			load = max(load, x.load)
		}
		return (float64(len(m.on(w))) + load + 1) * cmp.Or(o.Speed, 1)
	}
	return cmp.Or(
		cmp.Compare(cost(a, b), cost(b, a)), cmp.Compare(len(a.Features), len(b.Features)), strings.Compare(a.Name, b.Name),
	)
}

// idle is when the worker has probably done what it has.
func (m *model) idle(w *mWorker) job.Time {
	at := m.now
	for _, j := range filter(m.on(w), (*mJob).running) {
		at = max(at, j.last.Start.Add(j.Estimate))
	}
	return at
}
