package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/internal/farm"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
	"github.com/headrace/headrace/worker"
	"github.com/spf13/cobra"
)

// lookExitHelp is for commands that look at a store or at a farm.
const lookExitHelp = `Exit codes:
  0    all is well
  2    wrong usage, a file that is not as it must be, or a server refused it
  3    the store or the machine failed; a server failed, or could not be reached
  130  interrupted (Ctrl-C, SIGTERM)
  131  told to quit (Ctrl-\)`

func newWhy() *cobra.Command {
	var folder string
	var asJSON bool
	var away serverFlags
	cmd := &cobra.Command{
		Use:   "why [FILE] JOB",
		Short: "Tell why a job does not run, or how it ended",
		Long: `Tell where a job of a graph file is and why: what it waits for, since when it runs, or how and why it ended.
It reads the store of the runs, also while one is under way.

With --json it is one JSON object: job, id, state (blocked, ready, running, done, interrupted: it ran when headrace
was killed, or unasked: no run has asked for it, so it has no id), under_way (whether a run is), and, as far as they apply, outcome, detail, message, root, root_outcome,
through (the needed job that stands between, if one does), attempts (each with number, outcome, detail, interrupted, message, start, seconds, log), reasons (each with what, text,
job, until), start (a guess), text.

Without FILE it asks a farm, the server of --server or HEADRACE_SERVER, for one of its jobs. With --json that is the explanation of the HTTP API or, of
a job that runs or has ended, the job.

` + farm.Naming + "\n\n" + lookExitHelp,
		Example: `  headrace why build.yaml test
  headrace why --server https://farm.example nightly/test`,
		Args:              arguments(1, 2),
		ValidArgsFunction: away.offerJob(completeJobs(1, false)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if remote, err := away.instead(cmd, args, "why"); err != nil || remote {
				if err != nil {
					return err
				}
				away.json = asJSON
				return away.onFarm(roleRead, away.whyFarm)(cmd, args)
			}
			p := placeOf(args[0], folder)
			answer, err := p.why(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(answer)
			}
			return answer.write(cmd.OutOrStdout())
		},
	}
	readFlags(cmd, &folder, &asJSON)
	away.defineServer(cmd)
	return cmd
}

// readFlags are those of the commands that read a store.
func readFlags(cmd *cobra.Command, folder *string, asJSON *bool) {
	storeVar(cmd.Flags(), folder, "store", "the `folder` of the store, or its database, if run had --store, too")
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON")
}

// answer is what why tells.
type answer struct {
	Job         string        `json:"job"`
	ID          job.ID        `json:"id,omitzero"`
	State       string        `json:"state"`
	UnderWay    bool          `json:"under_way"`
	Outcome     string        `json:"outcome,omitempty"`
	Detail      string        `json:"detail,omitempty"`
	Message     string        `json:"message,omitempty"`
	Root        string        `json:"root,omitempty"`
	RootOutcome string        `json:"root_outcome,omitempty"`
	Through     string        `json:"through,omitempty"` // the needed job by which Root concerns this one, if that is another
	Attempts    []attemptView `json:"attempts,omitempty"`
	Reasons     []reason      `json:"reasons,omitempty"`
	Start       *time.Time    `json:"start,omitempty"`
	Text        string        `json:"text"`
	more        []string      // lines that explain Text
}

// reason is one thing that holds a job back.
type reason struct {
	What  string     `json:"what"`
	Text  string     `json:"text"`
	Job   string     `json:"job,omitempty"`
	Until *time.Time `json:"until,omitempty"`
}

// unasked is the state of a job that the file has, but no run has asked for.
const unasked = "unasked"

func (p place) why(ctx context.Context, name string) (*answer, error) {
	a, err := p.whyStored(ctx, name)
	var notRun *notRunError
	if errors.As(err, &notRun) {
		return &answer{Job: name, State: unasked, UnderWay: p.holder() != nil, Text: notRun.text}, nil
	}
	return a, err
}

func (p place) whyStored(ctx context.Context, name string) (*answer, error) {
	store, err := p.openRuns(ctx)
	var notRun *notRunError
	if errors.As(err, &notRun) {
		if _, perr := parseFile(p.file); perr != nil {
			return nil, usage("%v", err) // Nobody knows whether there is such a job.
		}
		return nil, p.unknown(ctx, nil, name)
	}
	if err != nil {
		return nil, err
	}
	defer store.Close() // Only read from.
	const patience = 100
	for look := 1; ; look++ {
		a, err := p.answer(ctx, store, name)
		if !errors.Is(err, errMoved) || look == patience {
			return a, err
		}
	}
}

// errMoved: between two reads the job went on; the next look finds it where it is now.
var errMoved = errors.New("the job has just moved on")

func (p place) answer(ctx context.Context, store storeReader, name string) (*answer, error) {
	rec, err := p.find(ctx, store, name)
	if err != nil {
		return nil, err
	}
	h := p.holder()
	a := &answer{Job: name, ID: rec.Spec.ID, UnderWay: h != nil}
	if a.Attempts, err = p.attempts(ctx, store, rec, a.UnderWay); err != nil {
		return nil, err
	}
	switch {
	case rec.End != nil:
		a.State = stateWord(job.Done{})
		err = p.ended(ctx, store, a, rec)
	case rec.Running:
		p.runs(a, rec, h)
	default:
		err = p.waits(ctx, store, a, rec)
	}
	return a, err
}

