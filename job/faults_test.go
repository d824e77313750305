package job

import (
	"errors"
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
	r.m.SignOff("w", w.Session)
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
