package graph

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
)

// unknownEstimate is what a job without an estimate counts as.
const unknownEstimate = time.Second

// Plan is a forecast of a run. Times count from its start.
type Plan struct {
	// Steps holds one step a job, in the order in which they start.
	Steps []Step
	// Critical is the longest path, as indexes into Graph.Jobs: no number of slots makes the run shorter.
	Critical []int
	// Width is the greatest number of jobs that run at once when slots do not bound them.
	Width int
	// Work is the sum of all estimates, Makespan the end of the last job.
	Work, Makespan time.Duration
}

// Step is the forecast of one job, an index into Graph.Jobs.
type Step struct {
	Job           int
	Start, Finish time.Duration
}

// Plan forecasts a run on a machine with slots, where 0 or less means no bound: whenever a slot is free it
// starts the job with the greatest priority, then the one with the longest remaining path, as package sched does. A job
// is as urgent as the most urgent of its dependents, and its path leads through all of them, those with an order need
// included, even where they happen to end before it starts. An exclusive job runs alone; while it waits for that, only
// what has a greater priority is started, however long the paths of the others are. It takes O((n+e) log n).
//
// The estimate of a job that is 0 or less means unknown and counts as one second; a nil function means
// that all are. Estimates so long that their sum would not fit a time.Duration are cut.
//
// wait tells how long after the start of the run a job has to wait in any case, as for its back-off; a nil function means that none
// has to. Critical, Width and Work take no notice.
func (g *Graph) Plan(slots int, estimate, wait func(i int) time.Duration) Plan {
	if len(g.Jobs) == 0 {
		return Plan{}
	}
	const longest = math.MaxInt64 / 2 // of all estimates, and of a wait
	p := planner{g: g, estimates: make([]time.Duration, len(g.Jobs)), wait: wait}
	if wait == nil {
		p.wait = func(int) time.Duration { return 0 }
	}
	var plan Plan
	for i := range p.estimates {
		e := unknownEstimate
		if estimate != nil {
			if given := estimate(i); given > 0 {
				e = min(given, longest/time.Duration(len(g.Jobs)))
			}
		}
		p.estimates[i] = e
		plan.Work += e
	}
	p.start, p.list = g.dependents()
	p.rank()
	plan.Critical = p.critical()
	plan.Width = p.width()
	if slots <= 0 {
		slots = len(g.Jobs)
	}
	plan.Steps = p.run(slots)
	for _, s := range plan.Steps {
		plan.Makespan = max(plan.Makespan, s.Finish)
	}
	return plan
}

// planner holds what the parts of Plan share; slices are by the index of a job.
type planner struct {
	g         *Graph
	estimates []time.Duration
	wait      func(i int) time.Duration
	// start and list are what Graph.dependents gives.
	start, list []int32
	// remaining is the length of the longest path from the start of a job to the end of the run.
	remaining []time.Duration
	// priority and path are what ready jobs are sorted by: path is like remaining, but counts order needs, too.
	priority []int
	path     []time.Duration
	// turn decides between equals: the place in an order that keeps order needs too, where they are in
	// no cycle.
	turn []int32
}

func (p *planner) dependents(i int) []int32 { return p.list[p.start[i]:p.start[i+1]] }

// rank finds remaining, priority, path and turn.
func (p *planner) rank() {
	n := len(p.g.Jobs)
	p.remaining, p.path, p.priority, p.turn = make([]time.Duration, n), make([]time.Duration, n), make([]int, n), make([]int32, n)
	for i := n - 1; i >= 0; i-- {
		for _, dependent := range p.dependents(i) {
			p.remaining[i] = max(p.remaining[i], p.remaining[dependent])
		}
		p.remaining[i] += p.estimates[i]
		p.priority[i] = p.g.Jobs[i].Priority
	}
	order, sorted := p.withOrder()
	for turn, i := range order {
		p.turn[i] = int32(turn)
	}
	for k := len(order) - 1; k >= 0; k-- {
		i := order[k]
		p.path[i] += p.estimates[i] // Until now it is the longest of its dependents'.
		for _, need := range p.g.Jobs[i].Needs {
			if need.waits() || sorted[i] && sorted[need.Job] {
				p.path[need.Job] = max(p.path[need.Job], p.path[i])
				p.priority[need.Job] = max(p.priority[need.Job], p.priority[i])
			}
		}
	}
}

// withOrder sorts over all needs; sorted tells which jobs are in no cycle and behind none. The others
// follow in their own order.
func (p *planner) withOrder() (order []int32, sorted []bool) {
	n := len(p.g.Jobs)
	waits, dependents := make([]int32, n), make([][]int32, n)
	for i := range p.g.Jobs {
		for _, need := range p.g.Jobs[i].Needs {
			if need.Policy == job.Order {
				dependents[need.Job] = append(dependents[need.Job], int32(i))
			}
		}
		waits[i] = int32(len(p.g.Jobs[i].Needs))
	}
	var ready intHeap
	for i, w := range waits {
		if w == 0 {
			ready = append(ready, int32(i))
		}
	}
	sorted = make([]bool, n)
	for len(ready) > 0 {
		i := heap.Pop(&ready).(int32)
		order, sorted[i] = append(order, i), true
		for _, all := range [][]int32{p.dependents(int(i)), dependents[i]} {
			for _, dependent := range all {
				if waits[dependent]--; waits[dependent] == 0 {
					heap.Push(&ready, dependent)
				}
			}
		}
	}
	for i := range n {
		if !sorted[i] {
			order = append(order, int32(i))
		}
	}
	return order, sorted
}

