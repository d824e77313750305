package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// The last build of a key that is under way ends while another of the key is staged: the key is counted on.
func TestGateOutlivesItsBuildsWhileOneIsStaged(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	gate := Gate{Key: "deploy", Limit: 1}
	submit := func(staged bool) ID {
		b, j := Build{ID: l.id(), Gate: gate}, l.spec("j")
		changes, _, err := l.m.Submit(l.now, &Submission{Build: &b, Staged: staged, Jobs: []Spec{j}, Refs: []Ref{{Job: j.ID}}}, nil)
		l.must(changes, err)
		return b.ID
	}
	first, staged := submit(false), submit(true)
	if err := l.checked(); err != nil {
		t.Error(err)
	}
	l.must(l.m.CancelBuild(l.now, first, false))
	l.must(l.m.Seal(staged))
	third := submit(false)
	if a, _ := l.m.Build(staged); !a.Active {
		t.Error("the staged build found room and is not under way")
	}
	if b, _ := l.m.Build(third); b.Active {
		t.Error("two builds of a key with limit 1 are under way")
	}
	if err := l.checked(); err != nil {
		t.Error(err)
	}
	l.must(l.m.CancelBuild(l.now, staged, false))
	if b, _ := l.m.Build(third); !b.Active {
		t.Error("the next build is not let through")
	}
	l.must(l.m.CancelBuild(l.now, third, false))
	if len(l.m.gates) > 0 {
		t.Error("a gate is left")
	}
}

// Rule 10: what began before the fault says nothing of the worker since then.
func TestSuccessOfAnOlderAttemptDoesNotEndTheQuarantine(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker("w", 3)
	a, b, c := l.spec("a"), l.spec("b"), l.spec("c")
	if _, err := l.submit(Build{}, []Spec{a, b, c}); err != nil {
		t.Fatal(err)
	}
	bad, good := l.start(a.ID, "w"), l.start(b.ID, "w")
	tell := func(lease Lease, o Outcome, d Detail) int32 {
		if _, err := l.finish(Report{Lease: lease, Outcome: o, Detail: d}); err != nil {
			t.Fatal(err)
		}
		w, _ := l.m.Worker("w")
		return w.Faults
	}
	if n := tell(bad, Aborted, WorkerFault); n != 1 {
		t.Fatalf("%d faults, want 1", n)
	}
	if n := tell(good, Succeeded, NoDetail); n != 1 {
		t.Error("a success of an attempt that was under way before the fault ended the quarantine")
	}
	l.pass(2 * time.Minute)
	if n := tell(l.start(c.ID, "w"), Succeeded, NoDetail); n != 0 {
		t.Error("a success after the quarantine does not count")
	}
}

// A clock that steps back over a restart makes no job wait longer for a worker than its channel's grace.
func TestGraceIsClampedAtARestart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	old := l.now.Add(10 * 24 * time.Hour)
	j := l.spec("j")
	l.load(l, JobAdded{Record{Spec: l.spec("waits"), Seq: 1, At: old, Own: &Own{}}})
	m := New(l.now)
	for _, c := range []Change{
		JobAdded{Record{Spec: j, Seq: 1, At: old, Own: &Own{}}}, ClassMarked{Class: j.Class(), Since: old},
	} {
		if err := m.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	m.Loaded(l.now)
	at, ok := m.GivenUp(m.jobs[j.ID])
	if want := l.now.Add(24 * time.Hour); !ok || at != want {
		t.Errorf("the grace ends in %s, want %s", at.Sub(l.now), want.Sub(l.now))
	}
}

