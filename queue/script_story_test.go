package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// manyChanges is how many changes a command may cause before they are only counted.
const manyChanges = 60

// news shows the rounds that were stored since the last call.
func (w *world) news() []string {
	var out []string
	counts := map[string]int{}
	for {
		rounds, err := w.store.Feed(context.Background(), w.seen, 1000)
		if err != nil {
			w.t.Fatalf("feed: %v", err)
		}
		if len(rounds) == 0 {
			break
		}
		for _, r := range rounds {
			w.seen = r.Number
			for _, c := range r.Changes {
				counts[strings.TrimPrefix(fmt.Sprintf("%T", c), "job.")]++
				if line := w.tell(c); line != "" {
					out = append(out, fmt.Sprintf("%-7s %s", w.since(r.At.Std()), line))
				}
			}
		}
	}
	if len(out) <= manyChanges {
		return out
	}
	out = out[:0]
	for what, n := range counts {
		out = append(out, fmt.Sprintf("%d x %s", n, what))
	}
	slices.Sort(out)
	return out
}

// tell puts a change into words.
func (w *world) tell(c job.Change) string {
	switch c := c.(type) {
	case job.JobAdded, job.JobKept, job.JobReleased, job.JobBlocked, job.JobStarted, job.JobRetried, job.JobEnded,
		job.JobFreed, job.JobSettled, job.JobProgress, job.JobDeleted:
		return w.tellJob(c)
	case job.BuildAdded, job.BuildReferred, job.BuildSealed, job.BuildActivated, job.BuildBumped, job.BuildEnded, job.BuildDeleted:
		return w.tellBuild(c)
	case job.WorkerPut:
		return tellWorker(c.Worker)
	case job.WorkerRemoved:
		return fmt.Sprintf("worker %s is no longer known", c.Name)
	case job.ClassMarked:
		if c.Since == 0 {
			return fmt.Sprintf("class %s is unserved no more", tellClass(c.Class))
		}
		return fmt.Sprintf("class %s: nobody can run it any more", tellClass(c.Class))
	case job.ChannelPut:
		return fmt.Sprintf("channel %q has a new policy%s", c.Channel.Name, tellPaused(c.Channel))
	case job.SettingPut:
		return fmt.Sprintf("setting %s/%s is put", c.Space, c.Name)
	case job.SettingRemoved:
		return fmt.Sprintf("setting %s/%s is gone", c.Space, c.Name)
	case job.UsagePut:
		if c.Group == "" {
			return ""
		}
		return fmt.Sprintf("group %s has used %s in this slice", c.Group, c.Used)
	case job.DurationLearned:
		if c.Took == 0 {
			return ""
		}
		return fmt.Sprintf("learned: %s takes %s", c.Series.Name, c.Took)
	case job.FailureCached:
		until := "until cleared"
		if c.Until != 0 {
			until = "until " + w.since(c.Until.Std())
		}
		return fmt.Sprintf("key %s is remembered as %s %s", c.Identity.Key, c.Outcome, until)
	case job.FailureCleared:
		return fmt.Sprintf("key %s is no longer remembered", c.Identity.Key)
	}
	return fmt.Sprintf("%T", c)
}

func tellClass(c job.Class) string {
	var words []string
	for _, p := range []string{c.Channel, c.Kind, c.System, c.Features, c.Pin} {
		if p != "" {
			words = append(words, p)
		}
	}
	return strings.Join(words, "/")
}

func tellPaused(c job.Channel) string {
	switch {
	case c.Paused:
		return ": paused"
	case len(c.PausedKinds) > 0:
		return ": paused for " + strings.Join(c.PausedKinds, ", ")
	}
	return ""
}

func tellWorker(v job.Worker) string {
	line := "worker " + v.Name
	if v.Session.IsZero() {
		line += ", signed off"
	}
	if v.Drained {
		line += ", drained"
	}
	if v.Faults > 0 {
		line += fmt.Sprintf(", set aside for %s after %d faults", v.Delay, v.Faults)
	}
	return line
}

