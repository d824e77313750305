package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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

// String gives the form that editors and compilers share: file:line:col: message.
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
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