// The engine judges a silence that it knows of. Workers need not tell of output; then their word on silence is the only one.
func TestSilenceIsJudgedOnceOutputWasToldOf(t *testing.T) {
	t.Parallel()
	for _, tells := range []bool{false, true} {
		for _, progress := range []bool{false, true} {
			l := newLab(t)
			l.worker("w", 1)
			j := l.spec("j")
			if _, err := l.submit(Build{Limits: Limits{Silence: time.Minute}}, []Spec{j}); err != nil {
				t.Fatal(err)
			}
			lease := l.start(j.ID, "w")
			told := Time(0)
			if tells {
				told = l.now
			}
			for range 9 {
				if l.m.jobs[j.ID].Held() {
					break
				}
				if err := l.m.Renew(l.now, lease, told); err != nil {
					t.Fatal(err)
				}
				if progress {
					l.must(l.m.Progress(l.now, lease, nil))
				}
				l.pass(20 * time.Second)
			}
			if over, want := l.m.jobs[j.ID].Held(), tells && !progress; over != want {
				t.Errorf("output told of %t, progress %t: ended %t, want %t", tells, progress, over, want)
			}
		}
	}
}

// After a restart a worker is as alive as its leases: another process gets its name only if somebody knows better.
func TestNameOfAWorkerWithLeasesIsKeptOverARestart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker("w", 1)
	l.worker("idle", 1)
	j := l.spec("j")
	if _, err := l.submit(Build{}, []Spec{j}); err != nil {
		t.Fatal(err)
	}
	l.start(j.ID, "w")
	r := l.restored(l.now)
	second := func(name string) error {
		w, _ := r.m.Worker(name)
		w.Session = r.id()
		return r.do(r.m.Register(r.at(), w, nil))
	}
	if err := second("w"); !errors.Is(err, ErrWorkerLive) {
		t.Errorf("a second process under the name of a worker with a lease: %v", err)
	}
	if err := second("idle"); err != nil {
		t.Errorf("a second process under the name of a worker without one: %v", err)
	}
	w, _ := r.m.Worker("w")
	r.must(r.m.SignOff("w", w.Session), nil)
	if err := second("w"); err != nil {
		t.Errorf("after the first was said to be over: %v", err)
	}
}

// What was stored of a class whose jobs and workers are gone goes with the last of them, in whatever order.
func TestClassesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"worker with its job", "worker, job", "job, worker", "left by a former owner"} {
		l := newLab(t)
		l.worker("vm", 1)
		j := l.spec("j")
		j.Pin = "vm"
		if _, err := l.submit(Build{}, []Spec{j}); err != nil {
			t.Fatal(err)
		}
		switch order {
		case "worker with its job":
			l.m.jobs[j.ID].extra().retry.Crashes = -1
			l.start(j.ID, "vm")
			l.must(l.m.RemoveWorker(l.at(), "vm", true))
		case "worker, job":
			l.must(l.m.RemoveWorker(l.at(), "vm", false))
			l.must(l.m.CancelJob(l.now, j.ID, ID{}, true, ""))
		case "job, worker":
			l.must(l.m.CancelJob(l.now, j.ID, ID{}, true, ""))
			l.must(l.m.RemoveWorker(l.at(), "vm", false))
		case "left by a former owner":
			l.must(l.m.CancelJob(l.now, j.ID, ID{}, true, ""))
			l.m = New(l.now)
			l.list = []Change{ClassMarked{j.Class(), l.now}}
			l.load(l, l.list[0])
			l.m.Loaded(l.now)
			l.must(nil, nil)
		}
		marked := map[Class]Time{}
		for _, c := range l.list {
			if c, ok := c.(ClassMarked); ok {
				marked[c.Class] = c.Since
			}
		}
		if marked[j.Class()] != 0 || len(l.m.classes) > 0 {
			t.Errorf("%s: the class is stored as unserved since %d, %d classes are in memory", order, marked[j.Class()], len(l.m.classes))
		}
	}
}

// A worker that hands back all that it gets does not spin.
func TestHandBacksWithoutEndAreSlowedDown(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker("w", 1)
	j := l.spec("j")
	if _, err := l.submit(Build{}, []Spec{j}); err != nil {
		t.Fatal(err)
	}
	n := 0
	back := func() {
		n++
		if _, err := l.finish(Report{Lease: l.start(j.ID, "w"), Outcome: Aborted, Detail: HandedBack}); err != nil {
			t.Fatal(err)
		}
	}
	for range HandBacksAtOnce {
		back()
	}
	for range 20 {
		back()
		if _, ready := l.m.jobs[j.ID].State().(Ready); ready {
			t.Fatalf("attempt %d was handed back at once, and the job is Ready at once", n)
		}
		l.pass(HandBackPause)
	}
	lease := l.start(j.ID, "w")
	l.pass(HandBackPause)
	if _, err := l.finish(Report{Lease: lease, Outcome: Aborted, Detail: HandedBack}); err != nil {
		t.Fatal(err)
	}
	if _, ready := l.m.jobs[j.ID].State().(Ready); !ready {
		t.Error("an attempt that ran for a while was handed back, and the job waits")
	}
}

