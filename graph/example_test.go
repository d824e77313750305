package graph_test

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/headrace/headrace/graph"
)

const file = `
name: demo
defaults: {timeout: 10m}
jobs:
  release:
    run: [make, release]
    needs: [test, {job: lint, policy: finish}]
  test:
    run: GOOS=${matrix.os} go test ./...
    needs: [build]
    matrix: {os: [linux, darwin]}
  build: {run: go build ./..., outputs: "bin/**"}
  lint: {run: make lint, optional: true}
`

func ExampleParse() {
	g, err := graph.Parse(strings.NewReader(file), "demo.yaml", graph.DefaultLimits())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, j := range g.Jobs {
		fmt.Println(j.Name, j.Run.Shell, j.Run.Argv, j.Timeout)
		for _, n := range j.Needs {
			fmt.Println("  needs", g.Jobs[n.Job].Name, n.Policy)
		}
	}
	// Output:
	// build go build ./... [] 10m0s
	// test:linux GOOS=linux go test ./... [] 10m0s
	//   needs build success
	// test:darwin GOOS=darwin go test ./... [] 10m0s
	//   needs build success
	// lint make lint [] 10m0s
	// release  [make release] 10m0s
	//   needs test:linux success
	//   needs test:darwin success
	//   needs lint finish
}

func ExampleParse_problems() {
	_, err := graph.Parse(strings.NewReader(`jobs:
  build: {run: make, timeout: 5 minutes}
  test: {run: make test, need: build}
  deploy: {run: make deploy, needs: [tset]}
`), "ci.yaml", graph.Limits{})
	fmt.Println(err)
	// Output:
	// ci.yaml:2:31: timeout: expected a duration such as 90s or 1h30m, found "5 minutes"
	// ci.yaml:3:26: unknown field "need" of a job; did you mean "needs"?
	// ci.yaml:4:38: no job is named "tset"; did you mean "test"?
}

func ExampleGraph_Select() {
	g, err := graph.Parse(strings.NewReader(file), "demo.yaml", graph.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	part, err := g.Select([]string{"test:lin*"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, j := range part.Jobs {
		fmt.Println(j.Name)
	}
	// Output:
	// build
	// test:linux
}

func ExampleGraph_Plan() {
	g, err := graph.Parse(strings.NewReader(file), "demo.yaml", graph.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	p := g.Plan(2, func(int) time.Duration { return time.Minute }, nil)
	for _, s := range p.Steps {
		fmt.Printf("%v to %v: %s\n", s.Start, s.Finish, g.Jobs[s.Job].Name)
	}
	fmt.Println("work", p.Work, "in", p.Makespan, "at most", p.Width, "at once")
	// Output:
	// 0s to 1m0s: build
	// 0s to 1m0s: lint
	// 1m0s to 2m0s: test:linux
	// 1m0s to 2m0s: test:darwin
	// 2m0s to 3m0s: release
	// work 5m0s in 3m0s at most 2 at once
}

func ExampleGraph_DOT() {
	g, err := graph.Parse(strings.NewReader(`jobs: {a: {run: x}, b: {run: y, needs: {a: finish}}}`), "f", graph.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := g.DOT(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// digraph "" {
	// 	rankdir=LR;
	// 	node [shape=box, fontname=monospace];
	// 	"a";
	// 	"b";
	// 	"a" -> "b" [style=dashed];
	// }
}