func (w *world) tellJob(c job.Change) string {
	switch c := c.(type) {
	case job.JobAdded:
		return w.tellAdded(&c.Record)
	case job.JobKept:
		return w.label(c.Job) + " is wanted for itself, too"
	case job.JobReleased:
		return w.label(c.Job) + " is Ready"
	case job.JobBlocked:
		return w.label(c.Job) + " is Blocked again"
	case job.JobStarted:
		line := fmt.Sprintf("%s.%d runs on %s", w.label(c.Job), c.Attempt.Number, c.Attempt.Worker)
		if g := strings.Join(c.Attempt.Groups, " and "); g != "" {
			line += ", paid by " + g
		}
		return line
	case job.JobRetried:
		line := fmt.Sprintf("%s.%d ended %s; the job is Blocked", w.label(c.Job), c.Attempt.Number, w.how(c.Attempt.Outcome, c.Attempt.Detail, c.Attempt.Message))
		if c.Delay > 0 {
			line += fmt.Sprintf(" for %s", c.Delay)
		}
		return line
	case job.JobEnded:
		return w.tellEnded(&c)
	case job.JobFreed:
		return w.label(c.Job) + " is let go of: slot and identity are free"
	case job.JobSettled:
		return w.label(c.Job) + " has told its dependents"
	case job.JobProgress:
		return w.label(c.Job) + " has a partial result"
	case job.JobDeleted:
		return w.label(c.Job) + " is deleted"
	default:
		// Told elsewhere.
	}
	return ""
}

func (w *world) how(o job.Outcome, d job.Detail, message string) string {
	line := o.String()
	if d != job.NoDetail {
		line += " (" + d.String() + ")"
	}
	if message != "" {
		line += fmt.Sprintf(" %q", message)
	}
	return line
}

func (w *world) tellAdded(r *job.Record) string {
	line := w.label(r.Spec.ID) + " added"
	for i, n := range r.Spec.Needs {
		line += [...]string{" needs ", ", "}[min(i, 1)] + w.label(n.Job)
		if n.Policy != job.Success {
			line += ":" + n.Policy.String()
		}
		if n.Loose {
			line += " (loose)"
		}
	}
	if r.Delay > 0 {
		line += fmt.Sprintf("; not before %s", w.since(r.Wake.Std()))
	}
	return line
}

func (w *world) tellEnded(c *job.JobEnded) string {
	line := w.label(c.Job)
	if c.Attempt != nil {
		line += fmt.Sprintf(".%d", c.Attempt.Number)
	}
	line += " ended " + w.how(c.End.Outcome, c.End.Detail, c.End.Message)
	if c.End.Cached {
		line += ", cached"
	}
	if !c.End.Root.IsZero() {
		line += fmt.Sprintf(", as %s %s", w.label(c.End.Root), c.End.RootOutcome)
	}
	if c.Held {
		line += "; its worker is still to let go"
	}
	return line
}

func (w *world) tellBuild(c job.Change) string {
	switch c := c.(type) {
	case job.BuildAdded:
		line := fmt.Sprintf("build %s added", c.Build.Name)
		if c.Staged {
			line += ", staged"
		} else if !c.Active {
			line += ", waits at its gate"
		}
		return line
	case job.BuildReferred:
		if len(c.Refs) == 0 {
			return ""
		}
		return fmt.Sprintf("build %s wants %s", w.label(c.Build), w.tellRefs(c.Refs))
	case job.BuildSealed:
		return fmt.Sprintf("build %s is complete", w.label(c.Build))
	case job.BuildActivated:
		return fmt.Sprintf("build %s is under way", w.label(c.Build))
	case job.BuildBumped:
		return fmt.Sprintf("build %s has priority %d", w.label(c.Build), c.Priority)
	case job.BuildEnded:
		line := fmt.Sprintf("build %s ended %s", w.label(c.Build), c.Outcome)
		if c.Spare && c.Outcome == job.Cancelled {
			line += ", what runs is spared"
		}
		if c.Erased {
			line += ", without a trace"
		}
		return line
	case job.BuildDeleted:
		return fmt.Sprintf("build %s is deleted", w.label(c.Build))
	default:
		// Told elsewhere.
	}
	return ""
}

