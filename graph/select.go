package graph

import (
	"fmt"
	"strings"
)

// Select gives the part of the graph that the targets need: the targets and, over needs with the
// policies success and finish, all that they wait for. Order needs stay where both jobs are in the
// part. No target at all selects everything.
//
// A target is the name of a job, the base name of a matrix job (all its variants), or a glob in which *
// stands for any characters and ? for one. A target that names nothing is an error, which tells the
// nearest name. The result shares texts and lists with g.
func (g *Graph) Select(targets []string) (*Graph, error) {
	if len(targets) == 0 {
		return g, nil
	}
	keep := make([]bool, len(g.Jobs))
	for _, target := range targets {
		if !g.mark(target, keep) {
			return nil, fmt.Errorf("select %s: no job has that name%s", quote(target), suggest(target, g.targetNames, ""))
		}
	}
	count := 0
	// What a job waits for comes before it, so one pass from the end finds everything.
	for i := len(g.Jobs) - 1; i >= 0; i-- {
		if !keep[i] {
			continue
		}
		count++
		for _, n := range g.Jobs[i].Needs {
			if n.waits() {
				keep[n.Job] = true
			}
		}
	}
	return g.part(keep, count), nil
}

// mark marks the jobs that a target names; it is false if there is none.
func (g *Graph) mark(target string, keep []bool) bool {
	found := false
	glob := strings.ContainsAny(target, "*?")
	for i := range g.Jobs {
		j := &g.Jobs[i]
		if j.Name == target || j.Base == target || glob && matchName(target, j.Name) {
			keep[i], found = true, true
		}
	}
	return found
}

// part copies the jobs that are marked.
func (g *Graph) part(keep []bool, count int) *Graph {
	part := &Graph{Name: g.Name, Jobs: make([]Job, 0, count)}
	place := make([]int, len(g.Jobs))
	for i := range g.Jobs {
		if keep[i] {
			place[i] = len(part.Jobs)
			part.Jobs = append(part.Jobs, g.Jobs[i])
		}
	}
	for i := range part.Jobs {
		j := &part.Jobs[i]
		var needs []Need
		for _, n := range j.Needs {
			if keep[n.Job] {
				needs = append(needs, Need{Job: place[n.Job], Policy: n.Policy})
			}
		}
		j.Needs = needs
	}
	return part
}

func (g *Graph) targetNames(yield func(string) bool) {
	for i := range g.Jobs {
		if j := &g.Jobs[i]; !yield(j.Base) || j.Name != j.Base && !yield(j.Name) {
			return
		}
	}
}

// matchName reports whether a glob of * and ? matches a whole name.
func matchName(glob, name string) bool {
	star, mark := -1, 0
	g, n := 0, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, mark = g, n
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == name[n]):
			g, n = g+1, n+1
		case star >= 0:
			mark++
			g, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
