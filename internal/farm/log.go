package farm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// Log shows the log of a job's attempt. On a terminal its control characters are made harmless; else it is what the job wrote, byte for
// byte. With Follow it goes on to the end of the attempt, also if the server goes away for a while, and waits for a job that has not started.
type Log struct {
	*Farm
	Job      job.ID
	Options  api.LogOptions
	Terminal bool
	// Note is told what the user should know besides.
	Note func(text string)

	at   int64 // how far the log is read
	part []byte
}

// logLine is a line of a log as JSON; text that is no UTF-8 comes as base64.
type logLine struct {
	Offset  int64   `json:"offset"`
	Text    *string `json:"text,omitempty"`
	Bytes   []byte  `json:"bytes,omitempty"`
	Partial bool    `json:"partial,omitempty"` // no newline follows
}

// Show shows it. It reports *NameError if there is nothing to show.
func (l *Log) Show(ctx context.Context) error {
	if err := l.choose(ctx); err != nil {
		return err
	}
	heard, away, over := time.Now(), false, false
	for {
		before := l.at
		err := l.stream(ctx)
		var retry *queue.RetryError
		var problem *api.Problem
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &problem) && !problem.Retry:
			return err
		case err != nil && !errors.As(err, &retry):
			return err
		case err != nil && !l.Options.Follow:
			return err
		case err != nil && l.at == before && time.Since(heard) > 10*time.Minute:
			return err
		case err != nil:
			if !away {
				l.Note(fmt.Sprintf("the server is away: %v; asking on", retry.Cause))
			}
			away = true
		default:
			heard, away = time.Now(), false
			if over || !l.Options.Follow {
				return l.flush()
			}
			runs, err := l.runs(ctx)
			// The stream may have been cut off before the end: what is left is read once more.
			over = err == nil && !runs
		}
		l.Options.Offset, l.Options.Tail = l.at, nil
		if over && !away {
			continue
		}
		if err := rest(ctx); err != nil {
			return err
		}
	}
}

// choose finds the attempt to show.
func (l *Log) choose(ctx context.Context) error {
	told := false
	var place uint64
	for {
		var err error
		if place == 0 && l.Options.Follow {
			if place, err = l.Client.Place(ctx); err != nil {
				return err
			}
		}
		j, err := l.Client.Job(ctx, l.Job)
		if err != nil {
			return err
		}
		want := l.Options.Attempt
		switch {
		case j.Attempts > 0 && want == 0:
			l.Options.Attempt = j.Attempts
			return nil
		case j.Attempts > 0 && want <= j.Attempts:
			return nil
		case !l.Options.Follow || j.State == "done":
			if j.Attempts > 0 {
				return &NameError{fmt.Sprintf("%s has no attempt %d; its last is %d", j.Name, want, j.Attempts)}
			}
			return &NameError{fmt.Sprintf("%s has no log, as it never started; ask: headrace why %s", j.Name, short(l.Job))}
		}
		if !told {
			l.Note(j.Name + " has not started; waiting for it")
		}
		told = true
		if place, err = l.await(ctx, place); err != nil {
			return err
		}
	}
}

// errNews ends a stream of events: there is news.
var errNews = errors.New("the job has started or ended")

// await waits until the job starts or ends, after a place of the feed. It gives the place from which to wait on; 0: from the newest.
func (l *Log) await(ctx context.Context, place uint64) (uint64, error) {
	err := l.Client.Events(ctx, api.Watch{Job: l.Job}, place, func(e api.Event) error {
		place = e.Round
		for i := range e.Changes {
			if what := e.Changes[i].What; what == "job-started" || what == "job-ended" || what == "job-deleted" {
				return errNews
			}
		}
		return nil
	})
	var retry *queue.RetryError
	switch {
	case errors.Is(err, errNews):
		return place, nil
	case ctx.Err() != nil:
		return place, ctx.Err()
	case errors.Is(err, queue.ErrFeedTruncated), errors.Is(err, queue.ErrFeedAhead), errors.As(err, &retry):
		return 0, rest(ctx) // What has been is looked at next.
	}
	return place, err
}

// runs reports whether the attempt still does.
func (l *Log) runs(ctx context.Context) (bool, error) {
	j, err := l.Client.Job(ctx, l.Job)
	return j.State == "running" && j.Attempts == l.Options.Attempt, err
}

// stream shows what one call gives.
func (l *Log) stream(ctx context.Context) error {
	content, offset, err := l.Client.Log(ctx, l.Job, l.Options)
	if err != nil {
		return err
	}
	defer content.Close() // Only read from.
	l.at = offset
	buf := make([]byte, 64<<10)
	for {
		n, err := content.Read(buf)
		if n > 0 {
			l.at += int64(n)
			if werr := l.write(buf[:n]); werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &queue.RetryError{Cause: err}
		}
	}
}

// write shows bytes of the log: lines, where they are changed, once they are whole.
func (l *Log) write(chunk []byte) error {
	if !l.JSON && !l.Terminal {
		_, err := l.Out.Write(chunk)
		return err
	}
	const most = 64 << 10 // A longer line comes in pieces.
	l.part = append(l.part, chunk...)
	out := bufio.NewWriter(l.Out)
	for {
		i := bytes.IndexByte(l.part, '\n')
		if i < 0 && len(l.part) < most {
			return out.Flush()
		}
		end, next := i, i+1
		if i < 0 {
			end, next = most, most
		}
		if err := l.one(out, l.part[:end], i < 0); err != nil {
			return err
		}
		l.part = l.part[next:]
	}
}

// flush shows the rest, which no newline ends.
func (l *Log) flush() error {
	if len(l.part) == 0 {
		return nil
	}
	return l.one(l.Out, l.part, true)
}

func (l *Log) one(out io.Writer, text []byte, partial bool) error {
	if !l.JSON {
		_, err := fmt.Fprintln(out, progress.Clean(string(text)))
		return err
	}
	line := logLine{Offset: l.at - int64(len(l.part)), Partial: partial}
	if utf8.Valid(text) {
		s := string(text)
		line.Text = &s
	} else {
		line.Bytes = text
	}
	return json.NewEncoder(out).Encode(line)
}
