package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"time"

	"github.com/headrace/headrace/internal/farm"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker"
	"github.com/spf13/cobra"
)

// logOptions are the flags of logs.
type logOptions struct {
	folder  string
	follow  bool
	attempt int
	tail    int
	stamps  bool
	json    bool
}

func newLogs() *cobra.Command {
	var o logOptions
	var away serverFlags
	cmd := &cobra.Command{
		Use:   "logs [FILE] JOB",
		Short: "Show the output of a job",
		Long: `Show the output of a job's last attempt, or of another one. Into a pipe or file it is, byte for byte, what the
command wrote to its standard output and error, which are one stream, in the order in which it came; headrace's
own notes go to standard error. On a terminal control characters are made harmless.

With --follow it goes on while the attempt runs, and waits for a job that has not started as long as its run is under way. Of
one whose run was killed it says so and ends; it does not wait for the next run.
With --json each line is an object: time, stream (out or note), text, partial (no newline follows).

Without FILE it asks a farm, the server of --server or HEADRACE_SERVER, for the log of one of its jobs. With --json each line then has
offset (in the log, in bytes), text, or bytes (in base64) where that is no UTF-8, and partial.

` + farm.Naming + "\n\n" + lookExitHelp,
		Example: `  headrace logs build.yaml test
  headrace logs build.yaml test -f --tail 10
  headrace logs --server https://farm.example nightly/test -f`,
		Args:              arguments(1, 2),
		ValidArgsFunction: away.offerJob(completeJobs(1, false)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if remote, err := away.instead(cmd, args, "logs"); err != nil || remote {
				if err != nil {
					return err
				}
				return o.showFarm(cmd, &away, args[0])
			}
			_, terminal := terminalSize(cmd.OutOrStdout())
			out := bufio.NewWriter(cmd.OutOrStdout())
			printer := o.printer(out, cmd.ErrOrStderr(), terminal)
			err := placeOf(args[0], o.folder).show(cmd.Context(), args[1], &o, func(l worker.Line) error {
				if err := printer(l); err != nil || !o.follow {
					return err
				}
				return out.Flush()
			})
			if ferr := out.Flush(); err == nil {
				err = ferr
			}
			return err
		},
	}
	readFlags(cmd, &o.folder, &o.json)
	away.defineServer(cmd)
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on while the attempt runs, and wait for one while the run is under way")
	wholeVar(f, &o.attempt, "attempt", "", 0, 0, math.MaxInt32, "the `number` of the attempt; 0: the last one")
	wholeVar(f, &o.tail, "tail", "", -1, -1, math.MaxInt32, "only the last so many lines; -1: all")
	f.BoolVar(&o.stamps, "timestamps", false, "put the time and the stream before each line")
	return cmd
}

// printer chooses the form in which lines are shown.
func (o *logOptions) printer(out io.Writer, stderr io.Writer, terminal bool) func(worker.Line) error {
	switch {
	case o.json:
		return jsonLines(out)
	case o.stamps || terminal:
		return func(l worker.Line) error { return o.human(out, l, terminal) }
	}
	return func(l worker.Line) error {
		if l.Stream == worker.Note {
			_, err := fmt.Fprintf(stderr, "headrace: %s\n", l.Text)
			return err
		}
		if !l.Partial {
			l.Text = append(l.Text, '\n')
		}
		_, err := out.Write(l.Text)
		return err
	}
}

