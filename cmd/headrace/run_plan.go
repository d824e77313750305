package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
)

// draw writes a picture of the graph.
func (o *runOptions) draw(w *work, out io.Writer) error {
	paint := w.SVG
	if o.picture == "dot" {
		paint = w.DOT
	}
	err := paint(out)
	if errors.Is(err, graph.ErrTooManyJobs) {
		return &exit{exitUsage, err}
	}
	return err
}

// forecast is what a dry run tells.
type forecast struct {
	*work // what is to run: without the jobs that are done
	plan  graph.Plan
	whole int // jobs of the whole graph
	done  int // of them
	waits map[string]*progress.JobWaiting
	known bool // durations come from history
	// unable cannot run here; they are not in the work. stops: without --keep-going the run ends at one of them.
	unable []struct{ name, why string }
	stops  bool
	notes  []progress.Notice
}

// plan shows what a run would do.
func (o *runOptions) plan(ctx context.Context, w *work, stdout io.Writer) error {
	f := &forecast{work: w, whole: len(w.Jobs), waits: map[string]*progress.JobWaiting{}}
	now := time.Now()
	estimate := map[string]time.Duration{}
	store, err := placeOf(o.file, o.store).read(ctx)
	switch {
	case errors.Is(err, errNoRuns):
		f.leaveOut(o)
	case err != nil:
		return err
	default:
		defer store.Close() // Only read from.
		past, err := recall(ctx, store, w, o.fresh)
		if err != nil {
			return err
		}
		f.note(past, now)
		f.work = w.without(func(i int) bool { return !past.kept[i].IsZero() })
		f.done = len(w.Jobs) - len(f.Jobs)
		f.leaveOut(o)
		took, err := durations(ctx, store, w)
		if err != nil {
			return err
		}
		for i, d := range took {
			estimate[w.Jobs[i].Name] = d
		}
		f.known = took != nil
	}
	f.plan = f.work.Plan(o.slots, func(i int) time.Duration { return estimate[f.Jobs[i].Name] }, func(i int) time.Duration {
		if e := f.waits[f.Jobs[i].Name]; e != nil {
			return e.Until.Sub(now)
		}
		return 0
	})
	out := bufio.NewWriter(stdout)
	err = nil // There may be no runs yet.
	if o.json {
		err = f.writeJSON(out)
	} else {
		f.write(out, o.slots)
	}
	if ferr := out.Flush(); err == nil {
		err = ferr
	}
	return err
}

// note takes up what earlier runs left, before jobs are left out of the work.
func (f *forecast) note(past *past, now time.Time) {
	for _, n := range past.notes {
		f.notes = append(f.notes, progress.Notice{Job: f.Jobs[n.index].Name, Text: n.text})
	}
	for i := range f.Jobs {
		if e := past.wait(f.work, i, job.At(now)); e != nil {
			f.waits[e.Name] = e
			f.notes = append(f.notes, progress.Notice{Job: e.Name, Text: e.Name + " " + e.Text() + e.Since()})
		}
	}
}

// leaveOut takes the jobs that cannot run here out of the work.
func (f *forecast) leaveOut(o *runOptions) {
	list := o.findUnable(f.work, func(int) bool { return false })
	if len(list) == 0 {
		return
	}
	out := map[int]bool{}
	for i := range list {
		u := &list[i]
		j := &f.work.Jobs[u.index]
		out[u.index] = true
		f.unable = append(f.unable, struct{ name, why string }{j.Name, u.text()})
		f.stops = f.stops || u.lacks != "" && !j.Optional && !o.keepGoing
	}
	f.work = f.work.without(func(i int) bool { return out[i] })
}

// without gives the work but for the jobs that are to be left out.
func (w *work) without(out func(i int) bool) *work {
	rest := &work{Graph: &graph.Graph{Name: w.Name}, name: w.name, base: w.base}
	place := make([]int, len(w.Jobs))
	for i := range w.Jobs {
		place[i] = -1
		if !out(i) {
			place[i] = len(rest.Jobs)
			rest.Jobs = append(rest.Jobs, w.Jobs[i])
			rest.keys = append(rest.keys, w.keys[i])
		}
	}
	for i := range rest.Jobs {
		j := &rest.Jobs[i]
		needs := make([]graph.Need, 0, len(j.Needs))
		for _, n := range j.Needs {
			if at := place[n.Job]; at >= 0 {
				needs = append(needs, graph.Need{Job: at, Policy: n.Policy})
			}
		}
		j.Needs = needs
	}
	return rest
}

