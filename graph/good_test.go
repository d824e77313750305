package graph_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/job"
)

// noPlaces leaves out where jobs stand in their files.
var noPlaces = cmpopts.IgnoreFields(graph.Job{}, "Line", "Column")

func parse(t testing.TB, text string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(strings.NewReader(text), "x", graph.Limits{})
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return g
}

func parseFile(t testing.TB, file string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(strings.NewReader(readFile(t, file)), file, graph.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func readFile(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(g *graph.Graph) []string {
	var all []string
	for _, j := range g.Jobs {
		all = append(all, j.Name)
	}
	return all
}

func find(t testing.TB, g *graph.Graph, name string) (int, *graph.Job) {
	t.Helper()
	for i := range g.Jobs {
		if g.Jobs[i].Name == name {
			return i, &g.Jobs[i]
		}
	}
	t.Fatalf("no job %q in %q", name, names(g))
	return 0, nil
}

func TestYAMLAndJSONGiveTheSameGraph(t *testing.T) {
	t.Parallel()
	y, j := parseFile(t, "testdata/good/full.yaml"), parseFile(t, "testdata/good/full.json")
	if diff := cmp.Diff(y, j, noPlaces); diff != "" {
		t.Errorf("(-yaml +json):\n%s", diff)
	}
}

func TestEveryFieldArrives(t *testing.T) {
	t.Parallel()
	g := parseFile(t, "testdata/good/full.yaml")
	if want := []string{
		"lint", "build:linux-1.26", "test:linux-1.26", "build:linux-1.10", "test:linux-1.10", "build:darwin-1.26",
		"test:darwin-1.26", "build:linux-tip", "test:linux-tip", "package",
	}; !cmp.Equal(want, names(g)) {
		t.Fatalf("order %q, want %q", names(g), want)
	}
	lang := graph.Var{Name: "LANG", Value: "C"}
	hour := time.Hour
	lint := graph.Job{
		Name: "lint", Base: "lint", Line: 24, Column: 3, Silence: 90 * time.Second, Optional: true, Priority: -3,
		Run: graph.Command{Shell: "set -e\nif [ \"$A\" = \"x: y\" ]; then\n  # Not a comment of YAML.\n" +
			"  lint ./...\n\nfi\n"},
		Env:     []graph.Var{{Name: "A", Value: "x: y"}, {Name: "EMPTY"}, lang, {Name: "LEVEL", Value: "2"}},
		RetryOn: []int{69, 75},
	}
	tip := graph.Job{
		Name: "test:linux-tip", Base: "test", Line: 37, Column: 3, Timeout: hour, Dir: "src/linux",
		Run:    graph.Command{Shell: "GOOS=linux go test -v"},
		System: "riscv64-linux", Features: []string{"kvm", "linux"}, RetryOn: []int{69, 75},
		Env:   []graph.Var{lang, {Name: "LEVEL", Value: "1"}},
		Needs: []graph.Need{{Job: 7, Policy: job.Success}, {Job: 9, Policy: job.Order}},
	}
	build := graph.Job{
		Name: "build:linux-1.10", Base: "build", Line: 52, Column: 3, Timeout: hour,
		Run: graph.Command{Shell: "go build"}, Retries: 2, RetryOn: []int{69, 75}, Exclusive: true,
		Env: []graph.Var{{Name: "GO", Value: "1.10"}, lang, {Name: "LEVEL", Value: "1"}},
	}
	pack := graph.Job{
		Name: "package", Base: "package", Line: 14, Column: 3, Timeout: hour, Key: "package-1",
		Run: graph.Command{Argv: []string{"tar", "cf", "out.tar", "7", "true"}},
		Env: []graph.Var{lang, {Name: "LEVEL", Value: "1"}}, RetryOn: []int{69, 75},
		Outputs: []string{"out.tar", "dist/**/*.deb"},
		Needs: []graph.Need{
			{Job: 0, Policy: job.Finish}, {Job: 1, Policy: job.Order}, {Job: 2}, {Job: 4}, {Job: 6}, {Job: 8},
		},
	}
	for _, want := range []graph.Job{lint, tip, build, pack} {
		_, got := find(t, g, want.Name)
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Name, diff)
		}
	}
}

// TestForms tells of each pair that both mean the same.
func TestForms(t *testing.T) {
	t.Parallel()
	const jobs = "jobs: {a: {run: x}, b: {run: x}, m: {run: x, matrix: {v: [1, 2]}}, "
	for name, pair := range map[string][2]string{
		"one need":        {"c: {run: x, needs: a}}", "c: {run: x, needs: [a]}}"},
		"policy":          {"c: {run: x, needs: {a: finish}}}", "c: {run: x, needs: [{job: a, policy: finish}]}}"},
		"default policy":  {"c: {run: x, needs: {a: }}}", "c: {run: x, needs: [{job: a, policy: success}]}}"},
		"base name":       {"c: {run: x, needs: m}}", "c: {run: x, needs: ['m:1', 'm:2']}}"},
		"strictest":       {"c: {run: x, needs: [{job: a, policy: order}, a, {job: a, policy: finish}]}}", "c: {run: x, needs: a}}"},
		"own order":       {"c: {run: x, needs: {c: order}}}", "c: {run: x}}"},
		"absent and null": {"c: {run: x, needs: , env: , timeout: , matrix: }}", "c: {run: x}}"},
		"one feature":     {"c: {run: x, features: kvm, retry-on: 7}}", "c: {run: x, features: [kvm], retry-on: [7]}}"},
		"tag":             {"c: {run: !!str true}}", "c: {run: 'true'}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(parse(t, jobs+pair[0]), parse(t, jobs+pair[1]), noPlaces); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestYAMLPieces has texts that are hard to cut into jobs by their lines.
func TestYAMLPieces(t *testing.T) {
	t.Parallel()
	want := parse(t, `{"jobs": {"a": {"run": "x"}, "b": {"run": ["y", "z"], "needs": ["a"]}}}`)
	for name, text := range map[string]string{
		"block":           "jobs:\n  a:\n    run: x\n  b:\n    run:\n    - y\n    - z\n    needs: a\n",
		"flow":            "jobs: {a: {run: x}, b: {run: [y, z], needs: a}}",
		"flow below":      "jobs:\n\n # comment\n  {a: {run: x}, b: {run: [y, z], needs: a}}",
		"closing bracket": "jobs:\n  a: {\n    run: x\n  }\n  b:\n    run: [\n      y, z\n  ]\n    needs: a\n",
		"comments":        "#c\n\njobs: #c\n#c\n\n  #c\n  a: #c\n#c\n    #c\n    run: x #c\n  #c\n  b:\n\n    run: [y, z]\n#c\n    needs: a\n",
		"crlf":            "jobs:\r\n  a:\r\n    run: x\r\n  b:\r\n    run: [y, z]\r\n    needs: a",
		"quoted":          "'jobs' :\n  'a' : {run: x}\n  \"b\":\n    {run: [y, z], needs: a}",
		"document":        "%s---\njobs:\n  a: {run: x}\n  b: {run: [y, z], needs: a}\n...\n# end\n",
		"byte order mark": "\xef\xbb\xbfjobs:\n  a: {run: x}\n  b: {run: [y, z], needs: a}\n",
		"anchors":         "jobs:\n  a: &a\n    run: &x x\n  b:\n    <<: *a\n    run: [y, z]\n    needs: a\n",
		"deep indent":     "jobs:\n        a:\n         run: x\n        b:\n                run: [y, z]\n                needs: [a]\n",
		"other order":     "jobs:\n  a:\n    run: x\n  b:\n    run: [y, z]\n    needs: a\ndefaults:\n  timeout: 0\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, strings.TrimPrefix(text, "%s"))
			if diff := cmp.Diff(want, got, noPlaces); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBlockScalarKeepsWhatLooksLikeYAML(t *testing.T) {
	t.Parallel()
	g := parse(t, "jobs:\n  a:\n    run: |\n      jobs:\n        - x\n\n      # y\n      --- z\n      }\n  b: {run: x}\n")
	_, a := find(t, g, "a")
	if want := "jobs:\n  - x\n\n# y\n--- z\n}\n"; a.Run.Shell != want {
		t.Errorf("got %q, want %q", a.Run.Shell, want)
	}
}

func TestOrderIsThatOfTheFileWhereFree(t *testing.T) {
	t.Parallel()
	g := parse(t, "jobs: {e: {run: x, needs: d}, z: {run: x}, d: {run: x, needs: c}, y: {run: x}, c: {run: x, needs: {e: order}}}")
	if want := []string{"z", "y", "c", "d", "e"}; !cmp.Equal(want, names(g)) {
		t.Errorf("got %q, want %q", names(g), want)
	}
	_, c := find(t, g, "c")
	if want := []graph.Need{{Job: 4, Policy: job.Order}}; !cmp.Equal(want, c.Needs) {
		t.Errorf("needs of c: %v, want %v", c.Needs, want)
	}
}

func TestMatchOutput(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		glob, file string
		want       bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"*.go", "x.go", true},
		{"*.go", "d/x.go", false},
		{"**/*.go", "x.go", true},
		{"**/*.go", "d/e/x.go", true},
		{"d/**", "d/e/x", true},
		{"d/**", "d", true},
		{"d/**/e/**/f", "d/e/e/x/f", true},
		{"d/**/e/f", "d/e/x/e/f", true},
		{"d/**/e/f", "d/e/x/f", false},
		{"[a-c]?", "bx", true},
		{"[a-c]?", "dx", false},
		{"**", "a/b", true},
		{"a", "a/b", false},
		{"[", "[", false},
	} {
		if got := graph.MatchOutput(c.glob, c.file); got != c.want {
			t.Errorf("%q on %q: %v, want %v", c.glob, c.file, got, c.want)
		}
	}
}

func TestJSONEscapes(t *testing.T) {
	t.Parallel()
	g := parse(t, `{"jobs": {"a": {"run": "\"\\\/\b\f\n\r\t\u00e9\uD83D\ude00\u0041x"}}}`)
	if want := "\"\\/\b\f\n\r\té😀Ax"; g.Jobs[0].Run.Shell != want {
		t.Errorf("got %q, want %q", g.Jobs[0].Run.Shell, want)
	}
}

func TestYAMLAnchorsAndMerges(t *testing.T) {
	t.Parallel()
	g := parse(t, `
defaults: &d {dir: d, timeout: 1m}
jobs:
  a: &a
    <<: *d
    run: &r x
    env: &e {A: 1, B: 2}
  b:
    dir: own
    <<: [*a, *d]
    env:
      B: 3
      <<: *e
      C: 4
  c: {run: *r, env: *e}
`)
	_, b := find(t, g, "b")
	if want := (graph.Job{
		Name: "b", Base: "b", Line: 8, Column: 3, Dir: "own", Timeout: time.Minute, Run: graph.Command{Shell: "x"},
		Env: []graph.Var{{Name: "A", Value: "1"}, {Name: "B", Value: "3"}, {Name: "C", Value: "4"}},
	}); !cmp.Equal(want, *b) {
		t.Errorf("b: %s", cmp.Diff(want, *b))
	}
	_, a := find(t, g, "a")
	_, c := find(t, g, "c")
	if want := []graph.Var{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}; !cmp.Equal(want, a.Env) || !cmp.Equal(want, c.Env) {
		t.Errorf("env of a %v and c %v, want %v", a.Env, c.Env, want)
	}
}
