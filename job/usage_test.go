package job

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// span is an attempt as a scan sees it; end 0 while it runs.
type span struct {
	start, end Time
	groups     []string
}

// used scans all attempts for what a group used at a moment, by the rule as it is written: ended attempts count by whole
// slices, running ones from their start, at most a window long.
func used(spans []span, group string, now Time) time.Duration {
	var sum time.Duration
	oldest := sliceOf(now) - usageSlices
	for _, s := range spans {
		for _, g := range s.groups {
			if g != group {
				continue
			}
			n := time.Duration(len(s.groups))
			if s.end == 0 {
				sum += min(now.Sub(s.start), UsageWindow) / n
				continue
			}
			for from := max(s.start, s.end.Add(-UsageWindow)); from < s.end; {
				slice := sliceOf(from)
				to := min(s.end, Time((slice+1)*int64(UsageSlice/time.Microsecond)))
				if slice > oldest {
					sum += to.Sub(from) / n
				}
				from = to
			}
		}
	}
	return sum
}

// What accounts add up step by step is what a scan over all attempts finds, whatever starts and ends when, at equal
// moments, too; and in the end nothing is left (Q30).
func TestUsageAgainstAScan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLab(t)
		l.worker("w", 100)
		p := DefaultChannel("")
		p.TTL = 1000 * time.Hour
		l.must(l.m.SetChannel(p))
		var spans []span
		var leases []Lease
		open := map[ID]int{}
		groups := [][]string{{"red"}, {"blue"}, {"blue", "red"}, {"blue", "green", "red"}}
		passes := []time.Duration{
			0, time.Minute, 7 * time.Minute, UsageSlice, 5 * time.Hour, UsageWindow - UsageSlice, UsageWindow,
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				gs := rapid.SampledFrom(groups).Draw(t, "groups")
				lease := l.startFor(gs)
				open[lease.Job] = len(spans)
				spans = append(spans, span{start: l.now, groups: gs})
				leases = append(leases, lease)
			case 2:
				l.pass(rapid.SampledFrom(passes).Draw(t, "pass"))
			case 3:
				if len(leases) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(leases)-1).Draw(t, "which")
				if _, err := l.finish(Report{Lease: leases[i], Outcome: Succeeded}); err != nil {
					t.Fatal(err)
				}
				spans[open[leases[i].Job]].end = l.now
				leases = append(leases[:i:i], leases[i+1:]...)
			}
			for _, g := range []string{"red", "blue", "green"} {
				use, _ := l.m.GroupUse("", g, l.now)
				want := used(spans, g, l.now)
				if use != want.Microseconds()*usageUnit/1000 {
					t.Fatalf("at %s group %s used %d units, a scan finds %s", l.now.Std(), g, use, want)
				}
			}
		}
		for _, lease := range leases {
			if _, err := l.finish(Report{Lease: lease, Outcome: Succeeded}); err != nil {
				t.Fatal(err)
			}
		}
		l.pass(UsageWindow + UsageSlice)
		for _, g := range []string{"red", "blue", "green"} {
			if use, _ := l.m.GroupUse("", g, l.now); use != 0 {
				t.Fatalf("group %s has still used %d a day later", g, use)
			}
		}
	})
}

// startFor runs a job that a build of each group wants.
func (l *lab) startFor(groups []string) Lease {
	l.t.Helper()
	j := l.spec("j")
	j.Key = fmt.Sprintf("key-%d", l.ids)
	for _, g := range groups {
		if _, err := l.submit(Build{Group: g}, []Spec{j}, Ref{Job: j.ID}); err != nil {
			l.t.Fatal(err)
		}
		key := j.Key
		j = l.spec("j")
		j.Key = key
	}
	job, _ := l.m.Unfinished(j.Identity())
	return l.start(job.id, "w")
}
