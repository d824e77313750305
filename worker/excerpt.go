package worker

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

// MaxExcerptText is the most text, in bytes, that a line of an excerpt has, with the ellipsis of a longer one.
const MaxExcerptText = 300

const ellipsis = "…"

// excerpt keeps the last lines, each as a terminal would show its beginning: whole, not in pieces, from the last carriage
// return on, and cut to MaxExcerptText.
type excerpt struct {
	most  int
	lines []Line
	// open says that the last line of output, the open-th from the end of lines, still goes on. 0: there is none.
	open int
	// again: the text so far ended with a carriage return, so that more text would overwrite it.
	again bool
}

// add takes the next line. It keeps no part of its text.
func (e *excerpt) add(l Line) {
	if l.Stream == Note || e.open == 0 {
		text := l.Text
		l.Text = nil
		if len(e.lines) == e.most {
			e.lines = append(e.lines[:0], e.lines[1:]...)
		}
		e.lines = append(e.lines, l)
		if l.Stream == Note {
			e.lines[len(e.lines)-1].Text, _ = begin(nil, text, false)
			if e.open > 0 {
				e.open++
			}
			return
		}
		e.open, e.again, l.Text = 1, false, text
	}
	// So many notes may have come in between that the line has been dropped.
	if at := len(e.lines) - e.open; at >= 0 {
		line := &e.lines[at]
		line.Text, e.again = begin(line.Text, l.Text, e.again)
		line.Partial = l.Partial
	}
	if !l.Partial {
		e.open = 0
	}
}

// begin puts more text behind the beginning of a line, and reports whether that ends with a carriage return. The text is
// longer than MaxExcerptText by one byte or more if the line is to be cut.
func begin(text, more []byte, again bool) ([]byte, bool) {
	shown := bytes.TrimRight(more, "\r")
	if i := bytes.LastIndexByte(shown, '\r'); i >= 0 {
		text, more = text[:0], more[i+1:]
	} else if again && len(shown) > 0 {
		text = text[:0]
	}
	again = len(more) > len(bytes.TrimRight(more, "\r")) || again && len(more) == 0
	room := MaxExcerptText + 1 - len(text)
	return append(text, more[:min(len(more), room)]...), again
}

// last gives the lines.
func (e *excerpt) last() []Line {
	out := make([]Line, len(e.lines))
	for i, l := range e.lines {
		if len(l.Text) > MaxExcerptText {
			end := MaxExcerptText - len(ellipsis)
			for end > MaxExcerptText-len(ellipsis)-utf8.UTFMax && !utf8.RuneStart(l.Text[end]) {
				end--
			}
			l.Text = append(bytes.Clone(l.Text[:end]), ellipsis...)
		}
		out[i] = l
	}
	return out
}

// Excerpt gives the last n lines of output that the log holds, without notes: each whole, not in pieces, but only its
// text after a carriage return, as a terminal would show it, and no more than MaxExcerptText. With an error come the lines
// up to it. The reader then stands at the end of what is there.
func (r *LogReader) Excerpt(n int) ([]Line, error) {
	// An attempt ends with a few notes; more are no reason to read the log twice.
	const notes = 8
	if err := r.Tail(n + notes); err != nil {
		return nil, err
	}
	e := excerpt{most: n}
	for {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			return e.last(), nil
		}
		if err != nil {
			return e.last(), err
		}
		if l.Stream != Note {
			e.add(l)
		}
	}
}
