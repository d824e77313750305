package server

import (
	"io"
	"unicode/utf8"

	"github.com/headrace/headrace/api"
)

// textBody refuses a body that is not valid UTF-8: decoders of JSON would put another character in the place of what is not, so that a
// job would be given another command than it was asked for with.
type textBody struct {
	io.ReadCloser
	part []byte // of a character whose rest has not come
}

// Read implements io.Reader.
func (t *textBody) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	text := append(t.part, b[:n]...)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			if err == nil && !utf8.FullRune(text) {
				break
			}
			return 0, errNotText
		}
		text = text[size:]
	}
	t.part = append(t.part[:0:0], text...)
	return n, err
}

// errNotText says that a body is not as JSON must be.
var errNotText = api.Invalid("body", "is not valid UTF-8")
