package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/spf13/cobra"
)

// runOptions are the flags of run.
type runOptions struct {
	file       string
	targets    []string
	slots      int
	keepGoing  bool
	dryRun     bool
	json       bool
	fresh      bool
	quiet      bool
	picture    string
	store      string
	logLimit   int64
	features   []string
	colour     string
	retryDelay time.Duration
}

const (
	// maxSlots is how many jobs a run may have at once.
	maxSlots = 10_000
	// maxOwnFeatures is how many features the engine takes of a worker.
	maxOwnFeatures = 4 * job.MaxFeatures
)

const runHelp = `Run the jobs of a graph file here and now, or only the targets and what they need. A target is the name
of a job, of a matrix job (all its variants), or a glob. FILE may be a named pipe, or - for standard input: then the jobs run
in the current folder, and logs, why and history find them by the name -.

A run can be killed at any moment: the next one goes on. What has succeeded is not run again, what failed is.
A job that has succeeded runs again if
  its command, env, dir, outputs, system, features or needs have changed,
  its outputs are gone or altered,
  another version of it has run since (so a reverted edit runs again), or
  a job that it waits for runs again, or has run without it since.
A job with a key is known by it, in place of its command, env, dir, outputs and needs: while the key stays, a change of
these does not make it run again. Files that commands read are not looked at: --fresh runs everything.

After the first failure nothing new starts, not even what needs the failed job with finish, unless --keep-going is
given; what runs ends by itself and is recorded. The failure of an optional job does not fail the run. A job that needs
its success ends as dependency-failed, and fails the run unless it is optional, too. A job that this machine cannot run,
for its system or features, is a failure that is told before anything starts. Ctrl-C once ends what runs, cleanly;
twice, or Ctrl-\ once, at once.

A job that failed is tried again as often as its retries say, at once. One that ended with an exit code of its retry-on is
tried 5 times in all: after a minute (--retry-delay), then after three times the last wait each time, and somewhat
more. A wait that has begun counts also when headrace is started again with another --retry-delay. A job that ran
into its timeout or silence is never tried again. One that is interrupted again and again, each time within a second of its
start, waits a second before it is started once more, as it may be the reason.

All is kept in .headrace/NAME/ beside the file: the store, and the log of each attempt. A symbolic link to a graph file
stands for that file: its jobs run in the folder of the file, and its store is there. A store is for one file.

With --store postgres://HOST/NAME (PostgreSQL 15 or newer) the store is in that database, in a schema headrace of its own: then the
next run may be on another machine. The logs stay where the jobs ran. A run that finds the database in use says by whom; one
that has been silent for two seconds loses it, and what it had begun is run again when its lease has run out; but a process of
this machine that was stopped must be ended first.

With --server URL the jobs run on a farm, as by headrace submit --wait, whose help tells more; but after the first failure nothing new
starts, unless --keep-going is given (but for what the server starts before it is told, such as a job that needs the failed one with
finish), and Ctrl-C cancels the build. HEADRACE_SERVER alone does not have run leave this machine.

With --json each line is one event, a JSON object with the fields event and, of a run, time:
  run-started   build, name, file, jobs, reused, slots, store; server, where it is a farm
  job-reused    job, id
  job-started   job, id, attempt, log
  job-retried   job, id, attempt, outcome, detail, message, seconds, wait_seconds, until, log
  job-waiting   job, id, attempt (that ended), outcome, detail, message, until; at the start, for a wait from before it
  job-ended     job, id, outcome, detail, message, attempts, seconds, optional, root, root_outcome, through, log, tail
  notice        job, text; before run-started, if many jobs have to be stored first
  run-stopping  why (failure, interrupt or fault), text
  run-ended     outcome (succeeded, failed, interrupted or aborted), exit_code, seconds, counts, reused, unfinished (if it is known)
and with --dry-run
  plan-note     job, text: why it is run again, or waits
  plan-job      job, start_seconds, seconds, until (of a wait from before it); in the order of their starts
  plan-unable   job, why: it cannot run on this machine, or needs one that cannot
  plan          name, jobs, reused, unable, stops (at those, before anything starts), critical, critical_seconds, width,
                work_seconds, makespan_seconds, from_history

`

const runExitHelp = `Exit codes:
  0    all is well
  1    a job failed, or on a farm the build was cancelled
  2    wrong usage, a file that is not as it must be, or a server refused it; nothing was run
  3    the store or the machine failed; a server failed, or could not be reached
  130  interrupted (Ctrl-C, SIGTERM, Ctrl-\, SIGHUP); the next run goes on`