func (f *forecast) write(out io.Writer, slots int) {
	fmt.Fprintf(out, "%s: %s, %d to run", progress.Clean(f.name), progress.Count(f.whole, "job"), len(f.Jobs))
	if f.done > 0 {
		fmt.Fprintf(out, ", %d done before", f.done)
	}
	if len(f.unable) > 0 {
		fmt.Fprintf(out, ", %d cannot run here", len(f.unable))
	}
	fmt.Fprintln(out)
	for _, n := range f.notes {
		fmt.Fprintln(out, "note:", progress.Clean(n.Text))
	}
	if len(f.unable) > 0 {
		fmt.Fprintln(out, "\ncannot run here:")
		for _, u := range f.unable {
			fmt.Fprintf(out, "  %s: %s\n", progress.Clean(u.name), progress.Clean(u.why))
		}
		if f.stops {
			fmt.Fprintln(out, "that is a failure, at which the run stops before anything starts; with --keep-going it runs the rest")
		}
	}
	if len(f.Jobs) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%8s  %8s  %s\n", "starts", "takes", "job")
	for _, s := range f.plan.Steps {
		j := &f.Jobs[s.Job]
		fmt.Fprintf(out, "%8s  %8s  %s%s\n", progress.Span(s.Start), progress.Span(s.Finish-s.Start), progress.Clean(j.Name), remarks(j))
	}
	path, length := f.critical(20)
	fmt.Fprintf(out, "\ncritical path: %s (%s)\n", strings.Join(path, " > "), progress.Span(length))
	fmt.Fprintf(out, "width: at most %s at once\n", progress.Count(f.plan.Width, "job"))
	fmt.Fprintf(out, "work: %s in all; with %d at once it takes %s\n", progress.Span(f.plan.Work), slots, progress.Span(f.plan.Makespan))
	if !f.known {
		fmt.Fprintln(out, "nothing is known yet of how long jobs take: each counts as 1s")
	}
}

func remarks(j *graph.Job) string {
	var list []string
	for _, r := range []struct {
		on   bool
		text string
	}{{j.Optional, "optional"}, {j.Exclusive, "exclusive"}, {j.System != "", "on " + j.System}} {
		if r.on {
			list = append(list, r.text)
		}
	}
	if len(j.Features) > 0 {
		list = append(list, "with "+strings.Join(j.Features, " "))
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + progress.Clean(strings.Join(list, ", ")) + ")"
}

// critical names the jobs of the critical path, at most so many of a long one, and gives its length.
func (f *forecast) critical(most int) (names []string, length time.Duration) {
	takes := make(map[int]time.Duration, len(f.plan.Critical))
	for _, i := range f.plan.Critical {
		takes[i] = 0
	}
	for _, s := range f.plan.Steps {
		if _, on := takes[s.Job]; on {
			takes[s.Job] = s.Finish - s.Start
			length += s.Finish - s.Start
		}
	}
	for k, i := range f.plan.Critical {
		if left := len(f.plan.Critical) - k; most > 0 && k == most-1 && left > 1 {
			return append(names, fmt.Sprintf("%d more", left)), length
		}
		names = append(names, progress.Clean(f.Jobs[i].Name))
	}
	return names, length
}

// until is when the wait of a job is over; nil: it does not wait.
func (f *forecast) until(i int) *time.Time {
	if e := f.waits[f.Jobs[i].Name]; e != nil {
		return &e.Until
	}
	return nil
}

func (f *forecast) writeJSON(out io.Writer) error {
	enc := json.NewEncoder(out)
	for _, n := range f.notes {
		err := enc.Encode(struct {
			Event string `json:"event"`
			progress.Notice
		}{"plan-note", n})
		if err != nil {
			return err
		}
	}
	for _, s := range f.plan.Steps {
		err := enc.Encode(struct {
			Event string           `json:"event"`
			Job   string           `json:"job"`
			Start progress.Seconds `json:"start_seconds"`
			Takes progress.Seconds `json:"seconds"`
			Until *time.Time       `json:"until,omitempty"`
		}{"plan-job", f.Jobs[s.Job].Name, progress.Seconds(s.Start), progress.Seconds(s.Finish - s.Start), f.until(s.Job)})
		if err != nil {
			return err
		}
	}
	for _, u := range f.unable {
		err := enc.Encode(struct {
			Event string `json:"event"`
			Job   string `json:"job"`
			Why   string `json:"why"`
		}{"plan-unable", u.name, u.why})
		if err != nil {
			return err
		}
	}
	path, length := f.critical(0)
	return enc.Encode(struct {
		Event    string           `json:"event"`
		Name     string           `json:"name"`
		Jobs     int              `json:"jobs"`
		Reused   int              `json:"reused"`
		Unable   int              `json:"unable"`
		Stops    bool             `json:"stops"`
		Critical []string         `json:"critical"`
		Length   progress.Seconds `json:"critical_seconds"`
		Width    int              `json:"width"`
		Work     progress.Seconds `json:"work_seconds"`
		Makespan progress.Seconds `json:"makespan_seconds"`
		Known    bool             `json:"from_history"`
	}{
		"plan", f.name, f.whole, f.done, len(f.unable), f.stops, path, progress.Seconds(length), f.plan.Width,
		progress.Seconds(f.plan.Work), progress.Seconds(f.plan.Makespan), f.known,
	})
}
