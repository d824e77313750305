package sim

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// What is asked of the engine, and what it must answer: the first refusal that applies, or done (see world.go).

// but gives the refusal if it applies.
func but(so bool, kind string) string {
	if so {
		return kind
	}
	return done
}

// submit asks for jobs, for a build or alone; all or none of them (rules 1, 3 and 4).
func (m *model) submit(s *queue.Submission) (reply []job.Submitted, kind string) {
	before := len(m.jobs)
	b, own := (*mBuild)(nil), job.Build{Priority: s.Own.Priority, Group: s.Own.Group, Limits: s.Own.Limits}
	if s.Build != nil {
		b, own = m.build(s.Build.ID), *s.Build
		own.ID = job.ID{}
	}
	stands := func(id job.ID) *mJob {
		for i, r := range reply {
			if s.Jobs[i].ID == id {
				return m.job(r.ID)
			}
		}
		return m.job(id)
	}
	reply, kind = m.meet(s)
	fresh := m.jobs[before:]
	kind = cmp.Or(but(own.Priority > job.MaxPriority, invalid), kind, m.link(fresh, stands))
	for _, r := range s.Refs {
		kind = cmp.Or(kind, but(stands(r.Job) == nil, notFound))
	}
	if kind != done {
		m.jobs = m.jobs[:before]
		return nil, kind
	}
	if s.Build != nil && b == nil {
		b = &mBuild{Build: *s.Build}
		m.builds = append(m.builds, b)
	}
	for _, r := range reply {
		if j := m.job(r.ID); (b == nil || b.outcome != 0) && !j.over() {
			j.keep(own)
		}
	}
	for _, r := range s.Refs {
		if b.outcome == 0 {
			b.want(r, stands(r.Job))
		}
	}
	// Dependents first: of a dependency that ends as it is made, they learn later.
	for _, j := range slices.Backward(fresh) {
		end, root := m.doom(j), m.failures[j.Identity()].Job
		if slices.Contains(reply, job.Submitted{ID: j.ID, How: job.CachedFailure}) {
			end = &job.End{Outcome: job.Failed, Cached: true, Root: root, RootOutcome: job.Failed}
		}
		if end != nil {
			m.finish(j, *end)
		}
	}
	return reply, done
}

// meet finds out what stands for each asked-for job, and makes what is not there (rule 1).
func (m *model) meet(s *queue.Submission) (reply []job.Submitted, kind string) {
	for i := range s.Jobs {
		spec := &s.Jobs[i]
		same := func(o *job.Spec) bool { return o.Identity() == spec.Identity() }
		twin := slices.IndexFunc(s.Jobs[:i], func(o job.Spec) bool { return same(&o) })
		live := find(m.jobs, func(j *mJob) bool { return same(&j.Spec) && j.end == nil })
		kept := filter(m.jobs, func(j *mJob) bool {
			return same(&j.Spec) && j.Class() == spec.Class() && j.over() && j.end.Outcome == job.Succeeded
		})
		answer := job.Submitted{ID: spec.ID, How: job.Created}
		switch {
		case m.job(spec.ID) != nil || slices.ContainsFunc(s.Jobs[:i], func(o job.Spec) bool { return o.ID == spec.ID }):
			return reply, invalid
		case live != nil && live.Class() != spec.Class() || twin >= 0 && s.Jobs[twin].Class() != spec.Class():
			return reply, conflict
		case live != nil:
			answer = job.Submitted{ID: live.ID, How: job.Joined}
		case twin >= 0:
			answer = reply[twin]
		case spec.Reuse && len(kept) > 0:
			answer = job.Submitted{ID: kept[len(kept)-1].ID, How: job.Reused}
		default:
			m.jobs = append(m.jobs, m.make(spec))
			if f := m.failures[spec.Identity()]; spec.CacheFailure && f.Class == spec.Class() && f.Until > m.now {
				answer.How = job.CachedFailure
			}
		}
		reply = append(reply, answer)
	}
	return reply, done
}

