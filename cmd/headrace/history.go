package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
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

A run succeeded, failed or was interrupted (also killed, and also after a failure had stopped it: then what still ran is
interrupted, too, with the outcome aborted and the detail handed-back in JSON). A job that is "not started" was dropped when its run stopped at a
failure; one that was to have a further attempt is "not tried again". JSON has the outcome cancelled for both.

With --json it is one object a line. For a run: build, name, outcome (empty while it is under way), start, end (if it is
known), failed (how many jobs that count ended badly by themselves, if any), jobs (a list of job, id, state, outcome, detail, message, attempts, seconds, reused, optional; what is empty is left out).
State is done, running, waiting, interrupted or unfinished (a later run went on with it). With --job each line is such a
job, with each: its attempts (number, outcome, detail, interrupted, message, start, seconds, log). An attempt is
interrupted if headrace was killed while it ran: when that was nobody noted, so seconds go up to its last output, and
it may have run for longer.

` + exitHelp,
		Example: `  headrace history build.yaml --limit 3
  headrace history build.yaml --job test`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
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
	wholeVar(cmd.Flags(), &limit, "limit", "", 10, 1, 10_000, "show so many runs, or jobs, at most")
	cmd.Flags().StringVar(&name, "job", "", "show the jobs of this `name` only, with their attempts")
	complete(cmd, "job", completeJobFlag)
	return cmd
}

// teller writes the history.
type teller struct {
	place
	out   io.Writer
	json  *json.Encoder // nil: for people
	store storeReader
	// underWay: a run is.
	underWay bool
}

// runView is a run in the history.
type runView struct {
	Build   job.ID `json:"build"`
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	// Failed counts the jobs that count and ended badly by themselves.
	Failed int        `json:"failed,omitempty"`
	Start  time.Time  `json:"start"`
	End    *time.Time `json:"end,omitempty"`
	Jobs   []jobView  `json:"jobs"`
	// open: there is something left of it for the next run.
	open bool
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
	Reused bool `json:"reused,omitempty"`
	// Optional: it does not count in the verdict of its run.
	Optional bool          `json:"optional,omitempty"`
	Each     []attemptView `json:"each,omitempty"`
	// cut: an interrupt ended it, after its run had stopped at a failure.
	cut bool
	// again: the last attempt was to be followed by another, not because it was interrupted.
	again bool
	// killed: so was headrace during the last attempt. Took is then the least that it took.
	killed bool
	// refused: the first attempt was handed back before it had begun, as the run had stopped.
	refused bool
}

func (t *teller) tell(ctx context.Context, name string, limit int) error {
	var err error
	if t.store, err = t.openRuns(ctx); err != nil {
		return t.nothing(err)
	}
	defer t.store.Close() // Only read from.
	t.underWay = t.holder() != nil
	if name != "" {
		return t.jobs(ctx, name, limit)
	}
	builds, err := t.store.Builds(ctx, queue.BuildFilter{Limit: limit})
	if err != nil {
		return err
	}
	if len(builds) == 0 && t.json == nil {
		fmt.Fprintf(t.out, "no run of %s is kept in %s\n", progress.Clean(t.spoken()), progress.Clean(t.place.name()))
	}
	next := job.Time(math.MaxInt64)
	for i := range builds {
		if i > 0 && t.json == nil {
			fmt.Fprintln(t.out)
		}
		if err := t.run(ctx, &builds[i], next); err != nil {
			return err
		}
		next = builds[i].At
	}
	return nil
}

// nothing tells that there has been no run, if that is what the error says: no history is one, too.
func (t *teller) nothing(err error) error {
	var notRun *notRunError
	if !errors.As(err, &notRun) {
		return err
	}
	if t.json == nil {
		fmt.Fprintln(t.out, progress.Clean(notRun.text))
	}
	return nil
}

// run tells of one run, in the words with which it told its end itself. The next one began at that time: runs of a file follow
// one another.
func (t *teller) run(ctx context.Context, b *job.BuildRecord, next job.Time) error {
	recs, err := t.jobsOf(ctx, b.Build.ID)
	if err != nil {
		return err
	}
	optional, err := t.optional(ctx, b.Build.ID)
	if err != nil {
		return err
	}
	view := runView{Build: b.Build.ID, Name: b.Build.Name, Start: b.At.Std()}
	failed, cut := false, false
	for i := range recs {
		switch e := recs[i].End; {
		case e == nil:
			// It may run in a run that goes on with it.
			cut = cut || recs[i].Running && (!t.underWay || next != math.MaxInt64)
		case e.At < b.At || e.At >= next || e.Outcome == job.Succeeded || e.Outcome == job.Cancelled:
		case cutOff(e):
			cut = true
		case !optional[recs[i].Spec.ID]:
			failed = true
			if e.Outcome != job.DependencyFailed {
				view.Failed++
			}
		}
	}
	view.Outcome, view.open = outcomeOf(b, failed && !cut, t.underWay), b.Ended == 0
	for i := range recs {
		v := t.view(&recs[i])
		e := recs[i].End
		v.Reused, v.Optional = e != nil && e.At < b.At, optional[recs[i].Spec.ID]
		if view.Outcome == interrupted && b.Ended != 0 && (e == nil && next != math.MaxInt64 || e != nil && e.At >= next && e.At > b.Ended) {
			v.leave()
		}
		view.Jobs = append(view.Jobs, v)
	}
	if view.End, err = t.endOf(ctx, b, next, view.Outcome, recs); err != nil {
		return err
	}
	if t.json != nil {
		return t.json.Encode(view)
	}
	t.writeRun(&view)
	return nil
}

// jobsOf gives the jobs of a run in the order in which they were asked for.
func (t *teller) jobsOf(ctx context.Context, build job.ID) ([]job.Record, error) {
	var all []job.Record
	f := queue.JobFilter{Build: build, Limit: page}
	for {
		recs, err := t.store.Jobs(ctx, f)
		if err != nil {
			return nil, err
		}
		if len(recs) == 0 {
			slices.Reverse(all)
			return all, nil
		}
		all = append(all, recs...)
		f.Before = recs[len(recs)-1].Seq
	}
}

// optional tells which jobs of a run do not count in its verdict.
func (t *teller) optional(ctx context.Context, build job.ID) (map[job.ID]bool, error) {
	refs, err := t.store.Refs(ctx, build)
	if err != nil {
		return nil, err
	}
	list := map[job.ID]bool{}
	for i := range refs {
		if refs[i].Awaited {
			list[refs[i].Job] = true
		}
	}
	return list, nil
}

// outcomeOf gives the word for the end of a run; none while it is under way.
func outcomeOf(b *job.BuildRecord, failed, underWay bool) string {
	switch {
	case b.Ended == 0 && underWay:
		return ""
	case b.Ended == 0:
		return interrupted
	case b.Outcome == job.Succeeded:
		return b.Outcome.String()
	case b.Outcome == job.Cancelled && (!failed || b.Build.Labels[keepGoingLabel] != ""):
		return interrupted // The run after it gave up what it had left.
	}
	return job.Failed.String()
}

// endOf finds out when a run was over, nil if nobody knows. The engine's own word is of little use: it has a build end
// when a failure stops it, though what runs goes on, and an interrupted one when the next run begins.
func (t *teller) endOf(ctx context.Context, b *job.BuildRecord, next job.Time, outcome string, recs []job.Record) (*time.Time, error) {
	if b.Ended == 0 {
		return nil, nil
	}
	var end time.Time
	note := func(at time.Time) {
		if at.After(end) {
			end = at
		}
	}
	if outcome != interrupted {
		note(b.Ended.Std())
	}
	for i := range recs {
		switch r := &recs[i]; {
		case r.Last == nil || r.End != nil && r.End.At < b.At:
		case outcome != interrupted:
			if r.End != nil {
				note(r.End.At.Std())
			}
		default:
			list, err := t.attempts(ctx, t.store, r, t.underWay)
			if err != nil {
				return nil, err
			}
			for k := range list {
				a := &list[k]
				if job.At(a.Start) < b.At || job.At(a.Start) >= next {
					continue
				}
				if a.Interrupted {
					return nil, nil // The run was killed, and when that was nobody noted.
				}
				note(a.end())
			}
		}
	}
	if end.Before(b.At.Std()) {
		return nil, nil
	}
	return &end, nil
}

func (t *teller) view(r *job.Record) jobView {
	v := jobView{Job: r.Spec.Name, ID: r.Spec.ID}
	if r.Last != nil {
		v.Attempts = r.Last.Number
		if r.LastEnd != nil {
			last := t.endedAttempt(r.Spec.ID, r.LastEnd)
			v.Took, v.killed, v.again = last.Took, last.Interrupted, r.LastEnd.Detail != job.HandedBack
			if refused(r) {
				v.Took, v.refused, v.again = 0, last.Number == 1, last.Number > 1
			}
		} else {
			last := t.openAttempt(r.Spec.ID, r.Last, t.underWay)
			v.Took, v.killed = last.Took, last.Interrupted
		}
	}
	switch {
	case r.End != nil:
		v.State, v.cut = stateWord(job.Done{}), cutOff(r.End)
		v.Outcome, v.Detail, v.Message = r.End.Outcome.String(), r.End.Detail.String(), r.End.Message
	case r.Running && t.underWay:
		v.State = stateWord(job.Running{})
	case r.Running, r.LastEnd != nil && r.LastEnd.Detail == job.HandedBack:
		v.State = interrupted
	default:
		v.State = "waiting"
	}
	return v
}

// refused: the last attempt was started, but did not begin, as the run had stopped.
func refused(r *job.Record) bool {
	return r.LastEnd != nil && r.LastEnd.Message == refusedNote || r.End != nil && r.End.Message == refusedNote
}

// leave says of a job that the run was interrupted before it had ended.
func (v *jobView) leave() {
	v.State, v.Outcome, v.Detail, v.Message = "unfinished", "", "", "a later run went on with it"
	v.Attempts, v.Took = 0, 0
}

func (t *teller) writeRun(v *runView) {
	outcome, took, failed := v.Outcome, "", ""
	if outcome == interrupted && v.Failed > 0 {
		failed = fmt.Sprintf(", %d failed", v.Failed)
	}
	idle := !slices.ContainsFunc(v.Jobs, func(j jobView) bool { return !j.Reused })
	switch {
	case outcome == "":
		outcome = "running"
	case v.open:
		outcome += failed + "; the next run goes on with it"
		failed = ""
	case idle:
		took = ", nothing had to be run"
	case v.End != nil:
		took = " in " + progress.Span(v.End.Sub(v.Start))
	}
	fmt.Fprintf(t.out, "%s  %s: %s%s%s, %s\n", stamp(v.Start), progress.Clean(v.Name), outcome, took, failed, progress.Count(len(v.Jobs), "job"))
	for i := range v.Jobs {
		fmt.Fprintln(t.out, "  "+v.Jobs[i].line())
	}
}

// line shows a job.
func (v *jobView) line() string {
	word := v.Outcome
	switch {
	case word == "":
		word = v.State
	case v.cut:
		word = interrupted
	case word == job.Cancelled.String() && (v.Attempts == 0 || v.refused):
		word = progress.NotStarted
	case word == job.Cancelled.String() && v.again:
		word = progress.NotTriedAgain
	case word == job.Cancelled.String():
		word = interrupted // and dropped by the run after it
	}
	var facts []string
	switch {
	case v.Reused:
		facts = append(facts, "done in an earlier run")
	case v.Attempts > 0 && v.Took > 0 && v.killed:
		facts = append(facts, orMore(v.Took))
	case v.Attempts > 0 && v.Took > 0:
		facts = append(facts, progress.Span(time.Duration(v.Took)))
	}
	if v.Attempts > 1 {
		facts = append(facts, fmt.Sprintf("attempt %d", v.Attempts))
	}
	if v.Optional {
		facts = append(facts, "optional")
	}
	text := fmt.Sprintf("%-17s %-28s %s", word, progress.Clean(v.Job), strings.Join(facts, ", "))
	if v.Message != "" && v.Message != word {
		text += "  " + progress.Clean(progress.Brief(v.Message))
	}
	return strings.TrimRight(text, " ")
}

// jobs tells of the jobs of one name.
func (t *teller) jobs(ctx context.Context, name string, limit int) error {
	recs, err := t.store.Jobs(ctx, queue.JobFilter{Name: name, Limit: limit})
	if err != nil {
		return err
	}
	if len(recs) == 0 {
		return t.nothing(t.unknown(ctx, t.store, name))
	}
	for i := range recs {
		v := t.view(&recs[i])
		if v.Each, err = t.attempts(ctx, t.store, &recs[i], t.underWay); err != nil {
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
