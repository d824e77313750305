package graph_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"

	"github.com/headrace/headrace/graph"
)

func TestProblemsAreFitForATerminal(t *testing.T) {
	t.Parallel()
	const name = "a\x1b[2J\r\n\xff\u202e\\é b.yaml"
	const shown = `a\x1b[2J\r\n\xff\u202e\é b.yaml`
	for _, text := range []string{
		"jobs: {\"\\e[2J\": {run: x}}",
		"jobs: {a: {run: x, \"\\u009b2J\\n\": 1}}",
		"jobs: {a: {run: x, env: {\"B\\e\": []}}}",
		"jobs: {a: {run: \"${matrix.\\e\"}}",
		"jobs: {a: {run: x, matrix: {\"\\e\": 1}}}",
		"jobs: {a: {run: x, matrix: {a: [\"\\e\"]}, dir: \"${matrix.a}\"}}",
		"jobs: {a: {run: x, matrix: {a: [x]}, dir: \"${matrix.\\u202e}\"}}",
		"jobs: {a: {run: x, needs: \"\\e\\r\"}}",
		"jobs: {a: {run: !\u202ea b}}",
		"jobs: {a: {run: *\u202ea}}",
		"jobs: {a: {run: &\u202ea b}}",
		"jobs: {a: {run: |\u202e}}",
		"jobs: {a: {run: x\u202e: y}}",
		"jobs:\n  a\x1b: {run: x}",
	} {
		_, err := graph.Parse(strings.NewReader(text), name, graph.Limits{})
		if err == nil || !strings.HasPrefix(err.Error(), shown+":") {
			t.Errorf("%q: got %v", text, err)
		} else if strings.ContainsFunc(err.Error(), func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Errorf("%q: got %q", text, err)
		}
	}
	broken := errors.New("broken")
	_, err := graph.Parse(iotest.ErrReader(broken), name, graph.Limits{})
	if !errors.Is(err, broken) || err.Error() != "read "+shown+": broken" {
		t.Errorf("got %q", err)
	}
}