// attempts lists the attempts of a job, the one that runs included.
func (p place) attempts(ctx context.Context, h queue.History, rec *job.Record, underWay bool) ([]attemptView, error) {
	ends, err := h.Attempts(ctx, rec.Spec.ID)
	if err != nil {
		return nil, err
	}
	var list []attemptView
	for i := range ends {
		list = append(list, p.endedAttempt(rec.Spec.ID, &ends[i]))
	}
	if rec.Running {
		list = append(list, p.openAttempt(rec.Spec.ID, rec.Last, underWay))
	}
	return list, nil
}

// ended explains the end of a job.
func (p place) ended(ctx context.Context, h queue.History, a *answer, rec *job.Record) error {
	e := rec.End
	a.Outcome, a.Detail, a.Message = e.Outcome.String(), e.Detail.String(), e.Message
	when := stamp(e.At.Std())
	switch {
	case e.Outcome == job.Succeeded:
		a.Text = fmt.Sprintf("%s succeeded at %s; it is not run again unless it or its outputs change, or what it needs runs again", a.Job, when)
	case e.Outcome == job.DependencyFailed:
		roots, err := h.Jobs(ctx, queue.JobFilter{IDs: []job.ID{e.Root}})
		if err != nil {
			return err
		}
		a.Root, a.RootOutcome = e.Root.String(), e.RootOutcome.String()
		a.Text = fmt.Sprintf("%s did not run: a job whose success it needs ended as %s", a.Job, a.RootOutcome)
		if len(roots) == 1 {
			a.Root = roots[0].Spec.Name
			a.Text = fmt.Sprintf("%s did not run: it needs %s, which ended as %s at %s", a.Job, a.Root, a.RootOutcome, when)
			if a.Through, err = through(ctx, h, rec); err != nil {
				return err
			}
			if a.Through != "" {
				a.Text = fmt.Sprintf("%s did not run: it needs %s, which could not run, as %s ended as %s at %s",
					a.Job, a.Through, a.Root, a.RootOutcome, when)
			}
			if end := roots[0].End; end != nil && end.Message != "" {
				a.more = append(a.more, a.Root+": "+progress.Brief(end.Message))
			}
			p.hintLog(a, &roots[0])
		}
	case e.Outcome == job.Cancelled && rec.LastEnd != nil && (rec.LastEnd.Number > 1 || !refused(rec)):
		a.Text = fmt.Sprintf("%s was not tried again: its run stopped at %s at a failure, or a later run did without it", a.Job, when)
	case e.Outcome == job.Cancelled && (e.Detail == job.NotNeeded || refused(rec)):
		a.Text = fmt.Sprintf("%s was dropped at %s: its run stopped at a failure, or a later run did without it", a.Job, when)
	case cutOff(e):
		a.Text = fmt.Sprintf("%s was interrupted at %s, with its run, which had stopped at a failure", a.Job, when)
	case e.Outcome == job.Unsupported:
		a.Text = fmt.Sprintf("%s cannot run here: %s", a.Job, lacking(&rec.Spec))
	default:
		a.Text = fmt.Sprintf("%s ended as %s at %s", a.Job, a.Outcome, when)
		if a.Message != "" {
			a.Text += ": " + progress.Brief(a.Message)
		}
	}
	if e.Outcome != job.Succeeded {
		p.hintLog(a, rec)
	}
	switch {
	case p.left(a.Job):
		a.more = append(a.more, p.spoken()+" has no such job any more")
	case e.Outcome != job.Succeeded:
		a.more = append(a.more, "the next headrace run tries it again")
	}
	return nil
}

// hintLog tells how to see the log of a job, if it has one.
func (p place) hintLog(a *answer, rec *job.Record) {
	if rec.Last == nil {
		return
	}
	if _, err := os.Stat(p.log(rec.Spec.ID, rec.Last.Number)); err == nil {
		a.more = append(a.more, "see: "+p.command("logs", rec.Spec.Name))
	}
}

// through names the needed job because of which one did not run, if that did not run either.
func through(ctx context.Context, h queue.History, rec *job.Record) (string, error) {
	var ids []job.ID
	for _, n := range rec.Spec.Needs {
		if n.Policy != job.Success {
			continue
		}
		if n.Job == rec.End.Root {
			return "", nil
		}
		ids = append(ids, n.Job)
	}
	for len(ids) > 0 {
		part := ids[:min(len(ids), page)]
		ids = ids[len(part):]
		recs, err := h.Jobs(ctx, queue.JobFilter{IDs: part, Outcome: job.DependencyFailed, Limit: page})
		if err != nil {
			return "", err
		}
		for i := range recs {
			if recs[i].End.Root == rec.End.Root {
				return recs[i].Spec.Name, nil
			}
		}
	}
	return "", nil
}

