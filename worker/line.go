package worker

import (
	"bytes"
	"time"
)

// MaxLineText is the most text that one Line carries, in bytes. Longer lines come as several, so that
// memory stays bounded whatever a command writes.
const MaxLineText = 8 << 10

// Stream says where a line of a log came from.
type Stream uint8

const (
	// Stdout: the command's output. Its standard output and standard error are one stream, as only so the order in
	// which it wrote is kept.
	Stdout Stream = iota + 1
	// Note: the executor's own words, as in "no output for 5m0s".
	Note
)

var streamNames = [...]string{Stdout: "out", Note: "note"}

// String gives "out" or "note".
func (s Stream) String() string {
	if s < Stdout || s > Note {
		return "unknown"
	}
	return streamNames[s]
}

// Line is a line of an attempt's log, or a piece of one that is longer than MaxLineText.
type Line struct {
	// Time is when the line arrived: UTC, microseconds.
	Time time.Time
	// Stream is where it came from.
	Stream Stream
	// Text is the line without its newline: any bytes. A carriage return before the newline stays.
	Text []byte
	// Partial: no newline followed. The next Line of the same Stream goes on with the same line; a last
	// Partial one ended without a newline. So text and newlines can be had back exactly. Notes are always whole.
	Partial bool
	// Pending: this is what there is so far of a line whose end has not come, as of a prompt or a progress bar.
	// Only listeners get such a Line, and then the whole one when its end has come; no log holds any.
	Pending bool
}

// splitter cuts a stream of bytes into lines of at most MaxLineText bytes.
type splitter struct{ rest []byte }

// feed takes the next bytes and gives each line that is complete, or as long as a Line may be. The text
// is valid during emit only.
func (s *splitter) feed(p []byte, emit func(text []byte, partial bool)) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		piece := p
		if end >= 0 {
			piece = p[:end]
		}
		// A line of exactly MaxLineText bytes is one Line: it is cut only when a further byte has come.
		if room := MaxLineText - len(s.rest); len(piece) > room {
			s.rest = append(s.rest, piece[:room]...)
			emit(s.rest, true)
			s.rest, p = s.rest[:0], p[room:]
			continue
		}
		s.rest = append(s.rest, piece...)
		if end < 0 {
			return
		}
		emit(s.rest, false)
		s.rest, p = s.rest[:0], p[end+1:]
	}
}

// finish gives the bytes after the last newline, if any.
func (s *splitter) finish(emit func(text []byte, partial bool)) {
	if len(s.rest) > 0 {
		emit(s.rest, true)
		s.rest = s.rest[:0]
	}
}
