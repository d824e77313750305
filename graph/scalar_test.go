package graph_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/headrace/headrace/graph"
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

// Whole numbers are what they are to JSON Schema and to YAML 1.2, however they are written.
func TestWholeNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"10": 10, "1e1": 10, "1E+1": 10, "10.0": 10, "100e-1": 10, "0.0": 0, "-0": 0, "0e9": 0,
		// JSON has not these.
		"+10": 10, "010": 10, "10.": 10, ".1e2": 10, "0x1F": 31, "0o17": 15,
		// These are no numbers, or not whole.
		"1.5": -1, "1e-1": -1, "1_0": -1, "0b11": -1, "0X1F": -1, "1e": -1, "1e400": -1, ".inf": -1, ".nan": -1, "0x": -1, "0o18": -1,
		`"10"`: -1, "'1e1'": -1, "1e9": -1,
	} {
		files := []string{"jobs:\n  a:\n    run: x\n    retries: " + text + "\n"}
		if json.Valid([]byte(text)) {
			files = append(files, `{"jobs": {"a": {"run": "x", "retries": `+text+`}}}`)
		}
		for _, file := range files {
			g, err := graph.Parse(strings.NewReader(file), "f", graph.Limits{})
			switch {
			case want < 0 && (err == nil || !strings.Contains(err.Error(), "retries: expected a whole number from 0 to 1000, found ")):
				t.Errorf("%q: %v", file, err)
			case want >= 0 && (err != nil || g.Jobs[0].Retries != want):
				t.Errorf("%q: %v, want %d", file, err, want)
			}
		}
	}
}

// A limit that is given never comes to none because it is short.
func TestDurationsBelowAMicrosecondAreRefused(t *testing.T) {
	t.Parallel()
	for text, fine := range map[string]bool{
		"0": true, "0s": true, "0.00s": true, "1us": true, "1µs": true, "1000ns": true, "0.000001s": true, "1h0ns": true,
		"87600h": true, "87600h0m0.000001s": false, "2562048h": false,
		"0.4ns": false, "1ns": false, "999ns": false, "0.9us": false, "0.0000009s": false, "0s0.1ns": false, "-0s": false, "-1ns": false,
	} {
		for _, field := range []string{"timeout", "silence"} {
			for _, file := range []string{
				"jobs:\n  a: {run: x,\n   " + field + ": " + text + "}\n",
				"{\"jobs\": {\"a\": {\"run\": \"x\",\n  \"" + field + "\": \"" + text + "\"}}}",
			} {
				_, err := graph.Parse(strings.NewReader(file), "f", graph.Limits{})
				if fine != (err == nil) {
					t.Errorf("%q: %v", file, err)
				}
				if !fine && !regexp.MustCompile("^f:[23]:\\d+: "+field+": expected .*, found \""+text+"\"$").MatchString(err.Error()) {
					t.Errorf("%q is told as %v", file, err)
				}
			}
		}
	}
}
