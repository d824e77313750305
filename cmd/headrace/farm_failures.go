package main

import (
	"context"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/farm"
	"github.com/spf13/cobra"
)

func newCachedFailures() *cobra.Command {
	var s serverFlags
	var filter api.FailureFilter
	var limit int
	cmd := &cobra.Command{
		Use:   "cached-failures",
		Short: "List, or forget, remembered failures of a farm",
		Long: `A job that is marked so (cache_failure, of the HTTP API) fails at once while it is remembered that it failed before. Without a further
command, what is remembered is listed by channel, kind and key.

` + serverHelp + farmExitHelp,
		Example: `  headrace cached-failures
  headrace cached-failures --channel default --json
  headrace cached-failures clear nightly/test`,
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.onFarm(roleRead, func(ctx context.Context, f *farm.Farm, _ []string) error {
			return f.ListFailures(ctx, filter, limit)
		}),
	}
	s.define(cmd)
	cmd.Flags().StringVar(&filter.Channel, "channel", "", "only those of this channel")
	cmd.Flags().StringVar(&filter.Kind, "kind", "", "only those of this kind")
	complete(cmd, "channel", s.offer(channelNames))
	limitVar(cmd, &limit, 100)
	cmd.AddCommand(newClearFailures())
	return cmd
}

func newClearFailures() *cobra.Command {
	var s serverFlags
	var failure api.CachedFailure
	cmd := &cobra.Command{
		Use:   "clear [JOB...]",
		Short: "Forget that jobs failed, so that they run when asked for",
		Long: `Forget that jobs failed before, so that they are run again when somebody asks for them. They are named, or the key of one is given.

` + farm.Naming + "\n\n" + serverHelp + farmExitHelp,
		Example: `  headrace cached-failures clear nightly/test
  headrace cached-failures clear --key key:release-42 --channel default`,
		Args:              arguments(0, -1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.onFarm(roleSubmit, func(ctx context.Context, f *farm.Farm, args []string) error {
			if (len(args) == 0) == (failure.Key == "") {
				return usage("which? Name jobs, or give --key")
			}
			var all []api.CachedFailure
			if failure.Key != "" {
				all = append(all, failure)
			}
			for _, name := range args {
				j, err := f.FindJob(ctx, name)
				if err != nil {
					return err
				}
				if j.Key == "" {
					return usage("job %q has no key, so no failure of it is remembered", name)
				}
				all = append(all, api.CachedFailure{Channel: j.Channel, Kind: j.Kind, Key: j.Key})
			}
			for i := range all {
				c := &all[i]
				if err := f.ClearFailure(ctx, c); err != nil {
					return err
				}
				if err := done(f, c, "no failure of %q is remembered (channel %q, kind %q)", c.Key, c.Channel, c.Kind); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	s.define(cmd)
	cmd.Flags().StringVar(&failure.Key, "key", "", "the key of a job")
	cmd.Flags().StringVar(&failure.Channel, "channel", api.DefaultChannel, "with --key: its channel")
	cmd.Flags().StringVar(&failure.Kind, "kind", api.DefaultKind, "with --key: its kind")
	return cmd
}
