package queue_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

var record = flag.Bool("record", false, "write what the scripts say now into testdata/scripts; read the difference before you keep it")

// TestScripts plays each recorded script and compares what the queue says with what was recorded. The language is
// told in testdata/scripts/README.md.
func TestScripts(t *testing.T) {
	t.Parallel()
	for _, path := range scripts(t) {
		t.Run(scriptName(path), func(t *testing.T) {
			t.Parallel()
			want, steps := readScript(t, path)
			got := play(t, steps, false)
			if *record {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("%s (-recorded +now); after reading it critically, record anew with\n"+
					"\tgo test ./queue -run 'TestScripts/%s' -record\n%s", path, scriptName(path), diff)
			}
		})
	}
}

// noRestart, on a line of its own in a script's head comment, exempts it from TestScriptsWithRestartBeforeEachCommand; the
// reason follows it.
const noRestart = "no-restart:"

// TestScriptsWithRestartBeforeEachCommand plays each script again, with a crash and a recovery before every command: but
// for what is volatile, the story must stay the same to the letter.
func TestScriptsWithRestartBeforeEachCommand(t *testing.T) {
	t.Parallel()
	if *record {
		return // what is recorded may be about to change
	}
	for _, path := range scripts(t) {
		want, steps := readScript(t, path)
		if strings.Contains(want, "\n# "+noRestart) {
			continue
		}
		t.Run(scriptName(path), func(t *testing.T) {
			t.Parallel()
			got := play(t, steps, true)
			if diff := cmp.Diff(durable(want), durable(got)); diff != "" {
				t.Errorf("%s with restarts (-recorded +with restarts):\n%s", path, diff)
			}
		})
	}
}

// durable leaves out what a restart may forget: who waited, and who was told at once to stop.
func durable(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, " is told to stop ") {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lines
}

func scripts(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/scripts/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts in testdata/scripts: %v", err)
	}
	return paths
}

func scriptName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".txt") }

// step is a command with its continuation lines, or a line of comment.
type step struct {
	place string
	text  string   // as written
	words []string // of the command; none: a comment or an empty line
	more  []string // continuation lines
}

const (
	indent       = "    " // of output
	continuation = "  | "
)

// readScript takes a script apart, and leaves the recorded output out.
func readScript(t *testing.T, path string) (text string, steps []step) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		place := fmt.Sprintf("%s:%d", path, n)
		switch {
		case strings.HasPrefix(line, indent):
		case strings.HasPrefix(line, continuation):
			if len(steps) == 0 || steps[len(steps)-1].words == nil {
				t.Fatalf("%s: a continuation without a command", place)
			}
			last := &steps[len(steps)-1]
			last.text += "\n" + line
			last.more = append(last.more, strings.TrimPrefix(line, continuation))
		case line == "" || strings.HasPrefix(line, "#"):
			steps = append(steps, step{place: place, text: line})
		default:
			steps = append(steps, step{place: place, text: line, words: strings.Fields(line)})
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return string(b), steps
}

// play gives the script with what the queue says now.
func play(t *testing.T, steps []step, restarts bool) string {
	t.Helper()
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		defer func() {
			if t.Failed() {
				t.Logf("so far:\n%s", out.String())
			}
		}()
		for _, s := range steps {
			out.WriteString(s.text + "\n")
			if s.words == nil {
				continue
			}
			if restarts {
				w.restart()
			}
			for _, line := range w.play(s) {
				out.WriteString(indent + line + "\n")
			}
		}
	})
	return out.String()
}