// left reports whether the file, as it is now, has no job of that name. A large file is not read for it.
func (p place) left(name string) bool {
	const large = 8 << 20
	if info, err := os.Stat(p.file); err != nil || info.Size() > large {
		return false
	}
	g, err := parseFile(p.file)
	return err == nil && !slices.ContainsFunc(g.Jobs, func(j graph.Job) bool { return j.Name == name })
}

// lacking says what this machine would need to run a job.
func lacking(s *job.Spec) string {
	here := job.Worker{Name: workerName, Channels: []string{s.Channel}, Kinds: []string{s.Kind}, Systems: []string{system()}}
	lacks := here.Lacks(s.Class())
	if len(lacks) == 0 {
		return "this machine lacked something then; it does not now"
	}
	text := "this machine (" + system() + ") lacks " + strings.Join(lacks, ", ")
	if len(s.Features) > 0 {
		text += "; --feature tells run what it has"
	}
	return text
}

// runs tells of a job that runs in a process, or did when that was killed (nil).
func (p place) runs(a *answer, rec *job.Record, h *queue.HeldError) {
	since := rec.Last.Start.Std()
	if h != nil {
		a.State = stateWord(job.Running{})
		a.Text = fmt.Sprintf("%s runs: attempt %d since %s (%s), in process %d on %s",
			a.Job, rec.Last.Number, stamp(since), progress.Span(time.Since(since)), h.PID, h.Host)
		return
	}
	a.State = interrupted
	a.Text = fmt.Sprintf("%s was running, attempt %d since %s, when its run was killed; the next one runs it again: %s",
		a.Job, rec.Last.Number, stamp(since), p.command("run"))
}

// waits explains why a job has not started, by the data that the scheduler goes by.
func (p place) waits(ctx context.Context, store storeReader, a *answer, rec *job.Record) error {
	now := job.At(time.Now())
	part := around(rec)
	if a.UnderWay && rec.Ready {
		part = nil // who goes first depends on all that waits
	}
	m, err := load(ctx, store, now, part)
	if err != nil {
		return err
	}
	j, ok := m.Job(rec.Spec.ID)
	if !ok {
		return errMoved
	}
	if _, ready := j.State().(job.Ready); ready != rec.Ready {
		return errMoved
	}
	e := sched.New(m).Why(j, now)
	a.State = strings.ToLower(e.State)
	for _, r := range e.Reasons {
		a.plain(&r)
		view := reason{What: r.What, Text: r.Text, Job: r.Name}
		if !r.Until.IsZero() {
			view.Until = &r.Until
		}
		a.Reasons = append(a.Reasons, view)
		if r.What != sched.NobodyAsks { // The text says it.
			a.more = append(a.more, r.Text)
		}
	}
	if !a.UnderWay {
		a.Text = fmt.Sprintf("%s is %s, but no run is under way; go on with: %s", a.Job, a.State, p.command("run"))
		return nil
	}
	if !e.Start.IsZero() {
		a.Start = &e.Start
	}
	a.Text = fmt.Sprintf("%s is %s", a.Job, a.State)
	return nil
}

// plain puts a reason in the words of somebody who runs a graph on one machine.
func (a *answer) plain(r *sched.Reason) {
	switch {
	case r.What == sched.NobodyAsks && a.UnderWay:
		// A store does not tell who asks for work; a run always does.
		r.What, r.Text = sched.Waits, "it is next"
	case r.What == sched.NobodyAsks:
		r.Text = "no run is under way"
	case r.What == sched.WaitsForDependency && r.Name != "":
		state := strings.ToLower(r.State)
		if !a.UnderWay && r.State == (job.Running{}).String() {
			state = interrupted
		}
		r.Text = fmt.Sprintf("waits for %s, which is %s", r.Name, state)
	case r.What == sched.BacksOff && a.Attempts[len(a.Attempts)-1].Detail == job.HandedBack.String():
		r.Text = fmt.Sprintf("waits until %s, %s", stamp(r.Until), progress.PauseAfterInterrupts)
	case r.What == sched.BacksOff:
		last := a.Attempts[len(a.Attempts)-1]
		r.Text = fmt.Sprintf("waits until %s, after attempt %d: %s", stamp(r.Until), last.Number, reasonOf(last.Outcome, last.Message))
	}
}

// reasonOf says how something ended, and why if that is known.
func reasonOf(outcome, message string) string {
	if message == "" {
		return outcome
	}
	return outcome + ": " + progress.Brief(message)
}

func (a *answer) write(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, progress.Clean(a.Text))
	for _, line := range a.more {
		fmt.Fprintln(&b, "  "+progress.Clean(line))
	}
	if a.Start != nil {
		fmt.Fprintf(&b, "  it may start in about %s\n", progress.Span(max(0, time.Until(*a.Start)).Round(time.Second)))
	}
	if n := len(a.Attempts); n > 1 || n == 1 && a.Reasons != nil {
		fmt.Fprintln(&b, "attempts:")
		for _, t := range a.Attempts {
			fmt.Fprintln(&b, "  "+t.line())
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// log gives the path of an attempt's log.
func (p place) log(id job.ID, attempt int32) string {
	return p.logs() + "/" + worker.LogPath(id, attempt)
}
