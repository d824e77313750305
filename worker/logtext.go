package worker

import (
	"errors"
	"io"
)

// logText reads a log as plain text, as it is shipped: the output as the command wrote it, and the notes as lines of their own that
// begin with "headrace: ". The same log gives the same text each time.
type logText struct {
	log  *LogReader
	open bool // no newline followed the last output
}

// read appends text to b until it has at least so many bytes, or there is no more for now.
func (t *logText) read(b []byte, enough int) ([]byte, error) {
	for len(b) < enough {
		line, err := t.log.Next()
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if line.Stream == Note {
			if t.open {
				b = append(b, '\n')
				t.open = false
			}
			b = append(append(append(b, "headrace: "...), line.Text...), '\n')
			continue
		}
		b = append(b, line.Text...)
		if t.open = line.Partial; !t.open {
			b = append(b, '\n')
		}
	}
	return b, nil
}
