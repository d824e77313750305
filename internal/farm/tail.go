package farm

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
)

const (
	tailLines    = 20      // of the log of a job that did not succeed, as run shows them
	tailText     = 300     // bytes of a line
	tailRead     = 1 << 20 // bytes that are read for them
	tailsMost    = 50      // jobs whose logs are looked at: whoever has more failures reads no more
	tailPatience = 5 * time.Second
)

// tail adds the last lines of the log to the end of a job that ran and did not succeed, and how to see all of it. A log that cannot be
// had is no reason to fail.
func (f *Follow) tail(ctx context.Context, j *api.Job, e *progress.JobEnded) {
	if j.Attempts == 0 || j.Cached || e.Root != "" || e.Outcome == job.Succeeded || e.Outcome == job.Cancelled || f.See == nil {
		return
	}
	e.See = f.See(j.ID)
	if f.tails++; f.tails > tailsMost {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tailPatience)
	defer cancel()
	lines := tailLines
	content, _, err := f.Client.Log(ctx, j.ID, api.LogOptions{Attempt: j.Attempts, Tail: &lines})
	if err != nil {
		return
	}
	defer content.Close() // Only read from.
	text, err := io.ReadAll(io.LimitReader(content, tailRead))
	if err == nil {
		e.Tail = lastLines(text)
	}
}

// lastLines gives the lines of a text as a terminal would show them: of each what follows the last carriage return, cut to what a person
// reads.
func lastLines(text []byte) []string {
	text = bytes.TrimRight(text, "\r\n")
	if len(text) == 0 {
		return nil
	}
	var lines []string
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		line = bytes.TrimRight(line, "\r")
		line = line[bytes.LastIndexByte(line, '\r')+1:]
		if len(line) > tailText {
			line = append(bytes.Clone(bytes.ToValidUTF8(line[:tailText], nil)), "…"...)
		}
		lines = append(lines, string(line))
	}
	return lines
}
