package postgres

import (
	"strings"
	"unicode/utf8"
)

// PostgreSQL's text knows no zero byte and nothing but UTF-8. The engine refuses such names where they come in; one that got
// here all the same must not fail a round. A zero byte comes back as it was, what is no UTF-8 as a mark in its place.
var (
	escaper   = strings.NewReplacer(`\`, `\\`, "\x00", `\0`)
	unescaper = strings.NewReplacer(`\\`, `\`, `\0`, "\x00")
)

func escaped(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if !strings.ContainsAny(s, "\\\x00") {
		return s
	}
	return escaper.Replace(s)
}

func unescaped(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s // nearly always, and a load has millions
	}
	return unescaper.Replace(s)
}
