package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// feed gives the events (one JSON object a line) to a new report and returns it with what it printed.
func feed(t *testing.T, known []requirement, strict bool, events string) (*report, string) {
	t.Helper()
	var out strings.Builder
	r := newReport(known)
	if err := r.read(strings.NewReader(events), &out); err != nil {
		t.Fatal(err)
	}
	r.printEnd(&out, strict)
	return r, out.String()
}

const onePass = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}
{"Action":"pass","Package":"p","Elapsed":2}
`

func TestVerdicts(t *testing.T) {
	t.Parallel()
	skip := func(why string) string {
		return onePass + `{"Action":"run","Package":"q","Test":"TestB"}
{"Action":"output","Package":"q","Test":"TestB","Output":"    b_test.go:3: ` + why + `\n"}
{"Action":"skip","Package":"q","Test":"TestB"}
{"Action":"pass","Package":"q"}
`
	}
	known := []requirement{{name: "postgresql", hint: "apt-get install postgresql"}}
	tests := []struct {
		name   string
		events string
		strict bool
		want   []string
		closes string
	}{
		{name: "all passed", events: onePass, strict: true, closes: "1 passed, 0 failed, 0 skipped\n"},
		{name: "nothing ran", want: []string{"no test ran"}, closes: "0 passed, 0 failed, 0 skipped\n"},
		{
			name: "a package without tests is no skip", strict: true, closes: "1 passed, 0 failed, 0 skipped\n",
			events: onePass + `{"Action":"skip","Package":"q"}` + "\n",
		},
		{
			name: "a known requirement is missing", events: skip("needs postgresql"),
			closes: "1 passed, 0 failed, 1 skipped\n",
		},
		{
			name: "a known requirement is missing in CI", events: skip("needs postgresql"), strict: true,
			want:   []string{"q TestB could not run, and CI=true accepts no such thing"},
			closes: "1 passed, 0 failed, 1 skipped\n",
		},
		{
			name: "an unexplained skip", events: skip("flaky"),
			want:   []string{"q TestB was skipped without a known requirement"},
			closes: "1 passed, 0 failed, 1 skipped\n",
		},
		{
			name: "a test failed", closes: "1 passed, 1 failed, 0 skipped\n", want: []string{"1 failed"},
			events: onePass + `{"Action":"run","Package":"q","Test":"TestB"}
{"Action":"fail","Package":"q","Test":"TestB"}
{"Action":"fail","Package":"q"}
`,
		},
		{
			name: "a package did not compile", closes: "1 passed, 1 failed, 0 skipped\n", want: []string{"1 failed"},
			events: onePass + `{"Action":"build-output","ImportPath":"q [q.test]","Output":"q.go:1: undefined\n"}
{"Action":"fail","Package":"q","FailedBuild":"q [q.test]"}
`,
		},
		{
			name: "a test never ended", closes: "1 passed, 1 failed, 0 skipped\n", want: []string{"1 failed"},
			events: onePass + `{"Action":"run","Package":"q","Test":"TestB"}
{"Action":"output","Package":"q","Test":"TestB","Output":"panic: out of time\n"}
{"Action":"fail","Package":"q"}
`,
		},
		{
			name: "a parent is not counted beside its subtests", closes: "2 passed, 0 failed, 0 skipped\n",
			events: onePass + `{"Action":"run","Package":"q","Test":"TestB"}
{"Action":"run","Package":"q","Test":"TestB/one"}
{"Action":"pass","Package":"q","Test":"TestB/one"}
{"Action":"pass","Package":"q","Test":"TestB"}
{"Action":"pass","Package":"q"}
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, out := feed(t, known, tt.strict, tt.events)
			if got := r.verdict(tt.strict); !slices.Equal(got, tt.want) {
				t.Errorf("verdict %q, want %q", got, tt.want)
			}
			if !strings.HasSuffix(out, tt.closes) {
				t.Errorf("the closing line is not %q in:\n%s", tt.closes, out)
			}
		})
	}
}

