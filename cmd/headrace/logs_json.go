package main

import (
	"encoding/json"
	"io"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/worker"
)

// jsonLine is a line of a log as JSON; text that is no UTF-8 comes as base64.
type jsonLine struct {
	Time    time.Time `json:"time"`
	Stream  string    `json:"stream"`
	Text    *string   `json:"text,omitempty"`
	Bytes   []byte    `json:"bytes,omitempty"`
	Partial bool      `json:"partial,omitempty"`
}

func jsonLines(out io.Writer) func(worker.Line) error {
	enc := json.NewEncoder(out)
	return func(l worker.Line) error {
		line := jsonLine{Time: l.Time.UTC(), Stream: l.Stream.String(), Partial: l.Partial}
		if text := string(l.Text); utf8.ValidString(text) {
			line.Text = &text
		} else {
			line.Bytes = l.Text
		}
		return enc.Encode(line)
	}
}
