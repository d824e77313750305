package sched

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headrace/headrace/job"
)

// Shares are compared exactly, however large they are.
func TestLessUseNeverOverflows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		any := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(math.MaxInt64-5, math.MaxInt64), rapid.Int64Range(0, math.MaxInt64))
		share := rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, math.MaxInt32))
		a, as, b, bs := any.Draw(t, "a"), share.Draw(t, "as"), any.Draw(t, "b"), share.Draw(t, "bs")
		left := new(big.Int).Mul(big.NewInt(a), big.NewInt(bs))
		right := new(big.Int).Mul(big.NewInt(b), big.NewInt(as))
		if got, want := lessUse(a, as, b, bs), left.Cmp(right) < 0; got != want {
			t.Fatalf("lessUse(%d/%d, %d/%d) = %t, want %t", a, as, b, bs, got, want)
		}
	})
	if lessUse(-5, 1, 0, 1) || lessUse(0, 1, -5, 1) {
		t.Error("a use below nothing is not nothing")
	}
}

// Q17 (graphile #348: 11,800 jobs/s fell to 40 behind two locked queues): jobs behind a full key are parked once, when
// a decision comes upon them, and no later decision looks at them. Counted, not timed.
func TestQ17BlockedHeadsAreNotLookedAtAgain(t *testing.T) {
	t.Parallel()
	const blocked = 20_000
	l := newLab(t)
	l.worker(job.Worker{Name: "w", Slots: 1000})
	gated := job.Spec{Name: "g", Gate: job.Gate{Key: "lock", Limit: 1}}
	l.submit(job.Build{Priority: 9}, many(blocked, gated)...)
	free := l.submit(job.Build{}, many(100, job.Spec{Name: "f"})...)
	l.s.Want("w", 1000, 0)
	first, _, lease, ok := l.next()
	if !ok || first.Gate().Key != "lock" {
		t.Fatal("the key lets nobody in")
	}
	if j, _, _, _ := l.next(); j.ID() != free[0] {
		t.Fatalf("got %s, want the first that needs no key", j.Name())
	}
	parked := l.parked()
	if parked != blocked-1 {
		t.Fatalf("%d are parked, want %d", parked, blocked-1)
	}
	// From here a decision sees one heap with the free jobs, and nothing of the rest.
	for i := 1; i < 50; i++ {
		l.s.Begin()
		if n := len(l.s.look(l.now)); n != 1 {
			t.Fatalf("decision %d looks at %d heads, want 1", i, n)
		}
		if j, _, _, _ := l.next(); j.ID() != free[i] {
			t.Fatalf("decision %d: got %s, want %s", i, j.Name(), "the next free one")
		}
		if n := l.parked(); n != parked {
			t.Fatalf("decision %d moved %d parked jobs", i, parked-n)
		}
	}
	// When the holder goes, one comes back: the best of them.
	l.finish(lease)
	if n := l.parked(); n != parked-1 {
		t.Errorf("%d came back for one place", parked-n)
	}
	if j, _, _, _ := l.next(); j.Seq() != first.Seq()+1 {
		t.Errorf("the next is %s, want the oldest parked", j.Name())
	}
}

// Q17: a place that is given back lets in those for whose limit there is room, and moves nobody else.
func TestAPlaceLetsInOnlyWhomItIsFor(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker(job.Worker{Name: "w", Slots: 10})
	wide := job.Gate{Key: "lock", Limit: 3}
	l.submit(job.Build{Priority: 9}, many(4, job.Spec{Name: "wide", Gate: wide})...)
	l.submit(job.Build{}, many(2, job.Spec{Name: "narrow", Gate: job.Gate{Key: "lock", Limit: 1}})...)
	l.s.Want("w", 10, 0)
	var leases []job.Lease
	for range 3 {
		_, _, lease, _ := l.next()
		leases = append(leases, lease)
	}
	if _, _, _, more := l.next(); more || l.parked() != 3 {
		t.Fatalf("more: %t, %d parked, want 3", more, l.parked())
	}
	l.finish(leases[0])
	if n := l.parked(); n != 2 {
		t.Errorf("%d are parked, want the two for whom one holder is too many", n)
	}
}

// A place that is free and a parked job that nobody needs any more may be seen in either order.
func TestAPlaceForOneWhoIsGone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker(job.Worker{Name: "w", Slots: 10})
	gate := job.Gate{Key: "lock", Limit: 1}
	l.submit(job.Build{Priority: 1}, job.Spec{Gate: gate})
	l.submit(job.Build{}, job.Spec{Gate: gate})
	other := l.m.Builds()[1].Build.ID
	l.s.Want("w", 10, 0)
	_, _, lease, _ := l.next()
	if _, _, _, more := l.next(); more || l.parked() != 1 {
		t.Fatal("the second is not parked")
	}
	ended, _, err := l.m.Finish(l.at(), job.Report{Lease: lease, Outcome: job.Succeeded}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancelled, err := l.m.CancelBuild(l.now, other, false)
	l.do(append(ended, cancelled...), err)
	if err := l.s.Check(); err != nil {
		t.Error(err)
	}
	if _, _, _, more := l.next(); more {
		t.Error("a job starts that nobody needs")
	}
}

