package worker

import (
	"bytes"
	"testing"
	"time"
)

// The limit is on the output; what bounds the file is that the framing is cheap.
func TestFileIsNotMuchLargerThanItsOutput(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		length int
		gap    time.Duration // between two lines
		most   float64       // bytes of file for one of output
	}{
		{"empty", 0, 0, 3},
		{"empty, each alone", 0, time.Millisecond, 5},
		{"empty, each alone, slow", 0, 999 * time.Millisecond, 6},
		{"one byte", 1, 0, 2},
		{"one byte, each alone", 1, 8 * time.Millisecond, 3},
		{"usual", 80, 0, 1.06},
		{"usual, each alone", 80, 100 * time.Millisecond, 1.1},
		{"longest", MaxLineText, time.Millisecond, 8. / 7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := NewLogWriter(discard{})
			at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
			output := int64(0)
			for output < 1<<19 {
				if err := w.Append(Line{Time: at, Stream: Stdout, Text: bytes.Repeat([]byte("y"), tc.length)}); err != nil {
					t.Fatal(err)
				}
				output += int64(tc.length) + 1
				at = at.Add(tc.gap)
			}
			if most := int64(tc.most*float64(output)) + maxRecord; w.Size() > most {
				t.Errorf("%d bytes of output make a file of %d; want at most %d", output, w.Size(), most)
			}
		})
	}
}

// Clocks are set back, and times are far apart.
func TestLogKeepsAnyTime(t *testing.T) {
	t.Parallel()
	var want []Line
	for _, at := range []int64{0, 1, -1, 1 << 62, -1 << 62, 0, 1_700_000_000_000_000, 1_600_000_000_000_000, 1_600_000_000_000_000} {
		want = append(want, Line{Time: time.UnixMicro(at).UTC(), Stream: Stdout, Text: []byte("x")})
	}
	r, err := openBytes(encodeLog(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if got := drain(t, r); !same(want, got) {
		t.Errorf("got %v; want %v", got, want)
	}
}

func TestSizesAreForPeople(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 bytes", 1: "1 bytes", 5000: "5000 bytes", 1024: "1 KiB", 1536: "1536 bytes", DefaultLogLimit: "64 MiB", 3 << 30: "3 GiB",
	} {
		if got := bytesOf(n); got != want {
			t.Errorf("%d is %q; want %q", n, got, want)
		}
	}
}
