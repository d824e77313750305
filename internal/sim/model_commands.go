package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// What is asked of the engine, and what it must answer.

// submit asks for jobs, for a build or alone; all or none of them (rules 1, 3 and 4).
func (m *model) submit(s *queue.Submission) (reply []job.Submitted, kind string) {
	own := cmp.Or(s.Build, &job.Build{Priority: s.Own.Priority, Group: s.Own.Group, Limits: s.Own.Limits})
	before := len(m.jobs)
	for i := range s.Jobs {
		answer, refusal := m.meet(&s.Jobs[i], s.Jobs[:i])
		reply, kind = append(reply, answer), cmp.Or(kind, refusal)
	}
	fresh := m.jobs[before:]
	stands := func(id job.ID) *mJob {
		if i := slices.IndexFunc(s.Jobs, func(o job.Spec) bool { return o.ID == id }); i >= 0 {
			id = reply[i].ID
		}
		return m.job(id)
	}
	circular := func(j *mJob) bool { return slices.Contains(j.beyond(job.Finish, nil), j) } // it waits for itself
	unknown := func(r job.Ref) bool { return stands(r.Job) == nil }
	kind = refusals{
		{own.Priority > job.MaxPriority, invalid},
		{kind != done, kind},
		{!link(fresh, stands), notFound},
		{slices.ContainsFunc(fresh, circular), cyclic},
		{slices.ContainsFunc(s.Refs, unknown), notFound},
	}.or()
	if kind != done {
		m.jobs = m.jobs[:before]
		return nil, kind
	}
	age(fresh)
	for _, j := range fresh {
		m.made++
		j.age = m.made
	}
	b := m.build(own.ID)
	if s.Build != nil && b == nil {
		b = &mBuild{Build: *own}
		m.builds = append(m.builds, b)
	}
	for _, r := range reply {
		if !b.live() {
			m.job(r.ID).keep(*own)
		}
	}
	for _, r := range s.Refs {
		if b.live() {
			b.want(r, stands(r.Job))
		}
	}
	// Dependents first: of a dependency that ends as it is made, they learn later.
	for _, j := range slices.Backward(fresh) {
		if end := cmp.Or(m.remembered(&j.Spec), m.doom(j)); end != nil {
			m.finish(j, *end)
		}
	}
	return reply, done
}

// meet finds out what stands for an asked-for job, and makes what is not there (rule 1).
func (m *model) meet(spec *job.Spec, earlier []job.Spec) (answer job.Submitted, kind string) {
	like := func(o job.Spec) bool { return o.Identity() == spec.Identity() }
	differs := func(o job.Spec) bool { return o.Class() != spec.Class() }
	twins := filter(earlier, like)
	live := find(m.jobs, func(j *mJob) bool { return like(j.Spec) && j.end == nil })
	kept := filter(m.jobs, func(j *mJob) bool {
		return like(j.Spec) && !differs(j.Spec) && j.over() && j.end.Outcome == job.Succeeded
	})
	switch {
	case m.job(spec.ID) != nil || slices.ContainsFunc(earlier, func(o job.Spec) bool { return o.ID == spec.ID }):
		return answer, invalid
	case live != nil && differs(live.Spec) || slices.ContainsFunc(twins, differs):
		return answer, conflict
	case live != nil:
		return job.Submitted{ID: live.ID, How: job.Joined}, done
	case len(kept) > 0 && slices.ContainsFunc(append(twins, *spec), func(o job.Spec) bool { return o.Reuse }):
		return job.Submitted{ID: kept[len(kept)-1].ID, How: job.Reused}, done
	}
	m.jobs = append(m.jobs, m.make(spec))
	answer = job.Submitted{ID: spec.ID, How: job.Created}
	if m.remembered(spec) != nil {
		answer.How = job.CachedFailure
	}
	return answer, done
}

// remembered is the end of a job whose like has failed, and is not to be tried again (rule 1).
func (m *model) remembered(s *job.Spec) *job.End {
	f := m.failures[s.Identity()]
	if !s.CacheFailure || f.Class != s.Class() || f.Until <= m.now {
		return nil
	}
	return &job.End{Outcome: job.Failed, Cached: true, Root: f.Job, RootOutcome: job.Failed}
}

// make gives a new job. How long it takes is a running mean of what is stored of its like (rule 8).
func (m *model) make(spec *job.Spec) *mJob {
	j := &mJob{Spec: *spec, needs: map[*mJob]job.Policy{}, at: m.now, wake: spec.NotBefore}
	j.last = &mRun{of: j}
	weight := time.Duration(0)
	for _, r := range m.known() {
		if spec.Estimate == 0 && r.Outcome == job.Succeeded && j.Name != "" && r.of.Series() == j.Series() {
			j.Estimate = (j.Estimate*weight + r.At.Sub(r.Start)) / (weight + 1)
			weight = min(weight+1, 4)
		}
	}
	j.Estimate = cmp.Or(j.Estimate, job.DefaultEstimate)
	return j
}

