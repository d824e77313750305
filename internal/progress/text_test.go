package progress

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestCleanLeavesNothingThatControlsATerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"plain", "go build ./...", "go build ./..."},
		{"empty", "", ""},
		{"colours", "\x1b[1;31mred\x1b[0m", "red"},
		{"clear", "a\x1b[2J\x1b[Hb", "ab"},
		{"title, bell", "\x1b]0;owned\x07text", "text"},
		{"title, terminator", "\x1b]0;owned\x1b\\text", "text"},
		{"title that never ends", "\x1b]0;owned", ""},
		{"device control", "\x1bPq#0\x1b\\x", "x"},
		{"two letters", "\x1bcx", "x"},
		{"charset", "\x1b(0x", "x"},
		{"escape at the end", "x\x1b", "x"},
		{"escape in an escape", "\x1b[\x1b[31mx", "x"},
		{"half a sequence", "x\x1b[3", "x"},
		{"backspace and bell", "a\b\ab", "a\ufffd\ufffdb"},
		{"C1", "a\u009b31mb", "a\ufffd31mb"},
		{"C1 byte", "a\x9b31mb", "a\ufffd31mb"},
		{"tab", "a\tb", "a    b"},
		{"progress bar", "10%\r20%\r30%", "30%"},
		{"carriage return at the end", "text\r", "text"},
		{"right to left override", "a\u202eb", "a\ufffdb"},
		{"other letters", "größe 漢字 é", "größe 漢字 é"},
		{"newline", "a\nb", "a\ufffdb"},
	} {
		if got := Clean(c.in); got != c.want {
			t.Errorf("%s: Clean(%q) = %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"x", "\x1b[31m", "\x1b]0;a\x1b\\b", "a\rb", "\xff\u202e", "\x1b\x1b["} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got := Clean(in)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) }) {
			t.Fatalf("Clean(%q) = %q", in, got)
		}
		if again := Clean(got); again != got {
			t.Fatalf("Clean(%q) = %q, cleaned again %q", in, got, again)
		}
		for _, room := range []int{-1, 0, 1, 2, 7} {
			if c := columns(cut(got, room)); c > max(0, room) {
				t.Fatalf("cut(%q, %d) takes %d columns", got, room, c)
			}
		}
	})
}

func TestCutKeepsToTheRoom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		room int
		want string
	}{
		{"text", 4, "text"},
		{"text", 3, "te…"},
		{"text", 1, "…"},
		{"text", 0, ""},
		{"漢字", 4, "漢字"},
		{"漢字", 3, "漢…"},
		{"a漢字", 3, "a…"},
		{"e\u0301e\u0301", 2, "e\u0301e\u0301"},
	} {
		if got := cut(c.in, c.room); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.in, c.room, got, c.want)
		}
	}
}

func TestSpanReadsAsPeopleSayIt(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second:                  "0s",
		0:                             "0s",
		35 * time.Millisecond:         "35ms",
		1300 * time.Millisecond:       "1.3s",
		9990 * time.Millisecond:       "10.0s",
		42 * time.Second:              "42s",
		3*time.Minute + 7*time.Second: "3m07s",
		2*time.Hour + 5*time.Minute:   "2h05m",
		time.Hour - time.Millisecond:  "59m59s",
		100*time.Hour + 59*time.Minute + time.Hour: "101h59m",
	} {
		if got := Span(d); got != want {
			t.Errorf("Span(%v) = %q, want %q", d, got, want)
		}
	}
}
