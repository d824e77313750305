package sim

import (
	"cmp"
	"slices"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// What is asked of the engine, and what it must answer. A kind of refusal is a word; "" is none.
const (
	done     = ""
	notFound = "not-found"
	ended    = "ended"
	busy     = "busy"
	needed   = "needed"
	lost     = "lease-lost"
	alive    = "worker-live"
	off      = "signed-off"
	invalid  = "invalid"
	conflict = "conflict"
	cyclic   = "cycle"
	again    = "retry" // nobody knows whether it happened
)

func (m *model) submit(s *queue.Submission) ([]job.Submitted, string) {
	standing, isNew := s.Build == nil, false
	var b *mBuild
	if s.Build != nil {
		if s.Build.Priority > job.MaxPriority {
			return nil, invalid
		}
		b = m.build(s.Build.ID)
		isNew, standing = b == nil, b != nil && b.outcome != 0
	}
	reply, fresh, joined, kind := m.meet(s)
	stands := map[job.ID]job.ID{}
	for i := range reply {
		stands[s.Jobs[i].ID] = reply[i].ID
	}
	if kind == done {
		kind = m.link(fresh, stands)
	}
	blocks := func(n job.Need) bool { return n.Policy != job.Order }
	if kind == done && !sortFresh(fresh, blocks) {
		kind = cyclic
	}
	sortFresh(fresh, func(n job.Need) bool { return !n.Loose })
	var refs []job.Ref
	for _, r := range s.Refs {
		if id, ok := stands[r.Job]; ok {
			r.Job = id
		}
		j := m.job(r.Job)
		if j == nil && find(fresh, func(j *mJob) bool { return j.ID == r.Job }) == nil && kind == done {
			kind = notFound
		}
		if j != nil && j.end != nil {
			r.Ended = j.end.Outcome
		}
		refs = append(refs, r)
	}
	if kind != done {
		return nil, kind
	}
	own := s.Own
	if s.Build != nil {
		own = job.Own{Priority: s.Build.Priority, Group: s.Build.Group, Limits: s.Build.Limits}
	}
	if isNew {
		m.seq++
		b = &mBuild{Build: *s.Build, seq: m.seq}
		m.builds = append(m.builds, b)
	}
	stillborn := m.make(fresh, standing, own)
	for _, j := range joined {
		if standing {
			j.keep(own)
		}
	}
	for _, r := range refs {
		if have := b.ref(r.Job); b.outcome == 0 && have == nil {
			b.refs = append(b.refs, r)
		} else if b.outcome == 0 {
			b.addTo(have, &r)
		}
	}
	for _, j := range stillborn {
		end := *j.end
		m.finish(j, end)
	}
	return reply, done
}

// addTo adds another reference to one that the build has: the strictest holds, the most urgent, and the widest limits.
func (b *mBuild) addTo(have, r *job.Ref) {
	rank := func(r *job.Ref) int {
		switch {
		case !r.Awaited && !r.Optional:
			return 2
		case r.Awaited:
			return 1
		default:
			return 0
		}
	}
	if rank(r) > rank(have) {
		have.Awaited, have.Optional = r.Awaited, r.Optional
	}
	stated := func(l job.Limits) job.Limits {
		return job.Limits{Timeout: cmp.Or(l.Timeout, b.Limits.Timeout), Silence: cmp.Or(l.Silence, b.Limits.Silence)}
	}
	have.Priority = max(have.Priority, r.Priority)
	have.Limits = widest(stated(have.Limits), stated(r.Limits))
}

// meet finds out what stands for each asked-for job (rule 1).
func (m *model) meet(s *queue.Submission) (reply []job.Submitted, fresh, joined []*mJob, kind string) {
	for i := range s.Jobs {
		spec := &s.Jobs[i]
		same := func(j *mJob) bool { return j.Identity() == spec.Identity() }
		live := find(m.jobs, func(j *mJob) bool { return same(j) && j.end == nil })
		first := slices.IndexFunc(s.Jobs, func(o job.Spec) bool { return o.Identity() == spec.Identity() })
		var kept *mJob
		for _, j := range m.jobs {
			if same(j) && j.Class() == spec.Class() && j.Key != "" && j.end != nil && j.end.Outcome == job.Succeeded {
				kept = j
			}
		}
		failure, failed := m.failures[spec.Identity()]
		answer := job.Submitted{ID: spec.ID, How: job.Created}
		switch {
		case m.job(spec.ID) != nil || slices.ContainsFunc(s.Jobs[:i], func(o job.Spec) bool { return o.ID == spec.ID }):
			return nil, nil, nil, invalid
		case first < i && s.Jobs[first].Class() != spec.Class() || first == i && live != nil && live.Class() != spec.Class():
			return nil, nil, nil, conflict
		case first < i:
			answer = job.Submitted{ID: reply[first].ID, How: job.Joined}
			if reply[first].How == job.Reused {
				answer.How = job.Reused
			}
		case live != nil:
			answer = job.Submitted{ID: live.ID, How: job.Joined}
			joined = append(joined, live)
		case spec.Reuse && kept != nil:
			answer = job.Submitted{ID: kept.ID, How: job.Reused}
		default:
			j := &mJob{Spec: *spec, at: m.now}
			if failed && failure.Class == spec.Class() && spec.CacheFailure && (failure.Until == 0 || failure.Until > m.now) {
				answer.How = job.CachedFailure
				j.end = &job.End{Outcome: failure.Outcome, Cached: true, Root: failure.Job, RootOutcome: failure.Outcome}
			}
			fresh = append(fresh, j)
		}
		reply = append(reply, answer)
	}
	return reply, fresh, joined, done
}

// link translates the needs of new jobs, drops order edges to what nobody knows, and marks those on a circle.
func (m *model) link(fresh []*mJob, stands map[job.ID]job.ID) string {
	for _, j := range fresh {
		var needs []job.Need
		for _, n := range j.Needs {
			if id, ok := stands[n.Job]; ok {
				n.Job = id
			}
			known := m.job(n.Job) != nil || slices.ContainsFunc(fresh, func(o *mJob) bool { return o.ID == n.Job })
			at := slices.IndexFunc(needs, func(o job.Need) bool { return o.Job == n.Job })
			switch {
			case !known && n.Policy != job.Order:
				return notFound
			case n.Job == j.ID && n.Policy != job.Order:
				return cyclic
			case at >= 0:
				needs[at].Policy = min(needs[at].Policy, n.Policy) // the strictest
			case known:
				needs = append(needs, n)
			}
		}
		j.Needs = needs
	}
	for _, j := range fresh {
		for i := range j.Needs {
			n := &j.Needs[i]
			n.Loose = n.Policy == job.Order && reaches(fresh, n.Job, j.ID, map[job.ID]bool{})
		}
	}
	return done
}

// reaches: following needs among the new jobs leads from one to the other.
func reaches(fresh []*mJob, from, to job.ID, seen map[job.ID]bool) bool {
	j := find(fresh, func(j *mJob) bool { return j.ID == from })
	if from == to || j == nil || seen[from] {
		return from == to
	}
	seen[from] = true
	return slices.ContainsFunc(j.Needs, func(n job.Need) bool { return reaches(fresh, n.Job, to, seen) })
}

// sortFresh gives ages: what is needed is older, else as asked. It reports whether there is such an order.
func sortFresh(fresh []*mJob, counts func(job.Need) bool) bool {
	placed := map[job.ID]int64{}
	for range fresh {
		next := find(fresh, func(j *mJob) bool {
			needs := func(n job.Need) bool {
				inside := slices.ContainsFunc(fresh, func(o *mJob) bool { return o.ID == n.Job })
				return counts(n) && inside && placed[n.Job] == 0
			}
			return placed[j.ID] == 0 && !slices.ContainsFunc(j.Needs, needs)
		})
		if next == nil {
			return false
		}
		placed[next.ID] = int64(len(placed) + 1)
	}
	slices.SortFunc(fresh, func(a, b *mJob) int { return int(placed[a.ID] - placed[b.ID]) })
	return true
}

// make adds the new jobs, and gives those that end as they are made: they remember a failure, or needed the success
// of what has ended without.
func (m *model) make(fresh []*mJob, standing bool, own job.Own) (stillborn []*mJob) {
	for _, j := range fresh {
		m.seq++
		j.seq = m.seq
		if standing {
			o := own
			j.own = &o
		}
		if j.NotBefore > m.now {
			j.wake = j.NotBefore
		}
		if j.Estimate == 0 {
			for i, took := range m.took[j.Series()] {
				j.Estimate = job.Learn(j.Estimate, int64(i), took)
			}
		}
		if j.Estimate == 0 {
			j.Estimate = job.DefaultEstimate
		}
		if d := m.doom(j); d != nil && j.end == nil {
			j.end = passedOn(d)
		}
		if j.end != nil {
			stillborn = append(stillborn, j)
		}
	}
	m.jobs = append(m.jobs, fresh...)
	return stillborn
}

// keep makes an existing job stand for itself, too.
func (j *mJob) keep(own job.Own) {
	if j.own != nil {
		own = job.Own{Priority: max(own.Priority, j.own.Priority), Group: j.own.Group, Limits: widest(own.Limits, j.own.Limits)}
	}
	j.own = &own
}

func (m *model) register(w job.Worker, running []job.Lease) string {
	old := m.worker(w.Name)
	if w.Slots < 1 {
		return invalid
	}
	if old == nil {
		old = &mWorker{}
		m.reach(func() {
			old.Worker = w
			m.workers = append(m.workers, old)
		})
		slices.SortFunc(m.workers, func(a, b *mWorker) int { return slices.Compare([]byte(a.Name), []byte(b.Name)) })
		old.seen = m.now
		return done
	}
	fresh := old.Session != w.Session
	if fresh && old.seen != 0 && m.now < old.seen.Add(job.DefaultTTL) {
		return alive
	}
	w.Drained, w.Faults, w.Until = old.Drained, old.Faults, old.Until
	m.reach(func() { old.Worker = w })
	old.seen, old.over = m.now, false
	if fresh {
		m.evict(old.Name, alive)
		m.crash(old, running)
	}
	return done
}

// reach makes a change to the workers, and notes which jobs nobody can run any more since then.
func (m *model) reach(change func()) {
	before := map[*mJob]bool{}
	for _, j := range m.jobs {
		before[j] = m.served(j)
	}
	change()
	for _, j := range m.jobs {
		if before[j] && !m.served(j) {
			j.unserved = m.now
		}
	}
}

// evict ends the waiting of a session that is over.
func (m *model) evict(name, kind string) {
	m.waiters = slices.DeleteFunc(m.waiters, func(w *mWaiter) bool {
		if w.worker == name {
			w.kind = kind
		}
		return w.worker == name
	})
}

// crash ends the worker's attempts but those that it still runs.
func (m *model) crash(w *mWorker, running []job.Lease) {
	var mine []*mJob
	for _, j := range m.jobs {
		if j.lease != nil && j.last.Worker == w.Name && !slices.Contains(running, j.leaseID()) {
			mine = append(mine, j)
		}
	}
	for _, j := range mine {
		if j.held() {
			m.free(j)
		} else {
			m.conclude(j, &job.Report{Outcome: job.Aborted, Detail: job.WorkerCrashed})
		}
	}
}

func (j *mJob) leaseID() job.Lease {
	return job.Lease{Job: j.ID, Attempt: j.last.Number, Token: j.last.Token}
}

func (m *model) remove(name string, force bool) string {
	w := m.worker(name)
	switch {
	case w == nil:
		return notFound
	case m.used(w, false) > 0 && !force:
		return busy
	}
	m.crash(w, nil)
	m.evict(name, notFound)
	m.reach(func() { m.workers = slices.DeleteFunc(m.workers, func(o *mWorker) bool { return o == w }) })
	return done
}

func (m *model) lease(x *mWaiter) string {
	w := m.worker(x.worker)
	switch {
	case w == nil:
		return notFound
	case w.Session != x.session:
		return alive
	case w.over:
		return off
	}
	w.seen = m.now
	m.waiters = append(m.waiters, x)
	return done
}

// holder finds the job whose attempt the lease gives a right to.
func (m *model) holder(l job.Lease) *mJob {
	j := m.job(l.Job)
	if j == nil || j.lease == nil || j.leaseID() != l {
		return nil
	}
	m.worker(j.last.Worker).saw(m.now)
	return j
}

func (m *model) beat(l job.Lease) string {
	j := m.holder(l)
	if j == nil || j.held() || j.lease.deadline <= m.now && !m.channel(j.Channel).CallerJudges {
		return lost
	}
	j.lease.deadline = m.now.Add(m.channel(j.Channel).TTL)
	return done
}

func (m *model) progress(l job.Lease) string {
	if held := m.job(l.Job); held != nil && held.held() {
		return lost // refused, and so not even a sign of life
	}
	j := m.holder(l)
	if j == nil {
		return lost
	}
	j.lease.output = m.now
	return done
}

// report is a worker's finish (rule 2).
func (m *model) report(f *job.Report) string {
	j := m.job(f.Lease.Job)
	same := func(e *job.AttemptEnd) bool { return e != nil && e.Outcome == f.Outcome && e.Detail == f.Detail }
	switch {
	case j != nil && same(j.ends[f.Lease]):
		return done
	case j == nil || j.last == nil || j.leaseID() != f.Lease:
		return lost
	}
	if w := m.worker(j.last.Worker); w != nil && (j.end == nil || j.lease != nil) {
		w.saw(m.now)
	}
	switch {
	case j.running():
		m.conclude(j, f)
	case j.held():
		m.free(j)
		return lost
	case same(j.lastEnd):
	case j.end != nil || j.lastEnd.Detail != job.LeaseLost && j.lastEnd.Detail != job.WorkerCrashed:
		return lost
	case f.Outcome == job.Aborted || f.Outcome == job.Cancelled: // booked as a loss already
	default: // late, and nothing newer has started: what ends the job counts
		tally := j.tally
		retried, _ := m.blame(j, nil, &job.Report{Outcome: f.Outcome, Detail: f.Detail})
		j.tally = tally
		if !retried {
			j.lastEnd = &job.AttemptEnd{Outcome: f.Outcome, Detail: f.Detail}
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
	for _, r := range b.refs {
		if j := m.job(r.Job); j != nil && j.end == nil && !spare {
			j.stop = true
		}
	}
	m.endBuild(b, job.Cancelled)
	return done
}

// needing gives the live builds that need the job, and whether a dependent stands for itself.
func (m *model) needing(j *mJob) (builds []job.ID, alone bool) {
	for _, b := range m.builds {
		if b.outcome == 0 && b.ref(j.ID) != nil {
			builds = append(builds, b.ID)
		}
	}
	for _, k := range m.jobs {
		if k.end == nil && slices.Contains(m.blockers(k), j) {
			more, own := m.needing(k)
			builds = append(builds, more...)
			alone = alone || own || k.own != nil
		}
	}
	slices.SortFunc(builds, func(a, b job.ID) int { return int(m.build(a).seq - m.build(b).seq) })
	return slices.Compact(builds), alone
}

func (m *model) cancelJob(id, of job.ID, force bool) (kind string, builds []job.ID) {
	j := m.job(id)
	if j == nil {
		return notFound, nil
	}
	if j.end != nil {
		return ended, nil
	}
	builds, alone := m.needing(j)
	builds = slices.DeleteFunc(builds, func(b job.ID) bool { return b == of })
	needers := len(builds)
	if j.own != nil {
		needers++
	}
	if of.IsZero() {
		needers-- // whoever asks speaks for one
	}
	if !force && (needers > 0 || alone) {
		return needed, builds
	}
	if j.running() {
		m.halt(j, job.Cancelled, job.NoDetail)
	} else {
		m.finish(j, job.End{Outcome: job.Cancelled})
	}
	return done, nil
}

func (m *model) failJob(id job.ID) string {
	j := m.job(id)
	switch {
	case j == nil:
		return notFound
	case j.end != nil:
		return ended
	case j.running():
		return busy
	}
	m.finish(j, job.End{Outcome: job.Failed})
	return done
}

// deleteJob takes a Done job out of the history, unless an unfinished dependent can still read it.
func (m *model) deleteJob(id job.ID) string {
	for _, k := range m.jobs {
		if k.end == nil && slices.ContainsFunc(k.Needs, func(n job.Need) bool { return n.Job == id }) {
			return busy
		}
	}
	m.jobs = slices.DeleteFunc(m.jobs, func(j *mJob) bool { return j.ID == id })
	return done
}

// outlived reports whether a dependent of the unfinished job would go on if that were cancelled.
func (m *model) outlived(id job.ID) bool {
	j := m.job(id)
	return j != nil && j.end == nil && slices.ContainsFunc(m.jobs, func(k *mJob) bool {
		return k.end == nil && slices.ContainsFunc(k.Needs, func(n job.Need) bool { return n.Job == id && n.Policy != job.Success })
	})
}

func (m *model) deleteBuild(id job.ID) string {
	switch b := m.build(id); {
	case b == nil:
		return notFound
	case b.outcome == 0:
		return busy
	}
	m.builds = slices.DeleteFunc(m.builds, func(b *mBuild) bool { return b.ID == id })
	return done
}

// restart: a new owner gives each lease one full TTL, and knows of nobody who waits.
func (m *model) restart(now job.Time) {
	m.now = now
	for _, x := range m.waiters {
		x.kind = again
	}
	m.waiters = nil
	for _, w := range m.workers {
		w.seen, w.over = 0, false
	}
	for _, j := range m.jobs {
		if j.lease != nil {
			j.lease.deadline, j.lease.output, j.lease.heard = now.Add(m.channel(j.Channel).TTL), now, false
			m.worker(j.last.Worker).seen = now
		}
	}
	m.round()
}
