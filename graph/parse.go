package graph

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Parse reads a job-graph file and gives its checked graph. A name that ends in .json, .yaml or .yml tells
// the format; else the file is JSON if it begins as a JSON object does, with a brace and a double quote or
// the other brace, and YAML if not. The name is also what messages call it. A limit that is 0 is the default.
//
// What is wrong with the file is reported as Problems; any other error comes from r. Parse reads r as
// a stream and stops at the first limit that is passed. Of a JSON file it holds the jobs and the text
// of one; of a YAML file too, if the jobs stand one below the other in a block, which a mapping in
// braces does not.
func Parse(r io.Reader, name string, lim Limits) (*Graph, error) {
	lim = lim.withDefaults()
	d := newDecoder(name, lim)
	src := bufio.NewReaderSize(&sizedReader{r: r, left: lim.File}, 64<<10)
	if bom, _ := src.Peek(3); string(bom) == "\xef\xbb\xbf" {
		_, _ = src.Discard(3) // They are in the buffer.
	}
	var err error
	if isJSON(src, name) {
		err = newJSONReader(src, d).read()
	} else {
		err = newYAMLReader(src, d).read()
	}
	if err != nil && !errors.Is(err, errStop) {
		return nil, fmt.Errorf("read %s: %w", printable(name), err)
	}
	if err != nil || d.full() {
		// The rest is unknown, so what is said of the jobs together could be wrong.
		return nil, d.err()
	}
	d.end()
	return link(d)
}

// isJSON tells the format of a file by its name, or else by its first characters.
func isJSON(src *bufio.Reader, name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".json":
		return true
	case ".yaml", ".yml":
		return false
	}
	return looksLikeJSON(src)
}

// looksLikeJSON looks for a brace and what follows it, as far as the buffer reaches. In JSON that is a
// name in double quotes or the other brace; a file that ends before is broken in both formats.
func looksLikeJSON(src *bufio.Reader) bool {
	const space = " \t\r\n"
	for n := 64; ; n *= 4 {
		n = min(n, src.Size())
		b, err := src.Peek(n)
		after, brace := bytes.CutPrefix(bytes.TrimLeft(b, space), []byte("{"))
		if after = bytes.TrimLeft(after, space); len(after) > 0 {
			return brace && (after[0] == '"' || after[0] == '}')
		}
		if err != nil || n == src.Size() {
			return brace
		}
	}
}

var (
	// errStop ends the reading of a file whose problems are in the report.
	errStop = errors.New("stop")
	// errTooLarge is what a sizedReader says of a file over its limit.
	errTooLarge = errors.New("file too large")
)

// sizedReader passes on at most left bytes, then fails with errTooLarge if there are more. It keeps its
// error, because a bufio.Reader that is peeked into forgets it.
type sizedReader struct {
	r    io.Reader
	left int64
	err  error
}

func (s *sizedReader) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if int64(len(p)) > s.left+1 {
		p = p[:s.left+1]
	}
	n, err := s.r.Read(p)
	if int64(n) > s.left {
		n, err = int(s.left), errTooLarge
	}
	s.left -= int64(n)
	s.err = err
	return n, err
}