// parked counts the entries in parkings.
func (l *lab) parked() int {
	n := 0
	for _, g := range l.s.gates {
		for _, p := range g.parked {
			n += len(p.ready.entries)
		}
	}
	return n
}

// A decision costs the same whatever waits that this worker cannot run: it sees only heaps that a waiting worker is matched with.
func TestDecisionLooksAtNothingThatTheWorkerCannotRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker(job.Worker{Name: "w", Systems: []string{"x"}, Slots: 10})
	for i := range 50 {
		l.submit(job.Build{Priority: 5}, many(100, job.Spec{System: fmt.Sprintf("other-%d", i)})...)
	}
	mine := l.submit(job.Build{}, job.Spec{System: "x"})
	l.s.Want("w", 1, 0)
	l.s.Begin()
	if n := len(l.s.look(l.now)); n != 1 {
		t.Errorf("looks at %d heads, want 1", n)
	}
	if j, _, _, ok := l.next(); !ok || j.ID() != mine[0] {
		t.Error("the job that the worker can run is not found")
	}
}

// What Next picks is what a scan over all ready jobs finds first by rule 8.
func TestNextAgainstAScan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newLab(t)
		channels := []string{"a", "b", "c"}
		for _, name := range channels[1:] {
			fifo := job.DefaultChannel(name)
			fifo.Discipline = job.ByAge
			l.do(l.m.SetChannel(fifo))
		}
		reach := rapid.SampledFrom([][]string{channels, {job.AnyChannel}}).Draw(t, "worker's channels")
		l.worker(job.Worker{Name: "w", Channels: reach, Systems: []string{"x", "y"}, Slots: 100})
		for range rapid.IntRange(1, 12).Draw(t, "builds") {
			b := job.Build{
				Priority: rapid.Int32Range(0, 2).Draw(t, "priority"),
				Group:    rapid.SampledFrom([]string{"red", "blue", ""}).Draw(t, "group"),
			}
			var jobs []job.Spec
			for range rapid.IntRange(1, 3).Draw(t, "jobs") {
				jobs = append(jobs, job.Spec{
					Channel:  rapid.SampledFrom(channels).Draw(t, "channel"),
					System:   rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "system"),
					Estimate: time.Duration(rapid.IntRange(1, 3).Draw(t, "estimate")) * time.Minute,
					Gate:     job.Gate{Key: rapid.SampledFrom([]string{"", "", "g"}).Draw(t, "key"), Limit: 2},
				})
			}
			l.submit(b, jobs...)
		}
		l.s.Want("w", 100, 0)
		for {
			l.now = l.now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second)
			want := l.scan()
			got, _, _, ok := l.next()
			switch {
			case ok != (want != nil):
				t.Fatalf("a decision: %t, want %t", ok, want != nil)
			case !ok:
				return
			case got != want:
				t.Fatalf("got job %d, want job %d", got.Seq(), want.Seq())
			}
			l.s.Begin()
		}
	})
}

// scan finds the first of all ready jobs that worker w may run.
func (l *lab) scan() *job.Job {
	w, _ := l.m.Worker("w")
	holders := map[string]int{}
	for _, j := range l.m.Jobs() {
		if _, runs := j.State().(job.Running); runs {
			holders[j.Class().Channel+"/"+j.Gate().Key]++
		}
	}
	var best *job.Job
	for _, j := range l.m.Jobs() {
		_, ready := j.State().(job.Ready)
		full := j.Gate().Key != "" && holders[j.Class().Channel+"/"+j.Gate().Key] >= int(j.Gate().Limit)
		if !ready || full || len(w.Lacks(j.Class())) > 0 {
			continue
		}
		if best == nil || l.first(j, best) {
			best = j
		}
	}
	return best
}

// first is rule 8 as it is written, between two jobs.
func (l *lab) first(a, b *job.Job) bool {
	ca, cb := a.Class().Channel, b.Class().Channel
	aged := func(c string) bool { return l.m.Channel(c).Discipline == job.ByAge }
	use := func(c string) int64 { // of a share
		u, _ := l.m.ChannelUse(c, l.now)
		if aged(c) {
			b, _ := l.m.ChannelUse("b", l.now)
			c, _ := l.m.ChannelUse("c", l.now)
			return b + c
		}
		return 2 * u // the two that go by age have two shares
	}
	switch ua, ub := use(ca), use(cb); {
	case aged(ca) && aged(cb):
		if pa, pb := place(a), place(b); pa != pb {
			return pa < pb
		}
		if ta, tb := l.back[a.ID()], l.back[b.ID()]; ta != tb {
			return ta < tb
		}
		return a.Seq() < b.Seq()
	case ca != cb && ua != ub:
		return ua < ub
	case ca != cb:
		return aged(ca)
	}
	if a.Priority() != b.Priority() {
		return a.Priority() > b.Priority()
	}
	if ua, ub := l.least(a), l.least(b); ua != ub {
		return ua < ub
	}
	if a.Path() != b.Path() {
		return a.Path() > b.Path()
	}
	return a.Seq() < b.Seq()
}

