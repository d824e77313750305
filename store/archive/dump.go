package archive

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/headrace/headrace/store/rows"
)

// Format is the version of the form of a dump.
const Format = 1

// Names of the lines that are no rows.
const (
	lineFormat = "headrace"
	lineHead   = "head"
	lineEnd    = "end"
)

// Dump writes all that a store holds.
func Dump(w io.Writer, t rows.Tables) error {
	out := bufio.NewWriterSize(w, 64<<10)
	h, err := rows.ReadHead(t)
	if err != nil {
		return err
	}
	line := fmt.Appendf(nil, "{%q:{\"format\":%d}}\n", lineFormat, Format)
	line = append(appendHead(line, &h), '\n')
	lines := 2
	if _, err := out.Write(line); err != nil {
		return err
	}
	for _, table := range tables {
		err := table.Scan(t, func(row []rows.Value) error {
			lines++
			line = table.append(line[:0], row)
			_, err := out.Write(line)
			return err
		})
		if err != nil {
			return fmt.Errorf("dump table %s: %w", table.Name, err)
		}
	}
	if _, err := fmt.Fprintf(out, "{%q:{\"lines\":%d}}\n", lineEnd, lines+1); err != nil {
		return err
	}
	return out.Flush()
}

func appendHead(b []byte, h *rows.Head) []byte {
	b = fmt.Appendf(b, `{%q:{"number":%d,"at":`, lineHead, h.Number)
	return fmt.Appendf(appendTime(b, h.At), `,"seq":%d,"dropped":%d}}`, h.Seq, h.Dropped)
}

func parseHead(raw json.RawMessage) (h rows.Head, err error) {
	var v struct {
		Number, Dropped uint64
		Seq             int64
		At              json.RawMessage
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return h, err
	}
	at, err := parseTime(v.At)
	return rows.Head{Number: v.Number, At: at, Seq: v.Seq, Dropped: v.Dropped}, err
}

// ErrCutOff reports that a dump has no end.
var ErrCutOff = errors.New("the dump was cut off: its last line, which counts the others, is missing")

// LineError says which line of a dump is wrong.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d of the dump: %v", e.Line, e.Err) }

// Unwrap gives what is wrong.
func (e *LineError) Unwrap() error { return e.Err }

// longest bounds a line: a database takes no longer values.
const longest = 1 << 30

// Load makes what a dump holds in an empty store, whose transaction the caller ends. The error is ErrCutOff, a *LineError, a
// *rows.NotEmptyError, or that of the reader or of the store.
func Load(r io.Reader, t rows.Tables) error {
	f, err := rows.Fill(t)
	if err != nil {
		return err
	}
	l := loading{in: bufio.NewReaderSize(r, 64<<10), f: f}
	for !l.ended {
		raw, err := l.next()
		if err != nil {
			return err
		}
		if err := l.take(raw); err != nil {
			return err
		}
	}
	if _, err := l.in.ReadByte(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = &LineError{l.line + 1, errors.New("the dump had ended before")}
		}
		return err
	}
	return f.End(l.head)
}

// loading is a Load under way.
type loading struct {
	in    *bufio.Reader
	f     *rows.Filling
	line  int
	head  rows.Head
	ended bool
}

// next gives the next line.
func (l *loading) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) <= longest:
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, &LineError{l.line + 1, errors.New("it is too long")}
		case errors.Is(err, io.EOF) && l.line == 0:
			return nil, &LineError{1, errNoDump}
		case errors.Is(err, io.EOF):
			return nil, ErrCutOff
		case err != nil:
			return nil, err
		}
		l.line++
		return line, nil
	}
}

var errNoDump = errors.New("this is no dump of headrace")

// take does what a line says.
func (l *loading) take(line []byte) error {
	wrong := func(err error) error { return &LineError{l.line, err} }
	m, err := object(line)
	if l.line == 1 {
		var first struct{ Format int }
		if err != nil || json.Unmarshal(m[lineFormat], &first) != nil || first.Format == 0 {
			return wrong(errNoDump)
		}
		if first.Format != Format {
			return wrong(fmt.Errorf("the dump has format %d, and this headrace knows format %d alone", first.Format, Format))
		}
		return nil
	}
	if err != nil || len(m) != 1 {
		return wrong(errors.New("want an object with one name"))
	}
	for name, raw := range m {
		switch {
		case l.line == 2:
			if name != lineHead {
				return wrong(fmt.Errorf("want the line %q", lineHead))
			}
			if l.head, err = parseHead(raw); err != nil {
				return wrong(err)
			}
		case name == lineEnd:
			var end struct{ Lines int }
			if json.Unmarshal(raw, &end) != nil || end.Lines != l.line {
				return wrong(fmt.Errorf("the dump had %d lines, and this is number %d: there are lines missing, or too many", end.Lines, l.line))
			}
			l.ended = true
		default:
			return l.row(name, raw)
		}
	}
	return nil
}

func (l *loading) row(name string, raw json.RawMessage) error {
	for _, t := range tables {
		if t.Name != name {
			continue
		}
		row, err := t.parse(raw)
		if err == nil && name == "round" && row[0].Int > int64(l.head.Number) {
			err = fmt.Errorf("round %d comes after the last, which is number %d", row[0].Int, l.head.Number)
		}
		if err != nil {
			return &LineError{l.line, fmt.Errorf("%s: %w", name, err)}
		}
		return l.f.Add(t.Whole, row)
	}
	return &LineError{l.line, fmt.Errorf("unknown name %q", name)}
}
