package graph

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonReader reads JSON with one byte of look-ahead and hands the decoder one job at a time.
//
// It is not encoding/json's Decoder because that reads a whole string before anybody can see how
// long it is, and because the places and words of its errors depend on the version of Go.
type jsonReader struct {
	src *bufio.Reader
	d   *decoder
	// c is the byte that comes next, at its place; -1 at the end.
	c  int
	at place
	// err is why reading ended, if it was not the end of the file.
	err error
	// used counts the bytes, and nodes the values, since the field of the top level or the job began.
	used, nodes int
	buf         []byte
}

func newJSONReader(src *bufio.Reader, d *decoder) *jsonReader {
	r := &jsonReader{src: src, d: d, c: '\n'}
	r.advance()
	return r
}

// advance goes to the next byte. Bytes that continue a character do not move the column.
func (r *jsonReader) advance() {
	last := r.c
	b, err := r.src.ReadByte()
	r.c = int(b)
	if err != nil {
		r.c = -1
		if err != io.EOF {
			r.err = err
		}
	}
	r.used++
	switch {
	case last == '\n':
		r.at = place{r.at.line + 1, 1}
	case r.c&0xC0 != 0x80 || r.c < 0:
		r.at.col++
	}
}

func (r *jsonReader) space() {
	for r.c == ' ' || r.c == '\n' || r.c == '\t' || r.c == '\r' {
		r.advance()
	}
}

// fail reports a problem, or why the reading ended, and gives the error that ends the parse.
func (r *jsonReader) fail(at place, format string, args ...any) error {
	if r.err != nil {
		if !errors.Is(r.err, errTooLarge) {
			return r.err
		}
		r.d.tooLarge(r.at)
		return errStop
	}
	r.d.add(at, format, args...)
	return errStop
}

// unexpected says what was expected where the reader stands.
func (r *jsonReader) unexpected(expected string) error {
	return r.fail(r.at, "expected %s, found %s", expected, r.here())
}

func (r *jsonReader) here() string {
	if r.c < 0 {
		return "the end of the file"
	}
	if r.c < utf8.RuneSelf {
		return fmt.Sprintf("%q", rune(r.c))
	}
	c := []byte{byte(r.c)}
	if rest, _ := r.src.Peek(utf8.UTFMax - 1); rest != nil {
		c = append(c, rest...)
	}
	first, _ := utf8.DecodeRune(c)
	return fmt.Sprintf("%q", first)
}

// read reads the whole file.
func (r *jsonReader) read() error {
	r.space()
	if r.c != '{' {
		return r.unexpected(`a JSON object, "{"`)
	}
	err := r.object(func(f field) error {
		if f.name == "jobs" && r.c == '{' {
			r.d.beginJobs(f.at)
			return r.object(r.job)
		}
		if err := r.value(&f.value, 1); err != nil {
			return err
		}
		r.d.top(f)
		return nil
	})
	if err != nil {
		return err
	}
	r.space()
	if r.c >= 0 {
		return r.unexpected("the end of the file")
	}
	if r.err != nil {
		return r.fail(r.at, "")
	}
	return nil
}

func (r *jsonReader) job(f field) error {
	if err := r.value(&f.value, 2); err != nil {
		return err
	}
	if !r.d.job(f) {
		return errStop
	}
	return nil
}

// object reads an object; one reads the value of a field, whose name was read. Each field has the
// budget of a job.
func (r *jsonReader) object(one func(field) error) error {
	r.advance()
	r.space()
	for first := true; r.c != '}'; first = false {
		r.used, r.nodes = 0, 0
		f, err := r.name(first)
		if err != nil {
			return err
		}
		if err := one(f); err != nil {
			return err
		}
		if r.d.full() {
			return errStop
		}
		r.space()
	}
	r.advance()
	return nil
}

// name reads what is before the value of a field: a comma unless it is the first, the name, a colon.
func (r *jsonReader) name(first bool) (field, error) {
	if !first {
		if r.c != ',' {
			return field{}, r.unexpected(`"," or "}"`)
		}
		comma := r.at
		r.advance()
		r.space()
		if r.c == '}' {
			return field{}, r.fail(comma, "no comma is allowed after the last field")
		}
	}
	if r.c != '"' {
		return field{}, r.unexpected("a name in double quotes")
	}
	f := field{at: r.at}
	var err error
	if f.name, err = r.str(); err != nil {
		return field{}, err
	}
	r.space()
	if r.c != ':' {
		return field{}, r.unexpected(`":"`)
	}
	r.advance()
	r.space()
	return f, nil
}

