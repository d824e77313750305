package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// tailLines is the number of lines that a Result keeps.
const tailLines = 20

// transcript brings the streams of an attempt together: into the log, to the listener, and into the tail.
type transcript struct {
	begin   time.Time
	touched atomic.Int64  // when the last byte came, as time since begin
	failed  chan struct{} // closed when err is set

	mu     sync.Mutex
	log    *LogWriter
	onLine func(Line)
	tail   []Line
	err    error // the first of the log's errors; the streams are then read on, but dropped
}

func newTranscript(log *LogWriter, onLine func(Line)) *transcript {
	return &transcript{begin: time.Now(), failed: make(chan struct{}), log: log, onLine: onLine}
}

// silentFor gives the time since the last byte of output, or since the beginning.
func (t *transcript) silentFor() time.Duration {
	return time.Since(t.begin) - time.Duration(t.touched.Load())
}

// pump takes a stream up to its end, and reports whether it got there: not so if its read deadline came first.
func (t *transcript) pump(stream Stream, f *os.File) (complete bool) {
	var s splitter
	buf := make([]byte, 32<<10)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			t.touched.Store(int64(time.Since(t.begin)))
			t.take(stream, func(emit func([]byte, bool)) { s.feed(buf[:n], emit) })
		}
		if err != nil {
			t.take(stream, s.finish)
			return errors.Is(err, io.EOF)
		}
	}
}

// take adds the lines that cut emits, all with the time of now, and makes them visible to readers of the log.
func (t *transcript) take(stream Stream, cut func(emit func(text []byte, partial bool))) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	cut(func(text []byte, partial bool) {
		if t.err == nil {
			t.add(Line{Time: now, Stream: stream, Text: append([]byte{}, text...), Partial: partial})
		}
	})
	t.fail(t.log.Flush())
}

// note adds words of the executor. They reach the listener and the tail also when the log has failed.
func (t *transcript) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := fmt.Appendf(nil, format, args...)
	t.add(Line{Time: time.Now(), Stream: Note, Text: text[:min(len(text), MaxLineText)]})
	t.fail(t.log.Flush())
}

// add needs mu.
func (t *transcript) add(l Line) {
	l.Time = l.Time.UTC().Truncate(time.Microsecond)
	if err := t.log.Append(l); err != nil {
		t.fail(err)
		if l.Stream != Note {
			return
		}
	}
	if len(t.tail) == tailLines {
		t.tail = append(t.tail[:0], t.tail[1:]...)
	}
	t.tail = append(t.tail, l)
	if t.onLine != nil {
		t.onLine(l)
	}
}

// fail keeps the first error. It needs mu.
func (t *transcript) fail(err error) {
	if err != nil && t.err == nil {
		t.err = err
		close(t.failed)
	}
}

// failure gives the first error of the log.
func (t *transcript) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
