package graph

import (
	"fmt"
	"path"
	"strings"
)

// MatchOutput reports whether an output glob, as in Job.Outputs, matches a path. Both are relative and
// separated by slashes. Within one element * matches any characters, ? one, and [a-z] a range; ** as
// an element of its own matches any number of elements, also none. A glob that Parse would refuse
// matches nothing.
func MatchOutput(glob, file string) bool {
	return matchElements(strings.Split(glob, "/"), strings.Split(file, "/"))
}

func matchElements(glob, file []string) bool {
	// Only the last ** that was passed ever has to take one element more, so time is bounded by the
	// product of the lengths.
	star, mark := -1, 0
	g, f := 0, 0
	for f < len(file) {
		if g < len(glob) {
			if glob[g] == "**" {
				star, mark = g, f
				g++
				continue
			}
			if ok, err := path.Match(glob[g], file[f]); ok && err == nil {
				g, f = g+1, f+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		mark++
		g, f = star+1, mark
	}
	for g < len(glob) && glob[g] == "**" {
		g++
	}
	return g == len(glob)
}

// badGlob tells what is wrong with an output glob, or "".
func badGlob(glob string) string {
	if why := plainText(glob); why != "" {
		return why
	}
	switch {
	case strings.HasPrefix(glob, "/"):
		return "expected a path relative to dir, found " + quote(glob)
	case strings.Contains(glob, opening):
		return "" // It is checked again with its variables.
	}
	for _, e := range strings.Split(glob, "/") {
		switch {
		case e == "..":
			return "expected a path below dir, found .. in " + quote(glob)
		case e == "" || e == ".":
			return "expected no empty element and no . in " + quote(glob)
		case strings.Contains(e, "**") && e != "**":
			return "expected ** between slashes only, found " + quote(glob)
		}
		if _, err := path.Match(e, ""); err != nil {
			return "bad glob " + quote(glob) + ": [ without its ], or \\ at the end"
		}
		if low, high := emptyRange(e); low > high {
			return fmt.Sprintf("bad glob %s: nothing is between %c and %c", quote(glob), low, high)
		}
	}
	return ""
}

// emptyRange gives the ends of the first range within [] whose end comes before its begin, in which path.Match sees no fault; if there is
// none, two equal ones. The element is one that path.Match takes.
func emptyRange(element string) (low, high rune) {
	runes := []rune(element)
	within := false
	at := func(i int) (r rune, next int) {
		if runes[i] == '\\' {
			i++
		}
		return runes[i], i + 1
	}
	for i := 0; i < len(runes); {
		switch {
		case !within && runes[i] == '[':
			within = true
			if i++; runes[i] == '^' {
				i++
			}
		case within && runes[i] != ']':
			low, i = at(i)
			if high = low; runes[i] == '-' {
				high, i = at(i + 1)
			}
			if low > high {
				return low, high
			}
		case within:
			within = false
			i++
		default:
			_, i = at(i)
		}
	}
	return 0, 0
}
