package job

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawGraph gives a graph of up to nine places, not all of which count.
func drawGraph(t *rapid.T) *digraph {
	n := rapid.IntRange(0, 9).Draw(t, "places")
	g := &digraph{next: make([][]int, n)}
	for i := range n {
		if rapid.IntRange(0, 4).Draw(t, "counts") > 0 {
			g.nodes = append(g.nodes, i)
		}
	}
	for _, i := range g.nodes {
		g.next[i] = rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 3).Draw(t, "needs")
	}
	return g
}

// reach tells which counting places each one needs, however indirectly: Warshall's way.
func (g *digraph) reach() [][]bool {
	n := len(g.next)
	to := make([][]bool, n)
	for i := range to {
		to[i] = make([]bool, n)
	}
	for _, i := range g.nodes {
		for _, k := range g.next[i] {
			to[i][k] = to[i][k] || slices.Contains(g.nodes, k)
		}
	}
	for k := range n {
		for i := range n {
			for j := range n {
				to[i][j] = to[i][j] || to[i][k] && to[k][j]
			}
		}
	}
	return to
}

func TestTopologicalOrderAgainstAScan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		to := g.reach()
		cyclic := slices.ContainsFunc(g.nodes, func(i int) bool { return to[i][i] })
		order, cycle := g.topological()
		if (cycle != nil) != cyclic {
			t.Fatalf("cycle %v, want one: %t", cycle, cyclic)
		}
		for i, at := range cycle {
			if next := cycle[(i+1)%len(cycle)]; !slices.Contains(g.next[at], next) {
				t.Fatalf("cycle %v: %d does not need %d", cycle, at, next)
			}
		}
		if cyclic {
			return
		}
		if want := g.dumbOrder(to); !slices.Equal(order, want) {
			t.Fatalf("order %v, want %v", order, want)
		}
	})
}

// dumbOrder takes, again and again, the first place all of whose needs are taken.
func (g *digraph) dumbOrder(to [][]bool) []int {
	var order []int
	for len(order) < len(g.nodes) {
		for _, i := range g.nodes {
			ready := !slices.Contains(order, i)
			for _, k := range g.nodes {
				ready = ready && (!to[i][k] || slices.Contains(order, k))
			}
			if ready {
				order = append(order, i)
				break
			}
		}
	}
	return order
}

func TestComponentsAgainstAScan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		for i := range g.next { // components counts all that is needed
			if !slices.Contains(g.nodes, i) {
				g.nodes = append(g.nodes, i)
			}
		}
		to, ring := g.reach(), g.components()
		for _, i := range g.nodes {
			for _, k := range g.nodes {
				if together := i == k || to[i][k] && to[k][i]; (ring[i] == ring[k]) != together {
					t.Fatalf("%d and %d in rings %d and %d, want together: %t", i, k, ring[i], ring[k], together)
				}
			}
		}
	})
}

func TestDeepGraphsNeedNoDeepStack(t *testing.T) {
	t.Parallel()
	const depth = 300_000
	g := digraph{next: make([][]int, depth)}
	for i := range depth {
		g.nodes = append(g.nodes, i)
		if i > 0 {
			g.next[i] = []int{i - 1}
		}
	}
	if order, cycle := g.topological(); cycle != nil || order[depth-1] != depth-1 {
		t.Error("a chain is not put in order")
	}
	if ring := g.components(); ring[0] == ring[depth-1] {
		t.Error("the ends of a chain are in one ring")
	}
	g.next[0] = []int{depth - 1}
	if ring := g.components(); ring[0] != ring[depth/2] {
		t.Error("a ring is not found")
	}
}