func (o *logOptions) human(out io.Writer, l worker.Line, terminal bool) error {
	text := string(l.Text)
	if terminal {
		text = progress.Clean(text)
	}
	if l.Stream == worker.Note {
		text = "-- " + text
	}
	if o.stamps {
		text = fmt.Sprintf("%s %-4s %s", l.Time.Local().Format("2006-01-02 15:04:05.000 MST"), l.Stream, text)
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// show gives the lines of a job's log to yield.
func (p place) show(ctx context.Context, name string, o *logOptions, yield func(worker.Line) error) error {
	store, err := p.openRuns(ctx)
	if err != nil {
		return err
	}
	defer store.Close() // Only read from.
	rec, err := p.find(ctx, store, name)
	if err != nil {
		return err
	}
	number, err := p.pick(ctx, store, rec, o)
	if err != nil {
		return err
	}
	path := p.log(rec.Spec.ID, number)
	log, err := worker.OpenLog(path)
	if errors.Is(err, fs.ErrNotExist) && o.follow {
		log, err = p.awaitLog(ctx, store, rec.Spec.ID, number, path)
	}
	if errors.Is(err, fs.ErrNotExist) && rec.Last.Number == number && refused(rec) {
		return usage("%s, attempt %d, has no log, as its run had stopped before it began", name, number)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &exit{exitMachine, fmt.Errorf("the log of %s, attempt %d, is gone: %s", name, number, path)}
	}
	if err != nil {
		return err
	}
	defer log.Close() // Only read from.
	if o.tail >= 0 {
		if err := log.Tail(o.tail); err != nil {
			return err
		}
	}
	if o.follow {
		return p.follow(ctx, store, rec.Spec.ID, number, log, yield)
	}
	for {
		l, err := log.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = yield(l)
		}
		if err != nil {
			return err
		}
	}
}

// pick chooses the attempt; with follow it waits for the first one.
func (p place) pick(ctx context.Context, store storeReader, rec *job.Record, o *logOptions) (int32, error) {
	for {
		last := int32(0)
		if rec.Last != nil {
			last = rec.Last.Number
		}
		switch {
		case o.attempt > 0 && o.attempt <= int(last):
			return int32(o.attempt), nil
		case last > 0 && o.attempt == 0:
			return last, nil
		case !o.follow || rec.End != nil || p.holder() == nil:
			if last > 0 {
				return 0, usage("%s has no attempt %d; its last is %d", rec.Spec.Name, o.attempt, last)
			}
			if o.follow && rec.End == nil {
				return 0, usage("%s has not started, and no run is under way that could start it; run it: %s", rec.Spec.Name, p.command("run"))
			}
			return 0, usage("%s has no log, as it never started; ask: %s", rec.Spec.Name, p.command("why", rec.Spec.Name))
		}
		if err := pause(ctx); err != nil {
			return 0, err
		}
		again, err := reload(ctx, store, rec.Spec.ID)
		if err != nil {
			return 0, err
		}
		rec = again
	}
}

// lookEvery is how often a command that follows looks for news.
const lookEvery = 100 * time.Millisecond

// pause waits until it is time to look again.
func pause(ctx context.Context) error {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func reload(ctx context.Context, h queue.History, id job.ID) (*job.Record, error) {
	recs, err := h.Jobs(ctx, queue.JobFilter{IDs: []job.ID{id}})
	if err != nil {
		return nil, err
	}
	if len(recs) == 0 {
		return nil, errors.New("the job has been deleted")
	}
	return &recs[0], nil
}

// lives reports whether the attempt still runs.
func (p place) lives(ctx context.Context, h queue.History, id job.ID, attempt int32) (bool, error) {
	rec, err := reload(ctx, h, id)
	if err != nil {
		return false, err
	}
	return rec.Running && rec.Last.Number == attempt && p.holder() != nil, nil
}

// awaitLog waits for the log of an attempt that has just begun.
func (p place) awaitLog(ctx context.Context, h queue.History, id job.ID, attempt int32, path string) (*worker.LogReader, error) {
	for {
		alive, err := p.lives(ctx, h, id, attempt)
		if err != nil {
			return nil, err
		}
		log, err := worker.OpenLog(path)
		if !errors.Is(err, fs.ErrNotExist) || !alive {
			return log, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// errOver ends a follow whose attempt is over, though its log has no end marker.
var errOver = errors.New("over")

// follow gives lines until the attempt is over.
func (p place) follow(ctx context.Context, h queue.History, id job.ID, attempt int32, log *worker.LogReader, yield func(worker.Line) error) error {
	watched, over := context.WithCancelCause(ctx)
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			alive, err := p.lives(watched, h, id, attempt)
			if err != nil || !alive {
				over(errOver)
				return
			}
			select {
			case <-done:
				return
			default:
			}
			if pause(watched) != nil {
				return
			}
		}
	}()
	err := log.Follow(watched, lookEvery, yield)
	close(done)
	over(nil)
	<-stopped
	if errors.Is(err, errOver) {
		return tellKilled(ctx, h, id, attempt, yield)
	}
	return err
}

// tellKilled says why a log ends without its end marker, where that is known.
func tellKilled(ctx context.Context, h queue.History, id job.ID, attempt int32, yield func(worker.Line) error) error {
	rec, err := reload(ctx, h, id)
	if err != nil {
		return err
	}
	killed := rec.Running && rec.Last.Number == attempt
	if e := rec.LastEnd; e != nil && e.Number == attempt {
		killed = e.Detail == job.HandedBack && e.Message == killedNote
	}
	if !killed {
		return nil
	}
	text := killedNote + ": this is all there is; the next run runs it again"
	return yield(worker.Line{Time: time.Now(), Stream: worker.Note, Text: []byte(text)})
}
