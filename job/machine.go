package job

import (
	"container/heap"
	"maps"
	"slices"
)

// Machine decides. It holds what is unfinished and what scheduling needs, and nothing else. Its state
// moves by Apply alone: the deciding methods (Submit, Start, Finish, ...) look, and give the changes and
// a reply, or an error and nothing; Advance gives and applies what follows from changes and from time.
type Machine struct {
	jobs       map[ID]*Job
	byIdentity index             // unfinished
	lingering  map[Identity]*Job // Done, but the attempt is held
	builds     map[ID]*build
	gates      map[string]*buildGate
	classes    map[Class]*class
	workers    map[string]*worker
	channels   map[string]*Channel
	settings   map[string]map[string][]byte // by space, of which none is empty, and name
	accounts   map[account]*usage
	channelUse map[string]*usage
	seq        int64
	base       Time // running usage is counted from here
	loading    bool
	effort     int  // of the last Advance
	overdue    bool // it left jobs whose moment has come

	timers timers
	pens   pens
	// What Advance has to look at, in the order in which it came up.
	flow     flowQueue
	ranks    sweeps
	doomed   []doom
	unneeded []*Job
	stopping bool   // somebody cancelled something: what runs for that alone is to be stopped at once
	stops    []*Job // that run, may be needed by nobody, and are to be stopped then
	check    []*Job // may have become ready, blocked or unsupported
	ending   []*build
	opening  []*buildGate
	idle     []Class // without jobs, and stored as unserved

	// What the scheduler has to look at.
	touched []*Job
	moved   []string // workers

	left []*Job // memory, since Left was called
}

// doom is a job that cannot get the success it needs, and the dependency that did not succeed. Without
// a job, it only asks whether the dependency has told all.
type doom struct{ job, by *Job }

// New gives a machine that knows nothing, whose clock begins at now. Changes that a store loaded go through
// Apply between New and Loaded; only after Loaded may anything be decided.
func New(now Time) *Machine {
	return &Machine{
		base: now,
		jobs: map[ID]*Job{}, byIdentity: newIndex(), lingering: map[Identity]*Job{},
		builds: map[ID]*build{}, gates: map[string]*buildGate{}, classes: map[Class]*class{},
		workers: map[string]*worker{}, channels: map[string]*Channel{}, settings: map[string]map[string][]byte{},
		accounts: map[account]*usage{}, channelUse: map[string]*usage{},
		ranks:   sweeps{steps: rankSteps},
		loading: true,
	}
}

// build is a live build.
type build struct {
	BuildRecord
	active   bool
	priority int32
	audience *Audience
	jobs     []held   // that it wishes for and that are in memory and not Done
	staged   []staged // that it keeps until it is complete and says which it wants
	open     int      // targets and awaited jobs that have not ended
	worst    Outcome
	ending   bool
}

// held is a build's side of a wish.
type held struct {
	job  *Job
	back int32 // place in job.wishes
}

// buildGate is a concurrency key of builds.
type buildGate struct {
	key     string
	active  int32
	waiting []*build
	queued  bool
}

// class is a Class with who can run it.
type class struct {
	Class
	jobs    int // in memory
	where   Counts
	capable int // known workers that could run it
	since   Time
}

// Counts says how many jobs in memory are in which state. Those that are Done have something left to tell, or an attempt that is
// being stopped.
type Counts struct{ Blocked, Ready, Running, Done int }

// of gives the count of a state.
func (c *Counts) of(s State) *int {
	switch s.(type) {
	case Blocked:
		return &c.Blocked
	case Ready:
		return &c.Ready
	case Running:
		return &c.Running
	case Done:
		return &c.Done
	}
	panic("unreachable: the states are sealed")
}

// Census calls f with each class that has jobs in memory, in no order. It looks at no job.
func (m *Machine) Census(f func(Class, Counts)) {
	for _, k := range m.classes {
		if k.jobs > 0 {
			f(k.Class, k.where)
		}
	}
}

// worker is a known worker with what it runs.
type worker struct {
	Worker
	// Jobs with a lease, running or held, in the order of the leases: each knows its neighbours.
	oldest, newest *Job
	used           int
	alone          int  // of them exclusive
	seen           Time // volatile: last call
}

// Job finds a job in memory: one that is unfinished, or Done with something left to tell or to free.
func (m *Machine) Job(id ID) (*Job, bool) {
	j, ok := m.jobs[id]
	return j, ok
}

// Unfinished finds the unfinished job of an identity.
func (m *Machine) Unfinished(i Identity) (*Job, bool) {
	j := m.byIdentity.get(i)
	return j, j != nil
}

