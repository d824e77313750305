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
	text := b[:n]
	if len(t.part) > 0 {
		text = append(t.part, text...)
	}
	whole := len(text)
	if err == nil {
		whole -= begun(text)
	}
	if !utf8.Valid(text[:whole]) {
		return 0, errNotText
	}
	t.part = append([]byte(nil), text[whole:]...)
	return n, err
}

// begun counts the bytes of a character at the end of a text of which the rest is missing.
func begun(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if end := text[len(text)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

// errNotText says that a body is not as JSON must be.
var errNotText = api.Invalid("body", "is not valid UTF-8")
