package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// PostgreSQL's text knows no zero byte and nothing but UTF-8. The identity of a job without a key has both, and a name that got
// here in spite of the engine's checks must not fail a round: a backslash begins what stands for such a byte, and itself.
func escaped(s string) string {
	if utf8.ValidString(s) && !strings.ContainsAny(s, "\\\x00") {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == 0:
			b.WriteString(`\0`)
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func unescaped(s string) string {
	before, rest, found := strings.Cut(s, `\`)
	if !found {
		return s
	}
	b := []byte(before)
	for found {
		switch {
		case strings.HasPrefix(rest, "0"):
			b, rest = append(b, 0), rest[1:]
		case strings.HasPrefix(rest, "x") && len(rest) >= 3:
			// What is no number was written by nobody here, and stands for nothing.
			n, _ := strconv.ParseUint(rest[1:3], 16, 8)
			b, rest = append(b, byte(n)), rest[3:]
		case rest != "":
			b, rest = append(b, rest[0]), rest[1:]
		}
		before, rest, found = strings.Cut(rest, `\`)
		b = append(b, before...)
	}
	return string(b)
}
