package depot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/headrace/headrace/job"
)

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(writerEnv); ok {
		writeUntilKilled(dir)
	}
	goleak.VerifyTestMain(m)
}

var bg = context.Background()

func attempt(n byte) Attempt { return Attempt{job.ID{1, 15: n}, 1} }

// open makes a depot that is closed at the end of the test.
func open(t testing.TB, o Options) *Folder {
	t.Helper()
	f, err := Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// openOn makes a depot on a disk in memory.
func openOn(t testing.TB, d disk, o Options) *Folder {
	t.Helper()
	f, err := newFolder(d, "memory", o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// text is what jobs write: lines, that compress well.
func text(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	words := []string{"compiling", "linking", "checked", "warning:", "/nix/store/abc", "ok", "in", "0.3s"}
	var b bytes.Buffer
	for b.Len() < size {
		for range 1 + r.IntN(12) {
			b.WriteString(words[r.IntN(len(words))] + " ")
		}
		b.WriteByte('\n')
	}
	return b.Bytes()[:size]
}

// noise does not compress.
func noise(seed uint64, size int) []byte {
	var key [32]byte
	key[0] = byte(seed)
	b := make([]byte, size)
	if _, err := rand.NewChaCha8(key).Read(b); err != nil {
		panic(err)
	}
	return b
}

func mustAppend(t testing.TB, f *Folder, at Attempt, offset int64, chunk []byte) {
	t.Helper()
	size, err := f.Append(bg, at, offset, chunk, 0)
	if err != nil || size < offset+int64(len(chunk)) {
		t.Fatalf("append at %d: size %d, %v", offset, size, err)
	}
}

func mustSeal(t testing.TB, f *Folder, at Attempt) {
	t.Helper()
	if err := f.Seal(bg, at); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t testing.TB, f *Folder, at Attempt) Log {
	t.Helper()
	l, err := f.OpenLog(bg, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func whole(t testing.TB, l Log) []byte {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(l, 0, l.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// logIs checks all of a log.
func logIs(t testing.TB, f *Folder, at Attempt, want []byte, sealed bool) {
	t.Helper()
	l, err := f.OpenLog(bg, at)
	if err != nil {
		t.Fatal(err)
	}
	if got := whole(t, l); !bytes.Equal(got, want) || l.Sealed() != sealed {
		t.Errorf("%d bytes, sealed %v; want %d, %v; equal: %v", len(got), l.Sealed(), len(want), sealed, bytes.Equal(got, want))
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func upload(name string, b []byte) Upload { return Upload{name, int64(len(b)), sha256.Sum256(b)} }

func mustPut(t testing.TB, f *Folder, at Attempt, name string, b []byte) {
	t.Helper()
	if n, err := f.Put(bg, at, upload(name, b), 0, bytes.NewReader(b)); n != int64(len(b)) || err != nil {
		t.Fatalf("put %q: %d, %v", name, n, err)
	}
}

// artifactIs checks what is kept under a name.
func artifactIs(t testing.TB, f *Folder, at Attempt, name string, want []byte) {
	t.Helper()
	r, a, err := f.OpenArtifact(bg, at, name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) || a.Upload != upload(name, want) {
		t.Errorf("%q: %d bytes, %v; want %d", name, len(got), a, len(want))
	}
}

func wantError[E error](t testing.TB, err error) (e E) {
	t.Helper()
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a %T", err, e)
	}
	return e
}

func wantIs(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got %v, want %v", err, target)
	}
}
