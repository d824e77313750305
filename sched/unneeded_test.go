package sched

import (
	"testing"

	"github.com/headrace/headrace/job"
)

// The cancel of a large build goes on over several rounds, above all one that spares what runs: whom the other stops is settled at
// once. What nobody needs any more is not handed out meanwhile.
func TestNothingOfACancelledBuildIsHandedOut(t *testing.T) {
	t.Parallel()
	for name, spare := range map[string]bool{"stopping what runs": false, "sparing what runs": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nothingIsHandedOut(t, spare)
		})
	}
}

func nothingIsHandedOut(t *testing.T, spare bool) {
	t.Helper()
	l := newLab(t)
	l.worker(job.Worker{Name: "w", Slots: 10})
	l.submit(job.Build{Name: "kept"}, many(3, job.Spec{Name: "kept"})...)
	l.submit(job.Build{Name: "large", Priority: 1}, many(200, job.Spec{Name: "large"})...)
	var large job.ID
	for _, b := range l.m.Builds() {
		if b.Build.Name == "large" {
			large = b.Build.ID
		}
	}
	changes, err := l.m.CancelBuild(l.now, large, spare)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if err := l.m.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	rounds := 0
	for ; l.m.Behind(); rounds++ {
		if _, err := l.m.Advance(l.at(), 1); err != nil {
			t.Fatal(err)
		}
		l.s.Update()
		l.s.Begin()
		l.s.Want("w", 10, 0)
		for {
			j, name, ok := l.s.Next(l.now)
			if !ok {
				break
			}
			if !j.Needed() {
				t.Fatalf("round %d: %s is named, which nobody needs", rounds, j.Name())
			}
			started, err := l.m.Start(l.at(), j.ID(), name, job.Token(l.id()))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range started {
				if err := l.m.Apply(c); err != nil {
					t.Fatal(err)
				}
			}
			l.s.Want("w", l.s.Wants("w")-1, 0)
			l.s.Update()
		}
	}
	if rounds < 10 || l.m.Used("w") != 3 {
		t.Errorf("%d rounds, %d jobs run; want many, and the 3 that are kept", rounds, l.m.Used("w"))
	}
	if err := l.s.Check(); err != nil {
		t.Error(err)
	}
}