// link joins new jobs to what they need, if that is there, but for order edges to what nobody knows (rule 3).
func link(fresh []*mJob, stands func(job.ID) *mJob) bool {
	for _, j := range fresh {
		for _, n := range j.Needs {
			d := stands(n.Job)
			if d == nil && n.Policy != job.Order {
				return false
			}
			if policy, twice := j.needs[d]; d != nil && (!twice || n.Policy < policy) { // the strictest holds
				j.needs[d] = n.Policy
			}
		}
	}
	return true
}

// age orders new jobs: what is needed is older, else as asked (rule 8).
func age(fresh []*mJob) {
	for i := range fresh {
		rest := fresh[i:]
		next := slices.IndexFunc(rest, func(j *mJob) bool { return !slices.ContainsFunc(rest, j.follows) })
		j := rest[next]
		copy(rest[1:next+1], rest[:next])
		rest[0] = j
	}
}

// keep makes a job stand for itself, too. The first who asked pays (rule 1).
func (j *mJob) keep(own job.Build) {
	b := &mBuild{Build: own, active: true}
	j.own = append(j.own, b)
	b.ID, b.Group = job.ID{}, j.own[0].Group
	b.want(job.Ref{}, j)
}

// want adds a reference.
func (b *mBuild) want(r job.Ref, to *mJob) {
	r.Limits.Timeout = cmp.Or(r.Limits.Timeout, b.Limits.Timeout)
	r.Limits.Silence = cmp.Or(r.Limits.Silence, b.Limits.Silence)
	b.refs = append(b.refs, mRef{r, to})
}

// register makes a worker known, or known anew. A new session ends what it does not say that it still runs.
func (m *model) register(w job.Worker, running []job.Lease) string {
	k := cmp.Or(m.worker(w.Name), &mWorker{})
	fresh, silent := k.Session != w.Session, k.seen == 0 || k.seen.Add(job.DefaultTTL) <= m.now
	return refusals{{w.Slots < 1 || w.Session.IsZero(), invalid}, {fresh && !silent, alive}}.or(func() {
		m.leave(k)
		w.Drained, w.Faults, w.Until = k.Drained, k.Faults, k.Until
		k.Worker, k.seen = w, m.now
		m.workers = append(m.workers, k)
		slices.SortFunc(m.workers, func(a, b *mWorker) int { return strings.Compare(a.Name, b.Name) })
		if fresh {
			m.crash(k, running, alive)
		}
	})
}

// leave takes a worker away, as it was.
func (m *model) leave(w *mWorker) {
	m.gone = append(m.gone, &mWorker{Worker: w.Worker, seen: m.now})
	m.workers = without(m.workers, w)
}

// evict ends the waiting of a session that is over.
func (w *mWorker) evict(kind string) {
	for _, x := range w.waiters {
		x.kind = kind
	}
	w.waiters = nil
}

// crash ends a session: its waiting, and its attempts but those that still run (rule 5).
func (m *model) crash(w *mWorker, running []job.Lease, kind string) {
	w.evict(kind)
	for _, j := range m.on(w) {
		switch {
		case slices.Contains(running, j.last.lease()):
		case j.held():
			m.free(j)
		default:
			m.conclude(j, &job.Report{Outcome: job.Aborted, Detail: job.WorkerCrashed})
		}
	}
}

func (m *model) remove(name string, force bool) string {
	w := m.worker(name)
	return refusals{{w == nil, notFound}, {w != nil && !force && len(m.on(w)) > 0, busy}}.or(func() {
		m.crash(w, nil, notFound)
		m.leave(w)
	})
}

func (m *model) lease(x *leaseCall) string {
	w := cmp.Or(m.worker(x.worker), &mWorker{})
	return refusals{{w.Name == "", notFound}, {w.Session.IsZero(), off}, {w.Session != x.session, alive}}.or(func() {
		w.seen, w.waiters = m.now, append(w.waiters, x)
	})
}

// take starts a job out of turn.
func (m *model) take(name string, session, id job.ID) string {
	w, j := cmp.Or(m.worker(name), &mWorker{}), m.job(id)
	kind := refusals{{w.Name == "", notFound}, {w.Session.IsZero(), off}, {w.Session != session, alive}}.or(func() { w.seen = m.now })
	free := func() bool {
		return m.ready(j) && !m.paused(j) && m.keyFree(j) && capable(w, j) && m.slotFree(w, j) && !w.Drained && w.Until <= m.now
	}
	return refusals{{kind != done, kind}, {kind == done && (j == nil || !free()), notReady}}.or(func() { m.begin(j, w) })
}

// holder finds the job whose attempt the lease gives a right to. Its worker lives (rule 2).
func (m *model) holder(l job.Lease) *mJob {
	j := m.job(l.Job)
	if j == nil || !j.last.leased || j.last.lease() != l {
		return nil
	}
	m.worker(j.last.Worker).alive(m.now)
	return j
}

