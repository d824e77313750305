package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/farm"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/worker"
	"github.com/spf13/cobra"
)

// buildFlags say what build a graph is to be.
type buildFlags struct {
	name     string
	channel  string
	group    string
	priority int
	labels   []string
	fresh    bool
}

// define gives a command the flags.
func (o *buildFlags) define(cmd *cobra.Command, s *serverFlags) {
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "the name of the build; else that of the graph, or of the file")
	f.StringVar(&o.channel, "channel", "", "the channel of all its jobs; else \"default\"")
	f.StringVar(&o.group, "group", "", "the share group that it counts against")
	wholeVar(f, &o.priority, "priority", "", 0, -job.MaxPriority, job.MaxPriority, "the higher, the sooner")
	f.StringArrayVar(&o.labels, "label", nil, "a label of the build, `name=value`; may be repeated")
	f.BoolVar(&o.fresh, "fresh", false, "run everything, also what succeeded before")
	complete(cmd, "channel", s.offer(channelNames))
}

// submitOptions are the flags of submit.
type submitOptions struct {
	serverFlags
	buildFlags
	wait   bool
	quiet  bool
	colour string
}

const submitHelp = `Ask a farm to run the jobs of a graph file, or only the targets and what they need: a build there, whose id is printed. The file is that of
headrace run, and is read here; - is standard input. Its commands run on the workers of the farm, in their folders: the farm is sent the graph alone, so let the
jobs fetch what they work on.

What succeeded before and is kept is not run again, unless --fresh is given. A job is known by its key, else by the name of the graph
(its name, or that of the file) with the job's name, command, env, dir, system, features, outputs and needs: what is the same in all of these
is the same job, whoever asks. Sources are not looked at: name a revision in the graph. An unfinished job that two builds ask for runs once for both.

Unlike run, a farm goes on after a failure with all that can still run.

With --wait it shows how the build goes on, as run does, and exits as run does. Ctrl-C then ends the waiting; the build goes on. With
--json it prints events, those of run; without --wait it prints one object: build, jobs (id and how: created, joined, reused or cached-failure,
in the order of the file's jobs), round.

`