// critical follows the longest remaining path from the job where it begins.
func (p *planner) critical() []int {
	at := 0
	for i := range p.g.Jobs {
		if p.remaining[i] > p.remaining[at] {
			at = i
		}
	}
	path := []int{at}
	for {
		next := -1
		for _, dependent := range p.dependents(at) {
			if next < 0 || p.remaining[dependent] > p.remaining[next] {
				next = int(dependent)
			}
		}
		if next < 0 {
			return path
		}
		path, at = append(path, next), next
	}
}

// width counts the jobs that run at once when each starts as soon as its needs have ended.
func (p *planner) width() int {
	type change struct {
		at time.Duration
		by int
	}
	n := len(p.g.Jobs)
	finish := make([]time.Duration, n)
	changes := make([]change, 0, 2*n)
	for i := range p.g.Jobs {
		var start time.Duration
		for _, need := range p.g.Jobs[i].Needs {
			if need.waits() {
				start = max(start, finish[need.Job])
			}
		}
		finish[i] = start + p.estimates[i]
		changes = append(changes, change{start, 1}, change{finish[i], -1})
	}
	// At one time, ends come before starts.
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	running, width := 0, 0
	for _, c := range changes {
		running += c.by
		width = max(width, running)
	}
	return width
}

// run plays the run.
func (p *planner) run(slots int) []Step {
	n := len(p.g.Jobs)
	steps := make([]Step, 0, n)
	waits := make([]int32, n)
	for _, dependent := range p.list {
		waits[dependent]++
	}
	ready := &readyHeap{p: p}
	var running, waiting finishHeap // waiting ends when its job is ready
	var now time.Duration
	release := func(i int32) {
		if until := min(p.wait(int(i)), math.MaxInt64/2); until > now {
			heap.Push(&waiting, Step{Job: int(i), Finish: until})
		} else {
			heap.Push(ready, i)
		}
	}
	for i, w := range waits {
		if w == 0 {
			release(int32(i))
		}
	}
	alone := false
	for len(steps) < n || len(running) > 0 {
		for len(ready.jobs) > 0 && len(running) < slots && !alone {
			exclusive := p.g.Jobs[ready.jobs[0]].Exclusive
			if exclusive && len(running) > 0 {
				break // It is next; nothing overtakes it.
			}
			i := int(heap.Pop(ready).(int32))
			step := Step{Job: i, Start: now, Finish: now + p.estimates[i]}
			steps = append(steps, step)
			heap.Push(&running, step)
			alone = exclusive
		}
		now = math.MaxInt64
		for _, next := range []finishHeap{running, waiting} {
			if len(next) > 0 {
				now = min(now, next[0].Finish)
			}
		}
		// All that end at one time release their dependents before the next choice.
		for len(running) > 0 && running[0].Finish == now {
			ended := heap.Pop(&running).(Step)
			alone = false
			for _, dependent := range p.dependents(ended.Job) {
				if waits[dependent]--; waits[dependent] == 0 {
					release(dependent)
				}
			}
		}
		for len(waiting) > 0 && waiting[0].Finish == now {
			heap.Push(ready, int32(heap.Pop(&waiting).(Step).Job))
		}
	}
	return steps
}

// readyHeap has the job to start next on top.
type readyHeap struct {
	p    *planner
	jobs []int32
}

func (h *readyHeap) Len() int      { return len(h.jobs) }
func (h *readyHeap) Swap(a, b int) { h.jobs[a], h.jobs[b] = h.jobs[b], h.jobs[a] }
func (h *readyHeap) Push(x any)    { h.jobs = append(h.jobs, x.(int32)) }
func (h *readyHeap) Less(a, b int) bool {
	i, k := h.jobs[a], h.jobs[b]
	if a, b := h.p.priority[i], h.p.priority[k]; a != b {
		return a > b
	}
	if a, b := h.p.g.Jobs[i].Exclusive, h.p.g.Jobs[k].Exclusive; a != b {
		return a
	}
	return cmp.Or(cmp.Compare(h.p.path[k], h.p.path[i]), cmp.Compare(h.p.turn[i], h.p.turn[k])) < 0
}

func (h *readyHeap) Pop() any {
	last := len(h.jobs) - 1
	x := h.jobs[last]
	h.jobs = h.jobs[:last]
	return x
}

// finishHeap has the step that ends next on top.
type finishHeap []Step

func (h finishHeap) Len() int      { return len(h) }
func (h finishHeap) Swap(a, b int) { h[a], h[b] = h[b], h[a] }
func (h *finishHeap) Push(x any)   { *h = append(*h, x.(Step)) }
func (h finishHeap) Less(a, b int) bool {
	return cmp.Or(cmp.Compare(h[a].Finish, h[b].Finish), cmp.Compare(h[a].Job, h[b].Job)) < 0
}

func (h *finishHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
