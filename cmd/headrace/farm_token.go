package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/farm"
	"github.com/headrace/headrace/job"
	"github.com/spf13/cobra"
)

func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token COMMAND",
		Short: "Make, list and revoke the tokens of a server",
		Long: `A token lets somebody in at a server. Its role says what it allows: read sees; work sees, and works; submit sees, and asks
for work, cancels it and the like; admin may do everything. It is good for some channels, or for all (*).

` + farmExitHelp,
		Example: "  headrace token create ci --role submit --channel default > ci.token",
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return usage("token %q: want one of create, list, revoke, show", strings.Join(args, " "))
		},
	}
	cmd.AddCommand(newTokenCreate(), newTokenList(), newTokenRevoke(), newTokenShow())
	return cmd
}

var roleWords = []string{"read", "work", "submit", "admin"}

func newTokenCreate() *cobra.Command {
	var s serverFlags
	var t api.NewToken
	var expires time.Duration
	var expiresGiven func() bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token",
		Long: `Make a token and print it, once: nobody can see it again. A name is of letters, digits, dots, hyphens and underscores.

` + serverHelp + farmExitHelp,
		Example: `  headrace token create ci --role submit --channel default > ci.token
  headrace token create builder-3 --role work --channel '*' --expires 90d`,
		Args:              arguments(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.onFarm(roleAdmin, func(ctx context.Context, f *farm.Farm, args []string) error {
			if err := oneOf("role", t.Role, roleWords); err != nil {
				return err
			}
			if t.Role == "" {
				return usage("which role? Give --role, one of %s", strings.Join(roleWords, ", "))
			}
			if expiresGiven() && expires <= 0 {
				return usage("--expires: want a span above 0; left out, it is good until it is revoked")
			}
			t.Name, t.Expires = args[0], api.Seconds(expires)
			secret, err := f.CreateToken(ctx, &t)
			if errors.Is(err, job.ErrExists) {
				return usage("there is a token %q already; revoke it, or give another name", t.Name)
			}
			if err != nil {
				return err
			}
			return done(f, secret, "%s", secret.Secret)
		}),
	}
	s.define(cmd)
	cmd.Flags().StringVar(&t.Role, "role", "", "what it allows: "+strings.Join(roleWords, ", "))
	cmd.Flags().StringArrayVar(&t.Channels, "channel", []string{api.DefaultChannel}, "a channel that it is good for, or * for all; may be repeated")
	expiresGiven = func() bool { return cmd.Flags().Changed("expires") }
	spanVar(cmd.Flags(), &expires, "expires", 0, "for how long it is good, as in 90d; else until it is revoked")
	complete(cmd, "role", cobra.FixedCompletions(roleWords, cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "channel", s.offer(channelNames))
	return cmd
}

func newTokenList() *cobra.Command {
	var s serverFlags
	cmd := &cobra.Command{
		Use:               "list",
		Short:             "List the tokens of a server",
		Long:              "List the tokens of a server by name, without their secrets.\n\n" + serverHelp + farmExitHelp,
		Example:           "  headrace token list",
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.onFarm(roleAdmin, func(ctx context.Context, f *farm.Farm, _ []string) error {
			return f.ListTokens(ctx)
		}),
	}
	s.define(cmd)
	return cmd
}

func newTokenShow() *cobra.Command {
	var s serverFlags
	cmd := &cobra.Command{
		Use:               "show",
		Short:             "Show as whom a server knows you",
		Long:              "Show the name, the role and the channels of the token that is given.\n\n" + serverHelp + farmExitHelp,
		Example:           "  headrace token show --token-file ci.token",
		Args:              arguments(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: s.onFarm(roleRead, func(ctx context.Context, f *farm.Farm, _ []string) error {
			who, err := f.WhoAmI(ctx)
			if err != nil {
				return err
			}
			return done(f, who, "%s: role %s, channels %s", who.Name, who.Role, strings.Join(who.Channels, " "))
		}),
	}
	s.define(cmd)
	return cmd
}

func newTokenRevoke() *cobra.Command {
	var s serverFlags
	cmd := &cobra.Command{
		Use:               "revoke NAME",
		Short:             "Revoke a token",
		Long:              "Revoke a token: from then on it lets nobody in. The last token of an administrator for all channels that does not expire is not revoked: make another first, or by serve --admin-token where it was lost.\n\n" + serverHelp + farmExitHelp,
		Example:           "  headrace token revoke ci",
		Args:              arguments(1, 1),
		ValidArgsFunction: s.offerFirst(tokenNames),
		RunE: s.onFarm(roleAdmin, func(ctx context.Context, f *farm.Farm, args []string) error {
			if args[0] == "" || args[0] == "." || args[0] == ".." || len(args[0]) > job.MaxName {
				return usage("%q is no name of a token", args[0])
			}
			if err := absent(f.RevokeToken(ctx, args[0]), "token", args[0]); err != nil {
				return err
			}
			return done(f, map[string]any{"name": args[0], "revoked": true}, "token %q is revoked", args[0])
		}),
	}
	s.define(cmd)
	return cmd
}

func tokenNames(ctx context.Context, c *api.Client) []string {
	all, err := c.Tokens(ctx)
	if err != nil {
		return nil // Completion is no place for errors.
	}
	var names []string
	for i := range all {
		names = append(names, all[i].Name+"\t"+all[i].Role)
	}
	return names
}