// beat renews a lease (rule 6).
func (m *model) beat(b queue.Beat) string {
	j := m.holder(b.Lease)
	if !j.running() || j.last.deadline <= m.now && !m.policy(j).CallerJudges {
		return lost
	}
	j.last.deadline = m.now.Add(m.policy(j).TTL)
	if !b.Output.IsZero() {
		j.last.output = m.now
	}
	return done
}

// progress of an attempt that is held is refused, and so not even a sign of life.
func (m *model) progress(l job.Lease) string {
	j := m.job(l.Job)
	return refusals{{j.held() || m.holder(l) == nil, lost}}.or(func() {
		if j.last.output != 0 {
			j.last.output = m.now
		}
	})
}

// report is a worker's finish (rule 2).
func (m *model) report(f *job.Report) string {
	j := m.job(f.Lease.Job)
	if j == nil {
		return lost
	}
	told := func(r *mRun) bool { return r.lease() == f.Lease && r.Outcome == f.Outcome && r.Detail == f.Detail }
	last, mine := j.last, j.last.lease() == f.Lease
	if mine && (j.end == nil || last.leased) {
		m.worker(last.Worker).alive(m.now)
	}
	switch {
	case mine && j.running():
		m.conclude(j, f)
	case mine && j.held():
		m.free(j)
		return lost
	case told(last) || !mine && slices.ContainsFunc(m.past, told): // and not heard the answer
	case !mine || j.end != nil || last.Detail != job.LeaseLost && last.Detail != job.WorkerCrashed:
		return lost
	case f.Outcome == job.Aborted || f.Outcome == job.Cancelled: // booked as a loss already
	default: // late, and nothing newer has started: what ends the job counts
		if _, retried, _ := m.blame(j, nil, f); !retried {
			late := *last // what it used and taught stays as it was booked
			late.Outcome, late.Detail = f.Outcome, f.Detail
			j.last = &late
			m.close(j, f)
		}
	}
	return done
}

func (m *model) cancelBuild(id job.ID, spare bool) string {
	b := m.build(id)
	return refusals{{!b.live(), notFound}}.or(func() {
		m.closeBuild(b, job.Cancelled)
		for _, r := range b.refs {
			if !spare {
				m.cancel(job.NotNeeded, r.to)
			}
		}
	})
}

// cancelJob cancels one job, of a build or of whoever asks, who speaks for one that needs it. Others refuse (rule 7).
func (m *model) cancelJob(id, of job.ID, force bool) (kind string, others []*mBuild) {
	j := m.job(id)
	if kind = (refusals{{j == nil, notFound}, {j.over(), ended}}).or(); kind != done {
		return kind, nil
	}
	by := m.demand(j).by
	dependent := func(b *mBuild) bool { return b.ID.IsZero() && !slices.Contains(j.own, b) } // that was asked for alone
	others = filter(m.builds, func(b *mBuild) bool { return b.ID != of && slices.Contains(by, b) })
	needers := len(others) + min(len(j.own), 1)
	if of.IsZero() {
		needers--
	}
	if !force && (needers > 0 || slices.ContainsFunc(by, dependent)) {
		return needed, others
	}
	m.cancel(job.NoDetail, j)
	return done, nil
}

func (m *model) failJob(id job.ID) string {
	j := m.job(id)
	return refusals{{j == nil, notFound}, {j.over(), ended}, {j.running(), busy}}.or(func() {
		m.finish(j, job.End{Outcome: job.Failed})
	})
}

// outlived reports whether a dependent of the job goes on if that is cancelled, or if it has ended (rule 3).
func (m *model) outlived(id job.ID) bool {
	j := m.job(id)
	return slices.ContainsFunc(m.jobs, func(k *mJob) bool {
		policy, needs := k.needs[j]
		return needs && k.end == nil && (j.over() || policy != job.Success)
	})
}

// deleteJob takes a Done job out of the history, unless an unfinished dependent can still read it (rule 3).
func (m *model) deleteJob(id job.ID) string {
	return refusals{{m.outlived(id), busy}}.or(func() { m.jobs = without(m.jobs, m.job(id)) })
}

func (m *model) deleteBuild(id job.ID) string {
	b := m.build(id)
	return refusals{{b == nil, notFound}, {b.live(), busy}}.or(func() { m.builds = without(m.builds, b) })
}

// restart: a new owner gives each lease one full TTL, and knows of nobody who waits (rule 6).
func (m *model) restart(now job.Time) {
	m.now = now
	for _, w := range m.workers {
		w.evict(again)
		w.seen = 0
	}
	for _, j := range m.jobs {
		if j.last.leased {
			j.last.deadline, j.last.output = now.Add(m.policy(j).TTL), 0
			m.worker(j.last.Worker).alive(now)
		}
	}
	m.round()
}
