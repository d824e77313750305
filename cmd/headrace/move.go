package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/rows"
	"github.com/headrace/headrace/store/sqlite"
	"github.com/spf13/cobra"
)

func newMove() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "move --from STORE --to STORE",
		Short: "Copy a store from a folder into PostgreSQL, or back",
		Long: `Copy all that one store holds into another, which must not exist, or be empty. A store is a folder, a database file or a
postgres:// URL. Nobody may be using either meanwhile. All of it is there at the end, or nothing; running attempts go on at the new place,
if their workers turn to it before their leases end. The old store stays as it was: remove its store.db when you have seen the new one. Let
nobody go on with both.

Logs are no part of a store: they stay in the folder logs/ beside the old one. To have them read at the new place, move that folder into
the new store's or, if that is a database, into .headrace/NAME/ beside the graph file NAME.

` + exitHelp,
		Example: `  headrace move --from .headrace/build.yaml --to postgres://localhost/farm`,
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" || to == "" {
				return usage("say with --from and --to which stores")
			}
			old, err := addressOf(nil, from)
			if err != nil {
				return err
			}
			next, err := addressOf(nil, to)
			if err != nil {
				return err
			}
			if old.same(&next) {
				return usage("--from and --to name the same store")
			}
			err = old.held(cmd.Context(), func() error { return next.copyOf(cmd.Context(), &old) })
			out := cmd.OutOrStdout()
			if err := tellCopied(out, err, next.String(), old.String()); err != nil {
				return err
			}
			return tellLogs(out, &old, &next)
		},
	}
	storeVar(cmd.Flags(), &from, "from", "the `store` that is to be copied")
	storeVar(cmd.Flags(), &to, "to", "the `store` that is to be made")
	return cmd
}

// tellLogs says what to do about the logs that stay.
func tellLogs(out io.Writer, old, next *address) error {
	if old.database != "" || old.dir == "" {
		return nil
	}
	if _, err := os.Stat(old.logs()); err != nil {
		return nil //nolint:nilerr // there are none
	}
	where := ".headrace/FILE/ beside the graph file FILE, unless they are there"
	if next.database == "" {
		where = cmp.Or(next.dir, filepath.Dir(next.path))
	}
	_, err := fmt.Fprintf(out, "the logs stay in %s; to have them read at the new place, move them into %s\n", progress.Clean(old.logs()), progress.Clean(where))
	return err
}

// tellCopied says that all of one place is in another, unless an error did.
func tellCopied(out io.Writer, err error, where, from string) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s holds all that %s does\n", progress.Clean(where), progress.Clean(from))
	return err
}

// same reports whether both are one store, as far as their names tell.
func (a *address) same(b *address) bool {
	if a.database != "" || b.database != "" {
		return a.database == b.database
	}
	one, err := filepath.Abs(target(a.path))
	other, oerr := filepath.Abs(target(b.path))
	return err == nil && oerr == nil && one == other
}

// held does something while this process owns the store, so that nobody changes it meanwhile.
func (a *address) held(ctx context.Context, do func() error) error {
	s, err := a.own(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(), s.Close())
}

// ownedStore is a store of which this process is the owner.
type ownedStore interface {
	queue.Store
	queue.History
	Whole(ctx context.Context, f func(rows.Tables) error) error
}

// own makes this process the owner of a store that there is.
func (a *address) own(ctx context.Context) (ownedStore, error) {
	r, err := a.open(ctx) // It makes none where there is none.
	if err != nil {
		return nil, err
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	if a.database != "" {
		s, err := postgres.Open(ctx, a.database, postgres.Options{})
		if err != nil {
			return nil, reached(a.String(), fmt.Errorf("%v: %w", a, err))
		}
		return s, nil
	}
	s, err := sqlite.Open(ctx, a.path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	return s, nil
}