func (w *world) tellRefs(refs []job.Ref) string {
	var list []string
	for _, r := range refs {
		word := w.label(r.Job)
		if r.Awaited {
			word += " (awaited)"
		}
		if r.Optional {
			word += " (optional)"
		}
		if r.Ended != 0 {
			word += fmt.Sprintf(" (%s)", r.Ended)
		}
		list = append(list, word)
	}
	return strings.Join(list, ", ")
}

func (w *world) why(s step) func(context.Context) render {
	id := w.job(s.words[1])
	return func(ctx context.Context) render {
		e, err := w.queue.Why(ctx, id)
		if err != nil {
			return told(err)
		}
		return func() []string {
			line := e.State
			if !e.Start.IsZero() {
				line += ", may start at " + w.since(e.Start)
			}
			out := []string{line}
			for _, r := range e.Reasons {
				out = append(out, fmt.Sprintf("%s: %s", r.What, r.Text))
			}
			for _, n := range e.Nearest {
				out = append(out, strings.TrimRight(fmt.Sprintf("near: %s %s %s", n.Worker, tellLacks(n.Lacks), n.Busy), " "))
			}
			return out
		}
	}
}

func tellLacks(lacks []string) string {
	if len(lacks) == 0 {
		return "lacks nothing;"
	}
	return "lacks " + strings.Join(lacks, ", ") + ";"
}

func (w *world) listJobs(step) func(context.Context) render {
	return func(ctx context.Context) render {
		recs, err := w.store.Jobs(ctx, queue.JobFilter{Limit: 10000})
		return func() []string {
			var out []string
			for _, r := range slices.Backward(recs) {
				out = append(out, w.label(r.Spec.ID)+" "+w.where(&r))
			}
			return lines(out, err)
		}
	}
}

func (w *world) where(r *job.Record) string {
	switch {
	case r.End != nil:
		line := "Done: " + w.how(r.End.Outcome, r.End.Detail, "")
		if r.End.Cached {
			line += ", cached"
		}
		return line
	case r.Running:
		return "Running on " + r.Last.Worker
	}
	return "waits"
}

func lines(out []string, err error) []string {
	switch {
	case err != nil:
		return []string{refusal(err)}
	case len(out) == 0:
		return []string{"none"}
	}
	return out
}

func (w *world) listBuilds(step) func(context.Context) render {
	return func(ctx context.Context) render {
		recs, err := w.store.Builds(ctx, queue.BuildFilter{})
		return func() []string {
			var out []string
			for _, r := range slices.Backward(recs) {
				line := r.Build.Name + " is live"
				if r.Outcome != 0 {
					line = fmt.Sprintf("%s %s", r.Build.Name, r.Outcome)
				}
				out = append(out, line)
			}
			return lines(out, err)
		}
	}
}

func (w *world) listWorkers(step) func(context.Context) render {
	return func(ctx context.Context) render {
		views, err := w.queue.Workers(ctx)
		return func() []string {
			var out []string
			for _, v := range views {
				var has []string
				for _, id := range v.Leases {
					has = append(has, w.label(id))
				}
				out = append(out, fmt.Sprintf("%s has [%s], waits for %d", tellWorker(v.Worker), strings.Join(has, " "), v.Waits))
			}
			return lines(out, err)
		}
	}
}

// show tells a job's attempts and its result.
func (w *world) show(s step) func(context.Context) render {
	id := w.job(s.words[1])
	return func(ctx context.Context) render {
		ends, err := w.store.Attempts(ctx, id)
		p, lost := w.store.Payload(ctx, id)
		return func() []string {
			var out []string
			for _, e := range ends {
				took := e.At.Sub(e.Start).Truncate(time.Millisecond)
				out = append(out, fmt.Sprintf("attempt %d on %s took %s: %s", e.Number, e.Worker, took, w.how(e.Outcome, e.Detail, e.Message)))
			}
			if lost == nil && len(p.Result) > 0 {
				out = append(out, "result "+string(p.Result))
			}
			if err == nil {
				err = lost
			}
			return lines(out, err)
		}
	}
}
