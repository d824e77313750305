package job

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Rule 9: what a worker lacks for a class.
func TestLacks(t *testing.T) {
	t.Parallel()
	w := Worker{
		Name: "w", Channels: []string{"", "a"}, Kinds: []string{"run", "nix"}, Systems: []string{"x86_64-linux", "i686-linux"},
		Features: []string{"big", "kvm", "local"}, Mandatory: []string{"local"},
	}
	for _, c := range []struct {
		class Class
		lacks string // joined by commas
	}{
		{Class{Kind: "run", Features: "local"}, ""},
		{Class{Channel: "a", Kind: "nix", System: "i686-linux", Features: "big kvm local", Pin: "w"}, ""},
		{Class{Kind: "run"}, "takes only jobs that require local"},
		{Class{Channel: "b", Kind: "run", Features: "local"}, "channel b"},
		{Class{Kind: "deploy", Features: "local"}, "kind deploy"},
		{Class{Kind: "run", System: "aarch64-linux", Features: "local"}, "system aarch64-linux"},
		{Class{Kind: "run", System: "x86_64", Features: "local"}, "system x86_64"},
		{Class{Kind: "run", Features: "gpu local tpu"}, "feature gpu,feature tpu"},
		{Class{Kind: "run", Features: "local", Pin: "other"}, "the name other"},
		{
			Class{Channel: "b", Kind: "x", System: "y", Features: "z", Pin: "p"},
			"the name p,channel b,kind x,system y,feature z,takes only jobs that require local",
		},
	} {
		if lacks := strings.Join(w.Lacks(c.class), ","); lacks != c.lacks {
			t.Errorf("%+v: lacks %q, want %q", c.class, lacks, c.lacks)
		}
	}
	none := Worker{Name: "none"}
	if len(none.Lacks(Class{Kind: "run"})) == 0 {
		t.Error("an empty list of kinds matches all")
	}
}

// restored gives a machine that was loaded, at another clock, from what a store would give of l's.
func (l *lab) restored(now Time) *lab {
	l.t.Helper()
	r := &lab{t: l.t, m: New(now), now: now, ids: l.ids}
	for _, w := range l.m.Workers() {
		v, _ := l.m.Worker(w)
		l.load(r, WorkerPut{v})
	}
	for _, b := range l.m.Builds() {
		l.load(r, BuildAdded{b})
	}
	for _, j := range l.m.Jobs() {
		rec := Record{
			Spec: Spec{ID: j.id, Name: j.name, Kind: j.class.Kind, Key: j.key}, Seq: j.seq, At: j.at,
			Tally: j.Tally(), Running: j.running(),
		}
		if x := j.more; x != nil {
			rec.Wake, rec.Delay = x.wake, x.delay
		}
		if j.last != nil {
			last := j.last.Attempt
			rec.Last, rec.LastEnd = &last, j.last.end
		}
		l.load(r, JobAdded{rec})
		for i := range j.wishes {
			l.load(r, BuildReferred{Build: j.wishes[i].build.Build.ID, Refs: []Ref{{Job: j.id}}})
		}
	}
	r.m.Loaded(now)
	r.must(nil, nil)
	return r
}

func (l *lab) load(r *lab, c Change) {
	l.t.Helper()
	if err := r.m.Apply(c); err != nil {
		l.t.Fatal(err)
	}
}

// Q9, and clock steps: whatever the clock says after a restart, a lease gets one full TTL, a back-off and a quarantine last no
// longer than they were to, and what is asked for keeps its age.
func TestQ9AClockThatStepsAtARestartChangesNothing(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{-1000 * time.Hour, -time.Second, 0, 1000 * time.Hour} {
		l := newLab(t)
		l.worker("w", 3)
		l.worker("bad", 1)
		jobs := []Spec{l.spec("runs"), l.spec("waits"), l.spec("old"), l.spec("faulty")}
		if _, err := l.submit(Build{Limits: Limits{Timeout: time.Hour}}, jobs); err != nil {
			t.Fatal(err)
		}
		lease := l.start(jobs[0].ID, "w")
		if _, err := l.finish(Report{Lease: l.start(jobs[1].ID, "w"), Outcome: Aborted}); err != nil {
			t.Fatal(err)
		}
		if _, err := l.finish(Report{Lease: l.start(jobs[3].ID, "bad"), Outcome: Aborted, Detail: WorkerFault}); err != nil {
			t.Fatal(err)
		}
		r := l.restored(l.now.Add(step))
		r.check()
		// A clock that went far ahead cannot be told from a long absence: then the total limit has run out.
		if err := r.m.Renew(r.now.Add(DefaultTTL-time.Second), lease, 0); err != nil && step <= 0 {
			t.Errorf("step %s: a lease within its TTL: %v", step, err)
		}
		if wait := r.m.jobs[jobs[1].ID].Wake().Sub(r.now); wait > time.Minute {
			t.Errorf("step %s: a back-off of a minute lasts %s", step, wait)
		}
		if bad, _ := r.m.Worker("bad"); bad.Until.Sub(r.now) > time.Minute {
			t.Errorf("step %s: a quarantine of a minute lasts %s", step, bad.Until.Sub(r.now))
		}
		r.pass(DefaultTTL + time.Second)
		if _, ready := r.m.jobs[jobs[1].ID].State().(Ready); !ready {
			t.Errorf("step %s: the back-off does not end", step)
		}
		if bad, _ := r.m.Worker("bad"); !bad.Free(r.now) {
			t.Errorf("step %s: the quarantine does not end", step)
		}
		if a, b := r.m.jobs[jobs[1].ID].Seq(), r.m.jobs[jobs[2].ID].Seq(); a > b {
			t.Errorf("step %s: age is lost: %d, %d", step, a, b)
		}
	}
}

