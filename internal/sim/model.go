package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
)

// model predicts what the engine does, from the rules of the design and the docstrings alone: plain structs and full
// scans, nothing counted, cached or indexed. A command changes it and gives the reply that is due; round then draws
// the consequences and hands out work; advance lets time pass.
type model struct {
	now      job.Time
	seq      int64
	jobs     []*mJob // oldest first; deleted ones are gone
	builds   []*mBuild
	workers  []*mWorker
	channels map[string]job.Channel
	failures map[job.Identity]job.FailureCached
	took     map[job.Series][]time.Duration
	spent    []spent
	waiters  []*mWaiter
	log      []string // what happened since the last comparison
	// lead, if it is set, has the model do what the engine did in rounds over their budget: see follow.go. While behind, nothing
	// follows by itself; only and onlyBuild, if set, are all that something may happen to.
	lead      func()
	behind    bool
	only      *mJob
	onlyBuild *mBuild
	// Jitter is the engine's to draw, and which of equals comes first: these tell what it drew, and check that it may.
	drawnRoot  func(j *mJob) job.ID
	drawnWake  func(j *mJob, least, span time.Duration) job.Time
	drawnKept  func(j *mJob) bool
	drawnUntil func(w *mWorker, least, span time.Duration) job.Time
}

type mJob struct {
	job.Spec
	seq          int64
	at, unserved job.Time // asked for; the last worker that could run it went
	own          *job.Own
	tally        job.Tally
	wake         job.Time
	attempts     int32
	last         *job.Attempt
	lastEnd      *job.AttemptEnd
	lease        *mLease
	end          *job.End
	stop         bool // its running attempt goes with whoever needs it
}

type mLease struct {
	deadline, output job.Time
	heard            bool // output was told of
	limits           job.Limits
	ttl              time.Duration // as the worker was told
}

type mBuild struct {
	job.Build
	seq     int64
	refs    []job.Ref
	active  bool
	outcome job.Outcome
}

type mWorker struct {
	job.Worker
	seen job.Time
}

type mWaiter struct {
	worker  string
	session job.ID
	want    int
	load    float64
	got     []*mJob
	kind    string // why it ended without work
}

// spent is what an attempt used, for the shares.
type spent struct {
	channel    string
	groups     []string
	start, end job.Time
}

func (m *model) job(id job.ID) *mJob {
	return find(m.jobs, func(j *mJob) bool { return j.ID == id })
}

func (m *model) build(id job.ID) *mBuild {
	return find(m.builds, func(b *mBuild) bool { return b.ID == id })
}

func (m *model) worker(name string) *mWorker {
	return find(m.workers, func(w *mWorker) bool { return w.Name == name })
}

func find[T any](list []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	return nil
}

func (m *model) channel(name string) job.Channel {
	if c, ok := m.channels[name]; ok {
		return c
	}
	return job.DefaultChannel(name)
}

func (j *mJob) waiting() bool { return j.end == nil && j.lease == nil }
func (j *mJob) running() bool { return j.end == nil && j.lease != nil }
func (j *mJob) held() bool    { return j.end != nil && j.lease != nil }

// demand is what all who need a job give it: rules 1, 3 and 8.
type demand struct {
	kept, active, sorted bool
	priority             int32
	path                 time.Duration
	groups               []string
	limits               job.Limits
}

func (d *demand) add(o demand) {
	d.kept = d.kept || o.kept
	if o.active {
		if d.active {
			o.limits = widest(d.limits, o.limits)
		}
		d.active, d.limits = true, o.limits
		d.groups = append(slices.Clone(d.groups), o.groups...)
		slices.Sort(d.groups)
		d.groups = slices.Compact(d.groups)
	}
	if o.sorted {
		if !d.sorted || o.priority > d.priority {
			d.priority = o.priority
		}
		d.sorted, d.path = true, max(d.path, o.path)
	}
}

func widest(a, b job.Limits) job.Limits {
	greater := func(a, b time.Duration) time.Duration {
		if a == 0 || b == 0 {
			return 0 // no limit is the widest
		}
		return max(a, b)
	}
	return job.Limits{Timeout: greater(a.Timeout, b.Timeout), Silence: greater(a.Silence, b.Silence)}
}

