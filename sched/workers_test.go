package sched

import (
	"strings"
	"testing"

	"github.com/headrace/headrace/job"
)

// Rule 9: of the free workers the least (load + 1) / speed, then the fewest features beyond the job's, then the name.
func TestBestOfTheFreeWorkers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		workers []job.Worker
		jobs    int
		got     string // who runs each job, in the order of the decisions
	}{
		{"speed", []job.Worker{{Name: "a", Speed: 1, Slots: 4}, {Name: "b", Speed: 4, Slots: 4}}, 1, "b"},
		{"no speed is one", []job.Worker{{Name: "a", Slots: 4}, {Name: "b", Speed: 0.5, Slots: 4}}, 1, "a"},
		{
			// Each waiting worker is served once a turn; within a turn the better goes first.
			"speed over turns",
			[]job.Worker{{Name: "a", Speed: 1, Slots: 4}, {Name: "b", Speed: 4, Slots: 4}},
			4, "b a b a",
		},
		{"fewest features", []job.Worker{{Name: "a", Features: []string{"kvm"}, Slots: 1}, {Name: "b", Slots: 1}}, 1, "b"},
		{"speed before features", []job.Worker{{Name: "a", Speed: 2, Features: []string{"kvm"}}, {Name: "b"}}, 1, "a"},
		{"name", []job.Worker{{Name: "b"}, {Name: "a"}}, 1, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			for _, w := range c.workers {
				l.worker(w)
				l.s.Want(w.Name, int(max(w.Slots, 1)), 0)
			}
			l.submit(job.Build{}, many(c.jobs, job.Spec{})...)
			l.s.Begin()
			var got []string
			for {
				_, name, _, ok := l.next()
				if !ok {
					break
				}
				got = append(got, name)
			}
			if s := strings.Join(got, " "); s != c.got {
				t.Errorf("got %q, want %q", s, c.got)
			}
		})
	}
}

// What a worker runs counts against it, and so does what its machine does besides.
func TestLoadCountsAgainstAWorker(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, n := range []string{"a", "b"} {
		l.worker(job.Worker{Name: n, Slots: 4})
	}
	l.submit(job.Build{}, many(3, job.Spec{})...)
	for i, want := range []string{"b", "b", "a"} {
		l.s.Begin()
		l.s.Want("a", 1, 1.5)
		l.s.Want("b", 1, 0)
		if _, name, _, ok := l.next(); !ok || name != want {
			t.Errorf("decision %d went to %q, want %q", i, name, want)
		}
	}
}