// Q3 (River #1302): a finish races the end of the lease. Whatever comes first at that very moment, the job ends once, and the
// one that comes too late changes nothing.
func TestQ3FinishRacesTheEndOfTheLease(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"finish", "expire, finish", "expire, start, finish", "expire, start, finish both"} {
		l := newLab(t)
		l.worker("w", 1)
		l.worker("v", 1)
		j := l.spec("j")
		if _, err := l.submit(Build{}, []Spec{j}); err != nil {
			t.Fatal(err)
		}
		first := l.start(j.ID, "w")
		l.now = l.now.Add(DefaultTTL) // nobody has looked yet
		if order != "finish" {
			l.pass(0)
		}
		wantLost := strings.Contains(order, "start")
		var second Lease
		if wantLost {
			second = l.start(j.ID, "v")
		}
		before := l.m.dump()
		lost, err := l.finish(Report{Lease: first, Outcome: Succeeded})
		if err != nil || lost != wantLost {
			t.Errorf("%s: lost %t, %v; want lost %t", order, lost, err, wantLost)
		}
		if wantLost && l.m.dump() != before {
			t.Errorf("%s: a finish of an older attempt changed something", order)
		}
		if wantLost {
			if lost, err := l.finish(Report{Lease: second, Outcome: Failed}); lost || err != nil {
				t.Errorf("%s: the newer attempt: lost %t, %v", order, lost, err)
			}
		}
		if l.m.Len() != 0 {
			t.Errorf("%s: left:\n%s", order, l.m.dump())
		}
	}
}

// The last moment of a lease is the one before it ends: a heartbeat at the end itself comes too late, though nobody has looked yet.
func TestRenewAtTheEndOfTheLeaseComesTooLate(t *testing.T) {
	t.Parallel()
	for early, want := range map[time.Duration]error{time.Microsecond: nil, 0: ErrLeaseLost, -time.Microsecond: ErrLeaseLost} {
		l := newLab(t)
		l.worker("w", 1)
		j := l.spec("j")
		if _, err := l.submit(Build{}, []Spec{j}); err != nil {
			t.Fatal(err)
		}
		lease := l.start(j.ID, "w")
		if err := l.m.Renew(l.now.Add(DefaultTTL-early), lease, 0); !errors.Is(err, want) {
			t.Errorf("%s before the end: %v, want %v", early, err, want)
		}
	}
}

// Leases end in any order; those that are left keep theirs.
func TestLeasesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker("w", 8)
	var jobs []Spec
	var leases []Lease
	for i := range 8 {
		jobs = append(jobs, l.spec(string(rune('a'+i))))
	}
	if _, err := l.submit(Build{}, jobs); err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		leases = append(leases, l.start(jobs[i].ID, "w"))
	}
	for _, step := range []struct {
		ends int
		left string
	}{{3, "abcefgh"}, {0, "bcefgh"}, {7, "bcefg"}, {4, "bcfg"}, {1, "cfg"}, {6, "cf"}, {2, "f"}, {5, ""}} {
		if _, err := l.finish(Report{Lease: leases[step.ends], Outcome: Succeeded}); err != nil {
			t.Fatal(err)
		}
		left := ""
		l.m.Leases("w", func(j *Job) { left += j.Name() })
		if left != step.left || l.m.Used("w") != len(left) {
			t.Errorf("after lease %d: %q are left, and %d slots are taken; want %q", step.ends, left, l.m.Used("w"), step.left)
		}
		if err := l.checked(); err != nil {
			t.Error(err)
		}
	}
}