func newSubmit() *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use:   "submit FILE [TARGET...]",
		Short: "Have a farm run a graph of jobs",
		Long:  submitHelp + serverHelp + farmExitHelp,
		Example: `  headrace submit build.yaml
  headrace submit build.yaml test --wait --priority 10
  sed "s/@REV@/$(git rev-parse HEAD)/" ci.in.yaml | headrace submit - --name ci`,
		Args:              arguments(1, -1),
		ValidArgsFunction: completeJobs(0, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := o.farm(cmd)
			if err != nil {
				return err
			}
			if err := checkColour(o.colour); err != nil {
				return err
			}
			return o.submit(cmd, f, args)
		},
	}
	o.serverFlags.define(cmd)
	o.buildFlags.define(cmd, &o.serverFlags)
	f := cmd.Flags()
	f.BoolVar(&o.wait, "wait", false, "show how it goes on until it ends, and exit as run does")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "with --wait: print failures and the summary only")
	f.StringVar(&o.colour, "color", "auto", "with --wait: auto, always or never (NO_COLOR counts, too)")
	complete(cmd, "color", cobra.FixedCompletions(colourWords, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// uncertainError: it is not known whether the build was made.
type uncertainError struct {
	cause error
	build string // its name
}

func (e *uncertainError) Error() string {
	return fmt.Sprintf("%v; the build may have been made all the same, see: headrace builds --name %s", e.cause, shellWord(e.build))
}

func (e *uncertainError) Unwrap() error { return e.cause }

func (o *submitOptions) submit(cmd *cobra.Command, f *farm.Farm, args []string) error {
	stderr := cmd.ErrOrStderr()
	if o.json {
		stderr = nil
	}
	w, err := newWork(lasting(args[0]), args[1:], stderr)
	if err != nil {
		return err
	}
	s, err := o.submission(w)
	if err != nil {
		return err
	}
	if o.wait {
		r := farmRun{farm: f, work: w, command: o.commandOn(cmd), submission: s, json: o.json, quiet: o.quiet, colour: o.colour, keepGoing: true}
		return advised(r.run(cmd), f.Client, roleSubmit)
	}
	receipt, err := submitTo(cmd.Context(), f.Client, s)
	if err != nil {
		return advised(err, f.Client, roleSubmit)
	}
	if o.json {
		return json.NewEncoder(f.Out).Encode(receipt)
	}
	if _, err := fmt.Fprintln(f.Out, receipt.Build); err != nil {
		return err
	}
	if _, terminal := terminalSize(f.Out); terminal && stderr != nil {
		text := progress.Count(len(receipt.Jobs), "job")
		if n := reusedIn(&receipt); n > 0 {
			text += fmt.Sprintf(", %d of them done before", n)
		}
		_, err = fmt.Fprintf(stderr, "%s: %s; see: headrace show %s\n", progress.Visible(s.Name), text, receipt.Build)
	}
	return err
}

// reusedIn counts the jobs for which an earlier success serves.
func reusedIn(r *api.Receipt) int {
	n := 0
	for i := range r.Jobs {
		if r.Jobs[i].How == "reused" {
			n++
		}
	}
	return n
}

// submitPatience is for how long a submission is sent again, if the server does not answer.
const submitPatience = 10 * time.Second

// submitTo asks for a build. Whoever hears no answer is told what to look for: then it reports *uncertainError,
// unless the server cannot be reached at all.
func submitTo(ctx context.Context, c *api.Client, s *api.Submission) (api.Receipt, error) {
	if _, err := c.Builds(ctx, api.BuildFilter{Limit: 1}); err != nil {
		return api.Receipt{}, err // Before much is sent that nobody takes.
	}
	patient := *c
	patient.Patience = submitPatience
	receipt, err := patient.Submit(ctx, s)
	var problem *api.Problem
	if err != nil && (!errors.As(err, &problem) || problem.Retry) {
		err = &uncertainError{err, s.Name}
	}
	return receipt, err
}

// submission gives what is asked of the farm.
func (o *buildFlags) submission(w *work) (*api.Submission, error) {
	labels := map[string]string{}
	for _, pair := range o.labels {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usage("--label %q: want NAME=VALUE", pair)
		}
		if _, twice := labels[name]; twice {
			return nil, usage("--label %q: %q is given twice", pair, name)
		}
		labels[name] = value
	}
	s, err := w.farmSubmission(o.fresh)
	if err != nil {
		return nil, err
	}
	s.Channel, s.Group, s.Priority, s.Labels = o.channel, o.group, int32(o.priority), labels
	if o.name != "" {
		s.Name = o.name
	}
	return s, nil
}

// farmSubmission asks a farm for all jobs of the graph.
func (w *work) farmSubmission(fresh bool) (*api.Submission, error) {
	s := &api.Submission{BuildSpec: api.BuildSpec{Name: w.name}, Jobs: make([]api.JobSpec, len(w.Jobs))}
	call := make([]string, len(w.Jobs)) // how needs call the jobs
	for i := range w.Jobs {
		j, spec := &w.Jobs[i], &s.Jobs[i]
		args, err := json.Marshal(w.args(i, 0))
		if err != nil {
			return nil, fmt.Errorf("job %q: %v", j.Name, err)
		}
		*spec = api.JobSpec{
			Name: j.Name, Kind: worker.CommandKind, Key: w.keys[i], System: j.System, Features: j.Features, Exclusive: j.Exclusive,
			Reuse: !fresh, Args: args, Priority: int32(min(max(j.Priority, -job.MaxPriority), job.MaxPriority)),
			Limits: api.Limits{Timeout: api.Seconds(j.Timeout), Silence: api.Seconds(j.Silence)},
		}
		if j.Key == "" {
			// Commands alone do not tell what they work on: two graphs that happen to have the same ones are not the same work.
			spec.Key = w.name + ":" + w.keys[i]
		}
		if j.Retries > 0 {
			spec.Retry = &api.Retry{Failures: int32(min(j.Retries, 1<<30))}
		}
		if j.Optional {
			spec.Role = api.RoleAwaited
		}
		call[i] = j.Name
		if _, err := job.ParseID(j.Name); err == nil { // In a need it would be read as an id.
			id, err := uuid.NewV7()
			if err != nil {
				return nil, err
			}
			own := job.ID(id)
			spec.ID, call[i] = &own, own.String()
		}
	}
	for i := range w.Jobs {
		for _, n := range w.Jobs[i].Needs {
			s.Jobs[i].Needs = append(s.Jobs[i].Needs, api.Need{Job: call[n.Job], Policy: n.Policy.String()})
		}
	}
	return s, nil
}

// members gives the jobs as those know them who follow the build.
func (w *work) members() []farm.Member {
	all := make([]farm.Member, len(w.Jobs))
	for i := range w.Jobs {
		all[i] = farm.Member{Name: w.Jobs[i].Name, Optional: w.Jobs[i].Optional}
		for _, n := range w.Jobs[i].Needs {
			if n.Policy == job.Success {
				all[i].Needs = append(all[i].Needs, n.Job)
			}
		}
	}
	return all
}

// checkColour refuses what --color does not know.
func checkColour(word string) error { return oneOf("color", word, colourWords) }

var colourWords = []string{"auto", "always", "never"}

// display chooses how a build of a farm is shown.
func (r *farmRun) display(out *progress.Output, stdout io.Writer) progress.Display {
	o := runOptions{json: r.json, quiet: r.quiet, colour: r.colour}
	return o.display(out, stdout)
}
