package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxProblems is how many problems one Parse reports.
const maxProblems = 20

// Problem is one thing that is wrong in a file.
type Problem struct {
	File string
	// Line and Column count from 1; columns count characters.
	Line, Column int
	Message      string
}

// String gives the form that editors and compilers share: file:line:col: message. It is one line, and
// fit for a terminal: whatever in the names is no printable character is written as an escape.
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", printable(p.File), p.Line, p.Column, printable(p.Message))
}

// printable writes what is not printable as %q does, and leaves all else, backslashes too.
func printable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		c, size := utf8.DecodeRuneInString(s)
		if strconv.IsPrint(c) && (c != utf8.RuneError || size > 1) {
			b.WriteString(s[:size])
		} else {
			quoted := strconv.Quote(s[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String()
}

// Problems is what Parse found wrong: 1 to 20 problems, sorted by place.
type Problems []Problem

// Error gives the problems one a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// place is a position in a file. It is small because a graph of a million jobs keeps millions.
type place struct {
	line, col int32
}

// report collects problems up to maxProblems.
type report struct {
	file string
	list Problems
}

// add notes a problem. Over the bound it is dropped: full then tells the reader to stop.
func (r *report) add(at place, format string, args ...any) {
	if r.full() {
		return
	}
	p := Problem{File: r.file, Line: int(at.line), Column: int(at.col), Message: fmt.Sprintf(format, args...)}
	if !slices.Contains(r.list, p) {
		r.list = append(r.list, p)
	}
}

func (r *report) full() bool { return len(r.list) >= maxProblems }

// err gives the problems sorted by place, or nil if there is none.
func (r *report) err() error {
	if len(r.list) == 0 {
		return nil
	}
	slices.SortStableFunc(r.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return r.list
}

// quote shows text of the file in a message, cut short if it is long.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%q...", strings.ToValidUTF8(s[:most], ""))
	}
	return fmt.Sprintf("%q", s)
}