func TestOutputIsShownForWhatFailedAndWhatDidNotRunOnly(t *testing.T) {
	t.Parallel()
	_, out := feed(t, []requirement{{name: "chromium", hint: "install it"}}, false, onePass+`{"Action":"run","Package":"q","Test":"TestB"}
{"Action":"output","Package":"q","Test":"TestB","Output":"got 1, want 2\n"}
{"Action":"fail","Package":"q","Test":"TestB"}
{"Action":"run","Package":"q","Test":"TestC"}
{"Action":"output","Package":"q","Test":"TestC","Output":"needs chromium for the page\n"}
{"Action":"skip","Package":"q","Test":"TestC"}
{"Action":"run","Package":"q","Test":"TestD"}
{"Action":"output","Package":"q","Test":"TestD","Output":"panic: lost\n"}
{"Action":"fail","Package":"q"}
{"Action":"build-output","ImportPath":"z","Output":"z.go:1: undefined: y\n"}
{"Action":"fail","Package":"z","FailedBuild":"z"}
warning: a line that is no event
`)
	for _, want := range []string{
		"--- FAIL q TestB\n    got 1, want 2\n", "--- FAIL q TestD\n    panic: lost\n", "z.go:1: undefined: y",
		"q TestC (needs chromium: install it)\n    needs chromium for the page\n",
		"1.50s  p TestA", "warning: a line that is no event",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("missing %q in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "chatter") {
		t.Errorf("the output of a test that passed is shown:\n%s", out)
	}
}

// go test says of a data race in the words of any test that runs.
func TestDataRaceIsShownWhoeverPassed(t *testing.T) {
	t.Parallel()
	_, out := feed(t, nil, false, `{"Action":"run","Package":"q","Test":"TestA"}
{"Action":"run","Package":"q","Test":"TestB"}
{"Action":"output","Package":"q","Test":"TestA","Output":"==================\n"}
{"Action":"output","Package":"q","Test":"TestA","Output":"WARNING: DATA RACE\n"}
{"Action":"output","Package":"q","Test":"TestA","Output":"Read at 0x1 by goroutine 7\n"}
{"Action":"output","Package":"q","Test":"TestA","Output":"==================\n"}
{"Action":"output","Package":"q","Test":"TestA","Output":"chatter\n"}
{"Action":"pass","Package":"q","Test":"TestA"}
{"Action":"output","Package":"q","Test":"TestB","Output":"race detected during execution of test\n"}
{"Action":"fail","Package":"q","Test":"TestB"}
{"Action":"fail","Package":"q"}
`)
	if !strings.Contains(out, "    WARNING: DATA RACE\n    Read at 0x1 by goroutine 7\n") || strings.Contains(out, "chatter") {
		t.Errorf("the race, or more than it, is not shown:\n%s", out)
	}
}

func TestRealGoTestIsJudged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module fixture\n\ngo 1.26.0\n",
		"good/good_test.go": "package good\n\nimport \"testing\"\n\n" +
			"func TestGood(t *testing.T) {}\n",
		"bad/bad_test.go": "package bad\n\nimport \"testing\"\n\n" +
			"func TestBad(t *testing.T) { t.Error(\"as planted\") }\n",
		"broken/broken_test.go": "package broken\n\nvar x int = \"as planted\"\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		folder string
		ok     bool
		want   string
	}{
		{folder: "good", ok: true, want: "1 passed, 0 failed, 0 skipped"},
		{folder: "bad", want: "as planted"},
		{folder: "broken", want: "cannot use"},
		{folder: "absent", want: "0 passed"},
	}
	for _, tt := range tests {
		t.Run(tt.folder, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			ok, err := run(&out, io.Discard, dir, []string{"./" + tt.folder}, true)
			if ok != tt.ok || !strings.Contains(out.String(), tt.want) {
				t.Errorf("ok %v, err %v, want %v and %q in:\n%s", ok, err, tt.ok, tt.want, out.String())
			}
		})
	}
}
