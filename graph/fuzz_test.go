package graph_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/job"
)

func mustParse(t fataler, text string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(strings.NewReader(text), "x", graph.Limits{})
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return g
}

// checkGraph checks what holds for every graph that Parse gives.
func checkGraph(t fataler, g *graph.Graph) {
	t.Helper()
	if len(g.Jobs) == 0 {
		t.Fatalf("no job")
	}
	seen := make(map[string]bool)
	for i := range g.Jobs {
		j := &g.Jobs[i]
		if seen[j.Name] || j.Name == "" || j.Base == "" || j.Line < 1 || j.Column < 1 {
			t.Fatalf("job %d: name %q, seen %v, base %q, place %d:%d", i, j.Name, seen[j.Name], j.Base, j.Line, j.Column)
		}
		seen[j.Name] = true
		if (j.Run.Shell == "") == (len(j.Run.Argv) == 0) {
			t.Fatalf("job %q: command %q", j.Name, j.Run)
		}
		last := -1
		for _, n := range j.Needs {
			if n.Job <= last || n.Job >= len(g.Jobs) || n.Job == i || n.Policy != job.Order && n.Job > i {
				t.Fatalf("job %d: needs %v", i, j.Needs)
			}
			last = n.Job
		}
		if !slices.IsSorted(j.Features) || !slices.IsSortedFunc(j.Env, func(a, b graph.Var) int { return strings.Compare(a.Name, b.Name) }) {
			t.Fatalf("job %q: features %q, env %v", j.Name, j.Features, j.Env)
		}
		if j.Timeout < 0 || j.Silence < 0 || j.Retries < 0 {
			t.Fatalf("job %q: timeout %v, silence %v, retries %d", j.Name, j.Timeout, j.Silence, j.Retries)
		}
		for _, all := range [][]string{{j.Run.Shell, j.Dir, j.System, j.Key}, j.Run.Argv, j.Features, j.Outputs} {
			for _, s := range all {
				if strings.Contains(s, "\x00") {
					t.Fatalf("job %q: zero byte in %q", j.Name, s)
				}
			}
		}
	}
}

// FuzzParse feeds any text under small limits: it is refused with places, or gives a sound graph.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.[jy]*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		lim := graph.Limits{Jobs: 200, File: 64 << 10, Job: 8 << 10, Needs: 50, Edges: 500}
		g, err := graph.Parse(strings.NewReader(text), "x", lim)
		if err != nil {
			var problems graph.Problems
			if !errors.As(err, &problems) || len(problems) == 0 || len(problems) > 20 {
				t.Fatalf("error %v", err)
			}
			lines := strings.Count(text, "\n") + 1
			for _, p := range problems {
				if p.Line < 1 || p.Line > lines+1 || p.Column < 1 || p.Message == "" || p.File != "x" {
					t.Fatalf("place of %+v, in %d lines", p, lines)
				}
			}
			return
		}
		checkGraph(t, g)
		checkPlan(t, g, g.Plan(3, nil, nil), 3)
		if keys := g.Keys(); len(keys) != len(g.Jobs) {
			t.Fatalf("%d keys", len(keys))
		}
		if len(g.Jobs) > 200 {
			t.Fatalf("%d jobs", len(g.Jobs))
		}
		part, err := g.Select([]string{g.Jobs[len(g.Jobs)-1].Name})
		if err != nil {
			t.Fatal(err)
		}
		checkGraph(t, part)
		var b strings.Builder
		if err := g.SVG(&b); err != nil {
			t.Fatal(err)
		}
		elements(t, b.String())
	})
}
