package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/farm"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/spf13/cobra"
)

// done tells that something was done: in words, or as an object.
func done(f *farm.Farm, object any, format string, args ...any) error {
	if f.JSON {
		return json.NewEncoder(f.Out).Encode(object)
	}
	_, err := fmt.Fprintf(f.Out, format+"\n", args...)
	return err
}

func newCancel() *cobra.Command {
	var s serverFlags
	var force, spare bool
	var reason string
	cmd := &cobra.Command{
		Use:   "cancel BUILD|JOB",
		Short: "Cancel a build or a job of a farm",
		Long: `End a build or a job as cancelled. The running jobs of a build that nobody else needs are stopped, unless --spare is given. A job that
other builds need is left alone, unless --force is given.

` + farm.Naming + "\n\n" + serverHelp + farmExitHelp,
		Example: `  headrace cancel nightly
  headrace cancel nightly/test --force`,
		Args:              arguments(1, 1),
		ValidArgsFunction: s.offerNamed(liveBuildNames),
		RunE: s.onFarm(roleSubmit, func(ctx context.Context, f *farm.Farm, args []string) error {
			n, err := f.Find(ctx, args[0])
			switch {
			case err != nil:
				return err
			case n.Build != nil && (force || reason != ""):
				return usage("--force and --reason are for jobs, and %s is one", progress.Visible(n.String()))
			case n.Build != nil:
				err = f.CancelBuild(ctx, n.Build.ID, spare)
			case spare:
				return usage("--spare is for builds, and %s is one", progress.Visible(n.String()))
			default:
				err = f.CancelJob(ctx, n.Job.ID, job.ID{}, force, reason)
			}
			if errors.Is(err, job.ErrEnded) {
				return usage("%s has ended already", n.String())
			}
			var needed *api.Problem
			if errors.As(err, &needed) && needed.Type == "urn:headrace:needed" {
				return usage("%s; --force does", strings.Replace(needed.Error(), "; force to cancel it all the same", "; it is not cancelled", 1))
			}
			if err != nil {
				return err
			}
			return done(f, cancelled{n.Build, n.Job}.view(), "cancelled %s", n.String())
		}),
	}
	s.define(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "of a job: also if other builds need it")
	cmd.Flags().BoolVar(&spare, "spare", false, "of a build: let what runs go on")
	cmd.Flags().StringVar(&reason, "reason", "", "of a job: `why`, for those who look at it")
	return cmd
}

// cancelled is what was.
type cancelled struct {
	build *api.Build
	job   *api.Job
}

func (c cancelled) view() map[string]job.ID {
	if c.build != nil {
		return map[string]job.ID{"build": c.build.ID}
	}
	return map[string]job.ID{"job": c.job.ID}
}

func newRetry() *cobra.Command {
	var s serverFlags
	cmd := &cobra.Command{
		Use:   "retry BUILD",
		Short: "Run again what of a build did not succeed",
		Long: `Ask again for the jobs of a build that have ended without success: that is a new build, whose id is printed. What succeeded, or is
still under way, is taken over. That these jobs failed before is forgotten.

` + farm.Naming + "\n\n" + serverHelp + farmExitHelp,
		Example:           "  headrace retry nightly",
		Args:              arguments(1, 1),
		ValidArgsFunction: s.offerFirst(buildNames),
		RunE: s.onFarm(roleSubmit, func(ctx context.Context, f *farm.Farm, args []string) error {
			b, err := f.FindBuild(ctx, args[0])
			if err != nil {
				return err
			}
			r, err := f.RetryBuild(ctx, b.ID)
			if err != nil {
				return err
			}
			return done(f, r, "%s", r.Build)
		}),
	}
	s.define(cmd)
	return cmd
}

func newBump() *cobra.Command {
	var s serverFlags
	cmd := &cobra.Command{
		Use:   "bump BUILD PRIORITY",
		Short: "Give a build of a farm another priority",
		Long: `Give a build that has not ended another priority; the higher, the sooner its jobs run. After -- it may be below 0.

` + farm.Naming + "\n\n" + serverHelp + farmExitHelp,
		Example: `  headrace bump nightly 10
  headrace bump -- nightly -5`,
		Args:              arguments(2, 2),
		ValidArgsFunction: s.offerFirst(liveBuildNames),
		RunE: s.onFarm(roleSubmit, func(ctx context.Context, f *farm.Farm, args []string) error {
			n, err := strconv.ParseInt(args[1], 10, 32)
			if err != nil || n < -job.MaxPriority || n > job.MaxPriority {
				return usage("priority %q: want a whole number from %d to %d", args[1], -job.MaxPriority, job.MaxPriority)
			}
			b, err := f.FindBuild(ctx, args[0])
			if err != nil {
				return err
			}
			if err := f.Bump(ctx, b.ID, int32(n)); errors.Is(err, job.ErrEnded) {
				return usage("build %s (%s) has ended already", b.ID, progress.Visible(b.Name))
			} else if err != nil {
				return err
			}
			return done(f, map[string]any{"build": b.ID, "priority": n}, "build %s (%s) has the priority %d", b.ID, progress.Visible(b.Name), n)
		}),
	}
	s.define(cmd)
	return cmd
}