// value reads any value into n.
func (r *jsonReader) value(n *node, depth int) error {
	r.nodes++
	if r.nodes > maxNodes || r.used > r.d.lim.Job {
		return r.tooBig()
	}
	n.at, n.size = r.at, 1
	var err error
	switch {
	case r.c == '{' || r.c == '[':
		if depth >= maxDepth {
			return r.fail(r.at, "nested too deeply: at most %d levels", maxDepth)
		}
		if r.c == '{' {
			return r.mapping(n, depth)
		}
		return r.list(n, depth)
	case r.c == '"':
		n.kind = text
		n.text, err = r.str()
	case r.c == '-' || r.c >= '0' && r.c <= '9':
		n.kind = number
		n.text, err = r.word()
		if err == nil && !json.Valid([]byte(n.text)) {
			err = r.fail(n.at, "%s is not a number in JSON", cut(n.text))
		}
	case r.c >= 'a' && r.c <= 'z' || r.c >= 'A' && r.c <= 'Z':
		if n.text, err = r.word(); err != nil {
			return err
		}
		switch n.text {
		case "null":
			n.text = ""
		case "true", "false":
			n.kind = boolean
		default:
			err = r.fail(n.at, "expected a value, found %s; a string needs double quotes", cut(n.text))
		}
	default:
		err = r.unexpected("a value")
	}
	return err
}

func (r *jsonReader) tooBig() error { return r.fail(r.at, "%s", tooBig(r.d.lim)) }

func (r *jsonReader) mapping(n *node, depth int) error {
	n.kind = mapping
	var seen names
	r.advance()
	r.space()
	for first := true; r.c != '}'; first = false {
		f, err := r.name(first)
		if err != nil {
			return err
		}
		if err := r.value(&f.value, depth+1); err != nil {
			return err
		}
		n.add(r.d, &seen, f)
		r.space()
	}
	r.advance()
	return nil
}

func (r *jsonReader) list(n *node, depth int) error {
	n.kind = list
	r.advance()
	r.space()
	for first := true; r.c != ']'; first = false {
		if !first {
			if r.c != ',' {
				return r.unexpected(`"," or "]"`)
			}
			comma := r.at
			r.advance()
			r.space()
			if r.c == ']' {
				return r.fail(comma, "no comma is allowed after the last value")
			}
		}
		var item node
		if err := r.value(&item, depth+1); err != nil {
			return err
		}
		n.size += item.size
		n.items = append(n.items, item)
		r.space()
	}
	r.advance()
	return nil
}

// word reads a number or a bare word.
func (r *jsonReader) word() (string, error) {
	r.buf = r.buf[:0]
	for r.c >= '0' && r.c <= '9' || r.c >= 'a' && r.c <= 'z' || r.c >= 'A' && r.c <= 'Z' ||
		r.c == '.' || r.c == '+' || r.c == '-' || r.c == '_' {
		if len(r.buf) >= 4096 {
			return "", r.fail(r.at, "number or word of more than 4096 characters")
		}
		r.buf = append(r.buf, byte(r.c))
		r.advance()
	}
	return string(r.buf), nil
}

// str reads a string, whose opening quote comes next.
func (r *jsonReader) str() (string, error) {
	start := r.at
	r.buf = r.buf[:0]
	for r.advance(); r.c != '"'; r.advance() {
		switch {
		case r.c < 0:
			return "", r.fail(start, "string without its closing quote")
		case r.c < ' ':
			return "", r.fail(r.at, "a string cannot contain %q; write it as an escape", rune(r.c))
		case r.used > r.d.lim.Job:
			return "", r.tooBig()
		case r.c != '\\':
			r.buf = append(r.buf, byte(r.c))
		default:
			if err := r.escape(); err != nil {
				return "", err
			}
		}
	}
	r.advance()
	if !utf8.Valid(r.buf) {
		return "", r.fail(start, "string is not valid UTF-8")
	}
	return string(r.buf), nil
}

// escape reads one escape, of which the backslash comes next, and stays on its last byte.
func (r *jsonReader) escape() error {
	start := r.at
	r.advance()
	switch r.c {
	case '"', '\\', '/':
		r.buf = append(r.buf, byte(r.c))
	case 'b':
		r.buf = append(r.buf, '\b')
	case 'f':
		r.buf = append(r.buf, '\f')
	case 'n':
		r.buf = append(r.buf, '\n')
	case 'r':
		r.buf = append(r.buf, '\r')
	case 't':
		r.buf = append(r.buf, '\t')
	case 'u':
		c, ok := r.hex()
		if ok && utf16.IsSurrogate(c) {
			var low rune
			if r.advance(); r.c == '\\' {
				if r.advance(); r.c == 'u' {
					low, _ = r.hex()
				}
			}
			c = utf16.DecodeRune(c, low)
			ok = c != utf8.RuneError
		}
		if !ok {
			return r.fail(start, `expected an escape such as \u00e9, or a pair of them for one character`)
		}
		r.buf = utf8.AppendRune(r.buf, c)
	default:
		return r.fail(start, `unknown escape; JSON has \" \\ \/ \b \f \n \r \t \u0000`)
	}
	return nil
}

// hex reads the four digits after \u and stays on the last.
func (r *jsonReader) hex() (rune, bool) {
	var v rune
	for range 4 {
		r.advance()
		switch {
		case r.c >= '0' && r.c <= '9':
			v = v<<4 | rune(r.c-'0')
		case r.c >= 'a' && r.c <= 'f':
			v = v<<4 | rune(r.c-'a'+10)
		case r.c >= 'A' && r.c <= 'F':
			v = v<<4 | rune(r.c-'A'+10)
		default:
			return 0, false
		}
	}
	return v, true
}
