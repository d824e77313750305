package rows_test

import (
	"errors"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/rows"
)

func TestPrefixEndIsTheLeastTextBehindThePrefix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ prefix, end string }{
		{"a", "b"},
		{"a\U0010ffff", "b"},
		{"ü", "ý"},
		{"a\x7f", "a\u0080"},
		{"x\ud7ff", "x\ue000"},
		{"\U0010ffff\U0010ffff", ""},
		{"", ""},
	} {
		end, ok := rows.PrefixEnd(c.prefix)
		if end != c.end || ok != (c.end != "") || !utf8.ValidString(end) {
			t.Errorf("behind %q: %q, %t; want %q", c.prefix, end, ok, c.end)
		}
	}
}

func TestSinceFindsTheFirst(t *testing.T) {
	t.Parallel()
	for _, seqs := range [][]int64{nil, {1}, {3}, {1, 2, 3}, {2, 5, 6, 9}} {
		for moment := range job.Time(13) {
			// Each is of its seq's moment.
			next := func(seq int64) (int64, job.Time, bool, error) {
				for _, s := range seqs {
					if s >= seq {
						return s, job.Time(s), true, nil
					}
				}
				return 0, 0, false, nil
			}
			from, err := rows.Since(moment, 10, next)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range seqs {
				if (s >= from) != (job.Time(s) >= moment) {
					t.Errorf("of %v since %d: from %d on", seqs, moment, from)
				}
			}
		}
	}
	broken := errors.New("broken")
	if _, err := rows.Since(1, 10, func(int64) (int64, job.Time, bool, error) { return 0, 0, false, broken }); !errors.Is(err, broken) {
		t.Errorf("a row that cannot be read: %v", err)
	}
	// It looks at few rows.
	var looked []int64
	if _, err := rows.Since(1, 1<<20, func(seq int64) (int64, job.Time, bool, error) {
		looked = append(looked, seq)
		return seq, job.Time(seq), true, nil
	}); err != nil || len(looked) > 21 || slices.Max(looked) > 1<<20 {
		t.Errorf("looked at %v (%v)", looked, err)
	}
}
