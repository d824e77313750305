package graph_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/headrace/headrace/graph"
)

func TestPicturesOfFull(t *testing.T) {
	t.Parallel()
	g := parseFile(t, "testdata/good/full.yaml")
	var dot, svg bytes.Buffer
	if err := g.DOT(&dot); err != nil {
		t.Fatal(err)
	}
	if err := g.SVG(&svg); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/good/full.dot", dot.String())
	golden(t, "testdata/good/full.svg", svg.String())
}

// elements counts the elements of XML by class, and fails if it is not well formed.
func elements(t *testing.T, text string) map[string]int {
	t.Helper()
	count := make(map[string]int)
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if start, ok := token.(xml.StartElement); ok {
			for _, a := range start.Attr {
				if a.Name.Local == "class" {
					count[a.Value]++
				}
			}
		}
	}
}

func TestSVGDrawsEveryJobAndNeedEscaped(t *testing.T) {
	t.Parallel()
	g := parse(t, `{"jobs": {"a": {"run": "x < y && \u0007 z"}, "b": {"run": "x", "needs": ["a"]},
		"c": {"run": ["</svg>"], "needs": {"a": "finish", "b": "success", "d": "order"}}, "d": {"run": "x", "needs": {"c": "order"}}}}`)
	g.Name = "<&\x01\""
	var b strings.Builder
	if err := g.SVG(&b); err != nil {
		t.Fatal(err)
	}
	got := elements(t, b.String())
	want := map[string]int{"needs": 1, "job": 4, "need success": 2, "need finish": 1, "need order": 2}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("elements %v, want %v", got, want)
	}
	b.Reset()
	if err := (&graph.Graph{Jobs: []graph.Job{{Name: "<&>"}}}).SVG(&b); err != nil || elements(t, b.String())["job"] != 1 {
		t.Errorf("a name that Parse would refuse: %v\n%s", err, b.String())
	}
	if err := (&graph.Graph{}).SVG(&b); err != nil {
		t.Errorf("empty graph: %v", err)
	}
}

// grid makes columns of jobs of which each needs two of the column before.
func grid(columns, rows int) *graph.Graph {
	g := &graph.Graph{}
	for c := range columns {
		for r := range rows {
			j := graph.Job{Name: fmt.Sprintf("j%d-%d", c, r)}
			if c > 0 {
				j.Needs = []graph.Need{{Job: (c-1)*rows + r}}
				if r+1 < rows {
					j.Needs = append(j.Needs, graph.Need{Job: (c-1)*rows + r + 1})
				}
			}
			g.Jobs = append(g.Jobs, j)
		}
	}
	return g
}

func TestSVGRefusesWhatNobodyCanRead(t *testing.T) {
	t.Parallel()
	if err := grid(40, 50).SVG(io.Discard); err != nil {
		t.Errorf("2000 jobs: %v", err)
	}
	if err := grid(3, 667).SVG(io.Discard); !errors.Is(err, graph.ErrTooManyJobs) {
		t.Errorf("2001 jobs: %v", err)
	}
}

func TestSVGOfLongEdgesIsBounded(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{}
	for i := range 2000 {
		j := graph.Job{Name: fmt.Sprintf("j%d", i)}
		for k := range min(i, 3) {
			j.Needs = append(j.Needs, graph.Need{Job: []int{0, 1, i - 1}[k]})
		}
		g.Jobs = append(g.Jobs, j)
	}
	g.Jobs[2].Needs = g.Jobs[2].Needs[:2]
	var b bytes.Buffer
	if err := g.SVG(&b); err != nil || b.Len() > 4<<20 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
}
