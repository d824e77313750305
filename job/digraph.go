package job

import "container/heap"

// digraph is a small directed graph over places of a submission.
type digraph struct {
	nodes []int   // the places that count
	next  [][]int // by place: what it needs
}

// topological gives the nodes with what they need first, else in their own order; or a cycle, each of whose
// entries needs the next.
func (g *digraph) topological() (order, cycle []int) {
	counts := make([]bool, len(g.next))
	for _, n := range g.nodes {
		counts[n] = true
	}
	missing := make([]int, len(g.next))
	behind := make([][]int, len(g.next))
	var free intHeap
	for _, n := range g.nodes {
		for _, k := range g.next[n] {
			if counts[k] {
				missing[n]++
				behind[k] = append(behind[k], n)
			}
		}
		if missing[n] == 0 {
			free = append(free, n)
		}
	}
	heap.Init(&free)
	for len(free) > 0 {
		n := heap.Pop(&free).(int)
		order = append(order, n)
		for _, k := range behind[n] {
			if missing[k]--; missing[k] == 0 {
				heap.Push(&free, k)
			}
		}
	}
	if len(order) == len(g.nodes) {
		return order, nil
	}
	return nil, g.cycle(counts, missing)
}

// cycle follows unsatisfied needs until a place comes again.
func (g *digraph) cycle(counts []bool, missing []int) []int {
	at := 0
	for _, n := range g.nodes {
		if missing[n] > 0 {
			at = n
			break
		}
	}
	seen := map[int]int{}
	var path []int
	for {
		if start, again := seen[at]; again {
			return path[start:]
		}
		seen[at] = len(path)
		path = append(path, at)
		for _, k := range g.next[at] {
			if counts[k] && missing[k] > 0 {
				at = k
				break
			}
		}
	}
}

// components gives each place the number of its strongly connected component: two places have the same
// number if each needs the other, however indirectly. Tarjan's algorithm, without recursion: graphs are deep.
func (g *digraph) components() []int {
	n := len(g.next)
	index, low, component := make([]int, n), make([]int, n), make([]int, n)
	on := make([]bool, n)
	var stack []int
	count, components := 0, 0
	type frame struct{ at, edge int }
	for _, root := range g.nodes {
		if index[root] != 0 {
			continue
		}
		frames := []frame{{root, 0}}
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			if f.edge == 0 && index[f.at] == 0 {
				count++
				index[f.at], low[f.at] = count, count
				stack = append(stack, f.at)
				on[f.at] = true
			}
			if f.edge < len(g.next[f.at]) {
				k := g.next[f.at][f.edge]
				f.edge++
				if index[k] == 0 {
					frames = append(frames, frame{k, 0})
				} else if on[k] {
					low[f.at] = min(low[f.at], index[k])
				}
				continue
			}
			at := f.at
			frames = frames[:len(frames)-1]
			if low[at] == index[at] {
				components++
				for {
					k := stack[len(stack)-1]
					stack = stack[:len(stack)-1]
					on[k] = false
					component[k] = components
					if k == at {
						break
					}
				}
			}
			if len(frames) > 0 {
				up := frames[len(frames)-1].at
				low[up] = min(low[up], low[at])
			}
		}
	}
	return component
}

type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(a, b int) bool { return h[a] < h[b] }
func (h intHeap) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }

// Push is for container/heap.
func (h *intHeap) Push(x any) { *h = append(*h, x.(int)) }

// Pop is for container/heap.
func (h *intHeap) Pop() any {
	old := *h
	n := old[len(old)-1]
	*h = old[:len(old)-1]
	return n
}
