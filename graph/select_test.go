package graph_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/job"
)

const selectable = `{"name": "n", "jobs": {
	"fmt": {"run": "x"},
	"build": {"run": "x", "matrix": {"os": ["linux/amd64", "darwin"]}},
	"test": {"run": "x", "needs": ["build:${matrix.os}", {"job": "fmt", "policy": "order"}], "matrix": {"os": ["linux/amd64", "darwin"]}},
	"notify": {"run": "x", "needs": {"test:darwin": "finish"}},
	"release": {"run": "x", "needs": "test"}}}`

func TestSelectTakesTargetsAndWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	g := parse(t, selectable)
	const linux, darwin = ":linux/amd64", ":darwin"
	for _, c := range []struct {
		targets, want []string
	}{
		{nil, names(g)},
		{[]string{"fmt"}, []string{"fmt"}},
		{[]string{"fmt", "fmt"}, []string{"fmt"}},
		{[]string{"test" + linux}, []string{"build" + linux, "test" + linux}},
		{[]string{"notify"}, []string{"build" + darwin, "test" + darwin, "notify"}},
		{[]string{"build"}, []string{"build" + linux, "build" + darwin}},
		{[]string{"*" + linux}, []string{"build" + linux, "test" + linux}},
		{[]string{"b*d*n", "f?t"}, []string{"fmt", "build" + darwin}},
		{[]string{"*"}, names(g)},
		{[]string{"release", "fmt"}, []string{"fmt", "build" + linux, "build" + darwin, "test" + linux, "test" + darwin, "release"}},
	} {
		got, err := g.Select(c.targets)
		if err != nil {
			t.Errorf("%q: %v", c.targets, err)
			continue
		}
		if !cmp.Equal(c.want, names(got)) {
			t.Errorf("%q: got %q, want %q", c.targets, names(got), c.want)
		}
	}
}

