package graph

import (
	"iter"
	"strings"
)

// Nearest gives the name that a mistyped one most likely meant, or "" if none is near: one that is the
// same but for upper and lower case, else the least edit distance (insert, delete, replace, swap neighbours;
// case does not count), at most about a third of the letters; of equals the first.
func Nearest(typed string, names iter.Seq[string]) string {
	best, found := (len(typed)+1)/3+1, ""
	if len(typed) > 256 {
		return ""
	}
	lower := strings.ToLower(typed)
	for name := range names {
		if strings.EqualFold(name, typed) {
			return name
		}
		// The difference in length is a lower bound of the distance.
		if len(name)-len(typed) >= best || len(typed)-len(name) >= best {
			continue
		}
		if d := distance(lower, strings.ToLower(name), best); d < best && d < max(len(typed), len(name)) {
			best, found = d, name
		}
	}
	return found
}

// distance gives the edit distance of a and b, or any number from limit on if it is at least that.
func distance(a, b string, limit int) int {
	before := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		// A swap reaches back two rows, so one more row must be over the limit too.
		if least > limit {
			return least
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// suggest gives the end of a message: "; did you mean ...?", or else if no name is near.
func suggest(typed string, names iter.Seq[string], otherwise string) string {
	if n := Nearest(typed, names); n != "" {
		return "; did you mean " + quote(n) + "?"
	}
	return otherwise
}