func newPause(paused bool) *cobra.Command {
	var s serverFlags
	var kind string
	var kindGiven func() bool
	word, about := "resume", "Let a channel of a farm go on"
	if paused {
		word, about = "pause", "Start nothing new in a channel of a farm"
	}
	cmd := &cobra.Command{
		Use:               word + " CHANNEL",
		Short:             about,
		Long:              about + ", or in one of its kinds of jobs. What runs goes on.\n\n" + serverHelp + farmExitHelp,
		Example:           "  headrace " + word + " default\n  headrace " + word + " default --kind command",
		Args:              arguments(1, 1),
		ValidArgsFunction: s.offerFirst(channelNames),
		RunE: s.onFarm(roleAdmin, func(ctx context.Context, f *farm.Farm, args []string) error {
			if err := nameable("channel", args[0]); err != nil {
				return err
			}
			if kind == "" && kindGiven() {
				return usage("--kind is empty: name the kind, or leave it out for all")
			}
			if err := f.Pause(ctx, args[0], kind, paused); err != nil {
				return err
			}
			what := fmt.Sprintf("channel %q", args[0])
			if kind != "" {
				what += fmt.Sprintf(", kind %q", kind)
			}
			object := map[string]any{"channel": args[0], "kind": kind, "paused": paused}
			if paused {
				return done(f, object, "%s is paused: nothing new starts, what runs goes on", what)
			}
			still, err := stillPaused(ctx, f, args[0], kind)
			if err != nil {
				return err
			}
			return done(f, object, "%s goes on%s", what, still)
		}),
	}
	s.define(cmd)
	cmd.Flags().StringVar(&kind, "kind", "", "only jobs of this kind")
	kindGiven = func() bool { return cmd.Flags().Changed("kind") }
	return cmd
}

// stillPaused says what of a channel, or of one of its kinds, is paused although it was resumed: the two are paused apart from each other.
func stillPaused(ctx context.Context, f *farm.Farm, channel, kind string) (string, error) {
	c, err := f.Channel(ctx, channel)
	switch {
	case err != nil:
		return "", err
	case kind != "" && c.Paused:
		return ", but the whole channel is still paused", nil
	case kind == "" && len(c.PausedKinds) > 0:
		return ", but for what is paused apart: " + progress.Visible(strings.Join(c.PausedKinds, ", ")) + " (--kind)", nil
	}
	return "", nil
}

func newDrain(drained bool) *cobra.Command {
	var s serverFlags
	word, about := "undrain", "Give a worker jobs again"
	if drained {
		word, about = "drain", "Give a worker no new jobs"
	}
	cmd := &cobra.Command{
		Use:               word + " WORKER",
		Short:             about,
		Long:              about + ". What it runs goes on, and costs no attempt.\n\n" + serverHelp + farmExitHelp,
		Example:           "  headrace " + word + " builder-3",
		Args:              arguments(1, 1),
		ValidArgsFunction: s.offerFirst(workerNames),
		RunE: s.onFarm(roleAdmin, func(ctx context.Context, f *farm.Farm, args []string) error {
			if err := nameable("worker", args[0]); err != nil {
				return err
			}
			if err := absent(f.Drain(ctx, args[0], drained), "worker", args[0]); err != nil {
				return err
			}
			object := map[string]any{"worker": args[0], "drained": drained}
			if drained {
				return done(f, object, "worker %q is given nothing new", args[0])
			}
			return done(f, object, "worker %q is given jobs again", args[0])
		}),
	}
	s.define(cmd)
	return cmd
}

