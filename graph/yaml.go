package graph

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// yamlReader cuts a YAML file into its top-level fields, and the field jobs into its jobs, by the
// indentation of lines, and gives each piece to the YAML library on its own. The library needs many
// times the memory of what it reads, and time that grows faster than the text: 20,000 jobs in one
// piece take 1.7 GB and a second, cut up 0.1 s and next to nothing.
//
// A line begins a piece if it is indented as the first line of its level is, for in valid YAML what
// belongs to a field of a block is indented more than the field. Lists and closing brackets are the
// exception that people and the library allow; see continues.
type yamlReader struct {
	src *bufio.Reader
	d   *decoder
	// line is the number of the last line that was read.
	line int32
	// piece is the text of the current field or job, which begins at the line first.
	piece []byte
	first int32
	// indent is that of jobs: -1 outside of the field jobs, 0 if its first job is yet to come.
	indent int
	// jobsLine is the line that began the field jobs, in case it is not a block.
	jobsLine []byte
	// begun: the document has begun; whole: it is one mapping in braces, which cannot be cut; ended: it
	// was said to end.
	begun, whole, ended bool

	anchors map[string]node
}

func newYAMLReader(src *bufio.Reader, d *decoder) *yamlReader {
	return &yamlReader{src: src, d: d, indent: -1, anchors: make(map[string]node)}
}

// read reads the whole file.
func (r *yamlReader) read() error {
	for {
		line, err := r.readLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) > 0 {
			if err := r.take(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return r.flush()
		}
	}
}

// readLine reads a line with its end, as a line feed. The error is io.EOF after the last line.
func (r *yamlReader) readLine() ([]byte, error) {
	r.line++
	var line []byte
	for {
		part, err := r.src.ReadSlice('\n')
		if len(line)+len(part) > r.d.lim.Job {
			r.d.add(place{r.line, 1}, "%s", tooBig(r.d.lim))
			return nil, errStop
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			line = append(line, part...)
			continue
		case errors.Is(err, errTooLarge):
			r.d.tooLarge(place{r.line, 1})
			return nil, errStop
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		}
		if line != nil {
			part = append(line, part...)
		}
		if !utf8.Valid(part) {
			valid := 0
			for c, n := utf8.DecodeRune(part); c != utf8.RuneError || n > 1; c, n = utf8.DecodeRune(part) {
				part, valid = part[n:], valid+1
			}
			r.d.add(place{r.line, int32(valid + 1)}, "not valid UTF-8")
			return nil, errStop
		}
		if bytes.HasSuffix(part, []byte("\r\n")) {
			part = append(part[:len(part)-2], '\n')
		}
		if !r.allowed(part) {
			return nil, errStop
		}
		return part, err
	}
}

// allowed refuses the characters that YAML does not allow in a file, and with them a lone carriage
// return, which would end a line for some readers and not for others.
func (r *yamlReader) allowed(line []byte) bool {
	if bytes.IndexFunc(line, notAllowed) < 0 {
		return true
	}
	col := int32(1)
	for _, c := range string(line) {
		if notAllowed(c) {
			r.d.add(place{r.line, col}, "the character %q is not allowed; write it as an escape in double quotes", c)
			return false
		}
		col++
	}
	return true
}

func notAllowed(c rune) bool {
	return unicode.IsControl(c) && c != '\t' && c != '\n' && c != '\u0085' || c == '\ufffe' || c == '\uffff'
}

// take puts a line where it belongs.
func (r *yamlReader) take(line []byte) error {
	rest := bytes.TrimLeft(line, " ")
	indent := len(line) - len(rest)
	rest = bytes.TrimRight(rest, " \t\n")
	if len(rest) == 0 || rest[0] == '#' {
		return r.extend(line)
	}
	if rest[0] == '\t' && !r.whole {
		return r.problem("indented with a tab: YAML wants spaces")
	}
	if indent == 0 && r.marker(rest) {
		return r.stopped()
	}
	if r.ended {
		return r.problem("expected nothing after the end of the document")
	}
	if r.first == 0 && rest[0] == '{' {
		r.whole = true
		return r.begin(line)
	}
	if r.first == 0 && indent > 0 {
		return r.problem("indented by %d, but the first field begins its line", indent)
	}
	r.begun = true
	switch {
	case r.whole:
		return r.extend(line)
	case r.indent == 0 && (indent == 0 || continues(rest) || bytes.ContainsRune([]byte("&*!?|>{["), rune(rest[0]))):
		return r.notBlock(line, rest, indent)
	case r.indent == 0:
		r.d.beginJobs(place{r.first, 1})
		r.indent = indent
		r.first = r.line
		return r.extend(line)
	case indent == 0 && (r.first == 0 || !continues(rest)):
		if err := r.flush(); err != nil {
			return err
		}
		r.indent = -1
		if isJobs(rest) {
			r.indent = 0
			r.jobsLine = bytes.Clone(line)
			r.first = r.line
			return nil
		}
		return r.begin(line)
	case r.indent > 0 && indent < r.indent && !continues(rest):
		return r.problem("indented by %d, but the jobs before it by %d", indent, r.indent)
	case indent == r.indent && !continues(rest):
		return r.begin(line)
	}
	return r.extend(line)
}

