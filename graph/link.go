package graph

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"github.com/headrace/headrace/job"
)

// link makes the graph of what was read: it looks up the needs, refuses cycles and sorts.
func link(d *decoder) (*Graph, error) {
	d.collect()
	d.expand()
	if err := d.err(); err != nil && d.full() {
		return nil, err
	}
	d.findNeeds()
	d.spans, d.needs, d.drafts = nil, nil, nil
	if len(d.list) == 0 {
		d.checkKeys()
	}
	g := &Graph{Name: d.title, Jobs: d.jobs}
	order := g.order()
	if len(order) < len(g.Jobs) {
		d.reportCycles(g, order)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	g.rearrange(order)
	return g, nil
}

// findNeeds turns the names in needs into indexes.
func (d *decoder) findNeeds() {
	var found []Need
	edges := 0
	for i := range d.jobs {
		j := &d.jobs[i]
		found = found[:0]
		for _, n := range d.needs[d.drafts[i].needsFrom:d.drafts[i].needsTo] {
			at, ok := d.spans[n.name]
			if !ok {
				d.add(n.at, "no job is named %s%s", quote(n.name), suggest(n.name, d.allNames, ""))
				continue
			}
			if len(found)+int(at.count) > d.lim.Needs {
				d.add(n.at, "needs: more than %d jobs", d.lim.Needs)
				break
			}
			for k := range at.count {
				need := Need{Job: int(at.first + k), Policy: job.Policy(n.policy)}
				if need.Job != i || need.waits() {
					found = append(found, need)
				}
			}
		}
		found = strictest(found)
		if edges += len(found); edges > d.lim.Edges {
			d.add(placeOf(j), "needs: more than %d in all", d.lim.Edges)
		}
		if d.full() || edges > d.lim.Edges {
			return
		}
		if len(found) > 0 {
			j.Needs = slices.Clone(found)
		}
	}
}

// strictest sorts needs by job and keeps of each job the need with the strictest policy: success, then
// finish, then order, as they are numbered.
func strictest(needs []Need) []Need {
	slices.SortFunc(needs, func(a, b Need) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Policy, b.Policy))
	})
	return slices.CompactFunc(needs, func(a, b Need) bool { return a.Job == b.Job })
}

// allNames lists what a need can name.
func (d *decoder) allNames(yield func(string) bool) {
	for i := range d.jobs {
		j := &d.jobs[i]
		if j.Base != j.Name && (i == 0 || d.jobs[i-1].Base != j.Base) && !yield(j.Base) {
			return
		}
		if !yield(j.Name) {
			return
		}
	}
}

// checkKeys refuses two jobs with the same key: they would be one.
func (d *decoder) checkKeys() {
	seen := make(map[string]int)
	for i := range d.jobs {
		j := &d.jobs[i]
		if j.Key == "" {
			continue
		}
		first, twice := seen[j.Key]
		switch {
		case !twice:
			seen[j.Key] = i
		case d.jobs[first].Base == j.Base:
			d.add(placeOf(j), "key %s is the same for two variants of job %s: use a matrix variable in it",
				quote(j.Key), quote(j.Base))
		default:
			d.add(placeOf(j), "key %s of job %s is that of job %s too", quote(j.Key), quote(j.Name),
				quote(d.jobs[first].Name))
		}
	}
}

// dependents lists, for each job, the jobs that wait for it: those of job i are
// list[start[i]:start[i+1]].
func (g *Graph) dependents() (start, list []int32) {
	start = make([]int32, len(g.Jobs)+1)
	total := 0
	for i := range g.Jobs {
		for _, n := range g.Jobs[i].Needs {
			if n.waits() {
				start[n.Job+1]++
				total++
			}
		}
	}
	for i := range g.Jobs {
		start[i+1] += start[i]
	}
	list = make([]int32, total)
	next := slices.Clone(start)
	for i := range g.Jobs {
		for _, n := range g.Jobs[i].Needs {
			if n.waits() {
				list[next[n.Job]] = int32(i)
				next[n.Job]++
			}
		}
	}
	return start, list
}