// make gives a new job. How long it takes is learned from its like, as far as that is stored (rule 8).
func (m *model) make(spec *job.Spec) *mJob {
	j := &mJob{Spec: *spec, needs: map[*mJob]job.Policy{}, at: m.now, wake: spec.NotBefore, last: &mRun{}}
	n, history := int64(0), m.past
	if m.stored != nil {
		history = m.stored
	}
	for _, r := range history {
		if spec.Estimate == 0 && r.Outcome == job.Succeeded && j.Name != "" && r.of.Series() == j.Series() {
			j.Estimate = job.Learn(j.Estimate, n, r.At.Sub(r.Start))
			n++
		}
	}
	j.Estimate = cmp.Or(j.Estimate, job.DefaultEstimate)
	return j
}

// link joins new jobs to what they need, without order edges to what nobody knows, and gives ages: what is needed is
// older, else as asked (rule 3).
func (m *model) link(fresh []*mJob, stands func(job.ID) *mJob) (kind string) {
	for _, j := range fresh {
		for _, n := range j.Needs {
			d := stands(n.Job)
			if d == nil && n.Policy != job.Order {
				return notFound
			}
			if policy, twice := j.needs[d]; d != nil && (!twice || n.Policy < policy) { // the strictest holds
				j.needs[d] = n.Policy
			}
		}
	}
	if slices.ContainsFunc(fresh, func(j *mJob) bool { return slices.Contains(j.beyond(job.Finish, nil), j) }) {
		return cyclic
	}
	for i := range fresh {
		rest := fresh[i:]
		next := slices.IndexFunc(rest, func(j *mJob) bool { return !slices.ContainsFunc(rest, j.follows) })
		j := rest[next]
		copy(rest[1:next+1], rest[:next])
		rest[0] = j
	}
	return done
}

// keep makes a job stand for itself, too. The first who asked pays.
func (j *mJob) keep(own job.Build) {
	if len(j.own) > 0 {
		own.Group = j.own[0].Group
	}
	b := &mBuild{Build: own, active: true}
	b.want(job.Ref{}, j)
	j.own = append(j.own, b)
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
	if kind := cmp.Or(but(w.Slots < 1 || w.Session.IsZero(), invalid), but(fresh && !silent, alive)); kind != done {
		return kind
	}
	m.leave(k)
	w.Drained, w.Faults, w.Until = k.Drained, k.Faults, k.Until
	k.Worker, k.seen = w, m.now
	m.workers = append(m.workers, k)
	slices.SortFunc(m.workers, func(a, b *mWorker) int { return strings.Compare(a.Name, b.Name) })
	if fresh {
		k.evict(alive)
		m.crash(k, running)
	}
	return done
}

// leave takes a worker away, as it was.
func (m *model) leave(w *mWorker) {
	m.gone = append(m.gone, mWorker{Worker: w.Worker, seen: m.now})
	m.workers = filter(m.workers, func(o *mWorker) bool { return o != w })
}

// evict ends the waiting of a session that is over.
func (w *mWorker) evict(kind string) {
	for _, x := range w.waiters {
		x.kind = kind
	}
	w.waiters = nil
}

// crash ends the worker's attempts but those that it still runs (rule 5).
func (m *model) crash(w *mWorker, running []job.Lease) {
	for _, j := range m.on(w) {
		switch {
		case slices.Contains(running, j.leaseID()):
		case j.held():
			m.free(j)
		default:
			m.conclude(j, &job.Report{Outcome: job.Aborted, Detail: job.WorkerCrashed})
		}
	}
}

func (m *model) remove(name string, force bool) string {
	w := m.worker(name)
	kind := cmp.Or(but(w == nil, notFound), but(w != nil && !force && len(m.on(w)) > 0, busy))
	if kind == done {
		m.crash(w, nil)
		w.evict(notFound)
		m.leave(w)
	}
	return kind
}

func (m *model) lease(x *leaseCall) string {
	w := m.worker(x.worker)
	kind := cmp.Or(but(w == nil, notFound), but(w != nil && w.Session.IsZero(), off), but(w != nil && w.Session != x.session, alive))
	if kind == done {
		w.seen, w.waiters = m.now, append(w.waiters, x)
	}
	return kind
}

func (j *mJob) leaseID() job.Lease {
	return job.Lease{Job: j.ID, Attempt: j.last.Number, Token: j.last.Token}
}