// place is where a job stands among those that go by age: between what was there when it was put back, as its lease was lost, and
// what came after.
func place(j *job.Job) int64 {
	if turn := j.Tally().Turn; turn != 0 {
		return 2*turn + 1
	}
	return 2 * j.Seq()
}

func (l *lab) least(j *job.Job) int64 {
	var uses []int64
	for _, g := range j.Audience().Groups() {
		u, _ := l.m.GroupUse(j.Class().Channel, g, l.now)
		uses = append(uses, u)
	}
	return slices.Min(uses)
}

// Q12, Q29: a job whose urgency changes while it waits is found where it belongs, and no other is touched by it.
func TestQ29ABumpMovesAJobAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.worker(job.Worker{Name: "w", Slots: 10})
	l.submit(job.Build{Priority: 1}, many(500, job.Spec{Name: "other"})...)
	mine := l.submit(job.Build{Priority: 0}, job.Spec{Name: "mine"})
	build := l.m.Builds()[1].Build.ID
	l.do(l.m.Bump(build, 2))
	l.s.Want("w", 2, 0)
	if j, _, _, _ := l.next(); j.ID() != mine[0] {
		t.Errorf("got %s first, want the bumped one", j.Name())
	}
	if j, _, _, _ := l.next(); j.Name() != "other0" {
		t.Errorf("got %s next, want the oldest of the others", j.Name())
	}
}

// A decision over many share groups looks at each once, sorts nothing and allocates no lists: who asks under which limits
// makes no difference. Counted, not timed; BenchmarkNextManyGroups has the time.
func TestDecisionOverManyGroupsSortsNothing(t *testing.T) {
	t.Parallel()
	const groups = 1000
	l := crowded(t, groups, false)
	for i := range groups {
		limits := job.Limits{Timeout: time.Duration(i+1) * time.Minute}
		l.submit(job.Build{Group: "group-0", Limits: limits}, job.Spec{})
	}
	l.s.Begin()
	before := slices.Clone(l.s.look(l.now))
	if len(before) != groups {
		t.Fatalf("looks at %d heads, want %d, one a group", len(before), groups)
	}
	if _, _, ok := l.s.Next(l.now); !ok {
		t.Fatal("no decision")
	}
	moved := 0
	for i, h := range l.s.heads {
		if h.entry != before[i].entry {
			moved++
		}
	}
	if moved > 2 {
		t.Errorf("%d heads changed their places to find the first, want 2", moved)
	}
}

// Where jobs go by age, one that is put back after an attempt goes behind those that wait; one that was handed back does not. Whatever
// channel of that kind they are in, they are one queue.
func TestPutBackGoesBehindWhatWaits(t *testing.T) {
	t.Parallel()
	for _, detail := range []job.Detail{job.LeaseLost, job.HandedBack} {
		l := newLab(t)
		for _, name := range []string{"b", "c"} {
			fifo := job.DefaultChannel(name)
			fifo.Discipline = job.ByAge
			l.do(l.m.SetChannel(fifo))
		}
		l.worker(job.Worker{Name: "w", Channels: []string{job.AnyChannel}, Slots: 10})
		first := l.submit(job.Build{}, job.Spec{Channel: "c"})[0]
		l.s.Want("w", 10, 0)
		j, _, _, _ := l.next()
		waiting := l.submit(job.Build{}, job.Spec{Channel: "b"}, job.Spec{Channel: "c"}, job.Spec{Channel: "b"})
		a := j.Attempt()
		changes, _, err := l.m.Finish(l.at(), job.Report{
			Lease: job.Lease{Job: first, Attempt: a.Number, Token: a.Token}, Outcome: job.Aborted, Detail: detail,
		}, nil)
		l.do(changes, err)
		later := l.submit(job.Build{}, job.Spec{Channel: "b"})
		want := append(append(waiting, first), later...)
		if detail == job.HandedBack {
			want = append(append([]job.ID{first}, waiting...), later...)
		}
		for i, id := range want {
			l.s.Begin()
			if j, _, _, ok := l.next(); !ok || j.ID() != id {
				t.Fatalf("after %s the job in place %d is %v, want %s", detail, i, j, id)
			}
		}
	}
}
