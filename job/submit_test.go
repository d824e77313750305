package job

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A dependency that is named twice counts once, by its strictest policy (composer F06: the dependent was handed out twice).
func TestNeedNamedTwiceCountsOnceByItsStrictestPolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policies []Policy
		want     Policy
	}{
		{[]Policy{Success, Success}, Success},
		{[]Policy{Finish, Success}, Success},
		{[]Policy{Success, Finish}, Success},
		{[]Policy{Order, Finish}, Finish},
		{[]Policy{Order, Order}, Order},
		{[]Policy{Order, Finish, Success, Finish}, Success},
	} {
		l := newLab(t)
		a := l.spec("a")
		b := l.spec("b")
		for _, p := range c.policies {
			b.Needs = append(b.Needs, Need{Job: a.ID, Policy: p})
		}
		if _, err := l.submit(Build{}, []Spec{a, b}); err != nil {
			t.Fatal(err)
		}
		j := l.m.jobs[b.ID]
		if len(j.needs) != 1 || j.needs[0].policy != c.want {
			t.Errorf("%v: needs %v, want one by %s", c.policies, names(j.needs), c.want)
		}
		if want := map[bool]int{true: 0, false: 1}[c.want == Order]; j.Waits() != want {
			t.Errorf("%v: waits for %d, want %d", c.policies, j.Waits(), want)
		}
		l.check()
	}
}

// Two needs by different names may stand for one job, too.
func TestNeedsThatJoinOneJobCountOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker("w", 1)
	a, twin := l.spec("a"), l.spec("twin")
	a.Key, twin.Key = "same", "same"
	b := l.spec("b", Need{Job: a.ID, Policy: Finish}, Need{Job: twin.ID})
	reply, err := l.submit(Build{}, []Spec{a, twin, b})
	if err != nil {
		t.Fatal(err)
	}
	want := []Submitted{{a.ID, Created}, {a.ID, Joined}, {b.ID, Created}}
	if diff := cmp.Diff(want, reply); diff != "" {
		t.Error(diff)
	}
	if _, err := l.finish(Report{Lease: l.start(a.ID, "w"), Outcome: Failed}); err != nil {
		t.Fatal(err)
	}
	if l.m.Len() != 0 {
		t.Errorf("the dependent needed success and got none, and is still there:\n%s", l.m.dump())
	}
}

// An order edge lends its dependent's rank within a channel only (rule 3).
func TestOrderLiftsWithinAChannelOnly(t *testing.T) {
	t.Parallel()
	for channel, want := range map[string]int32{"": 8, "other": 1} {
		l := newLab(t)
		base := l.spec("base")
		base.Channel = channel
		if _, err := l.submit(Build{Priority: 1}, []Spec{base}); err != nil {
			t.Fatal(err)
		}
		head := l.spec("head", Need{Job: base.ID, Policy: Order})
		if _, err := l.submit(Build{Priority: 8}, []Spec{head}); err != nil {
			t.Fatal(err)
		}
		if got := l.m.jobs[base.ID].Priority(); got != want {
			t.Errorf("in channel %q: priority %d, want %d", channel, got, want)
		}
	}
}

// An order edge does not keep what nobody needs.
func TestOrderKeepsNothingAlive(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	base := l.spec("base")
	head := l.spec("head", Need{Job: base.ID, Policy: Order})
	if _, err := l.submit(Build{}, []Spec{base, head}, Ref{Job: head.ID}); err != nil {
		t.Fatal(err)
	}
	if l.m.jobs[base.ID] != nil {
		t.Error("a job that is only sorted before another is kept")
	}
}

