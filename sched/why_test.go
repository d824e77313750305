package sched

import (
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
