package job

import (
	"testing"
	"time"
)

// Q4 (River PR #1318): a batch full of jobs that could not be rescued hid all later ones. Here a hundred attempts whose lost
// leases only the caller may judge are older than one that the engine must end, and the budget of a round is ten changes.
func TestQ4WhatMayNotBeEndedHidesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c := DefaultChannel("caller")
	c.CallerJudges = true
	l.must(l.m.SetChannel(c))
	l.must(l.m.Register(l.at(), Worker{
		Name: "w", Channels: []string{"", "caller"}, Kinds: []string{"k"}, Slots: 1000, Session: l.id(),
	}, nil))
	var jobs []Spec
	for range 100 {
		j := l.spec("kept")
		j.Channel = "caller"
		jobs = append(jobs, j)
	}
	for range 50 {
		jobs = append(jobs, l.spec("lost"))
	}
	if _, err := l.submit(Build{}, jobs); err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		l.start(j.ID, "w")
	}
	l.now = l.now.Add(DefaultTTL + time.Second)
	rounds := 0
	for more := true; more; more = l.m.Behind() {
		changes, err := l.m.Advance(l.at(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if rounds++; len(changes) > 20 {
			t.Errorf("a round of ten changes made %d", len(changes))
		}
		if at, due := l.m.Due(); len(changes) > 0 && due && at > l.now {
			break // nothing is left for this moment
		}
	}
	l.check()
	for _, j := range l.m.Jobs() {
		if want := j.Name() == "kept"; j.running() != want {
			t.Errorf("job %s is %s", j.Name(), j.State())
		}
	}
	if lost := l.m.Lost("caller", l.now, DefaultTTL); len(lost) != 100 {
		t.Errorf("%d are listed for the caller to judge, want 100", len(lost))
	}
	if rounds < 5 {
		t.Errorf("%d rounds for fifty lost leases by tens: the budget is not kept", rounds)
	}
}

// Q11 (asynq #275): a key is free as soon as its job has ended, in whatever way, but for the time that a stopped attempt needs
// to end.
func TestQ11AKeyEndsWithItsJob(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(*lab, Spec){
		"succeeded":         func(l *lab, j Spec) { l.report(j, Succeeded) },
		"failed":            func(l *lab, j Spec) { l.report(j, Failed) },
		"cancelled waiting": func(l *lab, j Spec) { l.must(l.m.CancelJob(l.now, j.ID, ID{}, true, "")) },
		"failed unstarted":  func(l *lab, j Spec) { l.must(l.m.FailJob(l.now, j.ID, "", nil)) },
		"build cancelled":   func(l *lab, j Spec) { l.must(l.m.CancelBuild(l.now, l.m.Builds()[0].Build.ID, false)) },
	} {
		l := newLab(t)
		l.worker("w", 1)
		j := l.spec("j")
		j.Key = "key"
		if _, err := l.submit(Build{}, []Spec{j}); err != nil {
			t.Fatal(err)
		}
		end(l, j)
		again := l.spec("again")
		again.Key, again.System = "key", "another"
		reply, err := l.submit(Build{}, []Spec{again})
		if err != nil || reply[0] != (Submitted{again.ID, Created}) {
			t.Errorf("%s: %v, %v; want a new job", what, reply, err)
		}
		if len(l.m.lingering) != 0 || l.m.byIdentity.len() != 1 {
			t.Errorf("%s: %d identities, %d lingering", what, l.m.byIdentity.len(), len(l.m.lingering))
		}
	}
}

// report runs the job and ends it.
func (l *lab) report(j Spec, o Outcome) {
	l.t.Helper()
	if _, err := l.finish(Report{Lease: l.start(j.ID, "w"), Outcome: o}); err != nil {
		l.t.Fatal(err)
	}
}
