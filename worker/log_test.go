package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// buffer is a log file in memory.
type buffer struct{ bytes.Buffer }

func (*buffer) Close() error { return nil }

func openBytes(b []byte) (*LogReader, error) {
	size := func() (int64, error) { return int64(len(b)), nil }
	return newLogReader(bytes.NewReader(b), size, func() error { return nil })
}

// same is cmp.Equal, but quick.
func same(a, b []Line) bool {
	return slices.EqualFunc(a, b, func(x, y Line) bool {
		return x.Time.Equal(y.Time) && x.Stream == y.Stream && x.Partial == y.Partial && bytes.Equal(x.Text, y.Text)
	})
}

// drain gives all lines up to the end of what is there.
func drain(t *testing.T, r *LogReader) []Line {
	t.Helper()
	var out []Line
	for {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
}

// someLines makes n lines of all kinds: empty, short, of any bytes, as long as can be.
func someLines(seed uint64, n int) []Line {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]Line, n)
	for i := range out {
		size := []int{0, 1, 80, 1000, MaxLineText}[r.IntN(5)]
		text := make([]byte, size)
		for j := range text {
			text[j] = byte(r.Uint32())
		}
		at := time.UnixMicro(1_700_000_000_000_000 + int64(i)*7).UTC()
		out[i] = Line{Time: at, Stream: Stream(1 + r.IntN(2)), Text: text}
		out[i].Partial = out[i].Stream == Stdout && r.IntN(4) == 0
	}
	return out
}