func (m *model) demand(j *mJob) (d demand) {
	if o := j.own; o != nil {
		d.add(demand{true, true, true, o.Priority, 0, []string{o.Group}, o.Limits})
	}
	for _, b := range m.builds {
		if r := b.ref(j.ID); r != nil && b.outcome == 0 {
			d.add(demand{true, b.active, b.active, b.Priority + r.Priority, 0, []string{b.Group}, b.Limits})
		}
	}
	for _, k := range m.jobs {
		for _, n := range k.Needs {
			if n.Job != j.ID || n.Loose || k.end != nil {
				continue
			}
			o := m.demand(k)
			o.sorted, o.path = o.active, o.path+k.Estimate
			if n.Policy == job.Order {
				o.kept, o.active, o.sorted = false, false, o.sorted && k.Channel == j.Channel
			}
			d.add(o)
		}
	}
	return d
}

func (b *mBuild) ref(id job.ID) *job.Ref {
	if i := slices.IndexFunc(b.refs, func(r job.Ref) bool { return r.Job == id }); i >= 0 {
		return &b.refs[i]
	}
	return nil
}

// limits of an attempt: the widest over all who need the job, each build by what it states for this very job, else for
// all (rule 1).
func (m *model) limits(j *mJob) (l job.Limits) {
	first := true
	take := func(o job.Limits) {
		if !first {
			o = widest(l, o)
		}
		l, first = o, false
	}
	for _, b := range m.builds {
		if b.outcome != 0 || !b.active {
			continue
		}
		if r := b.ref(j.ID); r != nil {
			take(job.Limits{Timeout: cmp.Or(r.Limits.Timeout, b.Limits.Timeout), Silence: cmp.Or(r.Limits.Silence, b.Limits.Silence)})
		} else if slices.ContainsFunc(m.jobs, func(k *mJob) bool { return b.ref(k.ID) != nil && m.above(k, j) }) {
			take(b.Limits)
		}
	}
	for _, k := range m.jobs {
		if k.own != nil && (k == j || m.above(k, j)) {
			take(k.own.Limits)
		}
	}
	return l
}

// above reports whether k is unfinished and cannot go on without j.
func (m *model) above(k, j *mJob) bool {
	return k.end == nil && slices.ContainsFunc(m.blockers(k), func(d *mJob) bool { return d == j || m.above(d, j) })
}

func (m *model) ready(j *mJob) bool {
	twin := func(k *mJob) bool { return k.held() && k.Identity() == j.Identity() }
	return j.waiting() && len(m.blockers(j)) == 0 && m.doom(j) == nil && j.wake <= m.now &&
		m.demand(j).active && !slices.ContainsFunc(m.jobs, twin)
}

func (m *model) blockers(j *mJob) (list []*mJob) {
	for _, n := range j.Needs {
		if d := m.job(n.Job); n.Policy != job.Order && d != nil && d.end == nil {
			list = append(list, d)
		}
	}
	return list
}

// doom finds the dependency whose success j needed in vain: j ends with the first, so that there is one, but for those
// that end at one moment or had ended before j was asked for. Of these the engine may name any.
func (m *model) doom(j *mJob) (first *mJob) {
	named := m.drawnRoot(j)
	for _, n := range j.Needs {
		d := m.job(n.Job)
		if n.Policy != job.Success || d == nil || d.end == nil || d.end.Outcome == job.Succeeded {
			continue
		}
		if first == nil || passedOn(d).Root == named {
			first = d
		}
	}
	return first
}

func capable(w *mWorker, j *mJob) bool {
	has := func(list []string) func(string) bool {
		return func(s string) bool { return slices.Contains(list, s) }
	}
	lacks := func(want, have []string) bool {
		return slices.ContainsFunc(want, func(s string) bool { return !has(have)(s) })
	}
	return has(w.Channels)(j.Channel) && has(w.Kinds)(j.Kind) && (j.System == "" || has(w.Systems)(j.System)) &&
		(j.Pin == "" || j.Pin == w.Name) && !lacks(j.Features, w.Features) && !lacks(w.Mandatory, j.Features)
}

func (m *model) served(j *mJob) bool {
	return slices.ContainsFunc(m.workers, func(w *mWorker) bool { return capable(w, j) })
}

// givenUp is when the job ends as unsupported (rule 11).
func (m *model) givenUp(j *mJob) (at job.Time, ok bool) {
	grace := m.channel(j.Channel).Grace
	return max(j.at, j.unserved).Add(grace), j.waiting() && grace >= 0 && !m.served(j)
}
