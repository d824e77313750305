package depot

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// packed gives the sealed form of a log.
func packed(t testing.TB, b []byte, times []arrival) []byte {
	t.Helper()
	p, err := newPacker()
	if err != nil {
		t.Fatal(err)
	}
	d := newMemDisk()
	f := &memFile{d, newMemNode(false), "x"}
	n, err := p.pack(bg, f, bytes.NewReader(b), int64(len(b)), times)
	if err != nil || n != int64(len(f.node.data)) {
		t.Fatal(n, err)
	}
	return f.node.data
}

func FuzzSeekable(f *testing.F) {
	f.Add(packed(f, nil, nil))
	f.Add(packed(f, []byte("hello"), []arrival{{0, 5}}))
	f.Add(packed(f, noise(1, frameSize+1), []arrival{{0, 5}, {8, 9}}))
	f.Add([]byte{})
	p, err := newPacker()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, times, err := p.openSeekable(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		if s.size < 0 || s.size > int64(len(b))*frameSize {
			t.Fatalf("%d bytes make %d", len(b), s.size)
		}
		checkLedger(t, times, s.size)
		got, err := io.ReadAll(io.NewSectionReader(s, 0, s.size))
		if err == nil && int64(len(got)) != s.size || err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatalf("%d of %d bytes, %v", len(got), s.size, err)
		}
	})
}

func checkLedger(t *testing.T, l ledger, size int64) {
	t.Helper()
	last := arrival{-1, 0}
	for _, a := range l.entries {
		if a.offset <= last.offset || a.ms < last.ms || a.offset >= size {
			t.Fatalf("%v after %v, size %d", a, last, size)
		}
		last = a
	}
	if len(l.entries) > maxArrivals {
		t.Fatalf("%d entries", len(l.entries))
	}
}

func FuzzTimes(f *testing.F) {
	some := []arrival{{0, 1_700_000_000_000}, {100, 1_700_000_000_100}, {300, 1_700_000_000_100}}
	f.Add(encodeTimes(some), int64(1000))
	f.Add(packTimes(some), int64(200))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		beside, sealed := decodeTimes(b, size), unpackTimes(b, size)
		for _, l := range []ledger{beside, sealed} {
			checkLedger(t, l, size)
			if got := unpackTimes(packTimes(l.entries), size); !slices.Equal(got.entries, l.entries) {
				t.Fatalf("packed %v, unpacked %v", l.entries, got.entries)
			}
			if got := decodeTimes(encodeTimes(l.entries), size); !slices.Equal(got.entries, l.entries) || got.stored != len(l.entries) {
				t.Fatalf("encoded %v, decoded %v", l.entries, got)
			}
		}
		// What goes on being written stands where the next reader looks for it.
		if beside.stored >= 0 && !bytes.Equal(b, encodeTimes(beside.entries)) {
			t.Fatalf("%x is taken as it is, but is not %v", b, beside.entries)
		}
	})
}

func FuzzIndex(f *testing.F) {
	a := Artifact{upload("out/ü \"x\"", []byte("b")), time.Unix(1_700_000_000, 5000).UTC()}
	line, err := encodeIndexLine(a)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add(append(bytes.Clone(line), line[:10]...))
	f.Add([]byte("\n\n00000000 {}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		kept, end := decodeIndex(b)
		if end > int64(len(b)) || end > 0 && b[end-1] != '\n' || bytes.Contains(b[end:], []byte{'\n'}) {
			t.Fatalf("the end is %d of %q", end, b)
		}
		for name, a := range kept {
			if name != a.Name || CheckName(name) != nil || a.Size < 0 {
				t.Fatalf("%q: %+v", name, a)
			}
			line, err := encodeIndexLine(a)
			if err != nil {
				t.Fatal(err)
			}
			// Whatever stands before it: a torn line was ended by nobody, a damaged one stops nothing.
			if again, _ := decodeIndex(append([]byte("damaged\n"), line...)); again[name] != a {
				t.Fatalf("%+v comes back as %+v", a, again)
			}
		}
	})
}

func FuzzPlaces(f *testing.F) {
	f.Add(contentName(nameKey("a"), upload("a", nil)))
	f.Add("1.log")
	f.Add("-0.log")
	f.Fuzz(func(t *testing.T, name string) {
		if key, u, ok := parseContent(name); ok && contentName(key, u) != name {
			t.Fatalf("%q is taken for %q, %v", name, key, u)
		}
		if n, ext, ok := parseEntry(name); ok && (n < 0 || filepath.Base((Attempt{Number: n}).place(ext)) != name) {
			t.Fatalf("%q is taken for %d, %q", name, n, ext)
		}
		if id, ok := parseJob("00", name); ok && jobDir(id) != "00/"+name {
			t.Fatalf("%q is taken for %v", name, id)
		}
	})
}

func TestSealedLogIsOneZstdStream(t *testing.T) {
	t.Parallel()
	want := text(1, 2*frameSize+5)
	r, err := zstd.NewReader(bytes.NewReader(packed(t, want, []arrival{{0, 1}, {100, 300}})))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
	}
}
