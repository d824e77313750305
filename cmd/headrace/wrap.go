package main

import (
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is how wide the lines of a help text are at most.
const helpWidth = 100

// wrapHelp gives the help texts of a command, and of those below it, lines of one width.
func wrapHelp(cmd *cobra.Command) {
	cmd.Long = wrapped(cmd.Long, helpWidth)
	for _, c := range cmd.Commands() {
		wrapHelp(c)
	}
}

// wrapped fills the paragraphs of a text to a width. Lines that are indented stay as they are.
func wrapped(text string, most int) string {
	var b strings.Builder
	used := 0 // of the line that is being filled
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || strings.ContainsRune(" \t", rune(line[0])) {
			if used > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(line + "\n")
			used = 0
			continue
		}
		for word := range strings.FieldsSeq(line) {
			n := utf8.RuneCountInString(word)
			switch {
			case used == 0:
			case used+1+n > most:
				b.WriteByte('\n')
				used = 0
			default:
				b.WriteByte(' ')
				used++
			}
			b.WriteString(word)
			used += n
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