func encodeLog(t *testing.T, lines []Line) []byte {
	t.Helper()
	var m buffer
	w := NewLogWriter(&m)
	for _, l := range lines {
		if err := w.Append(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Size() != int64(m.Len()) {
		t.Errorf("size %d; the file has %d bytes", w.Size(), m.Len())
	}
	return m.Bytes()
}

func TestLogGivesBackWhatWasWritten(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 3, 500} {
		want := someLines(uint64(n), n)
		r, err := openBytes(encodeLog(t, want))
		if err != nil {
			t.Fatal(err)
		}
		got := drain(t, r)
		if !r.Ended() {
			t.Errorf("%d lines: the end marker is missing", n)
		}
		if !same(want, got) {
			t.Errorf("%d lines: got %d, other than written", n, len(got))
		}
	}
}

func TestTornLogIsCutAtLastWholeLine(t *testing.T) {
	t.Parallel()
	want := someLines(1, 60)
	full := encodeLog(t, want)
	for cut := 0; cut < len(full); cut += 97 {
		r, err := openBytes(full[:cut])
		if err != nil {
			t.Fatal(err)
		}
		got := drain(t, r)
		if r.Ended() {
			t.Fatalf("cut at %d of %d: ended", cut, len(full))
		}
		if !same(want[:min(len(got), len(want))], got) {
			t.Fatalf("cut at %d: the %d lines are no prefix", cut, len(got))
		}
		if next, err := openBytes(full[:cut]); err == nil && next.Tail(1) == nil {
			last := drain(t, next)
			if !same(lastLines(got, 1), last) {
				t.Fatalf("cut at %d: the tail is %d lines, not the last one", cut, len(last))
			}
		}
	}
}

func TestDamageCostsAtMostItsBlockAndIsTold(t *testing.T) {
	t.Parallel()
	want := someLines(2, 400)
	full := encodeLog(t, want)
	spoil := map[string]func([]byte){
		"bit":   func(b []byte) { b[0] ^= 4 },
		"zeros": func(b []byte) { clear(b) },
		"noise": func(b []byte) { copy(b, bytes.Repeat([]byte{0xa5}, len(b))) },
	}
	for name, f := range spoil {
		b := bytes.Clone(full)
		f(b[2*blockSize+4096 : 2*blockSize+8192])
		r, err := openBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		got := drain(t, r)
		told, i := 0, 0
		for _, l := range got {
			if l.Time.IsZero() {
				told++
				continue
			}
			for i < len(want) && !same(want[i:i+1], []Line{l}) {
				i++
			}
		}
		if lost := len(want) - (len(got) - told); told != 1 || i >= len(want) || lost > 200 || !r.Ended() {
			t.Errorf("%s: told %d times, %d of %d lines lost, ended %v", name, told, lost, len(want), r.Ended())
		}
	}
}

// lastLines gives what the last n lines begin with and all after it, by looking at every line. Notes do not count.
func lastLines(lines []Line, n int) []Line {
	var starts []int
	goesOn := false
	for i, l := range lines {
		if l.Stream == Note {
			continue
		}
		if !goesOn {
			starts = append(starts, i)
		}
		goesOn = l.Partial
	}
	switch {
	case n <= 0:
		return nil
	case len(starts) <= n:
		return lines
	}
	return lines[starts[len(starts)-n]:]
}

func TestTailGivesLastLines(t *testing.T) {
	t.Parallel()
	for _, total := range []int{0, 1, 2, 700, -1, -2} {
		want := someLines(uint64(total), max(total, 0))
		// Lines in many pieces over several blocks, with a note in between.
		for range -total {
			for i := range 30 {
				want = append(want, Line{Time: time.UnixMicro(1).UTC(), Stream: Stdout, Text: make([]byte, MaxLineText), Partial: i < 29})
				if i == 20 {
					want = append(want, Line{Time: time.UnixMicro(2).UTC(), Stream: Note, Text: []byte("note")})
				}
			}
		}
		b := encodeLog(t, want)
		for _, n := range []int{0, 1, 2, 20, 300, 701} {
			r, err := openBytes(b)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Tail(n); err != nil {
				t.Fatal(err)
			}
			got := drain(t, r)
			if expect := lastLines(want, n); !same(expect, got) {
				t.Errorf("tail %d of %d: got %d lines", n, total, len(got))
			}
		}
	}
}

// counting counts the bytes that are read.
type counting struct {
	io.ReaderAt
	n int
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.n += n
	return n, err
}

func TestTailOfLargeLogReadsLittle(t *testing.T) {
	t.Parallel()
	var lines []Line
	for i := range 50_000 {
		lines = append(lines, Line{Stream: Stdout, Text: fmt.Appendf(nil, "line %d %s", i, strings.Repeat("x", 80))})
	}
	b := encodeLog(t, lines)
	c := &counting{ReaderAt: bytes.NewReader(b)}
	r, err := newLogReader(c, func() (int64, error) { return int64(len(b)), nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Tail(20); err != nil {
		t.Fatal(err)
	}
	if got := drain(t, r); len(got) != 20 || !bytes.HasPrefix(got[19].Text, []byte("line 49999 ")) {
		t.Errorf("got %d lines", len(got))
	}
	if c.n > 3*blockSize {
		t.Errorf("read %d of %d bytes", c.n, len(b))
	}
}

func TestFollowSeesLinesAsTheyAreFlushed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	w, err := CreateLog(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	seen := make(chan Line)
	end := make(chan error, 1)
	go func() {
		end <- r.Follow(t.Context(), time.Millisecond, func(l Line) error { seen <- l; return nil })
	}()
	for i, want := range someLines(3, 100) {
		if err := errors.Join(w.Append(want), w.Flush()); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, <-seen); d != "" {
			t.Fatalf("line %d: %s", i, d)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-end; err != nil {
		t.Errorf("follow ends with %v; want nil at the end marker", err)
	}
}

func TestFollowEndsWithContextAfterWhatIsThere(t *testing.T) {
	t.Parallel()
	want := someLines(4, 3)
	b := encodeLog(t, want)
	r, err := openBytes(b[:len(b)-minRecord]) // The writer died.
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	n := 0
	if err := r.Follow(ctx, time.Hour, func(Line) error { n++; return nil }); !errors.Is(err, cause) || n != 3 {
		t.Errorf("follow gave %d lines and %v; want 3 and %v", n, err, cause)
	}
	stop := errors.New("stop")
	if err := r.Tail(2); err != nil {
		t.Fatal(err)
	}
	if err := r.Follow(t.Context(), time.Hour, func(Line) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("follow gives %v; want the error of yield", err)
	}
	if err := r.Follow(t.Context(), 0, nil); err == nil {
		t.Error("an interval of 0 is taken")
	}
}

func TestLogLimitRefusesLinesButTakesNotes(t *testing.T) {
	t.Parallel()
	var m buffer
	w := NewLogWriter(&m)
	w.SetLimit(100)
	line := Line{Stream: Stdout, Text: bytes.Repeat([]byte("x"), 50)}
	if err := w.Append(line); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(line); !errors.Is(err, ErrLogLimit) {
		t.Errorf("second line: %v; want the log limit", err)
	}
	line.Stream = Note
	if err := errors.Join(w.Append(line), w.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := openBytes(m.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if got := drain(t, r); len(got) != 2 || got[1].Stream != Note {
		t.Errorf("the log holds %v", got)
	}
}

func TestLogWriterRefusesBadLines(t *testing.T) {
	t.Parallel()
	w := NewLogWriter(&buffer{})
	for _, l := range []Line{{}, {Stream: 3}, {Stream: Note, Partial: true}, {Stream: Stdout, Pending: true}, {Stream: Stdout, Text: make([]byte, MaxLineText+1)}} {
		if err := w.Append(l); err == nil {
			t.Errorf("stream %v, %d bytes: taken", l.Stream, len(l.Text))
		}
	}
}

func TestLogNeverReplacesAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateLog(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("create: %v; want that it exists", err)
	}
	if _, err := OpenLog(path); err == nil || !strings.Contains(err.Error(), "not a log") {
		t.Errorf("open: %v; want that it is no log", err)
	}
}

// Long lines come from repetition: the input itself stays short, for the fuzzer spends a minute on making each long one that
// it finds interesting shorter, byte by byte.
func FuzzLogRoundTrip(f *testing.F) {
	f.Add([]byte("one\ntwo\n\nthree"), uint16(0), uint16(3))
	f.Add([]byte("y"), uint16(3*MaxLineText), uint16(9000))
	f.Add([]byte("0123456789abcdef"), uint16(2*blockSize/16), uint16(9000))
	f.Fuzz(func(t *testing.T, data []byte, times, cut uint16) {
		const enough = 3 * blockSize
		data = bytes.Repeat(data, 1+min(int(times), enough/(1+len(data))))
		var want []Line
		var s splitter
		emit := func(text []byte, partial bool) {
			want = append(want, Line{Time: time.UnixMicro(7).UTC(), Stream: Stdout, Text: append([]byte{}, text...), Partial: partial})
		}
		first := data[:min(int(cut), len(data))]
		s.feed(first, emit)
		s.feed(data[len(first):], emit)
		s.finish(emit)
		if got := text(want, Stdout); got != string(data) {
			t.Fatalf("split into %d lines that make %d bytes of %d", len(want), len(got), len(data))
		}
		b := encodeLog(t, want)
		r, err := openBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := drain(t, r); !same(want, got) {
			t.Fatalf("%d lines came back as %d", len(want), len(got))
		}
	})
}

func FuzzLogReader(f *testing.F) {
	small := encodeLogSeed()
	f.Add(small, 3)
	f.Add(small[:len(small)-3], 1)
	f.Add([]byte(logMagic), 0)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		r, err := openBytes(data)
		if err != nil {
			return
		}
		all := drain(t, r)
		if len(all) > len(data)/minRecord+1 {
			t.Fatalf("%d lines in %d bytes", len(all), len(data))
		}
		n %= 100
		if err := r.Tail(n); err != nil {
			t.Fatal(err)
		}
		if len(data) > blockSize {
			return
		}
		// Within one block the tail is exactly the last lines.
		tail := drain(t, r)
		if want := lastLines(all, n); !same(want, tail) {
			t.Fatalf("tail %d gives %d of %d lines", n, len(tail), len(all))
		}
	})
}

func encodeLogSeed() []byte {
	var m buffer
	w := NewLogWriter(&m)
	for _, s := range []string{"", "a", "bc"} {
		_ = w.Append(Line{Stream: Stdout, Text: []byte(s)}) // In memory.
	}
	_ = w.Close() // As above.
	return m.Bytes()
}
