package main

import (
	"context"
	"errors"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/farm"
	"github.com/headrace/headrace/job"
	"github.com/spf13/cobra"
)

func newSchedules() *cobra.Command {
	var s serverFlags
	cmd := &cobra.Command{
		Use:   "schedules",
		Short: "List, set, show, run and remove schedules of a farm",
		Long: `A schedule asks a farm for a build again and again, at times that are given as cron has them. Without a further command, schedules
are listed by name, with when they ask next.

` + serverHelp + farmExitHelp,
		Example: `  headrace schedules
  headrace schedules set nightly build.yaml --cron "30 2 * * *" --zone Europe/Berlin --fresh
  headrace schedules run nightly`,
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.onFarm(roleRead, func(ctx context.Context, f *farm.Farm, _ []string) error {
			return f.ListSchedules(ctx)
		}),
	}
	s.define(cmd)
	cmd.AddCommand(newSetSchedule(), newShowSchedule(), newRunSchedule(), newRemoveSchedule())
	return cmd
}

// scheduleOptions are the flags of schedules set.
type scheduleOptions struct {
	serverFlags
	buildFlags
	cron   string
	zone   string
	missed string
	paused bool
}

var missedWords = []string{api.MissedSkip, api.MissedOnce, api.MissedAll}

func newSetSchedule() *cobra.Command {
	var o scheduleOptions
	cmd := &cobra.Command{
		Use:   "set NAME [FILE [TARGET...]]",
		Short: "Make a schedule, or put another in its place",
		Long: `Have a farm ask for a build of a graph file, or of the targets and what they need, at certain times. The file is read now, as submit reads
it; what is changed in it later counts once it is set again. Times are given by --cron: minute, hour, day of month, month and day of week, as in
"30 2 * * 1-5"; or @hourly, @daily, @weekly, @monthly, @yearly, or @every and a span of time, as in "@every 90m".

As with submit, what succeeded before is not run again, unless --fresh is given: a schedule of the same graph without it does nothing
after its first success.

--missed says what becomes of times at which no server ran: skip: nothing; once: the last of them is made up for; all: each is. A time that
is not a minute past is late and not missed; of several the last is. Where clocks are set forward, the times that are passed over do not
come; where they are set back, those that come twice count twice.

Without FILE only --cron, --zone, --missed and --paused are changed of a schedule that is there: --paused=false lets it go on.

` + serverHelp + farmExitHelp,
		Example: `  headrace schedules set nightly build.yaml --cron "30 2 * * *" --zone Europe/Berlin --fresh
  headrace schedules set nightly --paused`,
		Args: arguments(1, -1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return o.offer(scheduleNames)(cmd, args, begun)
			}
			return completeJobs(0, true)(cmd, args[1:], begun)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.onFarm(roleSubmit, func(ctx context.Context, f *farm.Farm, args []string) error {
				return o.set(ctx, cmd, f, args)
			})(cmd, args)
		},
	}
	o.serverFlags.define(cmd)
	o.buildFlags.define(cmd, &o.serverFlags)
	f := cmd.Flags()
	f.StringVar(&o.cron, "cron", "", "when it asks, as in \"30 2 * * *\"")
	f.StringVar(&o.zone, "zone", "", "the time zone in which that is meant, as in Europe/Berlin; else UTC")
	f.StringVar(&o.missed, "missed", "", "what becomes of times at which no server ran: skip, once or all; else once")
	f.BoolVar(&o.paused, "paused", false, "it asks for nothing for now")
	complete(cmd, "missed", cobra.FixedCompletions(missedWords, cobra.ShellCompDirectiveNoFileComp))
	for _, flag := range []string{"cron", "zone", "name", "group", "label", "priority"} {
		complete(cmd, flag, cobra.NoFileCompletions)
	}
	return cmd
}

// set sets a schedule, or changes what the flags say of one that is there.
func (o *scheduleOptions) set(ctx context.Context, cmd *cobra.Command, f *farm.Farm, args []string) error {
	name := args[0]
	if err := nameable("schedule", name); err != nil {
		return err
	}
	if err := oneOf("missed", o.missed, missedWords); err != nil {
		return err
	}
	spec := &api.ScheduleSpec{Cron: o.cron, Zone: o.zone, Missed: o.missed, Paused: o.paused}
	var err error
	switch {
	case len(args) > 1 && o.cron == "":
		return usage("when? Give its times by --cron, as in --cron \"30 2 * * *\" or --cron @daily")
	case len(args) > 1:
		err = o.read(cmd, args[1:], spec)
	default:
		err = o.keep(ctx, cmd, f, name, spec)
	}
	if err != nil {
		return err
	}
	set, err := f.SetSchedule(ctx, name, spec)
	if errors.Is(err, job.ErrExists) {
		return usage("there is a schedule %q already, of a channel that the token is not good for", name)
	}
	if err != nil {
		return err
	}
	if f.JSON {
		return done(f, set, "")
	}
	return done(f, nil, "schedule %q: %s", name, f.NextOf(&set))
}

