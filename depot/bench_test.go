package depot

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headrace/headrace/job"
)

// BenchmarkAppend has 64 attempts append 1 KiB at once; an operation is one chunk.
func BenchmarkAppend(b *testing.B) {
	f := open(b, Options{})
	chunk := text(1, 1<<10)
	var left atomic.Int64
	left.Store(int64(b.N))
	b.SetBytes(int64(len(chunk)))
	b.ResetTimer()
	var all sync.WaitGroup
	for w := range byte(64) {
		all.Go(func() {
			for offset := int64(0); left.Add(-1) >= 0; offset += int64(len(chunk)) {
				if _, err := f.Append(bg, attempt(w), offset, chunk, 0); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

const bigLog = 100_000_000

func appendBig(b *testing.B, f *Folder, at Attempt) {
	b.Helper()
	part := text(1, 10_000_000)
	for offset := int64(0); offset < bigLog; offset += int64(len(part)) {
		mustAppend(b, f, at, offset, part)
	}
}

// BenchmarkSeal seals 100 MB of text.
func BenchmarkSeal(b *testing.B) {
	f := open(b, Options{})
	b.SetBytes(bigLog)
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		at := Attempt{job.ID{1}, int32(i)}
		appendBig(b, f, at)
		b.StartTimer()
		mustSeal(b, f, at)
		b.StopTimer()
		b.ReportMetric(float64(sum(sizes(b, f, at)))/1e6, "MB-on-disk")
		if err := f.Remove(bg, at.Job); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// BenchmarkSealSmall seals a log of 2 KiB, with all that is synced for it.
func BenchmarkSealSmall(b *testing.B) {
	f := open(b, Options{})
	line := text(1, 2<<10)
	for i := 0; b.Loop(); i++ {
		at := Attempt{job.ID{1, 14: byte(i >> 8), 15: byte(i)}, int32(i)}
		mustAppend(b, f, at, 0, line)
		mustSeal(b, f, at)
	}
}

// BenchmarkReadEnd opens a sealed log of 100 MB and reads 64 KiB at its end.
func BenchmarkReadEnd(b *testing.B) {
	f := open(b, Options{})
	at := attempt(1)
	appendBig(b, f, at)
	mustSeal(b, f, at)
	for name, read := range map[string]func(l Log) error{
		"range": func(l Log) error {
			_, err := l.ReadAt(make([]byte, 64<<10), bigLog-64<<10)
			return err
		},
		"last 20 lines": func(l Log) error {
			_, err := Tail(l, l.Size(), 20, 0)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			decoded := 0
			for b.Loop() {
				l, err := f.OpenLog(bg, at)
				if err != nil {
					b.Fatal(err)
				}
				s := l.(*openLog).src.ReaderAt.(*seekable)
				s.mu.Lock()
				before := s.decoded
				s.cached = -1 // As if nobody had read it before.
				s.mu.Unlock()
				if err := read(l); err != nil {
					b.Fatal(err)
				}
				decoded = s.decoded - before
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(decoded), "frames")
		})
	}
}

// BenchmarkPut uploads 10 MB: written, synced, summed.
func BenchmarkPut(b *testing.B) {
	f := open(b, Options{Limits: Limits{Bytes: 1 << 50, Files: 1 << 30}})
	content := noise(1, 10_000_000)
	u := upload("a", content)
	b.SetBytes(int64(len(content)))
	for i := 0; b.Loop(); i++ {
		if _, err := f.Put(bg, Attempt{job.ID{1}, int32(i)}, u, 0, bytes.NewReader(content)); err != nil {
			b.Fatal(err)
		}
	}
}
