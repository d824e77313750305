package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// failer is what a lab needs of a test: testing.TB and *rapid.T have it.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

// lab is a machine with a clock and a supply of ids, for tests.
type lab struct {
	t    failer
	m    *Machine
	now  Time
	ids  uint64
	list []Change // all that was applied
	lazy bool     // what is left over after one Advance stays so
	// budget of an Advance; 0: 100.
	budget int
}

// steady is a source without chance.
type steady struct{}

func (steady) Uint64() uint64 { return 0 }

func newLab(t failer) *lab {
	l := &lab{t: t, now: At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	l.m = New(l.now)
	l.m.Loaded(l.now)
	return l
}

func (l *lab) at() Moment { return Moment{l.now, steady{}} }

func (l *lab) id() ID {
	l.ids++
	var id ID
	for i, n := 15, l.ids; n > 0; i, n = i-1, n>>8 {
		id[i] = byte(n)
	}
	return id
}

// do applies what a decision gave, and lets the machine draw its consequences. It gives the decision's error.
func (l *lab) do(changes []Change, err error) error {
	l.t.Helper()
	for _, c := range changes {
		if e := l.m.Apply(c); e != nil {
			l.t.Fatalf("apply: %v", e)
		}
		l.list = append(l.list, c)
	}
	for {
		more, e := l.m.Advance(l.at(), cmp.Or(l.budget, 100))
		if e != nil {
			l.t.Fatalf("advance: %v", e)
		}
		l.list = append(l.list, more...)
		if !l.m.Behind() || l.lazy {
			return err
		}
	}
}

// must is do for what has to succeed.
func (l *lab) must(changes []Change, err error) {
	l.t.Helper()
	if err := l.do(changes, err); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) pass(d time.Duration) {
	l.now = l.now.Add(d)
	l.must(nil, nil)
}

// submit asks for jobs that a new build wants, all of them unless refs says otherwise.
func (l *lab) submit(b Build, jobs []Spec, refs ...Ref) ([]Submitted, error) {
	l.t.Helper()
	b.ID = cmp.Or(b.ID, l.id())
	if refs == nil {
		for _, j := range jobs {
			refs = append(refs, Ref{Job: j.ID})
		}
	}
	changes, reply, err := l.m.Submit(l.now, &Submission{Build: &b, Jobs: jobs, Refs: refs}, nil)
	return reply, l.do(changes, err)
}

// spec gives a job of kind k.
func (l *lab) spec(name string, needs ...Need) Spec {
	return Spec{ID: l.id(), Name: name, Kind: "k", Needs: needs}
}

func (l *lab) worker(name string, slots int32) {
	l.t.Helper()
	l.must(l.m.Register(l.at(), Worker{Name: name, Channels: []string{""}, Kinds: []string{"k"}, Slots: slots, Session: l.id()}, nil))
}

// start runs a job and gives its lease.
func (l *lab) start(id ID, worker string) Lease {
	l.t.Helper()
	token := Token(l.id())
	l.must(l.m.Start(l.at(), id, worker, token))
	return Lease{id, l.m.jobs[id].last.Number, token}
}

func (l *lab) finish(f Report) (lost bool, err error) {
	l.t.Helper()
	changes, lost, err := l.m.Finish(l.at(), f, nil)
	return lost, l.do(changes, err)
}

// dump tells all of the machine that a change may touch.
func (m *Machine) dump() string {
	var out strings.Builder
	for _, j := range m.Jobs() {
		fmt.Fprintf(&out, "job %s %d %s waits %d needs %v dependents %v wishes %d in %+v lease %+v last %+v end %+v flags %b\n",
			j.id, j.seq, j.state, j.waits, names(j.needs), names(j.dependents), len(j.wishes), j.in, j.leased(), j.Attempt(), j.last.ended(), j.flags)
	}
	for _, b := range m.Builds() {
		x := m.builds[b.Build.ID]
		fmt.Fprintf(&out, "build %+v open %d worst %d jobs %d\n", b, x.open, x.worst, len(x.jobs))
	}
	for _, n := range m.Workers() {
		w := m.workers[n]
		fmt.Fprintf(&out, "worker %+v runs %d\n", w.Worker, w.used)
	}
	fmt.Fprintf(&out, "settings %q\n", m.Settings())
	fmt.Fprintf(&out, "identities %d lingering %d classes %d gates %d timers %d behind %t\n",
		m.byIdentity.len(), len(m.lingering), len(m.classes), len(m.gates), len(m.timers), m.Behind())
	return out.String()
}

// ended gives how the newest attempt ended; nil before there is one, and while it runs.
func (t *trial) ended() *AttemptEnd {
	if t == nil {
		return nil
	}
	return t.end
}

func names(edges []edge) []string {
	list := make([]string, len(edges))
	for i, e := range edges {
		list[i] = e.job.id.String() + ":" + e.policy.String()
	}
	slices.Sort(list)
	return list
}

// check holds the machine, once it is not behind, to what must be true of it at any time.
func (l *lab) check() {
	l.t.Helper()
	m := l.m
	leases := map[*Job]int{}
	for n, w := range m.workers {
		if w.used > int(w.Slots) && !w.Drained {
			l.t.Errorf("worker %s has %d leases in %d slots", n, w.used, w.Slots)
		}
		for j := range w.leases {
			leases[j]++
		}
	}
	for _, j := range m.Jobs() {
		want := 0
		if j.running() || j.Held() {
			want = 1
		}
		if leases[j] != want || (j.leased() != nil) != (want == 1) {
			l.t.Errorf("job %s, %s, held %t: %d leases", j.name, j.state, j.Held(), leases[j])
		}
		l.checkWaiting(j)
		l.checkDemand(j)
	}
	for _, b := range m.builds {
		if b.open == 0 && !b.Staged {
			l.t.Errorf("build %s is live, and waits for nothing", b.Build.Name)
		}
	}
	for _, g := range m.gates {
		if len(g.waiting) > 0 && g.active < max(g.waiting[0].Build.Gate.Limit, 1) {
			l.t.Errorf("gate %s: %d under way, %d wait", g.key, g.active, len(g.waiting))
		}
	}
}

// checkWaiting: a waiting job is Ready if, and only if, nothing holds it back; what is needed by nobody is not there.
func (l *lab) checkWaiting(j *Job) {
	l.t.Helper()
	blocked := 0
	for _, e := range j.needs {
		if e.blocks() {
			blocked++
		}
		if e.job.done() {
			l.t.Errorf("job %s still waits for %s, which has ended", j.name, e.job.name)
		}
	}
	if blocked != int(j.waits) {
		l.t.Errorf("job %s waits for %d, counted %d", j.name, blocked, j.waits)
	}
	if !j.waiting() {
		return
	}
	_, ready := j.state.(Ready)
	if ready != l.m.releasable(j, l.now) {
		l.t.Errorf("job %s is %s: waits %d, active %d, wake %v", j.name, j.state, j.waits, j.in.active, j.Wake())
	}
	if j.in.keep == 0 {
		l.t.Errorf("job %s waits, and nobody needs it", j.name)
	}
}

// checkDemand compares what was added up step by step with one look at all who ask.
func (l *lab) checkDemand(j *Job) {
	l.t.Helper()
	if j.done() {
		return
	}
	kept := j.in
	j.recount()
	if kept.keep != j.in.keep || kept.active != j.in.active {
		l.t.Errorf("job %s is needed by %d (%d under way), counted %d (%d)", j.name, j.in.keep, j.in.active, kept.keep, kept.active)
	}
	if j.in.active > 0 && (kept.priority != j.in.priority || kept.path != j.in.path || kept.audience.Key() != j.in.audience.Key()) {
		l.t.Errorf("job %s has rank %d %s %q, kept %d %s %q", j.name, j.in.priority, j.in.path, j.in.audience.Key(),
			kept.priority, kept.path, kept.audience.Key())
	}
	j.in = kept
}

// checked is Check as it stands between rounds: the scheduler has seen all.
func (l *lab) checked() error {
	l.m.Touched(func(*Job) {})
	l.m.Moved(func(string) {})
	return l.m.Check(l.now)
}
