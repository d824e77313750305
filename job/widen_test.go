package job

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// A build states a limit for a job that many need. What another build gives more time for is not cut short, however many there
// are, and wherever that one stands among them; if there are too many to ask, the first build's own word may be exceeded.
func TestLimitsOfAJobWithManyDependents(t *testing.T) {
	t.Parallel()
	const hour, few, many = time.Hour, 100, 3 * widenMost
	for _, c := range []struct {
		dependents  int
		all, stated time.Duration // by the first build: for all its jobs, for this one
		patient     time.Duration // by the build of one dependent
		want        time.Duration
	}{
		{few, hour, hour, 5 * hour, 5 * hour},
		{many, hour, hour, 5 * hour, 5 * hour},
		{few, hour, hour, 0, 0},
		{many, hour, hour, 0, 0},
		{few, 3 * hour, hour, 2 * hour, 2 * hour},
		{many, 3 * hour, hour, 2 * hour, 3 * hour},
	} {
		for _, at := range []int{0, c.dependents - 1} {
			for _, chain := range []bool{true, false} {
				t.Run(fmt.Sprintf("%d of %d %v %v %v, chain %t", at, c.dependents, c.all, c.stated, c.patient, chain), func(t *testing.T) {
					t.Parallel()
					l := newLab(t)
					root := l.spec("root")
					asked := Ref{Job: root.ID, Limits: Limits{Timeout: c.stated}}
					if _, err := l.submit(Build{Limits: Limits{Timeout: c.all}}, []Spec{root}, asked); err != nil {
						t.Fatal(err)
					}
					jobs := make([]Spec, c.dependents)
					for i := range jobs {
						on := root.ID
						if chain && i > 0 {
							on = jobs[i-1].ID
						}
						jobs[i] = l.spec("dependent", Need{Job: on})
					}
					if _, err := l.submit(Build{Limits: Limits{Timeout: hour / 2}}, jobs); err != nil {
						t.Fatal(err)
					}
					if _, err := l.submit(Build{Limits: Limits{Timeout: c.patient}}, nil, Ref{Job: jobs[at].ID}); err != nil {
						t.Fatal(err)
					}
					if got := l.m.jobs[root.ID].limits().Timeout; got != c.want {
						t.Errorf("%s, want %s", got, c.want)
					}
				})
			}
		}
	}
}

// However much stands behind a job, who needs it is found out in a bounded number of looks. If that does not do, a cancel is
// refused as if others needed the job, and can be forced.
func TestCancelLooksAtSoMuchThatNeedsTheJob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dependents, builds int
		chain, refused     bool
	}{
		{dependents: 100, chain: true},
		{dependents: 100},
		{dependents: needingMost / 2, chain: true}, // each is asked for by the build, too
		{dependents: needingMost/2 + 1, chain: true, refused: true},
		{dependents: needingMost/2 + 1, refused: true},
		{builds: needingMost + 1, refused: true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			jobs := []Spec{l.spec("root")}
			for range c.dependents {
				on := jobs[0].ID
				if c.chain {
					on = jobs[len(jobs)-1].ID
				}
				jobs = append(jobs, l.spec("dependent", Need{Job: on}))
			}
			b := Build{ID: l.id()}
			var refs []Ref
			for _, s := range jobs[1:] {
				refs = append(refs, Ref{Job: s.ID})
			}
			if len(refs) == 0 {
				refs = []Ref{{Job: jobs[0].ID}}
			}
			if _, err := l.submit(b, jobs, refs...); err != nil {
				t.Fatal(err)
			}
			for range c.builds {
				if _, err := l.submit(Build{}, nil, Ref{Job: jobs[0].ID}); err != nil {
					t.Fatal(err)
				}
			}
			root := l.m.jobs[jobs[0].ID]
			changes, err := l.m.CancelJob(l.now, root.id, b.ID, false, "")
			var needed *NeededError
			if refused := errors.As(err, &needed); refused != c.refused || refused && !needed.More {
				t.Fatalf("%d changes, %v", len(changes), err)
			}
			if want := min(1+c.builds, neededMax); len(l.m.Needing(root)) != want {
				t.Errorf("%d builds are named, want %d", len(l.m.Needing(root)), want)
			}
			l.must(l.m.CancelJob(l.now, root.id, b.ID, true, ""))
		})
	}
}
