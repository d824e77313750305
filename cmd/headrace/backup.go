package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/headrace/headrace/store/rows"
	"github.com/headrace/headrace/store/sqlite"
	"github.com/spf13/cobra"
)

func newBackup() *cobra.Command {
	var store, to string
	cmd := &cobra.Command{
		Use:   "backup [FILE] --to NEW",
		Short: "Copy a store into a new file, also while it is in use",
		Long: `Copy the store of a graph file, or the one that --store names, as it is at one moment, into a new file that only you may read:
a database file of a store in a folder, a dump (see headrace dump) of one in PostgreSQL. It may be in use meanwhile. The file
has its name when it is complete and on disk; one that is there already is not overwritten. It has all secrets of the store;
logs are not part of it. headrace restore makes a store of it, and headrace check checks it where it is a database file.

` + exitHelp,
		Example: `  headrace backup build.yaml --to /backup/build-$(date +%F).db`,
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := addressOf(args, store)
			if err != nil {
				return err
			}
			if to == "" {
				return usage("say with --to which file the backup is to be")
			}
			err = interruptible(cmd, func(ctx context.Context) error { return a.backup(ctx, to) })
			return tellCopied(cmd.OutOrStdout(), err, to, a.String())
		},
	}
	storeVar(cmd.Flags(), &store, "store", storeUse)
	cmd.Flags().StringVar(&to, "to", "", "the new `file`")
	return cmd
}

func (a *address) backup(ctx context.Context, to string) error {
	if a.database != "" {
		return writeNew(to, func(w io.Writer) error { return a.dump(ctx, w) })
	}
	r, err := a.open(ctx)
	if err != nil {
		return err
	}
	if file, ok := r.(*sqlite.Reader); ok {
		err = file.Backup(ctx, to)
	}
	err = errors.Join(err, r.Close())
	if errors.Is(err, fs.ErrExist) {
		return newFile(to, fs.ErrExist)
	}
	return err
}

func newRestore() *cobra.Command {
	var store, from string
	cmd := &cobra.Command{
		Use:   "restore [FILE] --from BACKUP",
		Short: "Make a store of a backup",
		Long: `Make the store of a graph file, or the one that --store names, of what headrace backup or headrace dump wrote. The store must
not exist, or be empty. There is all of it at the end, or nothing. What the store was kept in does not matter: a backup of a
folder's store can be restored into PostgreSQL, and the other way round.

` + exitHelp,
		Example: `  headrace restore build.yaml --from /backup/build-2026-11-30.db`,
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := addressOf(args, store)
			if err != nil {
				return err
			}
			if from == "" {
				return usage("say with --from which file the backup is")
			}
			in, err := openDump("backup", from, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer in.Close() // Only read from.
			ok, err := isDatabase(from)
			if err != nil {
				return err
			}
			if ok {
				err = a.copyOf(cmd.Context(), &address{path: from})
			} else {
				err = a.load(cmd.Context(), in, from)
			}
			return tellCopied(cmd.OutOrStdout(), err, a.String(), from)
		},
	}
	storeVar(cmd.Flags(), &store, "store", storeUse)
	cmd.Flags().StringVar(&from, "from", "", "the backup, a `file`")
	return cmd
}

// isDatabase reports whether a file is one of SQLite's.
func isDatabase(path string) (bool, error) {
	const magic = "SQLite format 3\x00"
	if path == stream {
		return false, nil // It can be read but once, and is read as a dump.
	}
	f, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("read the backup: %w", err)
	}
	defer f.Close() // Only read from.
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(f, head); err != nil {
		return false, nil // Whoever reads it says what is wrong with it.
	}
	return string(head) == magic, nil
}

// copyOf makes the store a copy of another, byte for byte.
func (a *address) copyOf(ctx context.Context, from *address) error {
	return from.reading(ctx, func(old rows.Tables) error {
		return a.make(ctx, func(t rows.Tables) error { return rows.Copy(old, t) })
	})
}
