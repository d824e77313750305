package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWrappedFillsParagraphsAndKeepsLists(t *testing.T) {
	t.Parallel()
	const text = "one two\nthree\n\n  a list  is kept\nfour verylongword five\nlist:\n  0  x"
	const want = "one two\nthree\n\n  a list  is kept\nfour\nverylongword\nfive list:\n  0  x"
	if got := wrapped(text, 10); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestHelpHasOneWidth(t *testing.T) {
	t.Parallel()
	for _, c := range newRoot().Commands() {
		for line := range strings.SplitSeq(c.Long, "\n") {
			if !strings.HasPrefix(line, " ") && utf8.RuneCountInString(line) > helpWidth {
				t.Errorf("%s: %d columns: %s", c.Name(), utf8.RuneCountInString(line), line)
			}
		}
	}
}