// Deep priorities: what the last job of a long chain is worth reaches the first, up and down again.
func TestPriorityFlowsThroughALongChain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const depth = 2000
	jobs := []Spec{l.spec("j")}
	for i := 1; i < depth; i++ {
		jobs = append(jobs, l.spec("j", Need{Job: jobs[i-1].ID}))
	}
	b := Build{ID: l.id(), Priority: 3}
	if _, err := l.submit(b, jobs, Ref{Job: jobs[depth-1].ID, Priority: 2}); err != nil {
		t.Fatal(err)
	}
	first := l.m.jobs[jobs[0].ID]
	if first.Priority() != 5 || first.Path() != depth*DefaultEstimate {
		t.Errorf("priority %d and path %s, want 5 and %s", first.Priority(), first.Path(), depth*DefaultEstimate)
	}
	l.must(l.m.Bump(b.ID, -7))
	if first.Priority() != -5 {
		t.Errorf("after the bump: priority %d, want -5", first.Priority())
	}
	l.check()
	l.must(l.m.CancelBuild(l.now, b.ID, false))
	if l.m.Len() != 0 {
		t.Errorf("%d jobs are left of a cancelled build", l.m.Len())
	}
}

// A staged build is invisible, its jobs cannot start, and a restart gives it up without a trace.
func TestStagedBuildIsGivenUpByARestartWithoutATrace(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	id := l.id()
	for range 3 {
		s := Submission{Build: &Build{ID: id}, Staged: true, Jobs: []Spec{l.spec("a"), l.spec("b")}}
		changes, _, err := l.m.Submit(l.now, &s, nil)
		l.must(changes, err)
	}
	if l.m.Len() != 6 {
		t.Fatalf("%d jobs, want the 6 of three pieces", l.m.Len())
	}
	for _, j := range l.m.Jobs() {
		if _, blocked := j.state.(Blocked); !blocked {
			t.Errorf("a job of a staged build is %s", j.state)
		}
	}
	// What a store would give.
	again := newLab(t)
	again.m = New(l.now)
	for _, c := range l.list {
		switch c.(type) {
		case BuildAdded, JobAdded:
			if err := again.m.Apply(c); err != nil {
				t.Fatal(err)
			}
		default:
			// Not what this test is about.
		}
	}
	again.m.Loaded(l.now)
	again.must(again.m.CancelBuild(l.now, id, false))
	deleted := 0
	for _, c := range again.list {
		if _, ok := c.(JobDeleted); ok {
			deleted++
		}
	}
	if deleted != 6 || again.m.Len() != 0 || len(again.m.Builds()) != 0 {
		t.Errorf("%d jobs are deleted, want 6; left:\n%s", deleted, again.m.dump())
	}
}

// What is asked for names its field when it is not as it must be.
func TestSubmitNamesTheField(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for field, spoil := range map[string]func(*Submission){
		"jobs[4].kind":           func(s *Submission) { s.Jobs[1].Kind = "" },
		"jobs[4].needs[0]":       func(s *Submission) { s.Jobs[1].Needs = []Need{{Job: l.id(), Policy: 9}} },
		"jobs[4].id":             func(s *Submission) { s.Jobs[1].ID = s.Jobs[0].ID },
		"jobs[3].features":       func(s *Submission) { s.Jobs[0].Features = []string{"b", "a"} },
		"jobs[3].features[0]":    func(s *Submission) { s.Jobs[0].Features = []string{"a b"} },
		"jobs[3].key":            func(s *Submission) { s.Jobs[0].Key = "\n" },
		"jobs[3].estimate":       func(s *Submission) { s.Jobs[0].Estimate = -time.Second },
		"build.priority":         func(s *Submission) { s.Build.Priority = MaxPriority + 1 },
		"build.limits.timeout":   func(s *Submission) { s.Build.Limits.Timeout = -1 },
		"build.id":               func(s *Submission) { s.Build.ID = ID{} },
		"refs[0].priority":       func(s *Submission) { s.Refs[0].Priority = -MaxPriority - 1 },
		"refs[0].limits.silence": func(s *Submission) { s.Refs[0].Limits.Silence = -1 },
		"own.priority":           func(s *Submission) { *s = Submission{Own: Own{Priority: MaxPriority + 1}} },
		"build":                  func(s *Submission) { s.Build = nil },
	} {
		s := Submission{Build: &Build{ID: l.id()}, Jobs: []Spec{l.spec("a"), l.spec("b")}, First: 3}
		s.Refs = []Ref{{Job: s.Jobs[0].ID}}
		spoil(&s)
		changes, _, err := l.m.Submit(l.now, &s, nil)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field || len(changes) > 0 {
			t.Errorf("%s: got %v and %d changes", field, err, len(changes))
		}
	}
}
