package graph_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	yaml "github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headrace/headrace/graph"
)

// drawFile makes a random file as a value that can be written in both formats.
func drawFile(t *rapid.T) map[string]any {
	word := rapid.StringMatching(`[a-zA-Z0-9_][ -~é]{0,12}[a-z]`)
	jobs := make(map[string]any)
	n := rapid.IntRange(1, 8).Draw(t, "jobs")
	for i := range n {
		one := map[string]any{"run": word.Draw(t, "run")}
		if rapid.Bool().Draw(t, "argv") {
			one["run"] = rapid.SliceOfN(word, 1, 4).Draw(t, "args")
		}
		if rapid.Bool().Draw(t, "env") {
			one["env"] = rapid.MapOfN(rapid.StringMatching(`[A-Z]{1,4}`), word, 0, 20).Draw(t, "vars")
		}
		if i > 0 && rapid.Bool().Draw(t, "needs") {
			one["needs"] = []any{
				fmt.Sprintf("j%d", rapid.IntRange(0, i-1).Draw(t, "need")),
				map[string]any{"job": fmt.Sprintf("j%d", rapid.IntRange(0, n-1).Draw(t, "other")), "policy": "order"},
			}
		}
		if rapid.Bool().Draw(t, "matrix") {
			one["matrix"] = map[string]any{"x": []any{1, "two", true}, "y": []any{"a", 1.5}}
			one["dir"] = "d/${matrix.x}/${matrix.y}"
		}
		if rapid.Bool().Draw(t, "numbers") {
			one["retries"], one["priority"], one["optional"] = rapid.IntRange(0, 9).Draw(t, "retries"), -3, true
			one["timeout"], one["retry-on"], one["features"] = "1h", []int{3, 1}, []string{"b", "a"}
		}
		jobs[fmt.Sprintf("j%d", i)] = one
	}
	return map[string]any{"name": "n", "defaults": map[string]any{"silence": "1m", "env": map[string]any{"LANG": "C"}}, "jobs": jobs}
}

func TestYAMLAndJSONAreEqual(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := drawFile(t)
		j, err := json.MarshalIndent(f, "", rapid.SampledFrom([]string{"", "  ", "\t"}).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		y, err := yaml.MarshalWithOptions(f, yaml.UseSingleQuote(rapid.Bool().Draw(t, "single quotes")),
			yaml.Indent(rapid.IntRange(2, 8).Draw(t, "spaces")), yaml.IndentSequence(rapid.Bool().Draw(t, "indent lists")))
		if err != nil {
			t.Fatal(err)
		}
		want := mustParse(t, string(j))
		checkGraph(t, want)
		if diff := cmp.Diff(want, mustParse(t, string(y)), noPlaces); diff != "" {
			t.Fatalf("(-json +yaml):\n%s\n%s", diff, y)
		}
		// JSON is YAML: behind the mark of a document the same text goes through the other reader.
		flow, err := graph.Parse(strings.NewReader("---\n"+string(j)), "x", graph.Limits{})
		if err != nil {
			t.Fatalf("%s\n%v", j, err)
		}
		if diff := cmp.Diff(want, flow, noPlaces); diff != "" {
			t.Fatalf("(-json +flow):\n%s", diff)
		}
	})
}
