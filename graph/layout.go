package graph

import (
	"cmp"
	"slices"
)

// layout places the jobs of a graph in columns, one for each rank, so that edges go from left to right.
// A long edge gets a bend in each column that it passes, which takes room as a job does, so that it goes
// between the jobs and not behind them.
type layout struct {
	points  []point
	columns [][]int
	// edges are drawn through the points given, from the needed job to the dependent.
	edges []route
	// bottom is the greatest y of a point.
	bottom float64
}

// point is a job (its index is that of the job) or a bend.
type point struct {
	column int
	bend   bool
	y      float64
	// left and right are neighbours in the columns beside.
	left, right []int
}

// route is an edge with the points that it passes.
type route struct {
	from, to int
	need     Need
	points   []int
}

const (
	// maxBends bounds the bends of a picture; the longest edges go straight if they would need more.
	maxBends = 20_000
	// sweeps is how often columns are put in order from each side.
	sweeps = 6
)

func (g *Graph) layout() *layout {
	l := &layout{points: make([]point, len(g.Jobs))}
	columns := 0
	for i := range g.Jobs {
		for _, n := range g.Jobs[i].Needs {
			if n.waits() {
				l.points[i].column = max(l.points[i].column, l.points[n.Job].column+1)
			}
			l.edges = append(l.edges, route{from: n.Job, to: i, need: n})
		}
		columns = max(columns, l.points[i].column+1)
	}
	l.columns = make([][]int, columns)
	l.bend()
	for i, p := range l.points {
		l.columns[p.column] = append(l.columns[p.column], i)
	}
	l.sort()
	l.settle()
	return l
}

// bend adds the bends, for the shortest edges first.
func (l *layout) bend() {
	span := func(e route) int { return l.points[e.to].column - l.points[e.from].column }
	slices.SortStableFunc(l.edges, func(a, b route) int { return cmp.Compare(span(a), span(b)) })
	bends := 0
	for k := range l.edges {
		e := &l.edges[k]
		long := span(*e)
		e.points = []int{e.from}
		if long < 1 || bends+long-1 > maxBends {
			e.points = append(e.points, e.to) // An order edge that goes back, or up and down.
			continue
		}
		for c := 1; c < long; c++ {
			l.points = append(l.points, point{column: l.points[e.from].column + c, bend: true})
			e.points = append(e.points, len(l.points)-1)
		}
		bends += long - 1
		e.points = append(e.points, e.to)
		for i, p := range e.points[1:] {
			before := e.points[i]
			l.points[before].right = append(l.points[before].right, p)
			l.points[p].left = append(l.points[p].left, before)
		}
	}
}

// sort puts each column in the order of the mean places of its neighbours, sweeping to and fro.
func (l *layout) sort() {
	place := make([]float64, len(l.points))
	for _, column := range l.columns {
		for k, p := range column {
			place[p] = float64(k)
		}
	}
	mean := make([]float64, len(l.points))
	for sweep := range 2 * sweeps {
		for c := range l.columns {
			if sweep%2 == 1 {
				c = len(l.columns) - 1 - c
			}
			column := l.columns[c]
			for _, p := range column {
				mean[p] = average(place, l.side(p, sweep%2 == 0), place[p])
			}
			slices.SortStableFunc(column, func(a, b int) int { return cmp.Compare(mean[a], mean[b]) })
			for k, p := range column {
				place[p] = float64(k)
			}
		}
	}
}

func (l *layout) side(p int, left bool) []int {
	if left {
		return l.points[p].left
	}
	return l.points[p].right
}

func average(of []float64, points []int, otherwise float64) float64 {
	if len(points) == 0 {
		return otherwise
	}
	sum := 0.0
	for _, p := range points {
		sum += of[p]
	}
	return sum / float64(len(points))
}

// settle finds the y of each point: near the mean of its neighbours, in the order of its column.
func (l *layout) settle() {
	y := make([]float64, len(l.points))
	for _, column := range l.columns {
		l.spread(column, y, func(int) float64 { return 0 })
	}
	for sweep := range 2 * sweeps {
		for c := range l.columns {
			if sweep%2 == 1 {
				c = len(l.columns) - 1 - c
			}
			l.spread(l.columns[c], y, func(p int) float64 {
				if sweep >= 2*sweeps-2 { // The last sweeps look to both sides.
					return average(y, slices.Concat(l.points[p].left, l.points[p].right), y[p])
				}
				return average(y, l.side(p, sweep%2 == 0), y[p])
			})
		}
	}
	top := slices.Min(y)
	for i := range y {
		l.points[i].y = y[i] - top
		l.bottom = max(l.bottom, l.points[i].y)
	}
}

// height is the room of a point in its column.
func (l *layout) height(p int) float64 {
	if l.points[p].bend {
		return 14
	}
	return 44
}

// spread sets the y of a column as near to what is wanted as the order and the room of its points allow
// (least squares: neighbours that would overlap are joined to a block, which goes to its mean).
func (l *layout) spread(column []int, y []float64, wanted func(p int) float64) {
	type block struct {
		sum   float64
		count int
	}
	var blocks []block
	offsets := make([]float64, len(column))
	for k, p := range column {
		if k > 0 {
			offsets[k] = offsets[k-1] + (l.height(column[k-1])+l.height(p))/2
		}
		b := block{wanted(p) - offsets[k], 1}
		for len(blocks) > 0 {
			last := blocks[len(blocks)-1]
			if last.sum*float64(b.count) < b.sum*float64(last.count) {
				break
			}
			b.sum, b.count = b.sum+last.sum, b.count+last.count
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, b)
	}
	k := 0
	for _, b := range blocks {
		for range b.count {
			y[column[k]] = b.sum/float64(b.count) + offsets[k]
			k++
		}
	}
}
