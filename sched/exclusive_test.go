package sched

import (
	"testing"
	"time"

	"github.com/headrace/headrace/job"
)

// Rule 9: while a worker is set aside for an exclusive job, younger jobs of its priority do not pass it, however long
// the path behind them is, neither while the worker runs empty nor when it is empty; more urgent ones do.
func TestExclusiveIsNotOvertakenByItsLike(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker(job.Worker{Name: "w", Slots: 2})
	l.submit(job.Build{}, job.Spec{Name: "first", Estimate: time.Hour})
	l.s.Want("w", 2, 0)
	_, _, first, _ := l.next()
	perf := l.submit(job.Build{}, job.Spec{Name: "perf", Exclusive: true})
	l.submit(job.Build{}, many(3, job.Spec{Name: "longer", Estimate: time.Hour})...)
	if j, _, _, ok := l.next(); ok {
		t.Fatalf("%s takes the worker that is set aside", j.Name())
	}
	l.submit(job.Build{Priority: 1}, job.Spec{Name: "urgent"})
	j, _, urgent, ok := l.next()
	if !ok || j.Name() != "urgent" {
		t.Fatalf("the more urgent job does not pass: %t", ok)
	}
	l.s.Want("w", 2, 0)
	l.finish(first)
	l.finish(urgent)
	j, _, lease, ok := l.next()
	if !ok || j.ID() != perf[0] {
		t.Fatal("the exclusive job loses the empty worker to one that has a longer path")
	}
	l.finish(lease)
	if j, _, _, ok := l.next(); !ok || j.Name() != "longer0" {
		t.Error("the others do not go on afterwards")
	}
}

// Whoever is not exclusive loses no more than the one worker, and goes by rule 8 on the others.
func TestExclusiveTakesNoMoreThanOneWorkerAway(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, n := range []string{"a", "b", "c"} {
		l.worker(job.Worker{Name: n})
		l.s.Want(n, 1, 0)
	}
	l.submit(job.Build{}, many(3, job.Spec{Name: "longer", Estimate: time.Hour})...)
	l.submit(job.Build{}, job.Spec{Name: "perf", Exclusive: true})
	for i, want := range []string{"longer0 on b", "longer1 on c", "perf on a"} {
		j, w, _, ok := l.next()
		if !ok {
			t.Fatalf("decision %d: nothing, want %s", i, want)
		}
		if got := j.Name() + " on " + w; got != want {
			t.Errorf("decision %d: %s, want %s", i, got, want)
		}
	}
}

// An exclusive job that must wait for its worker to run empty does not keep the others from the rest of the fleet.
func TestExclusiveWaitsAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, n := range []string{"a", "b"} {
		l.worker(job.Worker{Name: n, Slots: 2})
		l.s.Want(n, 2, 0)
	}
	l.submit(job.Build{Priority: 9}, many(2, job.Spec{Name: "under way"})...)
	for range 2 {
		l.next()
	}
	l.submit(job.Build{Priority: 5}, job.Spec{Name: "perf", Exclusive: true})
	l.submit(job.Build{}, many(2, job.Spec{Name: "other"})...)
	if j, w, _, ok := l.next(); !ok || j.Name() != "other0" || w != "b" {
		t.Errorf("decided %t, for %q, want other0 on b", ok, w)
	}
	if j, w, _, ok := l.next(); ok {
		t.Errorf("%s takes %s, which is set aside", j.Name(), w)
	}
}

// Where jobs go by age, an older job may have the worker, and a younger one never, whatever its priority.
func TestExclusiveByAge(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	fifo := job.DefaultChannel("")
	fifo.Discipline = job.ByAge
	l.do(l.m.SetChannel(fifo))
	l.worker(job.Worker{Name: "w", Slots: 3})
	l.submit(job.Build{}, many(2, job.Spec{Name: "older"})...)
	l.submit(job.Build{}, job.Spec{Name: "perf", Exclusive: true})
	l.submit(job.Build{Priority: 9}, job.Spec{Name: "younger", Estimate: time.Hour})
	l.s.Want("w", 3, 0)
	for _, want := range []string{"older0", "older1"} {
		if j, _, _, ok := l.next(); !ok || j.Name() != want {
			t.Fatalf("want %s first", want)
		}
	}
	if j, _, _, ok := l.next(); ok {
		t.Errorf("%s passes the exclusive job", j.Name())
	}
}

// Which worker an exclusive job sets aside depends on those before it, also on one that nobody who may be served now could run: as its
// worker had its turn, is full, or does not ask.
func TestExclusiveSetsAsideWhatOthersLeave(t *testing.T) {
	t.Parallel()
	for name, asks := range map[string]int{"its worker had its turn": 2, "its worker does not ask": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.worker(job.Worker{Name: "a", Slots: 3, Features: []string{"big"}})
			l.worker(job.Worker{Name: "b", Slots: 2})
			l.submit(job.Build{Priority: 9}, many(2, job.Spec{Name: "under way"})...)
			l.s.Want("b", 1, 0)
			l.next()
			l.s.Want("a", asks, 0)
			l.s.Begin()
			if _, w, _, ok := l.next(); !ok || w != "a" {
				t.Fatalf("decided %t, for %q, want a", ok, w)
			}
			l.s.Want("b", 1, 0)
			l.submit(job.Build{Priority: 5}, job.Spec{Name: "large", Exclusive: true, Features: []string{"big"}})
			l.submit(job.Build{}, job.Spec{Name: "small", Exclusive: true})
			l.submit(job.Build{}, job.Spec{Name: "other"})
			if j, w, _, ok := l.next(); ok {
				t.Errorf("%s takes %s, which is set aside", j.Name(), w)
			}
			if err := l.s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}
