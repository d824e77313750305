package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// LogReader reads the log of an attempt, also while it is being written. It is for one goroutine
// at a time.
type LogReader struct {
	src   io.ReaderAt
	size  func() (int64, error)
	close func() error

	base  int64  // where the block begins in the file
	block []byte // what has been read of the block
	off   int    // where in the block the next record begins
	chain chain  // what that record builds on
	ended bool
}

// OpenLog opens the log at path. It refuses a file that is not a log, or one of a later version; an
// empty file is a log whose writer has only begun.
func OpenLog(path string) (*LogReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	size := func() (int64, error) {
		fi, err := f.Stat()
		if err != nil {
			return 0, fmt.Errorf("size of log: %v", err)
		}
		return fi.Size(), nil
	}
	r, err := newLogReader(f, size, f.Close)
	if err != nil {
		_ = f.Close() // Nothing was written, and the first error tells more.
		return nil, fmt.Errorf("open log %q: %v", path, err)
	}
	return r, nil
}

func newLogReader(src io.ReaderAt, size func() (int64, error), closeSrc func() error) (*LogReader, error) {
	head := make([]byte, len(logMagic))
	n, err := src.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(head[:n]) != logMagic[:n] {
		return nil, errors.New("not a log, or of a version that this program does not know")
	}
	return &LogReader{src: src, size: size, close: closeSrc, off: len(logMagic)}, nil
}

// Close closes the file.
func (r *LogReader) Close() error { return r.close() }

// Ended reports whether the writer's end marker has been read: nothing more comes. A log at whose end
// it is still false is being written, or its writer died.
func (r *LogReader) Ended() bool { return r.ended }

// Next gives the next line. At the end of what is there it reports io.EOF; it may be called again
// when more has been written. A damaged stretch comes as a Note that says how much is lost, with
// the zero Time.
func (r *LogReader) Next() (Line, error) {
	for !r.ended {
		rec, what := r.chain.decode(r.rest())
		if what == foundRecord {
			r.off += rec.size
			if rec.kind == kindEnd {
				r.ended = true
				break
			}
			return rec.line(), nil
		}
		grew, err := r.fill()
		if err != nil {
			return Line{}, err
		}
		if grew {
			continue
		}
		lost, next, err := r.skip(what)
		if err != nil {
			return Line{}, err
		}
		if lost > 0 {
			text := fmt.Sprintf("the log is damaged: bytes lost here: %d", lost)
			return Line{Stream: Note, Text: []byte(text)}, nil
		}
		if !next {
			break
		}
	}
	return Line{}, io.EOF
}

// rest is what is known of the block from the next record on.
func (r *LogReader) rest() []byte {
	if r.off >= len(r.block) {
		return nil
	}
	return r.block[r.off:]
}

// fill reads the block again from the next record on, as its writer may have been seen half-way, and
// reports whether that brought anything new.
func (r *LogReader) fill() (bool, error) {
	if r.off >= blockSize {
		return false, nil
	}
	fresh := make([]byte, blockSize-r.off)
	n, err := r.src.ReadAt(fresh, r.base+int64(r.off))
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read log: %v", err)
	}
	old := r.rest()
	if string(old) == string(fresh[:n]) {
		return false, nil
	}
	if r.block == nil {
		r.block = make([]byte, 0, blockSize)
	}
	for len(r.block) < r.off {
		r.block = append(r.block, 0) // Before the next record: never looked at.
	}
	r.block = append(r.block[:r.off], fresh[:n]...)
	return true, nil
}

// skip goes to the next block if there is one, for then this one is complete. It gives the number of
// bytes that are lost by that: none if only padding was left.
func (r *LogReader) skip(what found) (lost int, next bool, err error) {
	size, err := r.size()
	if err != nil {
		return 0, false, err
	}
	if size <= r.base+blockSize {
		return 0, false, nil
	}
	left := r.rest()
	// A writer never pads more than what a longest record did not fit into, and with zeros only.
	if what == foundNothing || len(left) >= maxRecord || len(bytes.Trim(left, "\x00")) > 0 {
		lost = len(left)
	}
	r.goTo(mark{base: r.base + blockSize})
	return lost, true, nil
}

// mark is a place where a record begins.
type mark struct {
	base  int64
	off   int
	chain chain
}

// goTo has the next record read there.
func (r *LogReader) goTo(m mark) {
	r.base, r.off, r.chain = m.base, m.off, m.chain
	r.block = r.block[:0]
}

// Tail goes to where the last n lines begin: Next then gives them and whatever follows. Notes are no lines of the job, and
// come along where they stand; the pieces of a line that is longer than MaxLineText are one. It reads only the blocks that hold those lines,
// and one more.
func (r *LogReader) Tail(n int) error {
	size, err := r.size()
	if err != nil {
		return err
	}
	r.ended = false
	var starts []mark // of lines, but for the first, of which an earlier block says whether it is one
	for base := (max(size, 1) - 1) / blockSize * blockSize; ; base -= blockSize {
		s, err := r.scan(base)
		if err != nil || n <= 0 {
			return err
		}
		if len(starts) > 0 && s.unfinished {
			starts = starts[1:]
		}
		starts = append(s.starts, starts...)
		switch at := len(starts) - n; {
		case at > 0:
			r.goTo(starts[at])
			return nil
		case base == 0:
			r.goTo(mark{off: len(logMagic)})
			return nil
		}
	}
}

// scanned is what a block tells of its lines.
type scanned struct {
	starts     []mark // of lines; the first output counts as one
	unfinished bool   // no newline follows the last output
}

// scan loads the block at base and looks at its lines. It leaves the reader after the last.
func (r *LogReader) scan(base int64) (scanned, error) {
	r.goTo(mark{base: base})
	if base == 0 {
		r.off = len(logMagic)
	}
	if _, err := r.fill(); err != nil {
		return scanned{}, err
	}
	var s scanned
	for {
		here := mark{r.base, r.off, r.chain}
		rec, what := r.chain.decode(r.rest())
		if what != foundRecord || rec.kind == kindEnd {
			r.chain = here.chain
			return s, nil
		}
		if rec.kind != kindNote {
			if !s.unfinished {
				s.starts = append(s.starts, here)
			}
			s.unfinished = rec.kind == kindPiece
		}
		r.off += rec.size
	}
}

// Follow gives each line to yield, from where the reader stands, and looks for more at the given
// interval. It returns nil at the writer's end marker, yield's error if it gives one, and the cause of
// ctx when that is done, having given what was there by then. A writer that died leaves no
// marker: whoever knows so ends ctx.
func (r *LogReader) Follow(ctx context.Context, every time.Duration, yield func(Line) error) error {
	if every <= 0 {
		return fmt.Errorf("follow log: interval %v; want more than 0", every)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		// Asked before reading: what was written before ctx ended is still given.
		over := ctx.Err() != nil
		for {
			line, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if err := yield(line); err != nil {
				return err
			}
		}
		if r.ended {
			return nil
		}
		if over {
			return context.Cause(ctx)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
