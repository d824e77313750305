package postgres

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Any text comes back as it was, and what the server is given is text to it.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a", `\`, `\\0`, "\x00", "\x00\xff\xfe", `\xff`, `a\0b`, "ü\xc3", "\ufffd", `\x`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := escaped(s)
		if !utf8.ValidString(e) || strings.Contains(e, "\x00") {
			t.Errorf("%q is stored as %q, which is no text to the server", s, e)
		}
		if got := unescaped(e); got != s {
			t.Errorf("%q is stored as %q and read as %q", s, e, got)
		}
		unescaped(s) // Whatever is there can be read.
	})
}