// Only hand-backs count for that: a job that was tried in earnest, and is then handed back once, goes on at once.
func TestHandBackAfterRealAttemptsCostsNoTime(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker("w", 1)
	l.worker("v", 1)
	j := l.spec("j")
	j.Retry = Retry{Failures: 9, Losses: 9, Crashes: 9, Delay: time.Second}
	if _, err := l.submit(Build{}, []Spec{j}); err != nil {
		t.Fatal(err)
	}
	end := func(worker string, o Outcome, d Detail) {
		t.Helper()
		if _, err := l.finish(Report{Lease: l.start(j.ID, worker), Outcome: o, Detail: d}); err != nil {
			t.Fatal(err)
		}
	}
	end("w", Failed, NoDetail)
	end("w", Failed, NoDetail)
	end("w", Aborted, WorkerCrashed)
	end("w", Aborted, WorkerFault) // which costs the job nothing
	for n := range HandBacksAtOnce {
		end("v", Aborted, HandedBack)
		if _, ready := l.m.jobs[j.ID].State().(Ready); !ready {
			t.Fatalf("hand-back %d: the job waits", n+1)
		}
	}
}

// A worker that is drained is not given the job again, however often such workers hand it back.
func TestHandBackOfADrainedWorkerCostsNoTime(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker("w", 1)
	j := l.spec("j")
	if _, err := l.submit(Build{}, []Spec{j}); err != nil {
		t.Fatal(err)
	}
	for n := range 3 * HandBacksAtOnce {
		lease := l.start(j.ID, "w")
		l.must(l.m.Drain("w", true))
		if _, err := l.finish(Report{Lease: lease, Outcome: Aborted, Detail: HandedBack}); err != nil {
			t.Fatal(err)
		}
		if _, ready := l.m.jobs[j.ID].State().(Ready); !ready {
			t.Fatalf("hand-back %d: the job waits", n+1)
		}
		l.must(l.m.Drain("w", false))
	}
}

