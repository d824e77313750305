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

// pendingAfter is the age, since its beginning was read, at which a line without an end is told as pending, and the time
// after which it is told anew when it has grown.
const pendingAfter = 100 * time.Millisecond

// transcript brings the output of an attempt and the executor's notes together: into the log, to the listener, and into
// the tail.
type transcript struct {
	begin   time.Time
	touched atomic.Int64  // when the last byte came, as time since begin
	failed  chan struct{} // closed when err is set

	mu     sync.Mutex
	log    *LogWriter
	onLine func(Line)
	tail   excerpt
	fresh  []Line // that the listener is still to be told
	err    error  // the first of the log's errors; the output is then read on, but dropped

	cut   splitter
	told  int // how much of what the splitter holds has been told
	since time.Time
	timer *time.Timer // runs while there is text that has not been told; nil before the first time
	armed bool
	over  bool // nothing is told any more
}

func newTranscript(log *LogWriter, onLine func(Line)) *transcript {
	return &transcript{
		begin: time.Now(), failed: make(chan struct{}), log: log, onLine: onLine, tail: excerpt{most: tailLines},
	}
}

// silentFor gives the time since the last byte of output, or since the beginning.
func (t *transcript) silentFor() time.Duration {
	return time.Since(t.begin) - time.Duration(t.touched.Load())
}

// pump takes the output up to its end, and reports whether it got there: not so if its read deadline came first.
func (t *transcript) pump(f *os.File) (complete bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := f.Read(buf)
		if n > 0 {
			t.touched.Store(int64(time.Since(t.begin)))
			t.take(func(emit func([]byte, bool)) { t.cut.feed(buf[:n], emit) })
		}
		if err != nil {
			t.take(t.cut.finish)
			return errors.Is(err, io.EOF)
		}
	}
}

// take adds the lines that cut emits, all with the time of now, and makes them visible to readers of the log.
func (t *transcript) take(cut func(emit func(text []byte, partial bool))) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	fresh := len(t.cut.rest) == 0
	cut(func(text []byte, partial bool) {
		fresh = true
		if t.err == nil {
			t.add(Line{Time: now, Stream: Stdout, Text: append([]byte{}, text...), Partial: partial})
		}
	})
	t.flush()
	if fresh {
		t.since, t.told = now, 0
	}
	t.arm()
}

// arm has what is pending told when it is time. It needs mu.
func (t *transcript) arm() {
	if t.onLine == nil || t.armed || t.over || t.err != nil || len(t.cut.rest) == t.told {
		return
	}
	t.armed = true
	if t.timer == nil {
		t.timer = time.AfterFunc(pendingAfter, t.tellPending)
		return
	}
	t.timer.Reset(pendingAfter)
}

// tellPending tells the listener what there is of a line whose end has not come.
func (t *transcript) tellPending() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = false
	if t.over {
		return
	}
	now := time.Now()
	// A command that writes a lot has some unfinished line at any time; only an old one is worth a word.
	if n := len(t.cut.rest); n > t.told && now.Sub(t.since) >= pendingAfter {
		t.told = n
		t.onLine(Line{
			Time: now.UTC().Truncate(time.Microsecond), Stream: Stdout, Text: append([]byte{}, t.cut.rest...),
			Partial: true, Pending: true,
		})
	}
	t.arm()
}

// end stops the telling, and gives the last lines.
func (t *transcript) end() []Line {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	if t.timer != nil {
		t.timer.Stop() // If it is too late for that, over keeps it quiet.
	}
	return t.tail.last()
}

// note adds words of the executor. They reach the listener and the tail also when the log has failed.
func (t *transcript) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := fmt.Appendf(nil, format, args...)
	t.add(Line{Time: time.Now(), Stream: Note, Text: text[:min(len(text), MaxLineText)]})
	t.flush()
}

// add needs mu; flush must follow.
func (t *transcript) add(l Line) {
	l.Time = l.Time.UTC().Truncate(time.Microsecond)
	if err := t.log.Append(l); err != nil {
		t.fail(err)
		if l.Stream != Note {
			return
		}
	}
	t.tail.add(l)
	if t.onLine != nil {
		t.fresh = append(t.fresh, l)
	}
}

// flush makes what was added visible to readers of the log, and then tells the listener, who may be one of them. It needs mu.
func (t *transcript) flush() {
	t.fail(t.log.Flush())
	for _, l := range t.fresh {
		t.onLine(l)
	}
	clear(t.fresh)
	t.fresh = t.fresh[:0]
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