// Lingering finds the Done job of an identity whose attempt is still being stopped.
func (m *Machine) Lingering(i Identity) (*Job, bool) {
	j, ok := m.lingering[i]
	return j, ok
}

// GivenUp gives when the waiting job ends as Unsupported; ok is false if it does not: a known worker could run it, or
// its channel waits for ever.
func (m *Machine) GivenUp(j *Job) (at Time, ok bool) { return m.patience(j) }

// Jobs gives all jobs in memory, oldest first. It is for checks and dumps, not for decisions.
func (m *Machine) Jobs() []*Job {
	return m.some(func(*Job) bool { return true })
}

// Len counts the jobs in memory.
func (m *Machine) Len() int { return len(m.jobs) }

// Seq gives the greatest age handed out.
func (m *Machine) Seq() int64 { return m.seq }

// Restore tells the machine, while it is loading, the greatest age ever handed out.
func (m *Machine) Restore(seq int64) { m.seq = max(m.seq, seq) }

// Build finds a live build.
func (m *Machine) Build(id ID) (BuildRecord, bool) {
	b, ok := m.builds[id]
	if !ok {
		return BuildRecord{}, false
	}
	return b.record(), true
}

func (b *build) record() BuildRecord {
	r := b.BuildRecord
	r.Active, r.Build.Priority = b.active, b.priority
	return r
}

// Builds gives all live builds, oldest first.
func (m *Machine) Builds() []BuildRecord {
	all := make([]BuildRecord, 0, len(m.builds))
	for _, b := range m.builds {
		all = append(all, b.record())
	}
	slices.SortFunc(all, func(a, b BuildRecord) int { return int(a.Seq - b.Seq) })
	return all
}

// Channels gives the policies that somebody has set, by name.
func (m *Machine) Channels() []Channel {
	all := make([]Channel, 0, len(m.channels))
	for _, name := range slices.Sorted(maps.Keys(m.channels)) {
		all = append(all, *m.channels[name])
	}
	return all
}

// Worker finds a known worker.
func (m *Machine) Worker(name string) (Worker, bool) {
	w, ok := m.workers[name]
	if !ok {
		return Worker{}, false
	}
	return w.Worker, true
}

