package rows

import (
	"unicode/utf8"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
)

// PrefixEnd gives the least text that is greater than all that begin with the prefix, as their bytes sort; ok is false if
// there is none.
func PrefixEnd(prefix string) (end string, ok bool) {
	for prefix != "" {
		r, n := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-n]
		switch {
		case r == 0xd7ff: // what follows is no text
			return prefix + "\ue000", true
		case r < utf8.MaxRune:
			return prefix + string(r+1), true
		}
	}
	return "", false
}

// Since gives the first seq from which on what was added is of the moment or later, by halving: moments follow the seqs, unless
// a clock was set back between two owners. last is the greatest seq, and next gives the first row that has a seq or a greater one.
func Since(moment job.Time, last int64, next func(seq int64) (found int64, at job.Time, ok bool, err error)) (int64, error) {
	low, high := int64(1), last+1
	for low < high {
		middle := low + (high-low)/2
		found, at, ok, err := next(middle)
		switch {
		case err != nil:
			return 0, err
		case !ok || at >= moment:
			high = middle
		default:
			low = found + 1
		}
	}
	return low, nil
}

// WorkerOf gives the name of the worker of a stored attempt that has ended: null if there is none, or it cannot be read.
func WorkerOf(attempt Value) Value {
	if attempt.Kind == Null {
		return Value{}
	}
	a, err := codec.DecodeAttemptEnd(attempt.Blob)
	if err != nil {
		return Value{}
	}
	return name(a.Worker)
}
