package main

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/sched"
)

func trailing(w uint64) int { return bits.TrailingZeros64(w) }

// order is a way to sort the jobs that are ready.
type order string

const (
	firstCome order = "first come, first served"
	byWeight  order = "priority only" // how many packages need it directly, then age
	byPath    order = "longest path first"
)

// makespans builds a distribution in virtual time, by the machine and the scheduler of the engine themselves.
func makespans(_ context.Context, l *lab) (section, error) {
	tasks, err := readGraph(l.graph, l.tasks)
	if err != nil {
		return section{}, err
	}
	if len(tasks) == 0 {
		return section{}, errors.New("the graph is empty")
	}
	known := make([]time.Duration, len(tasks))
	var all time.Duration
	for i, t := range tasks {
		known[i] = t.took
		all += t.took
	}
	s := section{
		title: "Makespan of a distribution",
		note: fmt.Sprintf("%d packages of Debian bookworm with what each needs (bench/data), %s of work by durations made from their sizes. In virtual time, by job.Machine and sched.Scheduler, on workers of four slots. "+
			"The bound is the greatest, over all packages, of the earliest end plus the work of all that needs it divided by the slots. "+
			"With an error the engine's estimates are off by up to 50 %% either way; the bound is that of the true durations. Priority only: how many packages need it directly, else age.",
			len(tasks), all.Round(time.Hour)),
	}
	// Estimates are what the engine is told; what it takes may be another thing.
	random := rand.New(rand.NewPCG(1, 2))
	off := make([]time.Duration, len(tasks))
	for i := range off {
		off[i] = time.Duration(float64(known[i]) * (0.5 + random.Float64())).Truncate(time.Microsecond)
	}
	for _, truth := range []struct {
		name string
		took []time.Duration
	}{{"known", known}, {"50 % error", off}} {
		for _, slots := range l.farm {
			least := bound(tasks, truth.took, slots)
			for _, o := range []order{firstCome, byWeight, byPath} {
				span, err := makespan(tasks, known, truth.took, slots, o)
				if err != nil {
					return s, err
				}
				over := float64(span)/float64(least) - 1
				row := figure{
					what:  fmt.Sprintf("%d slots, durations %s, %s", slots, truth.name, o),
					value: fmt.Sprintf("%s, %.1f %% over the bound of %s", span.Round(time.Minute), 100*over, least.Round(time.Minute)),
				}
				if o == byPath && slots <= 64 {
					row.bar, row.met = "3 %", over <= 0.03
				}
				s.rows = append(s.rows, row)
			}
		}
	}
	return s, nil
}

// ending is an attempt that will end.
type ending struct {
	at     job.Time
	lease  job.Lease
	worker string
}

// endings is a heap of attempts by the time of their end.
type endings []ending

func (e endings) Len() int           { return len(e) }
func (e endings) Less(a, b int) bool { return e[a].at < e[b].at }
func (e endings) Swap(a, b int)      { e[a], e[b] = e[b], e[a] }

// Push is for container/heap.
func (e *endings) Push(x any) { *e = append(*e, x.(ending)) }

// Pop is for container/heap.
func (e *endings) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// farmed is an engine without a store, in virtual time.
type farmed struct {
	m     *job.Machine
	s     *sched.Scheduler
	at    job.Moment
	slots map[string]int // that are free, by worker
	runs  endings
}

// makespan builds all tasks, and gives how long that took.
func makespan(tasks []task, estimates, took []time.Duration, slots int, o order) (time.Duration, error) {
	began := job.At(time.Unix(1_700_000_000, 0))
	f := &farmed{m: job.New(began), at: job.Moment{Now: began, Random: rand.NewPCG(1, 1)}, slots: map[string]int{}}
	f.m.Loaded(began)
	f.s = sched.New(f.m)
	if err := f.hire(slots, o); err != nil {
		return 0, err
	}
	if err := f.submit(tasks, estimates, o); err != nil {
		return 0, err
	}
	for {
		if err := f.assign(took); err != nil {
			return 0, err
		}
		if len(f.runs) == 0 {
			break
		}
		next := heap.Pop(&f.runs).(ending)
		f.at.Now = next.at
		f.free(next.worker, 1)
		changes, _, err := f.m.Finish(f.at, job.Report{Lease: next.lease, Outcome: job.Succeeded}, nil)
		if err := f.apply(changes, err); err != nil {
			return 0, err
		}
	}
	if left := f.m.Len(); left > 0 {
		return 0, fmt.Errorf("%d packages are left", left)
	}
	return f.at.Now.Sub(began), nil
}

