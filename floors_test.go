package headrace_test

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// place is where a package stands in the house.
type place struct {
	floor int
	pure  bool // standard library and lower pure packages only; no clock, goroutine, randomness or context
	door  bool // a front door: doors never import one another
}

// floors is the plan of the house (ARCHITECTURE.md draws it): a package imports packages of lower floors
// only. A new package gets a line here first, and its line in the plan.
var floors = map[string]place{
	".":                   {floor: 0, pure: true},
	"internal/crash":      {floor: 0},
	"job":                 {floor: 0, pure: true},
	"depot":               {floor: 1},
	"sched":               {floor: 1, pure: true},
	"store/codec":         {floor: 1},
	"queue":               {floor: 2},
	"api":                 {floor: 3},
	"graph":               {floor: 3},
	"internal/progress":   {floor: 3},
	"store/memory":        {floor: 3},
	"store/rows":          {floor: 3},
	"store/storetest":     {floor: 3},
	"composer":            {floor: 4, door: true},
	"internal/farm":       {floor: 4},
	"internal/linear":     {floor: 4},
	"internal/pgtest":     {floor: 4},
	"internal/sim":        {floor: 4},
	"server":              {floor: 4},
	"store/archive":       {floor: 4},
	"store/postgres":      {floor: 4},
	"store/sqlite":        {floor: 4},
	"worker":              {floor: 4},
	"cmd/headrace":        {floor: 5},
	"examples/composer":   {floor: 5},
	"internal/apitest":    {floor: 5},
	"internal/benchmark":  {floor: 5},
	"internal/mutants":    {floor: 5},
	"internal/testreport": {floor: 5},

	// Planned, and not there yet.
	"nix":   {floor: 0, pure: true},
	"bench": {floor: 4, door: true},
	"hydra": {floor: 4, door: true},
	"web":   {floor: 4, door: true},
}

// maxDepth is the longest chain of imports inside the module, counted in imports.
const maxDepth = 5

var floorRules = map[string]func(*tree) []finding{
	"floor":  floorRule,
	"pure":   pureRule,
	"doors":  doorsRule,
	"names":  namesRule,
	"depth":  depthRule,
	"clocks": clocksRule,
}

func TestEachPackageKeepsToItsFloor(t *testing.T) {
	t.Parallel()
	holds(t, floorRules)
}

