package graph_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/graph"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typed, names, want string }{
		{"A", "b a", "a"},
		{"a", "b c", ""},
		{"BUILD", "built build", "build"},
		{"Biuld", "test build", "build"},
		{"TSET", "lint test", "test"},
		{"É", "e é", "é"},
		{"excludes", "include exclude", "exclude"},
		{"deploy", "x y", ""},
		{"", "a b", ""},
		{strings.Repeat("a", 257), strings.Repeat("a", 256), ""},
	} {
		if got := graph.Nearest(c.typed, slices.Values(strings.Fields(c.names))); got != c.want {
			t.Errorf("%.20s among %.20s: got %q, want %q", c.typed, c.names, got, c.want)
		}
	}
}