// order gives the jobs in topological order, the earliest in the file first where there is a choice.
// Jobs in cycles, and all that wait for them, are left out.
func (g *Graph) order() []int32 {
	start, list := g.dependents()
	waits := make([]int32, len(g.Jobs))
	for _, dependent := range list {
		waits[dependent]++
	}
	var ready intHeap
	for i, n := range waits {
		if n == 0 {
			ready = append(ready, int32(i)) // In ascending order, so it is a heap.
		}
	}
	order := make([]int32, 0, len(g.Jobs))
	for len(ready) > 0 {
		i := heap.Pop(&ready).(int32)
		order = append(order, i)
		for _, dependent := range list[start[i]:start[i+1]] {
			if waits[dependent]--; waits[dependent] == 0 {
				heap.Push(&ready, dependent)
			}
		}
	}
	return order
}

// intHeap is a heap with the least number on top.
type intHeap []int32

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(a, b int) bool { return h[a] < h[b] }
func (h intHeap) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }
func (h *intHeap) Push(x any)        { *h = append(*h, x.(int32)) }
func (h *intHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// reportCycles names the jobs of each cycle among those that order left out. From any of them a walk
// along needs that are left out too never ends, so it comes to a cycle.
func (d *decoder) reportCycles(g *Graph, order []int32) {
	const done = -1
	walk := make([]int32, len(g.Jobs)) // 0: not seen; done: sorted or walked before; else the step.
	for _, i := range order {
		walk[i] = done
	}
	for i := range g.Jobs {
		if walk[i] != 0 || d.full() {
			continue
		}
		var path []int32
		at := int32(i)
		for walk[at] == 0 {
			path = append(path, at)
			walk[at] = int32(len(path))
			for _, n := range g.Jobs[at].Needs {
				if n.waits() && walk[n.Job] != done {
					at = int32(n.Job)
					break
				}
			}
			if at == path[len(path)-1] {
				break // It needs itself, or all its needs were walked before.
			}
		}
		if walk[at] > 0 && g.needsJob(path[len(path)-1], at) {
			d.cycle(g, path[walk[at]-1:])
		}
		for _, p := range path {
			walk[p] = done
		}
	}
}

func (g *Graph) needsJob(dependent, needed int32) bool {
	return slices.ContainsFunc(g.Jobs[dependent].Needs, func(n Need) bool { return n.Job == int(needed) && n.waits() })
}

// cycle reports one cycle, beginning with its first job in the file.
func (d *decoder) cycle(g *Graph, jobs []int32) {
	first := slices.Index(jobs, slices.Min(jobs))
	jobs = slices.Concat(jobs[first:], jobs[:first])
	const most = 30
	var b strings.Builder
	for i, j := range jobs {
		if i == most {
			b.WriteString("... needs ")
			break
		}
		b.WriteString(g.Jobs[j].Name + " needs ")
	}
	if len(jobs) > most {
		d.add(placeOf(&g.Jobs[jobs[0]]), "cycle of %d jobs: %s%s", len(jobs), b.String(), g.Jobs[jobs[0]].Name)
		return
	}
	d.add(placeOf(&g.Jobs[jobs[0]]), "cycle: %s%s", b.String(), g.Jobs[jobs[0]].Name)
}

// rearrange puts the jobs in the order given and renumbers the needs.
func (g *Graph) rearrange(order []int32) {
	if slices.IsSorted(order) {
		return
	}
	place := make([]int32, len(order))
	for to, from := range order {
		place[from] = int32(to)
	}
	// In place, by swaps along each cycle of the permutation: a second list of jobs would double the
	// memory of a large graph.
	for i := range order {
		for from := order[i]; from != int32(i); from = order[i] {
			next := int32(i)
			for order[next] != int32(i) {
				g.Jobs[next], g.Jobs[order[next]] = g.Jobs[order[next]], g.Jobs[next]
				next, order[next] = order[next], next
			}
			order[next] = next
		}
	}
	for i := range g.Jobs {
		needs := g.Jobs[i].Needs
		for k := range needs {
			needs[k].Job = int(place[needs[k].Job])
		}
		slices.SortFunc(needs, func(a, b Need) int { return cmp.Compare(a.Job, b.Job) })
	}
}
