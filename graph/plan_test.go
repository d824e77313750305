package graph_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/job"
)

// schedule writes the steps of a plan as name@start-finish, in seconds.
func schedule(g *graph.Graph, p graph.Plan) []string {
	var all []string
	for _, s := range p.Steps {
		all = append(all, fmt.Sprintf("%s@%g-%g", g.Jobs[s.Job].Name, s.Start.Seconds(), s.Finish.Seconds()))
	}
	return all
}

func TestPlan(t *testing.T) {
	t.Parallel()
	seconds := map[string]int{"a": 1, "b": 2, "c": 5, "d": 3}
	for name, c := range map[string]struct {
		jobs                  string
		slots                 int
		steps                 []string
		critical              []string
		width, work, makespan int
	}{
		"longest path first": {
			"a: {run: x}, b: {run: x}, c: {run: x}, d: {run: x, needs: b}", 2,
			[]string{"b@0-2", "c@0-5", "d@2-5", "a@5-6"},
			[]string{"b", "d"},
			3, 11, 6,
		},
		"one slot": {
			"a: {run: x}, b: {run: x}, c: {run: x}, d: {run: x, needs: b}", 1,
			[]string{"b@0-2", "c@2-7", "d@7-10", "a@10-11"},
			[]string{"b", "d"},
			3, 11, 11,
		},
		"no bound": {
			"a: {run: x}, b: {run: x, needs: {a: finish}}, c: {run: x, needs: {a: order}}", 0,
			[]string{"a@0-1", "c@0-5", "b@1-3"},
			[]string{"c"},
			2, 8, 5,
		},
		"priority": {
			"c: {run: x}, a: {run: x, priority: 1}", 1, []string{"a@0-1", "c@1-6"}, []string{"c"}, 2, 6, 6,
		},
		"exclusive runs alone": {
			"a: {run: x}, b: {run: x}, c: {run: x, exclusive: true}, d: {run: x}", 3,
			[]string{"c@0-5", "d@5-8", "b@5-7", "a@5-6"},
			[]string{"c"},
			4, 11, 8,
		},
		"exclusive goes before the longer paths of its priority": {
			"a: {run: x, exclusive: true}, b: {run: x}, d: {run: x}", 3,
			[]string{"a@0-1", "d@1-4", "b@1-3"},
			[]string{"d"},
			3, 6, 4,
		},
		"exclusive waits, and is passed by what is more urgent alone": {
			"a: {run: x, exclusive: true, needs: b}, b: {run: x}, c: {run: x, priority: 1, needs: d}, d: {run: x}, e: {run: x}", 2,
			[]string{"d@0-3", "b@0-2", "c@3-8", "a@8-9", "e@9-10"},
			[]string{"d", "c"},
			3, 12, 10,
		},
		"a need is as urgent as its dependent": {
			"a: {run: x, priority: 1, needs: b}, b: {run: x}, c: {run: x}", 1,
			[]string{"b@0-2", "a@2-3", "c@3-8"},
			[]string{"c"},
			2, 8, 8,
		},
		"order lifts": {
			"a: {run: x}, b: {run: x}, c: {run: x, needs: {a: order}}", 1,
			[]string{"a@0-1", "c@1-6", "b@6-8"},
			[]string{"c"},
			3, 8, 8,
		},
		"order in a cycle is ignored": {
			"a: {run: x, needs: {c: order}}, b: {run: x}, c: {run: x, needs: {a: order}}", 1,
			[]string{"c@0-5", "b@5-7", "a@7-8"},
			[]string{"c"},
			3, 8, 8,
		},
		"unknown estimate": {
			"x: {run: x}, y: {run: x, needs: x}", 1, []string{"x@0-1", "y@1-2"}, []string{"x", "y"}, 1, 2, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := parse(t, "jobs: {"+c.jobs+"}")
			p := g.Plan(c.slots, func(i int) time.Duration { return time.Duration(seconds[g.Jobs[i].Name]) * time.Second }, nil)
			var critical []string
			for _, i := range p.Critical {
				critical = append(critical, g.Jobs[i].Name)
			}
			if diff := cmp.Diff(c.steps, schedule(g, p)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			got := []int{p.Width, int(p.Work.Seconds()), int(p.Makespan.Seconds())}
			if want := []int{c.width, c.work, c.makespan}; !cmp.Equal(want, got) || !cmp.Equal(c.critical, critical) {
				t.Errorf("width, work, makespan %v, want %v; critical %q, want %q", got, want, critical, c.critical)
			}
		})
	}
}

func TestPlanOfNothingAndOfForever(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(graph.Plan{}, (&graph.Graph{}).Plan(1, nil, nil)); diff != "" {
		t.Error(diff)
	}
	g := grid(3, 3)
	p := g.Plan(1, func(int) time.Duration { return math.MaxInt64 }, nil)
	if p.Work <= 0 || p.Makespan != p.Work {
		t.Errorf("work %v, makespan %v", p.Work, p.Makespan)
	}
}