func (f *farmed) apply(changes []job.Change, err error) error {
	if err != nil {
		return err
	}
	for _, c := range changes {
		if err := f.m.Apply(c); err != nil {
			return err
		}
	}
	return settle(f.m, f.s, f.at)
}

// hire has workers of four slots wait.
func (f *farmed) hire(slots int, o order) error {
	c := job.DefaultChannel("")
	c.TTL = 365 * 24 * time.Hour // nobody beats here
	if o == firstCome {
		c.Discipline = job.ByAge
	}
	if err := f.apply(f.m.SetChannel(c)); err != nil {
		return err
	}
	const each = 4
	for n := range (slots + each - 1) / each {
		w := job.Worker{
			Name: fmt.Sprintf("w%03d", n), Channels: []string{""}, Kinds: []string{noop}, Systems: []string{"linux"},
			Slots: int32(min(each, slots-n*each)), Session: idOf(uint64(n) + 1),
		}
		if err := f.apply(f.m.Register(f.at, w, nil)); err != nil {
			return err
		}
		f.free(w.Name, int(w.Slots))
	}
	return nil
}

// free has a worker wait for so many jobs more.
func (f *farmed) free(name string, n int) {
	f.slots[name] += n
	f.s.Want(name, f.slots[name], 0)
}

// submit asks for all tasks as one build.
func (f *farmed) submit(tasks []task, estimates []time.Duration, o order) error {
	sub := job.Submission{Build: &job.Build{ID: idOf(1), Name: "bookworm"}}
	wanted := ranks(tasks)
	for i, t := range tasks {
		spec := job.Spec{ID: idOf(uint64(i) + 1000), Name: t.name, Key: t.name, Kind: noop, System: "linux", Estimate: estimates[i]}
		for _, n := range t.needs {
			spec.Needs = append(spec.Needs, job.Need{Job: idOf(uint64(n) + 1000)})
		}
		ref := job.Ref{Job: spec.ID}
		if o == byWeight {
			ref.Priority = wanted[i]
		}
		sub.Jobs, sub.Refs = append(sub.Jobs, spec), append(sub.Refs, ref)
	}
	changes, _, err := f.m.Submit(f.at.Now, &sub, nil)
	return f.apply(changes, err)
}

// ranks gives each task a priority of its own: the more tasks need it directly the higher, and the older of two.
func ranks(tasks []task) []int32 {
	needed := make([]int, len(tasks))
	for _, t := range tasks {
		for _, n := range t.needs {
			needed[n]++
		}
	}
	sorted := make([]int, len(tasks))
	for i := range sorted {
		sorted[i] = i
	}
	slices.SortStableFunc(sorted, func(a, b int) int { return needed[b] - needed[a] })
	ranks := make([]int32, len(tasks))
	for place, i := range sorted {
		ranks[i] = int32(len(tasks) - place)
	}
	return ranks
}

// assign starts what can start.
func (f *farmed) assign(took []time.Duration) error {
	f.s.Begin()
	for {
		j, name, ok := f.s.Next(f.at.Now)
		if !ok {
			return nil
		}
		token := job.Token(j.ID())
		if err := f.apply(f.m.Start(f.at, j.ID(), name, token)); err != nil {
			return err
		}
		f.free(name, -1)
		place := numberOf(j.ID()) - 1000
		heap.Push(&f.runs, ending{f.at.Now.Add(took[place]), job.Lease{Job: j.ID(), Attempt: 1, Token: token}, name})
	}
}