func TestSelectKeepsOrderNeedsInside(t *testing.T) {
	t.Parallel()
	g := parse(t, selectable)
	for target, want := range map[string][]graph.Need{"test:darwin": {{Job: 0}}, "*:darwin": {{Job: 0}}, "[": nil} {
		part, err := g.Select([]string{target})
		if (err != nil) != (want == nil) {
			t.Fatalf("%s: %v", target, err)
		}
		if err == nil && !cmp.Equal(want, part.Jobs[1].Needs) {
			t.Errorf("%s: needs %v, want %v", target, part.Jobs[1].Needs, want)
		}
	}
	part, err := g.Select([]string{"test:darwin", "fmt"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []graph.Need{{Job: 0, Policy: job.Order}, {Job: 1}}; !cmp.Equal(want, part.Jobs[2].Needs) {
		t.Errorf("needs %v, want %v", part.Jobs[2].Needs, want)
	}
	if _, j := find(t, g, "test:darwin"); len(j.Needs) != 2 {
		t.Errorf("select changed its graph: %v", j.Needs)
	}
}

func TestSelectNamesTheNearest(t *testing.T) {
	t.Parallel()
	g := parse(t, selectable)
	for target, want := range map[string]string{
		"tset":       `select "tset": no job has that name; did you mean "test"?`,
		"build:drwn": `select "build:drwn": no job has that name; did you mean "build:darwin"?`,
		"x*y":        `select "x*y": no job has that name`,
		"":           `select "": no job has that name`,
	} {
		if _, err := g.Select([]string{"fmt", target}); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", target, err, want)
		}
	}
}

func TestKeysChangeWithTheWork(t *testing.T) {
	t.Parallel()
	const base = "jobs:\n  a: {run: x}\n  b: {run: [y, z], needs: a, env: {A: 1}, dir: d, system: s, features: [f], outputs: [o]}\n  c: {run: x, needs: b}\n"
	keys := func(text string) map[string]string {
		g := parse(t, text)
		all := make(map[string]string)
		for i, k := range g.Keys() {
			all[g.Jobs[i].Name] = k
		}
		return all
	}
	was := keys(base)
	for text, changed := range map[string][]string{
		"jobs:\n  c: {run: x, needs: b}\n  b: {run: [y, z], needs: a, env: {A: 1}, dir: d, system: s, features: [f], outputs: [o]}\n  a: {run: x}\n":             nil,
		base + "  d: {run: x}\ndefaults: {timeout: 1h, silence: 1m, retries: 2, retry-on: 3, priority: 4, exclusive: true, optional: true}\n":                    nil,
		"jobs:\n  a: {run: x2}\n  b: {run: [y, z], needs: a, env: {A: 1}, dir: d, system: s, features: [f], outputs: [o]}\n  c: {run: x, needs: b}\n":            {"a", "b", "c"},
		"jobs:\n  a: {run: x}\n  b: {run: [yz], needs: a, env: {A: 1}, dir: d, system: s, features: [f], outputs: [o]}\n  c: {run: x, needs: b}\n":               {"b", "c"},
		"jobs:\n  a: {run: x}\n  b: {run: [y, z], needs: a, env: {A: 2}, dir: d, system: s, features: [f], outputs: [o]}\n  c: {run: x, needs: b}\n":             {"b", "c"},
		"jobs:\n  a: {run: x}\n  b: {run: [y, z], needs: {a: finish}, env: {A: 1}, dir: d, system: s, features: [f], outputs: [o]}\n  c: {run: x, needs: b}\n":   {"b", "c"},
		"jobs:\n  a: {run: x}\n  b: {run: [y, z], needs: {a: order}, env: {A: 1}, dir: d, system: s, features: [f], outputs: [o]}\n  c: {run: x, needs: b}\n":    {"b", "c"},
		"jobs:\n  a: {run: x}\n  b: {run: [y, z], needs: a, env: {A: 1}, dir: e, system: s, features: [f], outputs: [o]}\n  c: {run: x, needs: [b, a]}\n":        {"b", "c"},
		"jobs:\n  a: {run: x}\n  b: {run: [y, z], needs: a, env: {A: 1}, dir: d, system: t, features: [f], outputs: [o]}\n  c: {run: x, needs: b}\n":             {"b", "c"},
		"jobs:\n  a: {run: x}\n  b: {run: [y, z], needs: a, env: {A: 1}, dir: d, system: s, features: [g], outputs: [o]}\n  c: {run: x, needs: b}\n":             {"b", "c"},
		"jobs:\n  a: {run: x}\n  b: {run: [y, z], needs: a, env: {A: 1}, dir: d, system: s, features: [f], outputs: [p]}\n  c: {run: x, needs: b}\n":             {"b", "c"},
		"jobs:\n  a: {run: x}\n  b: {run: [y, z], needs: a, env: {A: 1}, dir: d, system: s, features: [f, o], outputs: []}\n  c: {run: x, needs: b}\n":           {"b", "c"},
		"jobs:\n  a: {run: x, key: k}\n  b: {run: [y, z], needs: a, env: {A: 1}, dir: d, system: s, features: [f], outputs: [o]}\n  c: {run: x, needs: b}\n":     {"a", "b", "c"},
		"jobs:\n  a: {run: x}\n  b: {run: [y, z], needs: a, env: {A: 1}, dir: d, system: s, features: [f], outputs: [o]}\n  c: {run: x, needs: {b: , a: order}}": nil,
	} {
		is := keys(text)
		var got []string
		for _, name := range []string{"a", "b", "c"} {
			if is[name] != was[name] {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, changed) {
			t.Errorf("%s\nchanged %q, want %q", text, got, changed)
		}
	}
}

// TestKeysStay fails if the computation changes: every user's finished jobs would run again.
func TestKeysStay(t *testing.T) {
	t.Parallel()
	got := parse(t, "jobs:\n  a: {run: x, key: k}\n  b: {run: [y], needs: a, env: {A: 1}}\n  c: {run: y}").Keys()
	want := []string{
		"key:k",
		"e4ca670d3167fb311e70faacaf4ccef0a2e488cbf716c19b197f06fa45751e67",
		"89be9237dded2bc106c872ce8aeebcde5ed9db07c2e27fdf3fe2ec9369f7559b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