func TestPlanKeepsBackOffs(t *testing.T) {
	t.Parallel()
	g := parse(t, "jobs: {a: {run: x}, b: {run: x, needs: a}, c: {run: x, exclusive: true}, d: {run: x, needs: b}}")
	waits := map[string]int{"a": 5, "b": 2, "c": 6, "d": 90}
	p := g.Plan(2, nil, func(i int) time.Duration { return time.Duration(waits[g.Jobs[i].Name]) * time.Second })
	if diff := cmp.Diff([]string{"a@5-6", "c@6-7", "b@7-8", "d@90-91"}, schedule(g, p)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	p = g.Plan(1, func(int) time.Duration { return math.MaxInt64 }, func(int) time.Duration { return math.MaxInt64 })
	if len(p.Steps) != 4 || p.Makespan <= p.Work {
		t.Errorf("for ever: makespan %v, work %v", p.Makespan, p.Work)
	}
}

// drawGraph makes a random file and reads it. Needs with success and finish point to a lower number, but
// the file has the jobs in random order.
func drawGraph(t *rapid.T) *graph.Graph {
	n := rapid.IntRange(1, 30).Draw(t, "jobs")
	text := `{"jobs": {`
	for k, i := range rapid.Permutation(numbers(n)).Draw(t, "order") {
		if k > 0 {
			text += ","
		}
		needs := ""
		for d := range rapid.IntRange(0, 4).Draw(t, "needs") {
			policy := job.Policy(rapid.IntRange(0, 2).Draw(t, "policy"))
			most := n - 1
			if policy != job.Order {
				most = i - 1
			}
			if most < 0 {
				continue
			}
			if d > 0 && needs != "" {
				needs += ","
			}
			needs += fmt.Sprintf(`{"job": "j%d", "policy": %q}`, rapid.IntRange(0, most).Draw(t, "need"), policy)
		}
		text += fmt.Sprintf(`"j%d": {"run": "x", "needs": [%s], "exclusive": %v, "priority": %d}`, i, needs,
			rapid.IntRange(0, 9).Draw(t, "exclusive") == 0, rapid.IntRange(-1, 1).Draw(t, "priority"))
	}
	return mustParse(t, text+"}}")
}

func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func TestPlanRespectsNeedsAndSlots(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		checkGraph(t, g)
		slots := rapid.IntRange(0, 5).Draw(t, "slots")
		estimates := rapid.SliceOfN(rapid.IntRange(-1, 5), len(g.Jobs), len(g.Jobs)).Draw(t, "estimates")
		p := g.Plan(slots, func(i int) time.Duration { return time.Duration(estimates[i]) }, nil)
		checkPlan(t, g, p, slots)
	})
}

// fataler is what checks need of *testing.T and *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkPlan is a slow judge of plans.
func checkPlan(t fataler, g *graph.Graph, p graph.Plan, slots int) {
	t.Helper()
	if len(p.Steps) != len(g.Jobs) {
		t.Fatalf("%d steps of %d jobs", len(p.Steps), len(g.Jobs))
	}
	of := make(map[int]graph.Step)
	for k, s := range p.Steps {
		if k > 0 && s.Start < p.Steps[k-1].Start {
			t.Fatalf("step %d starts before the one before it", k)
		}
		of[s.Job] = s
	}
	var work, path time.Duration
	for i := range g.Jobs {
		s, ok := of[i]
		if !ok || s.Finish <= s.Start {
			t.Fatalf("job %d: step %v, %v", i, s, ok)
		}
		work += s.Finish - s.Start
		for _, n := range g.Jobs[i].Needs {
			if n.Policy != job.Order && of[n.Job].Finish > s.Start {
				t.Fatalf("job %d starts at %v, before %d ends at %v", i, s.Start, n.Job, of[n.Job].Finish)
			}
		}
		running := 0
		for k, other := range of {
			if other.Start <= s.Start && s.Start < other.Finish {
				running++
				if k != i && (g.Jobs[k].Exclusive || g.Jobs[i].Exclusive) {
					t.Fatalf("jobs %d and %d run at once, and one is exclusive", i, k)
				}
			}
		}
		if slots > 0 && running > slots {
			t.Fatalf("%d run at once on %d slots", running, slots)
		}
	}
	for k, i := range p.Critical {
		path += of[i].Finish - of[i].Start
		if k > 0 && !slices.ContainsFunc(g.Jobs[i].Needs, func(n graph.Need) bool {
			return n.Job == p.Critical[k-1] && n.Policy != job.Order
		}) {
			t.Fatalf("critical path %v: no edge to %d", p.Critical, i)
		}
	}
	if p.Work != work || p.Makespan < path || p.Makespan > work || p.Width < 1 || p.Width > len(g.Jobs) {
		t.Fatalf("work %v (sum %v), makespan %v, critical path %v, width %d", p.Work, work, p.Makespan, path, p.Width)
	}
}
