package graph_test

import (
	"testing"
)

// TestYAMLScalars holds the library to YAML 1.2 in what commands are written with.
func TestYAMLScalars(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`echo hi`:                           "echo hi",
		`echo hi # there`:                   "echo hi",
		`echo hi#there`:                     "echo hi#there",
		`a:b c::d`:                          "a:b c::d",
		`go test -run 'A|B' ./...`:          "go test -run 'A|B' ./...",
		`x [a] {b} , "c"`:                   `x [a] {b} , "c"`,
		`"a\tb\n\"c\" \u00e9 \\ \x41"`:      "a\tb\n\"c\" é \\ A",
		`'it''s $HOME \n'`:                  `it's $HOME \n`,
		"|\n      a\n       b\n\n      c\n": "a\n b\n\nc\n",
		"|-\n      a\n      b\n":            "a\nb",
		"|+\n      a\n\n":                   "a\n\n\n",
		"|2\n       a\n":                    " a\n",
		">\n      a\n      b\n\n      c\n":  "a b\nc\n",
		">-\n      a\n      b\n":            "a b",
		"a\n      b\n      c":               "a b c",
		"\"a\n      b\n\n      c\"":         "a b\nc",
		"'a\n      b'":                      "a b",
		"|\n      # not a comment\n      x": "# not a comment\nx\n",
		"|\n      a: b\n      - c\n      }": "a: b\n- c\n}\n",
		"|\n      a\n    # a comment\n":     "a\n",
		`yes`:                               "yes",
		`1.2.3`:                             "1.2.3",
		`~/bin/x`:                           "~/bin/x",
		`"true"`:                            "true",
		`-x`:                                "-x",
		`a\n`:                               `a\n`,
		`é ü 漢字`:                            "é ü 漢字",
		"|\n      tab\there\n":              "tab\there\n",
		`&anchor x`:                         "x",
		`test -f x && rm x || true`:         "test -f x && rm x || true",
		`!!str 5`:                           "5",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			g := parse(t, "jobs:\n  a:\n    run: "+text+"\n    dir: d\n  b: {run: x}\n")
			if _, a := find(t, g, "a"); a.Run.Shell != want || a.Dir != "d" {
				t.Errorf("got %q in %q, want %q", a.Run.Shell, a.Dir, want)
			}
		})
	}
}
