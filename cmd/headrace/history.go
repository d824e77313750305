package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
	"github.com/spf13/cobra"
)

func newHistory() *cobra.Command {
	var folder, name string
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "history FILE",
		Short: "Show earlier runs",
		Long: `Show the runs of a graph file, the newest first: each with its jobs, how they ended, how many attempts they took and
how long the last one did. With --job, the jobs of one name over all runs, with their attempts.

With --json it is one object a line: for a run build, name, outcome (empty while it is not over), start, end, jobs (a
list of job, id, outcome, detail, message, attempts, seconds, reused); for a job the like, with its attempts
(number, outcome, detail, message, start, seconds, log).

` + exitHelp,
		Example: `  headrace history build.yaml --limit 3
  headrace history build.yaml --job test`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 10_000 {
				return usage("--limit %d: want 1 to 10000", limit)
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			t := teller{place: placeOf(args[0], folder), out: out}
			if asJSON {
				t.json = json.NewEncoder(out)
			}
			err := t.tell(cmd.Context(), name, limit)
			if ferr := out.Flush(); err == nil {
				err = ferr
			}
			return err
		},
	}
	readFlags(cmd, &folder, &asJSON)
	cmd.Flags().IntVar(&limit, "limit", 10, "show so many runs, or jobs, at most")
	cmd.Flags().StringVar(&name, "job", "", "show the jobs of this `name` only, with their attempts")
	return cmd
}

// teller writes the history.
type teller struct {
	place
	out   io.Writer
	json  *json.Encoder // nil: for people
	store *sqlite.Reader
}

// runView is a run in the history.
type runView struct {
	Build   job.ID     `json:"build"`
	Name    string     `json:"name"`
	Outcome string     `json:"outcome"`
	Start   time.Time  `json:"start"`
	End     *time.Time `json:"end,omitempty"`
	Jobs    []jobView  `json:"jobs"`
}

// jobView is a job in the history.
type jobView struct {
	Job      string           `json:"job"`
	ID       job.ID           `json:"id"`
	State    string           `json:"state"`
	Outcome  string           `json:"outcome,omitempty"`
	Detail   string           `json:"detail,omitempty"`
	Message  string           `json:"message,omitempty"`
	Attempts int32            `json:"attempts"`
	Took     progress.Seconds `json:"seconds"`
	// Reused: the run found it done.
	Reused bool          `json:"reused,omitempty"`
	Each   []attemptView `json:"each,omitempty"`
}

func (t *teller) tell(ctx context.Context, name string, limit int) error {
	var err error
	if t.store, err = t.openRuns(ctx); err != nil {
		return err
	}
	defer t.store.Close() // Only read from.
	if name != "" {
		return t.jobs(ctx, name, limit)
	}
	builds, err := t.store.Builds(ctx, queue.BuildFilter{Limit: limit})
	if err != nil {
		return err
	}
	for i := range builds {
		if i > 0 && t.json == nil {
			fmt.Fprintln(t.out)
		}
		if err := t.run(ctx, &builds[i]); err != nil {
			return err
		}
	}
	return nil
}

// run tells of one run.
func (t *teller) run(ctx context.Context, b *job.BuildRecord) error {
	view := runView{Build: b.Build.ID, Name: b.Build.Name, Start: b.At.Std()}
	failed := false
	f := queue.JobFilter{Build: b.Build.ID, Limit: page}
	for {
		recs, err := t.store.Jobs(ctx, f)
		if err != nil {
			return err
		}
		for i := range recs {
			v := viewOf(&recs[i])
			v.Reused = recs[i].End != nil && recs[i].End.At < b.At
			view.Jobs = append(view.Jobs, v)
			f.Before = recs[i].Seq
			failed = failed || recs[i].End != nil && recs[i].End.Outcome == job.Failed
		}
		if len(recs) < page {
			break
		}
	}
	// In the order in which they were asked for.
	for i, k := 0, len(view.Jobs)-1; i < k; i, k = i+1, k-1 {
		view.Jobs[i], view.Jobs[k] = view.Jobs[k], view.Jobs[i]
	}
	if b.Ended != 0 {
		end := b.Ended.Std()
		view.End, view.Outcome = &end, b.Outcome.String()
		if b.Outcome == job.Cancelled && failed {
			view.Outcome = job.Failed.String() // It was cancelled because of that.
		}
	}
	if t.json != nil {
		return t.json.Encode(view)
	}
	t.writeRun(&view)
	return nil
}

func viewOf(r *job.Record) jobView {
	v := jobView{Job: r.Spec.Name, ID: r.Spec.ID}
	switch {
	case r.End != nil:
		v.State = job.Done{}.String()
		v.Outcome, v.Detail, v.Message = r.End.Outcome.String(), r.End.Detail.String(), r.End.Message
	case r.Running:
		v.State = job.Running{}.String()
	default:
		v.State = "waiting"
	}
	if r.Last != nil {
		v.Attempts = r.Last.Number
		if r.LastEnd != nil {
			v.Took = progress.Seconds(r.LastEnd.At.Sub(r.LastEnd.Start))
		} else {
			v.Took = progress.Seconds(time.Since(r.Last.Start.Std()))
		}
	}
	return v
}

func (t *teller) writeRun(v *runView) {
	outcome, took := v.Outcome, ""
	if v.End != nil {
		took = " in " + progress.Span(v.End.Sub(v.Start))
	} else if outcome = "stopped; the next run goes on with it"; t.holder() != nil {
		outcome = "running"
	}
	fmt.Fprintf(t.out, "%s  %s: %s%s, %s\n", stamp(v.Start), progress.Clean(v.Name), outcome, took, progress.Count(len(v.Jobs), "job"))
	for i := range v.Jobs {
		fmt.Fprintln(t.out, "  "+v.Jobs[i].line())
	}
}

// line shows a job.
func (v *jobView) line() string {
	word := v.Outcome
	if word == "" {
		word = v.State
	}
	text := fmt.Sprintf("%-17s %-28s", word, progress.Clean(v.Job))
	switch {
	case v.Reused:
		text += " done in an earlier run"
	case v.Attempts > 0:
		text += " " + progress.Span(time.Duration(v.Took))
	}
	if v.Attempts > 1 {
		text += fmt.Sprintf(", attempt %d", v.Attempts)
	}
	if v.Message != "" {
		text += "  " + progress.Clean(v.Message)
	}
	return text
}

// jobs tells of the jobs of one name.
func (t *teller) jobs(ctx context.Context, name string, limit int) error {
	recs, err := t.store.Jobs(ctx, queue.JobFilter{Name: name, Limit: limit})
	if err != nil {
		return err
	}
	if len(recs) == 0 {
		return t.unknown(ctx, t.store, name)
	}
	for i := range recs {
		v := viewOf(&recs[i])
		if v.Each, err = t.attempts(ctx, t.store, &recs[i]); err != nil {
			return err
		}
		if t.json != nil {
			if err := t.json.Encode(v); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(t.out, "%s  %s\n", stamp(recs[i].At.Std()), v.line())
		for k := range v.Each {
			fmt.Fprintln(t.out, "  "+v.Each[k].line())
		}
	}
	return nil
}