func newChannels() *cobra.Command {
	var s serverFlags
	var set []string
	cmd := &cobra.Command{
		Use:   "channels NAME",
		Short: "Show or set the policy of a channel of a farm",
		Long: `Show the policy of a channel, or set parts of it: --set KEY=VALUE, which may be repeated. The keys are

  discipline        rank (priority, share, longest path, age) or age (first come, first served)
  grace             how long a job that no known worker could run waits before it ends unsupported, as in 24h; never: for ever
  ttl               of a lease
  failure-ttl       how long failures are remembered, as in 30d; never: for ever
  shares            of the channel, beside others; 0: as many as one that says nothing
  shares.GROUP      of a group of builds, within the channel; 0: as many as one that says nothing
  retry.failures    how many verdicts are tried again
  retry.aborts      how many attempts may end aborted before the job does
  retry.losses      how many lost leases are tried again
  retry.crashes     how many crashes of workers are tried again
  retry.delay       before the second attempt after an abort
  retry.factor      each further one waits so many times as long

Any channel may be named: it is there as soon as somebody uses it.

` + serverHelp + farmExitHelp,
		Example: `  headrace channels default
  headrace channels default --set grace=never --set retry.aborts=3`,
		Args:              arguments(1, 1),
		ValidArgsFunction: s.offerFirst(channelNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			role := roleRead
			if len(set) > 0 {
				role = roleAdmin
			}
			return s.onFarm(role, func(ctx context.Context, f *farm.Farm, args []string) error {
				if err := nameable("channel", args[0]); err != nil {
					return err
				}
				if len(set) > 0 {
					c, err := f.Channel(ctx, args[0])
					if err != nil {
						return err
					}
					for _, pair := range set {
						if err := setPolicy(&c, pair); err != nil {
							return err
						}
					}
					if err := f.SetChannel(ctx, &c); err != nil {
						return err
					}
				}
				return f.ShowChannel(ctx, args[0])
			})(cmd, args)
		},
	}
	s.define(cmd)
	cmd.Flags().StringArrayVar(&set, "set", nil, "set a part of the policy: `key=value`; may be repeated")
	complete(cmd, "set", cobra.FixedCompletions(policyKeys, cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// policyKeys are the parts of a policy, as shells offer them.
var policyKeys = []string{
	"discipline=rank", "discipline=age", "grace=", "ttl=", "failure-ttl=", "shares=", "shares.", "retry.failures=", "retry.aborts=",
	"retry.losses=", "retry.crashes=", "retry.delay=", "retry.factor=",
}

// setPolicy changes a part of a policy.
func setPolicy(c *api.Channel, pair string) error {
	key, value, ok := strings.Cut(pair, "=")
	if !ok {
		return usage("--set %q: want KEY=VALUE", pair)
	}
	var err error
	seconds := func(p *float64) {
		var d time.Duration
		if err = (span{&d}).Set(value); err == nil {
			*p = api.Seconds(d)
		}
	}
	number := func(p *int32, least int) {
		n := 0
		if err = (whole{&n, least, math.MaxInt32}).Set(value); err == nil {
			*p = int32(n)
		}
	}
	group, ofGroup := strings.CutPrefix(key, "shares.")
	switch {
	case key == "discipline" && (value == "rank" || value == "age"):
		c.Discipline = value
	case key == "discipline":
		err = errors.New("want rank or age")
	case key == "grace" && value == "never":
		c.Grace = -1
	case key == "grace":
		seconds(&c.Grace)
	case key == "ttl":
		seconds(&c.TTL)
	case key == "failure-ttl" && value == "never":
		c.FailureTTL = 0
	case key == "failure-ttl":
		seconds(&c.FailureTTL)
	case key == "shares":
		number(&c.Shares, 0)
	case ofGroup && group != "":
		var n int32
		if number(&n, 0); err == nil {
			if c.GroupShares == nil {
				c.GroupShares = map[string]int32{}
			}
			if c.GroupShares[group] = n; n == 0 {
				delete(c.GroupShares, group)
			}
		}
	case key == "retry.failures":
		number(&c.Retry.Failures, -1)
	case key == "retry.aborts":
		number(&c.Retry.Aborts, -1)
	case key == "retry.losses":
		number(&c.Retry.Losses, -1)
	case key == "retry.crashes":
		number(&c.Retry.Crashes, -1)
	case key == "retry.delay":
		seconds(&c.Retry.Delay)
	case key == "retry.factor":
		number(&c.Retry.Factor, 0)
	default:
		return usage("--set %q: there is no key %q; headrace channels --help lists them", pair, key)
	}
	if err != nil {
		return usage("--set %q: %v", pair, err)
	}
	return nil
}
