package job

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// Rule 1: the limits of an attempt are the greatest over the live builds that need the job; what one states for this very job
// counts in place of what that one states for all, and against no other.
func TestLimitsAreTheWidestOverBuilds(t *testing.T) {
	t.Parallel()
	minute, hour := Limits{Timeout: time.Minute}, Limits{Timeout: time.Hour}
	for _, c := range []struct {
		name              string
		one, ref, another Limits
		through           bool // the other build needs the job for a dependent's sake alone
		want              time.Duration
	}{
		{"one states it for the job", hour, minute, minute, false, time.Minute},
		{"the other states more for all", hour, minute, hour, false, time.Hour},
		{"the other states none", hour, minute, Limits{}, false, 0},
		{"the job's is wider than its build's", minute, hour, minute, false, time.Hour},
		{"the other, by a dependent, states more", minute, minute, hour, true, time.Hour},
		{"the other, by a dependent, states none", minute, minute, Limits{}, true, 0},
		{"the other, by a dependent, states less", Limits{}, hour, minute, true, time.Hour},
	} {
		l := newLab(t)
		j := l.spec("j")
		j.Key = "j"
		top := l.spec("top", Need{Job: j.ID})
		if _, err := l.submit(Build{Limits: c.one}, []Spec{j, top}, Ref{Job: j.ID, Limits: c.ref}, Ref{Job: top.ID}); err != nil {
			t.Fatal(err)
		}
		if got := l.m.LimitsOf(l.m.jobs[j.ID]).Timeout; got != c.ref.Timeout {
			t.Errorf("%s: alone, the build gets %s, want %s", c.name, got, c.ref.Timeout)
		}
		again, over := j, l.spec("over", Need{Job: j.ID})
		again.ID = l.id()
		refs := []Ref{{Job: again.ID}}
		if c.through {
			refs = []Ref{{Job: over.ID}}
		}
		if _, err := l.submit(Build{Limits: c.another}, []Spec{again, over}, refs...); err != nil {
			t.Fatal(err)
		}
		if got := l.m.LimitsOf(l.m.jobs[j.ID]).Timeout; got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// An attempt keeps the limits that its worker was told, whoever comes to need the job, and whoever owns it after a restart.
func TestLimitsOfAnAttemptStay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker("w", 1)
	j := l.spec("j")
	j.Key = "j"
	if _, err := l.submit(Build{Limits: Limits{Timeout: time.Minute}}, []Spec{j}); err != nil {
		t.Fatal(err)
	}
	lease := l.start(j.ID, "w")
	again := j
	again.ID = l.id()
	if _, err := l.submit(Build{Limits: Limits{Timeout: time.Hour}}, []Spec{again}); err != nil {
		t.Fatal(err)
	}
	want := Limits{Timeout: time.Minute}
	if got := l.m.LimitsOf(l.m.jobs[j.ID]); got != want {
		t.Errorf("told %v, now %v", want, got)
	}
	r := l.restored(l.now)
	if got := r.m.LimitsOf(r.m.jobs[j.ID]); got != want {
		t.Errorf("told %v, after a restart %v", want, got)
	}
	r.pass(time.Minute)
	if err := r.m.Renew(r.now, lease, r.now); err != nil {
		t.Fatal(err)
	}
	r.pass(JudgeSlack - time.Microsecond)
	if _, running := r.m.jobs[j.ID].State().(Running); !running {
		t.Errorf("the job ended before its limit and the slack: %v", r.m.jobs[j.ID].State())
	}
	r.pass(time.Microsecond)
	if j := r.m.jobs[j.ID]; j == nil || !j.Held() {
		t.Error("the job is not ended at its limit")
	}
}

// References of a build to one job add up, in one submission and over several, by whatever name the job was asked for.
func TestReferencesToOneJobAddUp(t *testing.T) {
	t.Parallel()
	all := Limits{Timeout: time.Minute}
	for _, c := range []struct{ a, b, want Ref }{
		{Ref{Optional: true}, Ref{}, Ref{}},
		{Ref{Awaited: true}, Ref{}, Ref{}},
		{Ref{Awaited: true}, Ref{Optional: true}, Ref{Awaited: true}},
		{Ref{Optional: true}, Ref{Optional: true}, Ref{Optional: true}},
		{Ref{Priority: 3}, Ref{Priority: -3}, Ref{Priority: 3}},
		{Ref{Limits: Limits{time.Hour, time.Hour}}, Ref{Limits: Limits{time.Second, time.Second}}, Ref{Limits: Limits{time.Hour, time.Hour}}},
		{Ref{Limits: Limits{time.Second, 0}}, Ref{Limits: Limits{2 * time.Second, 0}}, Ref{Limits: Limits{2 * time.Second, 0}}},
		{Ref{Limits: Limits{time.Second, 0}}, Ref{}, Ref{}},
	} {
		// The sum does not depend on which is first.
		for _, p := range [][2]Ref{{c.a, c.b}, {c.b, c.a}} {
			for _, apart := range []bool{false, true} {
				l := newLab(t)
				j, twin := l.spec("j"), l.spec("twin")
				j.Key, twin.Key = "j", "j"
				p[0].Job, p[1].Job = j.ID, twin.ID
				b := Build{ID: l.id(), Limits: all}
				if apart {
					hold := l.spec("hold")
					if _, err := l.submit(b, []Spec{j, hold}, p[0], Ref{Job: hold.ID}); err != nil {
						t.Fatal(err)
					}
					if _, err := l.submit(b, []Spec{twin}, p[1]); err != nil {
						t.Fatal(err)
					}
				} else if _, err := l.submit(b, []Spec{j, twin, l.spec("other")}, p[0], p[1]); err != nil {
					t.Fatal(err)
				}
				got := Ref{}
				if k := l.m.jobs[j.ID]; k != nil && len(k.wishes) == 1 {
					got = k.wishes[0].ref(ID{})
				} else if !c.want.Optional {
					t.Errorf("%+v and %+v: the job has ended, or has another number of wishes than one", p[0], p[1])
				} else {
					got = c.want // all is optional: the build has ended at once
				}
				if got != c.want {
					t.Errorf("%+v and %+v, apart %t: %+v, want %+v", p[0], p[1], apart, got, c.want)
				}
				if err := l.checked(); err != nil {
					t.Errorf("%+v and %+v, apart %t: %v", p[0], p[1], apart, err)
				}
			}
		}
	}
}

// Sums of what is within its bounds are not the less for being great.
func TestGreatNumbersSaturate(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker("w", 1)
	j := l.spec("j")
	j.Estimate = MaxDuration
	chain := []Spec{j}
	for i := range 40 {
		next := l.spec(fmt.Sprint(i), Need{Job: chain[i].ID})
		next.Estimate = MaxDuration
		chain = append(chain, next)
	}
	b := Build{Priority: MaxPriority, Limits: Limits{MaxDuration, MaxDuration}}
	if _, err := l.submit(b, chain, Ref{Job: j.ID, Priority: MaxPriority}, Ref{Job: chain[40].ID}); err != nil {
		t.Fatal(err)
	}
	if p := l.m.jobs[j.ID].Priority(); p != math.MaxInt32 {
		t.Errorf("the greatest priority with the greatest addition is %d", p)
	}
	if p := l.m.jobs[j.ID].Path(); p != maxDuration {
		t.Errorf("400 years of work are a path of %s", p)
	}
	lease := l.start(j.ID, "w")
	l.pass(DefaultTTL - time.Second)
	if err := l.m.Renew(l.now, lease, l.now); err != nil {
		t.Error(err)
	}
	low := l.spec("low")
	if _, err := l.submit(Build{Priority: -MaxPriority}, []Spec{low}, Ref{Job: low.ID, Priority: -MaxPriority}); err != nil {
		t.Fatal(err)
	}
	if p := l.m.jobs[low.ID].Priority(); p != math.MinInt32 {
		t.Errorf("the least priority with the least addition is %d", p)
	}
	if err := checkDuration("d", math.MaxInt64); err == nil {
		t.Error("a limit of 292 years is taken")
	}
}
