package depot

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
)

// tailOf is Tail by looking at all.
func tailOf(b []byte, lines int, reach int64) int64 {
	if lines <= 0 {
		return int64(len(b))
	}
	floor := int64(0)
	if reach > 0 {
		floor = max(0, int64(len(b))-reach)
	}
	starts := []int64{0}
	for i := 0; ; {
		n := bytes.IndexByte(b[i:], '\n') + 1
		if i += n; n == 0 || i == len(b) {
			break
		}
		starts = append(starts, int64(i))
	}
	return max(floor, starts[max(0, len(starts)-lines)])
}

func FuzzTail(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), 2, int64(0))
	f.Add([]byte("\n\n\n"), 2, int64(1))
	f.Add(bytes.Repeat([]byte("x"), 70000), 1, int64(66000))
	f.Fuzz(func(t *testing.T, b []byte, lines int, reach int64) {
		got, err := Tail(bytes.NewReader(b), int64(len(b)), lines, reach)
		if want := tailOf(b, lines, reach); got != want || err != nil {
			t.Fatalf("%d lines of %d bytes, reach %d: %d, %v; want %d", lines, len(b), reach, got, err, want)
		}
	})
}

// counter counts what is read.
type counter struct {
	io.ReaderAt
	bytes int64
	most  int
}

func (c *counter) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.bytes, c.most = c.bytes+int64(n), max(c.most, len(p))
	return n, err
}

func TestTailReadsWhatItNeeds(t *testing.T) {
	t.Parallel()
	b := text(1, 1<<20)
	for range 20 {
		b = append(b, bytes.Repeat([]byte("y"), rand.IntN(200_000))...)
		b = append(b, '\n')
	}
	b = append(b, bytes.Repeat([]byte("long"), 10<<18)...)
	for _, lines := range []int{0, 1, 2, 15, 1 << 30} {
		for _, reach := range []int64{0, 1000, 11 << 20} {
			c := &counter{ReaderAt: bytes.NewReader(b)}
			got, err := Tail(c, int64(len(b)), lines, reach)
			want := tailOf(b, lines, reach)
			if got != want || err != nil {
				t.Fatalf("%d lines, reach %d: %d, %v; want %d", lines, reach, got, err, want)
			}
			if c.bytes > int64(len(b))-want+tailBlock || c.most > tailBlock {
				t.Errorf("%d lines, reach %d: read %d bytes for %d, %d at once", lines, reach, c.bytes, int64(len(b))-want, c.most)
			}
		}
	}
	if _, err := Tail(bytes.NewReader(b), int64(len(b))+5, 1, 0); err == nil {
		t.Error("a log that is too short gave no error")
	}
}