// Every input is bounded, and names its field.
func TestInputsAreBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker("w", 1)
	j := l.spec("j")
	if _, err := l.submit(Build{}, []Spec{j}); err != nil {
		t.Fatal(err)
	}
	lease := l.start(j.ID, "w")
	large := make([]byte, MaxResult+1)
	labels := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprint(i)] = "x"
		}
		return m
	}
	channel := func(spoil func(*Channel)) error {
		c := DefaultChannel("c")
		spoil(&c)
		_, err := l.m.SetChannel(c)
		return err
	}
	build := func(labels map[string]string) error {
		_, _, err := l.m.Submit(l.now, &Submission{Build: &Build{ID: l.id(), Labels: labels}}, nil)
		return err
	}
	finish := func(f Report) error {
		f.Lease = lease
		_, _, err := l.m.Finish(l.at(), f, nil)
		return err
	}
	progress := func(b []byte) error { _, err := l.m.Progress(l.now, lease, b); return err }
	cancel := func(why string) error { _, err := l.m.CancelJob(l.now, j.ID, ID{}, true, why); return err }
	fail := func(why string, b []byte) error { _, err := l.m.FailJob(l.now, j.ID, why, b); return err }
	for _, c := range []struct {
		field string
		err   error
	}{
		{"build.labels", build(labels(MaxLabels + 1))},
		{"build.labels", build(map[string]string{"\xff": "x"})},
		{"build.labels.a", build(map[string]string{"a": "\xff"})},
		{"build.labels.a", build(map[string]string{"a": strings.Repeat("x", MaxKey+1)})},
		{"paused_kinds", channel(func(c *Channel) { c.PausedKinds = make([]string, MaxKinds+1) })},
		{"paused_kinds[1]", channel(func(c *Channel) { c.PausedKinds = []string{"a", "\xff"} })},
		{"group_shares", channel(func(c *Channel) { c.GroupShares = map[string]int32{"\xff": 1} })},
		{"group_shares.g", channel(func(c *Channel) { c.GroupShares = map[string]int32{"g": -1} })},
		{"grace", channel(func(c *Channel) { c.Grace = MaxDuration + 1 })},
		{"ttl", channel(func(c *Channel) { c.TTL = MaxDuration + 1 })},
		{"result", finish(Report{Outcome: Succeeded, Result: large})},
		{"message", finish(Report{Outcome: Failed, Message: strings.Repeat("x", MaxMessage+1)})},
		{"detail", finish(Report{Outcome: Failed, Detail: Detail(len(detailNames))})},
		{"result", progress(large)},
		{"why", cancel(strings.Repeat("x", MaxMessage+1))},
		{"why", fail("\xff", nil)},
		{"result", fail("", large)},
	} {
		var invalid *InvalidError
		if !errors.As(c.err, &invalid) || invalid.Field != c.field {
			t.Errorf("%s: got %v", c.field, c.err)
		}
	}
	for name, err := range map[string]error{
		"labels": build(labels(MaxLabels)), "result": finish(Report{Outcome: Succeeded, Result: large[1:]}),
		"progress": progress(large[1:]), "why": cancel(strings.Repeat("x", MaxMessage)),
	} {
		if err != nil {
			t.Errorf("as much as may be: %s: %v", name, err)
		}
	}
}

// Builds of two groups share a dependency. As they go one by one, what is left of each group is known by counting: the offers
// of all are looked at again only when a group goes.
func TestSharedJobIsNotRecountedForEachBuildThatGoes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	base := l.spec("base")
	base.Key = "base"
	var builds []ID
	for i := range 40 {
		again, top := base, l.spec("top")
		again.ID = l.id()
		top.Needs = []Need{{Job: again.ID}}
		b := Build{ID: l.id(), Group: fmt.Sprint("g", i%2)}
		builds = append(builds, b.ID)
		if _, err := l.submit(b, []Spec{again, top}, Ref{Job: top.ID}); err != nil {
			t.Fatal(err)
		}
	}
	var shared *Job
	for _, j := range l.m.jobs {
		if j.key == "base" {
			shared = j
		}
	}
	for i, id := range builds[:38] {
		for k := range shared.dependents {
			if b := shared.dependents[k].job; b.wishes[0].build.Build.ID == id {
				shared.in.drop(b.out)
				if shared.in.stale() {
					t.Fatalf("build %d goes, and all are counted again", i)
				}
				shared.in.take(b.out)
				break
			}
		}
		l.must(l.m.CancelBuild(l.now, id, false))
		l.check()
	}
	l.must(l.m.CancelBuild(l.now, builds[38], false))
	if groups := shared.Audience().Groups(); len(groups) != 1 || groups[0] != "g1" {
		t.Errorf("groups %v pay, want g1 alone", groups)
	}
	if err := l.checked(); err != nil {
		t.Error(err)
	}
}