// read has the schedule ask for what a graph file says.
func (o *scheduleOptions) read(cmd *cobra.Command, args []string, spec *api.ScheduleSpec) error {
	stderr := cmd.ErrOrStderr()
	if o.json {
		stderr = nil
	}
	w, err := newWork(lasting(args[0]), args[1:], stderr)
	if err != nil {
		return err
	}
	submission, err := o.submission(w)
	if err != nil {
		return err
	}
	for i := range submission.Jobs {
		if submission.Jobs[i].ID != nil {
			return usage("job %q is named like an id, which no job of a schedule may be", submission.Jobs[i].Name)
		}
	}
	spec.Submission = *submission
	return nil
}

// keep has the schedule keep all that no flag changes.
func (o *scheduleOptions) keep(ctx context.Context, cmd *cobra.Command, f *farm.Farm, name string, spec *api.ScheduleSpec) error {
	given := cmd.Flags().Changed
	for _, flag := range []string{"name", "channel", "group", "priority", "label", "fresh"} {
		if given(flag) {
			return usage("--%s is part of what is asked for: give the FILE, too", flag)
		}
	}
	old, err := f.Schedule(ctx, name)
	if errors.Is(err, job.ErrNotFound) {
		return usage("there is no schedule %q yet: give a FILE, and --cron", name)
	}
	if err != nil {
		return err
	}
	if !given("cron") {
		spec.Cron = old.Cron
	}
	if !given("zone") {
		spec.Zone = old.Zone
	}
	if !given("missed") {
		spec.Missed = old.Missed
	}
	if !given("paused") {
		spec.Paused = old.Paused
	}
	if old.Submission != nil {
		spec.Submission = *old.Submission
	}
	return nil
}

// onSchedule makes a command of what it does with the schedule that is named.
func onSchedule(s *serverFlags, role string, do func(ctx context.Context, f *farm.Farm, name string) error) func(*cobra.Command, []string) error {
	return s.onFarm(role, func(ctx context.Context, f *farm.Farm, args []string) error {
		if err := nameable("schedule", args[0]); err != nil {
			return err
		}
		return absent(do(ctx, f, args[0]), "schedule", args[0])
	})
}

func newShowSchedule() *cobra.Command {
	var s serverFlags
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a schedule with what it asks for",
		Long: `Show a schedule: when it asks next, what came of the last time, and the jobs that it asks for. With --json it is one object, of which
submission is what each build is made of.

` + serverHelp + farmExitHelp,
		Example: `  headrace schedules show nightly
  headrace schedules show nightly --json`,
		Args:              arguments(1, 1),
		ValidArgsFunction: s.offerFirst(scheduleNames),
		RunE: onSchedule(&s, roleRead, func(ctx context.Context, f *farm.Farm, name string) error {
			return f.ShowSchedule(ctx, name)
		}),
	}
	s.define(cmd)
	return cmd
}

func newRunSchedule() *cobra.Command {
	var s serverFlags
	cmd := &cobra.Command{
		Use:               "run NAME",
		Short:             "Have a schedule ask now, besides its times",
		Long:              "Have a schedule ask for its build now, besides its times, also if it is paused. The id of the build is printed.\n\n" + serverHelp + farmExitHelp,
		Example:           "  headrace schedules run nightly",
		Args:              arguments(1, 1),
		ValidArgsFunction: s.offerFirst(scheduleNames),
		RunE: onSchedule(&s, roleSubmit, func(ctx context.Context, f *farm.Farm, name string) error {
			r, err := f.RunSchedule(ctx, name)
			if err != nil {
				return err
			}
			return done(f, r, "%s", r.Build)
		}),
	}
	s.define(cmd)
	return cmd
}

func newRemoveSchedule() *cobra.Command {
	var s serverFlags
	cmd := &cobra.Command{
		Use:               "remove NAME",
		Short:             "Remove a schedule of a farm",
		Long:              "Remove a schedule. What it asked for stays.\n\n" + serverHelp + farmExitHelp,
		Example:           "  headrace schedules remove nightly",
		Args:              arguments(1, 1),
		ValidArgsFunction: s.offerFirst(scheduleNames),
		RunE: onSchedule(&s, roleSubmit, func(ctx context.Context, f *farm.Farm, name string) error {
			if err := f.RemoveSchedule(ctx, name); err != nil {
				return err
			}
			return done(f, map[string]string{"schedule": name}, "schedule %q is removed; what it asked for stays", name)
		}),
	}
	s.define(cmd)
	return cmd
}