// holder finds the job whose attempt the lease gives a right to. Its worker lives (rule 2).
func (m *model) holder(l job.Lease) *mJob {
	j := m.job(l.Job)
	if j == nil || !j.last.leased || j.leaseID() != l {
		return nil
	}
	m.worker(j.last.Worker).alive(m.now)
	return j
}

// beat renews a lease (rule 6).
func (m *model) beat(b queue.Beat) string {
	j := m.holder(b.Lease)
	if !j.running() || j.last.deadline <= m.now && !m.channel(j.Channel).CallerJudges {
		return lost
	}
	j.last.deadline = m.now.Add(m.channel(j.Channel).TTL)
	if !b.Output.IsZero() {
		j.last.output = m.now
	}
	return done
}

// progress of an attempt that is held is refused, and so not even a sign of life.
func (m *model) progress(l job.Lease) string {
	j := m.job(l.Job)
	if j.held() || m.holder(l) == nil {
		return lost
	}
	if j.last.output != 0 {
		j.last.output = m.now
	}
	return done
}

// report is a worker's finish (rule 2).
func (m *model) report(f *job.Report) string {
	j := m.job(f.Lease.Job)
	earlier := func(r *mRun) bool {
		return r.of == j && r.Number < j.last.Number && r.Number == f.Lease.Attempt && r.Token == f.Lease.Token && r.Outcome == f.Outcome && r.Detail == f.Detail
	}
	switch {
	case j != nil && slices.ContainsFunc(m.past, earlier): // told already
		return done
	case j == nil || j.leaseID() != f.Lease:
		return lost
	}
	last := j.last
	if w := m.worker(last.Worker); w != nil && (j.end == nil || last.leased) {
		w.alive(m.now)
	}
	switch {
	case j.running():
		m.conclude(j, f)
	case j.held():
		m.free(j)
		return lost
	case last.Outcome == f.Outcome && last.Detail == f.Detail: // told already
	case j.end != nil || last.Detail != job.LeaseLost && last.Detail != job.WorkerCrashed:
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
	if b == nil || b.outcome != 0 {
		return notFound
	}
	b.outcome = job.Cancelled
	m.note("build %s %s", b.ID, b.outcome)
	if !spare {
		for _, r := range b.refs {
			m.cancel(job.NotNeeded, r.to)
		}
	}
	return done
}

// cancelJob cancels one job, of a build or of whoever asks, who speaks for one that needs it. Others refuse (rule 7).
func (m *model) cancelJob(id, of job.ID, force bool) (kind string, builds []job.ID) {
	j := m.job(id)
	if kind = cmp.Or(but(j == nil, notFound), but(j.over(), ended)); kind != done {
		return kind, nil
	}
	by := m.demand(j).by
	alone := func(b *mBuild) bool { return b.ID.IsZero() && !slices.Contains(j.own, b) } // a dependent
	for _, b := range m.builds {
		if b.ID != of && slices.Contains(by, b) {
			builds = append(builds, b.ID)
		}
	}
	needers := len(builds) + min(len(j.own), 1)
	if of.IsZero() {
		needers--
	}
	if !force && (needers > 0 || slices.ContainsFunc(by, alone)) {
		return needed, builds
	}
	m.cancel(job.NoDetail, j)
	return done, nil
}

func (m *model) failJob(id job.ID) string {
	j := m.job(id)
	kind := cmp.Or(but(j == nil, notFound), but(j.over(), ended), but(j.running(), busy))
	if kind == done {
		m.finish(j, job.End{Outcome: job.Failed})
	}
	return kind
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
	kind := but(m.outlived(id), busy)
	if kind == done {
		m.jobs = filter(m.jobs, func(j *mJob) bool { return j.ID != id })
	}
	return kind
}

func (m *model) deleteBuild(id job.ID) string {
	b := m.build(id)
	kind := cmp.Or(but(b == nil, notFound), but(b != nil && b.outcome == 0, busy))
	if kind == done {
		m.builds = filter(m.builds, func(o *mBuild) bool { return o != b })
	}
	return kind
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
			j.last.deadline, j.last.output = now.Add(m.channel(j.Channel).TTL), 0
			m.worker(j.last.Worker).alive(now)
		}
	}
	m.round()
}