// continues reports whether a line goes on with a piece although it is not indented more.
func continues(rest []byte) bool {
	switch rest[0] {
	case ']', '}':
		return true
	case '-', ':':
		return len(rest) == 1 || rest[1] == ' '
	}
	return false
}

// isJobs reports whether a line opens the field jobs as a block.
func isJobs(rest []byte) bool {
	s := string(rest)
	for _, name := range []string{"jobs", `"jobs"`, "'jobs'"} {
		if after, ok := strings.CutPrefix(s, name); ok {
			after, ok = strings.CutPrefix(strings.TrimLeft(after, " "), ":")
			value := strings.TrimLeft(after, " \t")
			return ok && (value == "" || value[0] == '#' && value != after)
		}
	}
	return false
}

// notBlock handles a field jobs whose value is not a block of jobs: nothing, or not what it should be.
func (r *yamlReader) notBlock(line, rest []byte, indent int) error {
	r.indent = -1
	// Empty lines for the comments between, so that places stay right.
	between := bytes.Repeat([]byte{'\n'}, min(int(r.line-r.first)-1, r.d.lim.Job))
	r.piece = append(append(r.piece[:0], r.jobsLine...), between...)
	if indent > 0 || continues(rest) {
		return r.extend(line)
	}
	return r.take(line)
}

// marker handles the lines that begin and end a document, and directives.
func (r *yamlReader) marker(rest []byte) bool {
	s := string(rest)
	switch {
	case s == "---" || strings.HasPrefix(s, "--- "):
		after := strings.TrimSpace(s[3:])
		switch {
		case r.begun:
			_ = r.problem("a second document begins: expected one a file")
		case after != "" && after[0] != '#':
			_ = r.problem("expected nothing on the line after ---")
		}
		r.begun = true
		return true
	case s == "..." || strings.HasPrefix(s, "... "):
		if after := strings.TrimSpace(s[3:]); after != "" && after[0] != '#' {
			_ = r.problem("expected nothing on the line after ...")
		}
		r.ended = true
		return true
	case s[0] == '%' && !r.begun:
		_ = r.problem("YAML directives are not supported")
		return true
	}
	return false
}

func (r *yamlReader) problem(format string, args ...any) error {
	r.d.add(place{r.line, 1}, format, args...)
	return errStop
}

// stopped gives the error that ends the reading after a problem with the text.
func (r *yamlReader) stopped() error {
	if len(r.d.list) > 0 {
		return errStop
	}
	return nil
}

// begin ends the current piece and begins one with a line.
func (r *yamlReader) begin(line []byte) error {
	if err := r.flush(); err != nil {
		return err
	}
	r.first = r.line
	return r.extend(line)
}

// extend adds a line to the current piece, if there is one.
func (r *yamlReader) extend(line []byte) error {
	if len(r.piece) == 0 && r.first != r.line {
		return nil
	}
	if len(r.piece)+len(line) > r.d.lim.Job {
		r.d.add(place{r.first, 1}, "%s; jobs stand one below the other, or use JSON", tooBig(r.d.lim))
		return errStop
	}
	r.piece = append(r.piece, line...)
	return nil
}

// flush hands the current piece to the decoder.
func (r *yamlReader) flush() error {
	if r.indent == 0 {
		// Only the line of jobs was read: it has no value.
		r.piece = append(r.piece[:0], r.jobsLine...)
	}
	if len(r.piece) == 0 {
		return nil
	}
	text := string(r.piece)
	r.piece = r.piece[:0]
	root, err := r.parse(text)
	if err != nil {
		return err
	}
	if c := strings.TrimLeft(text, " \n"); !r.whole && strings.ContainsAny(c[:min(1, len(c))], "{[") {
		// Each piece is valid, but they are not together.
		r.d.add(place{r.first, 1}, "expected a name, found %q", c[:1])
		return errStop
	}
	if root.kind != mapping {
		r.d.add(root.at, "expected a field such as jobs:, found %s", root.found())
		return errStop
	}
	for _, f := range root.fields {
		if r.indent > 0 {
			if !r.d.job(f) {
				return errStop
			}
			continue
		}
		r.d.top(f)
		if r.d.full() {
			return errStop
		}
	}
	return nil
}