func newRun() *cobra.Command {
	var o runOptions
	var away serverFlags
	var limit string
	cmd := &cobra.Command{
		Use:   "run FILE [TARGET...]",
		Short: "Run a graph of jobs here and now",
		Long:  runHelp + runExitHelp,
		Example: `  headrace run build.yaml
  headrace run build.yaml test -j 4 --keep-going
  headrace run build.yaml --dry-run
  headrace run build.yaml --graph svg > build.svg
  headrace run --server https://farm.example build.yaml`,
		Args:              arguments(1, -1),
		ValidArgsFunction: completeJobs(0, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file, o.targets = lasting(args[0]), args[1:]
			var err error
			if o.logLimit, err = parseSize(limit); err != nil {
				return usage("--log-limit: %v", err)
			}
			if err := o.check(); err != nil {
				return err
			}
			if cmd.Flags().Changed("server") || cmd.Flags().Changed("token-file") {
				return o.runAway(cmd, &away)
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	wholeVar(f, &o.slots, "jobs", "j", min(runtime.NumCPU(), maxSlots), 1, maxSlots, "run so many jobs at once")
	f.Lookup("jobs").DefValue = "the number of processors" // Help and manual are the same everywhere.
	f.BoolVarP(&o.keepGoing, "keep-going", "k", false, "after a failure, run all that can still be run")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "show the plan: order, critical path, width; run nothing")
	f.BoolVar(&o.json, "json", false, "print one JSON event a line")
	f.StringVar(&o.picture, "graph", "", "write a picture of the graph to standard output: dot or svg; run nothing")
	f.BoolVar(&o.fresh, "fresh", false, "run everything, also what succeeded before")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print failures and the summary only")
	f.StringVar(&o.colour, "color", "auto", "colours: auto, always or never (NO_COLOR counts, too)")
	complete(cmd, "graph", cobra.FixedCompletions([]string{"dot", "svg"}, cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	away.defineServer(cmd)
	storeVar(f, &o.store, "store", "keep the store in this `folder` instead of .headrace/NAME beside the file, or in a PostgreSQL database: postgres://HOST/NAME")
	f.StringVar(&limit, "log-limit", "64MiB", "end a job as failed when it writes more output, as in 10MiB")
	f.StringSliceVar(&o.features, "feature", nil, "a feature that this machine has; may be repeated")
	spanVar(f, &o.retryDelay, "retry-delay", time.Minute, "wait so long before a second attempt after a fault of the infrastructure; three times as long before each further one")
	return cmd
}

// check refuses flags that make no sense.
func (o *runOptions) check() error {
	for _, f := range o.features {
		if f == "" || len(f) > job.MaxName || !utf8.ValidString(f) || strings.ContainsFunc(f, func(r rune) bool { return r == ' ' || unicode.IsControl(r) }) {
			return usage("--feature %q: want a word of at most %d bytes, without blanks", f, job.MaxName)
		}
	}
	switch {
	case len(o.features) > maxOwnFeatures:
		return usage("--feature: want at most %d", maxOwnFeatures)
	case o.picture != "" && o.picture != "dot" && o.picture != "svg":
		return usage("--graph %q: want dot or svg", o.picture)
	case o.colour != "auto" && o.colour != "always" && o.colour != "never":
		return usage("--color %q: want auto, always or never", o.colour)
	}
	return nil
}

// maxSize is the largest size that a flag takes: no file is larger.
const maxSize = 1 << 50

// parseSize reads a number of bytes with an optional unit.
func parseSize(s string) (int64, error) {
	units := []struct {
		name  string
		bytes int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}}
	digits, factor := s, int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			digits, factor = rest, u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || n > maxSize/factor:
		return 0, fmt.Errorf("%q: want at most %dGiB", s, maxSize>>30)
	case err != nil || n < 0:
		return 0, fmt.Errorf("%q: want a size such as 500KiB, 64MiB or 2GiB", s)
	}
	return n * factor, nil
}

func (o *runOptions) run(cmd *cobra.Command) error {
	heeded := endAt(exitInterrupted, interrupts()...) // until there is something to end in order
	stderr := cmd.ErrOrStderr()
	if o.json {
		stderr = nil
	}
	w, err := newWork(o.file, o.targets, stderr)
	if err != nil {
		return err
	}
	stdout := cmd.OutOrStdout()
	switch {
	case o.picture != "":
		return o.draw(w, stdout)
	case o.dryRun:
		return o.plan(cmd.Context(), w, stdout)
	}
	out := progress.NewOutput(stdout)
	s := &session{
		runOptions: *o, place: placeOf(o.file, o.store), work: w, out: out, heeded: heeded,
		relay: progress.NewRelay(o.display(out, stdout)),
	}
	code, err := s.run(cmd.Context())
	if code != exitOK || err != nil {
		return &exit{code, err}
	}
	return nil
}

// display chooses how the run is shown.
func (o *runOptions) display(out *progress.Output, stdout io.Writer) progress.Display {
	if o.json {
		return progress.NewJSON(out)
	}
	size, terminal := terminalSize(stdout)
	options := progress.Options{
		Quiet: o.quiet,
		Style: progress.Style{Colour: o.coloured(terminal)},
		Logs:  func(name string) string { return placeOf(o.file, o.store).command("logs", name) },
	}
	if terminal && os.Getenv("TERM") != "dumb" {
		return progress.NewLive(out, options, size)
	}
	return progress.NewPlain(out, options)
}

// coloured decides on colours: asked for, or on a terminal that nobody told to do without.
func (o *runOptions) coloured(terminal bool) bool {
	switch o.colour {
	case "always":
		return true
	case "never":
		return false
	}
	return terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
