package job

import (
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
