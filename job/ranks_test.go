package job

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A chain of jobs that grows at its end, as when each is asked for once the one before is: each costs a bounded number of
// steps, however long the chain is, and what it adds to the path reaches the oldest job in the end, and not too late before. The
// same goes for priorities, if each job is more urgent than the one before.
func TestChainThatGrowsCostsABoundedNumberOfSteps(t *testing.T) {
	t.Parallel()
	t.Run("as urgent", func(t *testing.T) { growChain(t, 0) })
	t.Run("more urgent", func(t *testing.T) { growChain(t, 1) })
}

// growChain makes each job by so much more urgent than the one before.
func growChain(t *testing.T, rise int32) {
	t.Parallel()
	const length = 20 * rankSteps
	l := newLab(t)
	l.lazy = true
	var chain []*Job
	told := make([]offer, 0, length)
	last := Spec{}
	for n := range length {
		next := l.spec("j")
		if n > 0 {
			next.Needs = []Need{{Job: last.ID}}
		}
		last = next
		if _, err := l.submit(Build{Priority: rise * int32(n)}, []Spec{next}); err != nil {
			t.Fatal(err)
		}
		chain, told = append(chain, l.m.jobs[next.ID]), append(told, offer{})
		steps := 0
		for i, j := range chain {
			if j.out != told[i] {
				steps++
			}
			told[i] = j.out
		}
		// The new job and the one before are new to each other; the rest is a sweep.
		if steps > rankSteps+2 {
			t.Fatalf("job %d changed what %d jobs offer", n, steps)
		}
		// Two sweeps ago all that was there then has been passed on.
		sweep := n/rankSteps + 2
		if least := DefaultEstimate * time.Duration(n+1-2*sweep); chain[0].Path() < least {
			t.Fatalf("when job %d came, the oldest had the path %s, want at least %s", n, chain[0].Path(), least)
		}
		if least := rise * int32(n+1-2*sweep); chain[0].Priority() < least {
			t.Fatalf("when job %d came, the oldest had priority %d, want at least %d", n, chain[0].Priority(), least)
		}
	}
	rounds := 0
	for ; l.m.Behind(); rounds++ {
		l.must(nil, nil)
	}
	if rounds > 2*length/rankSteps+2 {
		t.Errorf("%d rounds until all is passed on", rounds)
	}
	for i, j := range chain {
		if want := DefaultEstimate * time.Duration(length-i); j.Path() != want {
			t.Fatalf("job %d has the path %s, want %s", i, j.Path(), want)
		}
		if want := rise * (length - 1); j.Priority() != want {
			t.Fatalf("job %d has priority %d, want %d", i, j.Priority(), want)
		}
	}
	l.check()
}

// Whatever happens while paths are passed on step by step, in the end each job's rank is as one look at all says.
func TestPathsComeRightWhateverHappensMeanwhile(t *testing.T) {
	t.Parallel()
	late := 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		data := make([]byte, 1500)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		p := &player{lab: newLab(t), data: data}
		p.m.ranks.steps = 1
		for _, n := range []string{"w0", "w1", "w2"} {
			p.worker(n, 2)
		}
		for len(p.data) > 0 && !t.Failed() {
			p.lazy = true
			for range 1 + p.pick(20) {
				p.command()
			}
			late += p.m.ranks.len()
			p.lazy = false
			p.must(nil, nil)
			p.check()
			if err := p.checked(); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if late == 0 {
		t.Error("no path was ever late")
	}
}

// The end of a long chain is cancelled, while what it had added is still being passed on: the paths become shorter again.
func TestPathsOfAChainThatIsCut(t *testing.T) {
	t.Parallel()
	const length = 4 * rankSteps
	for _, rounds := range []int{0, 1, 3, 100} { // between the two
		l := newLab(t)
		kept := make([]Spec, length)
		for i := range kept {
			kept[i] = l.spec("kept")
			if i > 0 {
				kept[i].Needs = []Need{{Job: kept[i-1].ID}}
			}
		}
		if _, err := l.submit(Build{}, kept, Ref{Job: kept[length-1].ID}); err != nil {
			t.Fatal(err)
		}
		l.lazy = true
		tail := Build{ID: l.id()}
		end := l.spec("cut", Need{Job: kept[length-1].ID})
		end.Estimate = time.Hour
		if _, err := l.submit(tail, []Spec{end}); err != nil {
			t.Fatal(err)
		}
		for range rounds {
			l.must(nil, nil)
		}
		l.must(l.m.CancelBuild(l.now, tail.ID, false))
		l.lazy = false
		l.must(nil, nil)
		l.check()
		if err := l.checked(); err != nil {
			t.Error(err)
		}
		for i, s := range kept {
			if got, want := l.m.jobs[s.ID].Path(), DefaultEstimate*time.Duration(length-i); got != want {
				t.Fatalf("after %d rounds, job %d has the path %s, want %s", rounds, i, got, want)
			}
		}
	}
}