// A build is cancelled, and what runs is spared. Before the rounds come to what waited for it, somebody cancels the last of
// those: that reaches what runs, over however many that nobody needs any more.
func TestCancelReachesWhatAnEarlierOneSpared(t *testing.T) {
	t.Parallel()
	for between := range 4 {
		l := newLab(t)
		l.worker("w", 1)
		chain := []Spec{l.spec("runs")}
		for range between + 1 {
			chain = append(chain, l.spec("waits", Need{Job: chain[len(chain)-1].ID}))
		}
		b := Build{ID: l.id()}
		last := chain[len(chain)-1].ID
		first := l.spec("dropped first")
		if _, err := l.submit(b, slices.Concat(chain, []Spec{first}), Ref{Job: last}, Ref{Job: first.ID}); err != nil {
			t.Fatal(err)
		}
		l.start(chain[0].ID, "w")
		spared, err := l.m.CancelBuild(l.now, b.ID, true)
		if err != nil {
			t.Fatal(err)
		}
		l.lazy, l.budget = true, 1 // it lets all go, and drops the first
		l.must(spared, nil)
		if j := l.m.jobs[chain[0].ID]; !j.running() || j.in.keep != 0 {
			t.Fatalf("%d between: the first cancel left the job %s, needed by %d", between, j.state, j.in.keep)
		}
		l.must(l.m.CancelJob(l.now, last, ID{}, true, "enough"))
		if j := l.m.jobs[chain[0].ID]; !j.Held() {
			t.Errorf("%d between: the job is %s after the second cancel", between, j.state)
		}
		l.lazy, l.budget = false, 0
		l.must(nil, nil)
		l.check()
		if err := l.checked(); err != nil {
			t.Error(err)
		}
	}
}

// What is stored of the attempt that a Done job holds cannot be read: nobody can confirm its end, so the new owner lets go of it,
// and of the job once its dependents are told.
func TestHeldJobWhoseAttemptIsLostIsLetGo(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{false, true} {
		l := newLab(t)
		l.m = New(l.now)
		held, waits := l.spec("held"), l.spec("waits")
		waits.Needs = []Need{{Job: held.ID}}
		twin := l.spec("twin")
		held.Key, twin.Key = "k", "k"
		for i, r := range []Record{
			{Spec: held, End: &End{Outcome: Cancelled}, Held: true, Open: open},
			{Spec: waits, Own: &Own{}},
			{Spec: twin, Own: &Own{}},
		} {
			r.Seq, r.At = int64(i+1), l.now
			l.load(l, JobAdded{r})
		}
		l.m.Loaded(l.now)
		l.must(nil, nil)
		if j := l.m.jobs[held.ID]; j != nil {
			t.Errorf("open %t: the job stays, held %t", open, j.Held())
		}
		freed, settled := slices.Index(l.list, Change(JobFreed{held.ID, 1, l.now})), slices.Index(l.list, Change(JobSettled{held.ID, 1}))
		if freed < 0 || (settled >= 0) != open {
			t.Errorf("open %t: changes %v", open, l.list)
		}
		if _, ready := l.m.jobs[twin.ID].State().(Ready); !ready {
			t.Errorf("open %t: the next of its identity is %s", open, l.m.jobs[twin.ID].State())
		}
		if err := l.checked(); err != nil {
			t.Error(err)
		}
	}
}

// Who takes an attempt for lost says for how long it must have been silent: a heartbeat that comes in between saves it, and what is
// said of it is no sign of life.
func TestReportOfSilenceHeedsAHeartbeat(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := DefaultChannel("")
	c.CallerJudges = true
	l.must(l.m.SetChannel(c))
	l.worker("w", 1)
	j := l.spec("j")
	if _, err := l.submit(Build{}, []Spec{j}); err != nil {
		t.Fatal(err)
	}
	lease := l.start(j.ID, "w")
	lost := Report{Lease: lease, Outcome: Aborted, Detail: LeaseLost, Silent: time.Hour}
	began := l.now
	for _, wait := range []time.Duration{0, time.Hour} {
		l.now = began.Add(wait)
		if _, err := l.finish(lost); !errors.Is(err, ErrBusy) {
			t.Errorf("after %s: %v, want ErrBusy", wait, err)
		}
	}
	if err := l.m.Renew(l.now, lease, 0); err != nil {
		t.Fatal(err)
	}
	l.now = began.Add(2 * time.Hour)
	if _, err := l.finish(lost); !errors.Is(err, ErrBusy) {
		t.Errorf("an hour after the heartbeat: %v, want ErrBusy", err)
	}
	l.now = l.now.Add(time.Microsecond)
	if got, err := l.finish(lost); err != nil || got {
		t.Errorf("later: lost %t, %v", got, err)
	}
	if l.m.jobs[j.ID].running() {
		t.Error("it runs on")
	}
}
