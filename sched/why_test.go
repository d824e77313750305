package sched

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/job"
)

// How many are ahead is what a scan counts.
func TestAheadAgainstAScan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLab(t)
		l.worker(job.Worker{Name: "w", Systems: []string{"x", "y"}})
		for range rapid.IntRange(1, 10).Draw(t, "builds") {
			b := job.Build{
				Priority: rapid.Int32Range(0, 2).Draw(t, "priority"),
				Group:    rapid.SampledFrom([]string{"red", "blue"}).Draw(t, "group"),
			}
			l.submit(b, many(rapid.IntRange(1, 6).Draw(t, "jobs"), job.Spec{
				System:   rapid.SampledFrom([]string{"x", "y"}).Draw(t, "system"),
				Estimate: time.Duration(rapid.IntRange(1, 3).Draw(t, "estimate")) * time.Minute,
			})...)
		}
		for _, j := range l.m.Jobs() {
			want := 0
			for _, k := range l.m.Jobs() {
				if k != j && l.first(k, j) {
					want++
				}
			}
			if got := l.s.Why(j, l.now).Ahead; got != want {
				t.Fatalf("job %d: %d ahead, a scan counts %d", j.Seq(), got, want)
			}
		}
	})
}

// The count of those ahead is bounded: why costs no more with a million than with ten thousand.
func TestAheadIsBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker(job.Worker{Name: "w"})
	l.submit(job.Build{}, many(AheadMax+500, job.Spec{})...)
	last := l.submit(job.Build{}, job.Spec{})
	j, _ := l.m.Job(last[0])
	e := l.s.Why(j, l.now)
	if e.Ahead != AheadMax {
		t.Errorf("%d ahead, want %d", e.Ahead, AheadMax)
	}
	if text := e.Reasons[len(e.Reasons)-1].Text; !strings.Contains(text, "or more") {
		t.Errorf("the bound is not told: %q", text)
	}
}

// Q31, Q32: a job that nobody can run has a reason that a machine can read, names the nearest worker first, and tells until
// when it waits; no more than five workers are named.
func TestQ31WhyNamesTheNearestWorker(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, n := range []string{"a", "b", "c", "d", "e", "f"} {
		l.worker(job.Worker{Name: n, Systems: []string{"y"}})
	}
	l.worker(job.Worker{Name: "z", Systems: []string{"x"}})
	ids := l.submit(job.Build{}, job.Spec{System: "x", Features: []string{"kvm"}})
	j, _ := l.m.Job(ids[0])
	e := l.s.Why(j, l.now)
	if len(e.Reasons) != 1 || e.Reasons[0].What != NoWorker || !e.Reasons[0].Until.Equal(l.now.Add(24*time.Hour).Std()) {
		t.Errorf("reasons %+v, want that no worker can run it, for a day", e.Reasons)
	}
	if len(e.Nearest) != 5 || e.Nearest[0].Worker != "z" || len(e.Nearest[0].Lacks) != 1 || e.Nearest[0].Lacks[0] != "feature kvm" {
		t.Errorf("nearest %+v, want z first, which lacks kvm alone, and five in all", e.Nearest)
	}
}

// Paused jobs are ahead of nobody, but for those that are paused themselves.
func TestAheadCountsNothingPaused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	paused := job.DefaultChannel("")
	paused.PausedKinds = []string{"p"}
	l.do(l.m.SetChannel(paused))
	l.worker(job.Worker{Name: "w", Kinds: []string{"k", "p"}})
	held := l.submit(job.Build{}, many(5, job.Spec{Kind: "p"})...)
	free := l.submit(job.Build{}, many(2, job.Spec{})...)
	for _, c := range []struct {
		id   job.ID
		want int
	}{{free[0], 0}, {free[1], 1}, {held[4], 4}} {
		j, _ := l.m.Job(c.id)
		if got := l.s.Why(j, l.now).Ahead; got != c.want {
			t.Errorf("job %d of kind %s: %d ahead, want %d", j.Seq(), j.Class().Kind, got, c.want)
		}
	}
}

// Of the workers that could run a job, the free come first and then the busy, each by name, however long the reasons are.
func TestNearestNamesTheFreeFirst(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, n := range []string{"d", "b", "c", "a"} {
		l.worker(job.Worker{Name: n})
	}
	l.do(l.m.Drain("b", true)) // a shorter text than that of a
	l.submit(job.Build{Priority: 1}, job.Spec{Name: "runs", Pin: "a"})
	l.s.Want("a", 1, 0)
	l.next()
	l.s.Want("c", 1, 0)
	l.s.Want("d", 1, 0)
	id := l.submit(job.Build{}, job.Spec{})
	j, _ := l.m.Job(id[0])
	var got []string
	for _, n := range l.s.Why(j, l.now).Nearest {
		got = append(got, n.Worker)
	}
	if want := []string{"c", "d", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("nearest are %v, want %v", got, want)
	}
}

// A worker is not said to be set aside for a job that waits no more.
func TestSetAsideForNobody(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker(job.Worker{Name: "w", Slots: 2})
	l.submit(job.Build{}, job.Spec{Name: "first"})
	l.s.Want("w", 2, 0)
	l.next()
	perf := l.submit(job.Build{}, job.Spec{Name: "perf", Exclusive: true})
	other := l.submit(job.Build{}, job.Spec{Name: "other"})
	l.next()
	reserved := func() bool {
		j, _ := l.m.Job(other[0])
		return slices.ContainsFunc(l.s.Why(j, l.now).Reasons, func(r Reason) bool { return r.What == Reserved && r.Job == perf[0] })
	}
	if !reserved() {
		t.Error("why does not tell for whom the worker is set aside")
	}
	l.s.Want("w", 0, 0)
	l.do(l.m.CancelJob(l.now, perf[0], job.ID{}, true, ""))
	if l.next(); reserved() {
		t.Error("why tells that the worker is set aside for a job that was cancelled")
	}
}

// When a job may start is guessed from those that ask for work, or will: of one that has a free slot and does not ask, nobody knows when it
// does.
func TestNoGuessOfWhoDoesNotAsk(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker(job.Worker{Name: "away"})
	ids := l.submit(job.Build{}, job.Spec{Estimate: time.Hour}, job.Spec{})
	first, _ := l.m.Job(ids[0])
	second, _ := l.m.Job(ids[1])
	if e := l.s.Why(second, l.now); !e.Start.IsZero() || e.Ahead != 1 {
		t.Errorf("nobody asks: %d ahead, and it may start at %v", e.Ahead, e.Start)
	}
	l.s.Want("away", 1, 0)
	if e := l.s.Why(second, l.now); e.Start.IsZero() {
		t.Error("a worker asks, and there is no guess")
	}
	l.s.Want("away", 0, 0)
	l.do(l.m.Start(l.at(), first.ID(), "away", job.Token(l.id())))
	if e := l.s.Why(second, l.now); !e.Start.Equal(l.now.Add(time.Hour).Std()) {
		t.Errorf("it is busy for an hour: it may start at %v", e.Start)
	}
}