// Workers gives the names of all known workers, sorted.
func (m *Machine) Workers() []string {
	names := make([]string, 0, len(m.workers))
	for n := range m.workers {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Leases calls f with each job whose attempt the worker has a lease for, running or held, oldest lease first.
func (m *Machine) Leases(name string, f func(*Job)) {
	if w := m.workers[name]; w != nil {
		for j := range w.leases {
			f(j)
		}
	}
}

// Used counts the slots of the worker that are taken, held attempts included.
func (m *Machine) Used(name string) int {
	if w := m.workers[name]; w != nil {
		return w.used
	}
	return 0
}

// UsedAlone counts those slots of the worker that exclusive jobs take.
func (m *Machine) UsedAlone(name string) int {
	if w := m.workers[name]; w != nil {
		return w.alone
	}
	return 0
}

// Channel gives the policy of a channel.
func (m *Machine) Channel(name string) Channel {
	if c := m.channels[name]; c != nil {
		return *c
	}
	return DefaultChannel(name)
}

// Unsupported reports since when no known worker can run the class; zero: one can, or nobody asked.
func (m *Machine) Unsupported(c Class) Time {
	if k := m.classes[c]; k != nil && k.capable == 0 {
		return k.since
	}
	return 0
}

// Touched calls f once with each job whose state or rank may have changed since the last call, Done and
// forgotten ones included, in an order that depends on nothing but the history.
func (m *Machine) Touched(f func(*Job)) {
	for i := 0; i < len(m.touched); i++ {
		j := m.touched[i]
		m.touched[i] = nil
		j.flags.clear(isTouched)
		f(j)
	}
	m.touched = m.touched[:0]
}

// Moved calls f with the name of each worker that may have changed since the last call, removed ones included.
func (m *Machine) Moved(f func(name string)) {
	for _, n := range m.moved {
		f(n)
	}
	m.moved = m.moved[:0]
}

// Left calls f with each job that has left memory since the last call, as Facts tell of it: its likeness, how it ended, and
// its newest attempt.
func (m *Machine) Left(f func(*Record)) {
	for i, j := range m.left {
		m.left[i] = nil
		c := j.class.Class
		r := &Record{Seq: j.seq, Spec: Spec{
			ID: j.id, Channel: c.Channel, Kind: c.Kind, Key: j.key, System: c.System, Features: c.FeatureList(), Pin: c.Pin,
		}}
		r.End = j.state.(Done).End
		if j.last != nil {
			r.Last, r.LastEnd = &j.last.Attempt, j.last.end
		}
		f(r)
	}
	m.left = m.left[:0]
}

func (m *Machine) touch(j *Job) {
	if !j.flags.has(isTouched) {
		j.flags.set(isTouched)
		m.touched = append(m.touched, j)
	}
}

// retouch notes that offers to j may have changed.
func (m *Machine) retouch(j *Job) {
	if !j.flags.has(inFlow) {
		j.flags.set(inFlow)
		heap.Push(&m.flow, j)
	}
}

func (m *Machine) look(j *Job) {
	if !j.flags.has(isChecked) {
		j.flags.set(isChecked)
		m.check = append(m.check, j)
	}
}

// pour lets changed offers flow from dependents to dependencies, at most budget jobs. Youngest first:
// a job is younger than what it depends on, so each is passed once, but where an order edge points the other way.
func (m *Machine) pour(budget int) int {
	for ; budget > 0 && len(m.flow) > 0; budget-- {
		j := heap.Pop(&m.flow).(*Job)
		j.flags.clear(inFlow)
		m.pass(j)
	}
	return budget
}

func (m *Machine) pass(j *Job) {
	if j.in.stale() && !j.done() {
		j.recount()
	}
	if !j.done() {
		m.touch(j)
		m.look(j)
		if j.in.keep == 0 {
			m.doubt(j)
		} else {
			j.flags.clear(stop | erase)
		}
	}
	m.tell(j)
}

// tell makes j's dependencies the offers that it would make now.
func (m *Machine) tell(j *Job) {
	old, now := j.out, j.offers()
	pass := j.flags & (stop | erase)
	if old == now {
		if !now.keep {
			m.warn(j, pass) // it was let go before, without them
		}
		return
	}
	onlyRank := old
	onlyRank.path, onlyRank.priority = now.path, now.priority
	j.out = now
	for _, e := range j.needs {
		// The new offer before the old one goes: a maximum that only rises must not look stale.
		d := e.job
		if onlyRank == now {
			if through(now, e.policy, e.loose, j, d).sorts {
				d.in.rerank(old, now)
				m.rerank(d)
			}
			continue
		}
		d.in.take(through(now, e.policy, e.loose, j, d))
		d.in.drop(through(old, e.policy, e.loose, j, d))
		if e.blocks() {
			d.flags.set(pass)
		}
		m.retouch(d)
	}
}

// warn passes on to j's dependencies what is to become of them if nobody needs them. Each is told once.
func (m *Machine) warn(j *Job, pass flags) {
	if pass == 0 {
		return
	}
	for _, e := range j.needs {
		if e.blocks() && e.job.flags&pass != pass {
			e.job.flags.set(pass)
			m.retouch(e.job)
		}
	}
}

// doubt notes that nobody may need j any more.
func (m *Machine) doubt(j *Job) {
	if j.running() && j.flags.has(stop) {
		m.stops = append(m.stops, j)
		return
	}
	if !j.flags.has(isUnneeded) {
		j.flags.set(isUnneeded)
		m.unneeded = append(m.unneeded, j)
	}
}

type flowQueue []*Job

func (q flowQueue) Len() int           { return len(q) }
func (q flowQueue) Less(a, b int) bool { return q[a].seq > q[b].seq }
func (q flowQueue) Swap(a, b int)      { q[a], q[b] = q[b], q[a] }

// Push is for container/heap.
func (q *flowQueue) Push(x any) { *q = append(*q, x.(*Job)) }

// Pop is for container/heap.
func (q *flowQueue) Pop() any {
	old := *q
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return j
}

// Due gives the next moment at which Advance has something to look at; ok is false if there is none.
// Work that is left over from a full round is due at once.
func (m *Machine) Due() (at Time, ok bool) {
	if m.Behind() {
		return 0, true
	}
	if len(m.timers) > 0 {
		at, ok = m.timers[0].due, true
	}
	if len(m.pens) > 0 && (!ok || m.pens[0].until < at) {
		at, ok = m.pens[0].until, true
	}
	return at, ok
}

// Behind reports whether Advance stopped for its budget and has more to do at once.
func (m *Machine) Behind() bool {
	return m.overdue || m.stopping || len(m.flow)+m.ranks.len()+len(m.doomed)+len(m.unneeded)+len(m.check)+len(m.ending)+len(m.opening)+len(m.idle) > 0
}

// patience is how long the job may still wait for a capable worker at now; ok is false if for ever.
func (m *Machine) patience(j *Job) (end Time, ok bool) {
	grace := m.Channel(j.class.Channel).Grace
	if grace < 0 || j.class.capable > 0 {
		return 0, false
	}
	return max(j.at, j.class.since).Add(grace), true
}
