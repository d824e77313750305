package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/farm"
	"github.com/headrace/headrace/job"
	"github.com/spf13/cobra"
)

// limitVar defines --limit.
func limitVar(cmd *cobra.Command, p *int, usual int) {
	wholeVar(cmd.Flags(), p, "limit", "", usual, 1, 1_000_000, "show so many at most")
}

func newBuilds() *cobra.Command {
	var s serverFlags
	var filter api.BuildFilter
	var of string
	var limit int
	cmd := &cobra.Command{
		Use:   "builds",
		Short: "List the builds of a farm",
		Long:  "List the builds of a farm, the newest first.\n\n" + serverHelp + farmExitHelp,
		Example: `  headrace builds --live
  headrace builds --name nightly --json`,
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.onFarm(roleRead, func(ctx context.Context, f *farm.Farm, _ []string) error {
			if err := oneOf("outcome", filter.Outcome, outcomeWords); err != nil {
				return err
			}
			if of != "" {
				j, err := f.FindJob(ctx, of)
				if err != nil {
					return err
				}
				filter.Job = j.ID
			}
			return f.ListBuilds(ctx, filter, limit)
		}),
	}
	s.define(cmd)
	cmd.Flags().StringVar(&filter.Name, "name", "", "only those of this name")
	cmd.Flags().BoolVar(&filter.Live, "live", false, "only those that have not ended")
	cmd.Flags().StringVar(&filter.Channel, "channel", "", "only those of this channel")
	cmd.Flags().StringVar(&filter.Outcome, "outcome", "", "only those that ended so: "+strings.Join(outcomeWords, ", "))
	cmd.Flags().StringVar(&filter.Prefix, "prefix", "", "only those whose name begins so")
	cmd.Flags().StringVar(&of, "job", "", "only those that refer to this `job`")
	complete(cmd, "outcome", cobra.FixedCompletions(outcomeWords, cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "channel", s.offer(channelNames))
	complete(cmd, "name", s.offer(buildNames))
	limitVar(cmd, &limit, 20)
	return cmd
}

// Words of filters.
var (
	stateWords   = []string{"blocked", "ready", "running", "done"}
	outcomeWords = []string{"succeeded", "failed", "dependency-failed", "timed-out", "aborted", "cancelled", "unsupported"}
)

func newJobs() *cobra.Command {
	var s serverFlags
	var filter api.JobFilter
	var build string
	var limit int
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs of a farm",
		Long:  "List the jobs of a farm, the newest first.\n\n" + farm.Naming + "\n\n" + serverHelp + farmExitHelp,
		Example: `  headrace jobs --state running
  headrace jobs --build nightly --outcome failed`,
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.onFarm(roleRead, func(ctx context.Context, f *farm.Farm, _ []string) error {
			if err := oneOf("state", filter.State, stateWords); err != nil {
				return err
			}
			if err := oneOf("outcome", filter.Outcome, outcomeWords); err != nil {
				return err
			}
			if build != "" {
				b, err := f.FindBuild(ctx, build)
				if err != nil {
					return err
				}
				filter.Build = b.ID
			}
			return f.ListJobs(ctx, filter, limit)
		}),
	}
	s.define(cmd)
	f := cmd.Flags()
	f.StringVar(&build, "build", "", "only those of this `build`")
	f.StringVar(&filter.State, "state", "", "only those in this state: "+strings.Join(stateWords, ", "))
	f.StringVar(&filter.Outcome, "outcome", "", "only those that ended so: "+strings.Join(outcomeWords, ", "))
	f.StringVar(&filter.Name, "name", "", "only those of this name")
	f.StringVar(&filter.Key, "key", "", "only those of this key")
	f.StringVar(&filter.Kind, "kind", "", "only those of this kind")
	f.StringVar(&filter.Channel, "channel", "", "only those of this channel")
	f.StringVar(&filter.Worker, "worker", "", "only those that ended on this worker; with --state running, what it runs")
	f.StringVar(&filter.Prefix, "prefix", "", "only those whose name begins so")
	complete(cmd, "build", s.offer(buildNames))
	complete(cmd, "worker", s.offer(workerNames))
	complete(cmd, "channel", s.offer(channelNames))
	complete(cmd, "state", cobra.FixedCompletions(stateWords, cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "outcome", cobra.FixedCompletions(outcomeWords, cobra.ShellCompDirectiveNoFileComp))
	limitVar(cmd, &limit, 20)
	return cmd
}

// oneOf refuses a word that a flag does not know.
func oneOf(flag, word string, known []string) error {
	if word != "" && !slices.Contains(known, word) {
		return usage("--%s %q: want one of %s", flag, word, strings.Join(known, ", "))
	}
	return nil
}

func newShow() *cobra.Command {
	var s serverFlags
	var limit int
	cmd := &cobra.Command{
		Use:   "show BUILD|JOB",
		Short: "Show a build or a job of a farm",
		Long: `Show a build with its jobs, those that failed first, or a job with its attempts and what it needs.

` + farm.Naming + `

With --json it is one object: build and jobs, or job and attempts.

` + serverHelp + farmExitHelp,
		Example: `  headrace show nightly
  headrace show nightly/test
  headrace show 7b3d90aa --json`,
		Args:              arguments(1, 1),
		ValidArgsFunction: s.offerNamed(buildNames),
		RunE: s.onFarm(roleRead, func(ctx context.Context, f *farm.Farm, args []string) error {
			n, err := f.Find(ctx, args[0])
			switch {
			case err != nil:
				return err
			case n.Build != nil:
				return f.ShowBuild(ctx, n.Build.ID, limit)
			}
			return f.ShowJob(ctx, n.Job.ID)
		}),
	}
	s.define(cmd)
	wholeVar(cmd.Flags(), &limit, "limit", "", 50, 1, 1_000_000, "show so many jobs of a build at most")
	return cmd
}

func newWorkers() *cobra.Command {
	var s serverFlags
	cmd := &cobra.Command{
		Use:   "workers [NAME]",
		Short: "List the workers of a farm, or show one",
		Long:  "List the workers of a farm by name, or show one with what it runs.\n\n" + serverHelp + farmExitHelp,
		Example: `  headrace workers
  headrace workers builder-3`,
		Args:              arguments(0, 1),
		ValidArgsFunction: s.offerFirst(workerNames),
		RunE: s.onFarm(roleRead, func(ctx context.Context, f *farm.Farm, args []string) error {
			if len(args) == 0 {
				return f.ListWorkers(ctx)
			}
			if err := nameable("worker", args[0]); err != nil {
				return err
			}
			return absent(f.ShowWorker(ctx, args[0]), "worker", args[0])
		}),
	}
	s.define(cmd)
	return cmd
}

// whyFarm tells why a job of a farm does not run.
func (s *serverFlags) whyFarm(ctx context.Context, f *farm.Farm, args []string) error {
	j, err := f.FindJob(ctx, args[0])
	if err != nil {
		return err
	}
	err = f.TellWhy(ctx, j.ID)
	if errors.Is(err, job.ErrNotFound) {
		err = fmt.Errorf("job %q has just been deleted", args[0])
	}
	return err
}

// showFarm shows the log of a job of a farm.
func (o *logOptions) showFarm(cmd *cobra.Command, s *serverFlags, name string) error {
	if o.stamps {
		return usage("--timestamps is for a graph file: a farm keeps what jobs write, not when")
	}
	s.json = o.json
	stderr := cmd.ErrOrStderr()
	_, terminal := terminalSize(cmd.OutOrStdout())
	return s.onFarm(roleRead, func(ctx context.Context, f *farm.Farm, _ []string) error {
		j, err := f.FindJob(ctx, name)
		if err != nil {
			return err
		}
		l := farm.Log{
			Farm: f, Job: j.ID, Options: api.LogOptions{Attempt: int32(o.attempt), Follow: o.follow}, Terminal: terminal,
			Note: func(text string) { fmt.Fprintln(stderr, "headrace:", visible(text)) },
		}
		if o.tail >= 0 {
			l.Options.Tail = &o.tail
		}
		err = l.Show(ctx)
		if errors.Is(err, api.ErrGone) {
			l.Note("no log is kept of " + j.Name + ": it wrote nothing, or it was taken away")
			return nil
		}
		return err
	})(cmd, nil)
}
