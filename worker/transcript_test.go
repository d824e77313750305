package worker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace/headrace/job"
)

// heardBy gives a transcript and what its listener has heard: pending text begins with "?".
func heardBy(t *testing.T) (*transcript, *[]string) {
	t.Helper()
	var heard []string
	tr := newTranscript(NewLogWriter(discard{}), func(l Line) {
		if l.Pending {
			heard = append(heard, "?"+string(l.Text))
			return
		}
		heard = append(heard, string(l.Text))
	})
	return tr, &heard
}

func (t *transcript) feed(s string) {
	t.take(func(emit func([]byte, bool)) { t.cut.feed([]byte(s), emit) })
}

func TestUnfinishedLineIsToldAsPending(t *testing.T) {
	t.Parallel()
	type step struct {
		text string
		wait time.Duration
	}
	const short, long = pendingAfter / 4, 2 * pendingAfter
	for _, tc := range []struct {
		name  string
		steps []step
		want  []string
	}{
		{"prompt", []step{{"waiting: ", long}, {"yes\n", long}}, []string{"?waiting: ", "waiting: yes"}},
		{"once only", []step{{"waiting: ", 10 * long}}, []string{"?waiting: "}},
		{"whole lines", []step{{"a\n", long}, {"b\n", long}}, []string{"a", "b"}},
		{"soon whole", []step{{"a", short}, {"b\n", long}}, []string{"ab"}},
		{"young at each look", []step{{"a", 3 * short}, {"b\nc", 3 * short}, {"d\ne", 3 * short}, {"f\n", long}}, []string{"ab", "cd", "ef"}},
		{"progress without a pause", []step{{"1\r", 3 * short}, {"2\r", 3 * short}, {"3\r", 6 * short}, {"4\n", long}}, []string{"?1\r2\r", "?1\r2\r3\r", "1\r2\r3\r4"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tr, heard := heardBy(t)
				for _, s := range tc.steps {
					tr.feed(s.text)
					time.Sleep(s.wait)
				}
				synctest.Wait()
				tr.feed("tail")
				tr.end()
				time.Sleep(long) // Nothing is told after the end.
				synctest.Wait()
				if d := cmp.Diff(tc.want, *heard); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

func TestPromptIsHeardWhileTheCommandWaits(t *testing.T) {
	t.Parallel()
	gate := newGate(t)
	pending := make(chan string, 8)
	go func() {
		<-pending
		gate.open(t)
	}()
	r, lines := run(t, t.Context(), Executor{}, Command{Shell: "printf 'go on? '; read x <" + gate.path + "; echo $x"}, func(l Line) {
		if l.Pending {
			pending <- string(l.Text)
		}
	})
	if got := text(lines, Stdout); r.Outcome != job.Succeeded || got != "go on? go\n" || len(lines) != 1 {
		t.Errorf("%v, the log has %d lines: %q", r.Outcome, len(lines), got)
	}
}

func TestExcerptHasWholeLinesAsATerminalBeginsThem(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3<<20)
	for _, tc := range []struct {
		name, output string
		want         []string
	}{
		{"nothing", "", nil},
		{"some", "a\n\nb\n", []string{"a", "", "b"}},
		{"no newline", "a\nb", []string{"a", "b"}},
		{"a few of many", strings.Repeat("x\n", 50) + "y\n", append(bytesRepeat("x", 19), "y")},
		{"long", "a\n" + long + "\nb\n", []string{"a", long[:297] + "…", "b"}},
		{"just fits", long[:300] + "\n", []string{long[:300]}},
		{"one too long", long[:301] + "\n", []string{long[:297] + "…"}},
		{"whole runes", long[:296] + strings.Repeat("ü", 20), []string{long[:296] + "…"}},
		{"no text at all", strings.Repeat("\x80", 400), []string{strings.Repeat("\x80", 293) + "…"}},
		{"progress", "1%\r2%\r100%\ndone\r\n", []string{"100%", "done\r"}},
		{"progress over pieces", long[:MaxLineText] + "\rshort", []string{"short"}},
		{"progress cut after its return", long[:MaxLineText-1] + "\rshort", []string{"short"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "log")
			log, err := CreateLog(path)
			if err != nil {
				t.Fatal(err)
			}
			tr := newTranscript(log, nil)
			tr.feed(tc.output)
			tr.take(tr.cut.finish)
			check := func(what string, lines []Line) {
				var got []string
				for _, l := range lines {
					got = append(got, string(l.Text))
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Errorf("%s: %s", what, d)
				}
			}
			check("result", tr.end())
			for i := range 3 {
				tr.note("note %d", i)
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			r, err := OpenLog(path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			lines, err := r.Excerpt(20)
			if err != nil {
				t.Fatal(err)
			}
			check("log", lines)
		})
	}
}

func bytesRepeat(s string, n int) []string {
	var out []string
	for range n {
		out = append(out, s)
	}
	return out
}

func TestNoteInTheMiddleOfALineStaysApart(t *testing.T) {
	t.Parallel()
	e := excerpt{most: 3}
	piece := func(s string, partial bool) { e.add(Line{Stream: Stdout, Text: []byte(s), Partial: partial}) }
	note := func(s string) { e.add(Line{Stream: Note, Text: []byte(s)}) }
	show := func() string {
		var b bytes.Buffer
		for _, l := range e.last() {
			fmt.Fprintf(&b, "%v:%s ", l.Stream, l.Text)
		}
		return b.String()
	}
	piece("a", true)
	note("n1")
	piece("b", false)
	if got := show(); got != "out:ab note:n1 " {
		t.Errorf("got %q", got)
	}
	piece("c", true)
	for i := range 3 {
		note(fmt.Sprint(i))
	}
	piece("d", true) // The line has been dropped.
	piece("e", false)
	piece("f", false)
	if got := show(); got != "note:1 note:2 out:f " {
		t.Errorf("got %q", got)
	}
}

// What a failed command printed is shown to people: a line of megabytes must not flood them.
func TestTailOfResultIsBounded(t *testing.T) {
	t.Parallel()
	r, _ := run(t, context.Background(), Executor{}, Command{
		Shell: `head -c 3000000 /dev/zero | tr '\0' x; echo; echo "$0"; exit 1`, Dir: os.TempDir(),
	}, nil)
	if len(r.Tail) != 3 || len(r.Tail[0].Text) != MaxExcerptText || !utf8.Valid(r.Tail[0].Text) || r.Tail[2].Stream != Note {
		t.Errorf("%d lines, the first of %d bytes", len(r.Tail), len(r.Tail[0].Text))
	}
}

// Whoever is told of a line finds it in the log: who ships logs would else read too early, and hear of nothing after.
func TestListenerFindsTheLineInTheLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	log, err := CreateLog(path)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	tr := newTranscript(log, func(l Line) {
		told = append(told, string(l.Text))
		var found []string
		r, err := OpenLog(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close() // Only read from.
		for {
			have, err := r.Next()
			if err != nil {
				break // What is there has been read.
			}
			found = append(found, string(have.Text))
		}
		if len(found) < len(told) {
			t.Errorf("told %q, the log has %q", told, found)
		}
	})
	tr.feed("one\n")
	tr.feed("two\nthree\nfo")
	tr.note("a note")
	tr.feed("ur\n")
	if want := []string{"one", "two", "three", "a note", "four"}; !cmp.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}