// inside gives the folder of an import path of this module.
func inside(importPath string) (dir string, ok bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// imports lists the import paths of a file with their places.
func (t *tree) imports(f *goFile) map[string]string {
	out := map[string]string{}
	for _, spec := range f.ast.Imports {
		out[strings.Trim(spec.Path.Value, `"`)] = t.at(spec)
	}
	return out
}

// floorRule: only lower floors. Tests may reach up (the queue's run on store/memory), as no build
// depends on them.
func floorRule(t *tree) []finding {
	var out []finding
	for _, dir := range sortedKeys(t.packages) {
		here, known := floors[dir]
		if !known {
			out = append(out, finding{"floor", dir, "this package is on no floor: add a line to floors in floors_test.go and to the plan in ARCHITECTURE.md"})
			continue
		}
		for _, f := range t.packages[dir].files {
			for _, imported := range sortedKeys(t.imports(f)) {
				to, ok := inside(imported)
				if there, known := floors[to]; ok && known && !f.test && there.floor >= here.floor {
					out = append(out, finding{"floor", t.imports(f)[imported], fmt.Sprintf(
						"%s (floor %d) imports %s (floor %d); only lower floors may be imported", dir, here.floor, to, there.floor,
					)})
				}
			}
		}
	}
	return out
}

// pureRule: pure packages import the standard library and other pure packages only.
func pureRule(t *tree) []finding {
	barred := []string{"context", "crypto/rand", "log", "log/slog", "net", "net/http", "os", "os/exec", "os/signal"}
	var out []finding
	for _, dir := range sortedKeys(t.packages) {
		for _, f := range t.packages[dir].files {
			if !floors[dir].pure || f.test {
				continue
			}
			for _, imported := range sortedKeys(t.imports(f)) {
				to, ok := inside(imported)
				first, _, _ := strings.Cut(imported, "/")
				if (ok && !floors[to].pure) || (!ok && strings.Contains(first, ".")) || slices.Contains(barred, imported) {
					out = append(out, finding{"pure", t.imports(f)[imported], fmt.Sprintf("%s is pure and may not import %s", dir, imported)})
				}
			}
		}
	}
	return out
}

// doorsRule: a front door does not know another one, not even in its tests.
func doorsRule(t *tree) []finding {
	var out []finding
	for _, dir := range sortedKeys(t.packages) {
		for _, f := range t.packages[dir].files {
			for _, imported := range sortedKeys(t.imports(f)) {
				to, ok := inside(imported)
				if ok && to != dir && floors[dir].door && floors[to].door {
					out = append(out, finding{"doors", t.imports(f)[imported], fmt.Sprintf("the door %s imports the door %s; put what they share on a lower floor", dir, to)})
				}
			}
		}
	}
	return out
}

// namesRule: a package is named after what it is about.
func namesRule(t *tree) []finding {
	barred := []string{"util", "utils", "common", "helper", "helpers", "types", "model", "models", "pkg"}
	var out []finding
	for _, dir := range sortedKeys(t.packages) {
		for _, element := range strings.Split(dir, "/") {
			if slices.Contains(barred, element) {
				out = append(out, finding{"names", dir, fmt.Sprintf("no package or folder is called %q: a helper lives beside its user", element)})
			}
		}
		for _, f := range t.packages[dir].files {
			if name := f.ast.Name.Name; slices.Contains(barred, name) && path.Base(dir) != name {
				out = append(out, finding{"names", f.path, fmt.Sprintf("no package is called %q", name)})
			}
		}
	}
	return out
}

// depthRule: a reader who follows imports arrives soon.
func depthRule(t *tree) []finding {
	depth := map[string]int{}
	var walk func(dir string) int
	walk = func(dir string) int {
		if d, seen := depth[dir]; seen {
			return d
		}
		depth[dir] = 0 // ends a cycle, which the compiler refuses anyway
		deepest := 0
		for _, f := range t.packages[dir].files {
			for imported := range t.imports(f) {
				if to, ok := inside(imported); ok && !f.test && t.packages[to] != nil {
					deepest = max(deepest, 1+walk(to))
				}
			}
		}
		depth[dir] = deepest
		return deepest
	}
	var out []finding
	for _, dir := range sortedKeys(t.packages) {
		if d := walk(dir); d > maxDepth {
			out = append(out, finding{"depth", dir, fmt.Sprintf("its longest chain of imports is %d, want at most %d", d, maxDepth)})
		}
	}
	return out
}

// clocksRule: in pure packages, time and randomness come in as arguments and nothing runs beside.
func clocksRule(t *tree) []finding {
	clocks := []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "Sleep", "NewTimer", "NewTicker"}
	var out []finding
	t.each(func(f *goFile) {
		if f.test || !floors[path.Dir(f.path)].pure {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				out = append(out, finding{"clocks", t.at(n), "a pure package starts no goroutine"})
			case *ast.CallExpr:
				from, name := selected(n.Fun)
				if from == "time" && slices.Contains(clocks, name) || from == "rand" && !strings.HasPrefix(name, "New") {
					out = append(out, finding{"clocks", t.at(n), fmt.Sprintf("a pure package takes its time and randomness as arguments, not from %s.%s", from, name)})
				}
			}
			return true
		})
	})
	return out
}

// selected takes x.Name apart; both are empty for anything else.
func selected(e ast.Expr) (x, name string) {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := s.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return id.Name, s.Sel.Name
}

func TestFloorRuleFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	finds(t, floorRule, []planted{
		{name: "lower", files: map[string]string{"queue/q.go": source("queue", modulePath+"/job", modulePath+"/sched")}},
		{name: "higher", files: map[string]string{"job/j.go": source("job", modulePath+"/queue")}, want: "job (floor 0) imports queue (floor 2)"},
		{name: "same", files: map[string]string{"graph/g.go": source("graph", modulePath+"/api")}, want: "graph (floor 3) imports api (floor 3)"},
		{name: "a test reaches up", files: map[string]string{"queue/q_test.go": source("queue_test", modulePath+"/store/memory")}},
		{name: "unknown", files: map[string]string{"attic/a.go": source("attic")}, want: "add a line to floors"},
		{name: "unknown below a known one", files: map[string]string{"queue/attic/a.go": source("attic")}, want: "on no floor"},
	})
}

func TestPureRuleFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	finds(t, pureRule, []planted{
		{name: "standard library", files: map[string]string{"job/j.go": source("job", "fmt", "math/rand/v2", "container/heap")}},
		{name: "the scheduler knows jobs", files: map[string]string{"sched/s.go": source("sched", modulePath+"/job")}},
		{name: "another module", files: map[string]string{"job/j.go": source("job", "github.com/google/uuid")}, want: "may not import github.com/google/uuid"},
		{name: "another module in a test", files: map[string]string{"job/j_test.go": source("job", "github.com/google/go-cmp/cmp")}},
		{name: "context", files: map[string]string{"nix/n.go": source("nix", "context")}, want: "nix is pure"},
		{name: "the engine", files: map[string]string{"sched/s.go": source("sched", modulePath+"/queue")}, want: "sched is pure"},
		{name: "not pure", files: map[string]string{"queue/q.go": source("queue", "context", "github.com/google/uuid")}},
	})
}

func TestDoorsRuleFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	finds(t, doorsRule, []planted{
		{name: "apart", files: map[string]string{"hydra/h.go": source("hydra", modulePath+"/nix", modulePath+"/queue")}},
		{name: "together", files: map[string]string{"hydra/h.go": source("hydra", modulePath+"/composer")}, want: "the door hydra imports the door composer"},
		{name: "in a test", files: map[string]string{"web/w_test.go": source("web", modulePath+"/bench")}, want: "the door web imports the door bench"},
		{name: "its own test", files: map[string]string{"web/w_test.go": source("web_test", modulePath+"/web")}},
	})
}

func TestNamesRuleFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	finds(t, namesRule, []planted{
		{name: "good", files: map[string]string{"job/j.go": source("job")}},
		{name: "folder", files: map[string]string{"internal/util/u.go": source("util")}, want: `called "util"`},
		{name: "folder on the way", files: map[string]string{"pkg/job/j.go": source("job")}, want: `called "pkg"`},
		{name: "package", files: map[string]string{"job/j.go": source("helpers")}, want: `called "helpers"`},
	})
}

func TestDepthRuleFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	chain := func(n int) map[string]string {
		files := map[string]string{"p0/p.go": source("p0")}
		for i := 1; i <= n; i++ {
			files[fmt.Sprintf("p%d/p.go", i)] = source(fmt.Sprintf("p%d", i), fmt.Sprintf("%s/p%d", modulePath, i-1))
		}
		return files
	}
	finds(t, depthRule, []planted{
		{name: "five", files: chain(5)},
		{name: "six", files: chain(6), want: "p6: depth: its longest chain of imports is 6"},
	})
}

func TestClocksRuleFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	body := func(dir, statement string) map[string]string {
		return map[string]string{dir + "/x.go": "package " + dir + "\n\nfunc f() {\n\t" + statement + "\n}\n"}
	}
	finds(t, clocksRule, []planted{
		{name: "now", files: body("job", "_ = time.Now()"), want: "job/x.go:4: clocks: a pure package takes its time"},
		{name: "timer", files: body("sched", "time.AfterFunc(1, nil)"), want: "time.AfterFunc"},
		{name: "random", files: body("job", "_ = rand.IntN(3)"), want: "rand.IntN"},
		{name: "seeded", files: body("job", "_ = rand.New(rand.NewPCG(1, 2))")},
		{name: "goroutine", files: body("nix", "go f()"), want: "starts no goroutine"},
		{name: "not pure", files: body("queue", "go f(time.Now())")},
	})
}

// source is a Go file of package name that imports what is given.
func source(name string, imports ...string) string {
	text := "// Package " + name + " is planted.\npackage " + name + "\n"
	for _, i := range imports {
		text += fmt.Sprintf("\nimport _ %q\n", i)
	}
	return text
}
