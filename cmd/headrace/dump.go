package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/headrace/headrace/store/archive"
	"github.com/headrace/headrace/store/rows"
	"github.com/spf13/cobra"
)

func newDump() *cobra.Command {
	var store, to string
	cmd := &cobra.Command{
		Use:   "dump [FILE]",
		Short: "Write all that a store holds as lines of JSON",
		Long: `Write all that the store of a graph file holds, or the one that --store names, as lines of JSON that a person can search: one
line for each row, and with seq the number by which all lines about a job name it. It is what there is at one moment, also
while a run goes on. headrace load makes the same store again, in a folder or in a PostgreSQL database.

A dump has all secrets of the store: what jobs were given and left, and the tokens by which running attempts go on. With
--to it goes into a new file that nobody else may read. Logs are not part of it. A record that cannot be read stands
there with what is wrong with it ("error") and its bytes ("raw"), and is loaded as it is.

` + exitHelp,
		Example: `  headrace dump build.yaml | grep '"seq":12,'
  headrace dump --store postgres://localhost/farm --to farm.jsonl`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := addressOf(args, store)
			if err != nil {
				return err
			}
			if to == "" {
				err := a.dump(cmd.Context(), cmd.OutOrStdout())
				return tellCopied(cmd.ErrOrStderr(), err, "the dump", a.String())
			}
			err = interruptible(cmd, func(ctx context.Context) error {
				return writeNew(to, func(w io.Writer) error { return a.dump(ctx, w) })
			})
			return tellCopied(cmd.OutOrStdout(), err, to, a.String())
		},
	}
	storeVar(cmd.Flags(), &store, "store", storeUse)
	cmd.Flags().StringVar(&to, "to", "", "write into this new `file`, which only you may read")
	return cmd
}

func newLoad() *cobra.Command {
	var store, from string
	cmd := &cobra.Command{
		Use:   "load [FILE] [--from DUMP]",
		Short: "Make a store of a dump",
		Long: `Make the store of a graph file, or the one that --store names, of what headrace dump wrote, which is read from standard input
or, with --from, from a file. The store must not exist, or be empty. There is all of it at the end, or nothing: a dump that was
cut off, or a load that was interrupted, leaves no store.

The numbers of a dump's lines are counted at its end, so that what was filtered must have its last line mended.

` + exitHelp,
		Example: `  headrace load build.yaml --from build.jsonl
  headrace dump build.yaml | headrace load --store postgres://localhost/farm`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := addressOf(args, store)
			if err != nil {
				return err
			}
			in, err := openDump("dump", from, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer in.Close() // Only read from.
			err = a.load(cmd.Context(), in, from)
			if from == stream {
				from = "the dump"
			}
			return tellCopied(cmd.OutOrStdout(), err, a.String(), from)
		},
	}
	storeVar(cmd.Flags(), &store, "store", storeUse)
	cmd.Flags().StringVar(&from, "from", stream, "read the dump from this `file`; - is standard input")
	return cmd
}

// openDump opens what a store is to be made of.
func openDump(what, from string, stderr io.Writer) (io.ReadCloser, error) {
	if from == stream {
		return openInput(from, "a "+what, stderr)
	}
	if info, err := os.Stat(from); err == nil && info.IsDir() {
		return nil, usage("the %s: %s is a folder; name the file", what, from)
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, usage("the %s: %v", what, err)
	}
	return f, nil
}

// dump writes all of the store.
func (a *address) dump(ctx context.Context, w io.Writer) error {
	return a.reading(ctx, func(t rows.Tables) error { return archive.Dump(w, t) })
}

// load makes the store of a dump.
func (a *address) load(ctx context.Context, in io.Reader, from string) error {
	err := a.make(ctx, func(t rows.Tables) error { return archive.Load(in, t) })
	var line *archive.LineError
	if errors.As(err, &line) || errors.Is(err, archive.ErrCutOff) {
		if kind := kindOfFile(from); kind != "" && !strings.HasPrefix(kind, "a dump") {
			return usage("%s is %s; no store was made", from, kind)
		}
		return usage("%v; no store was made", err)
	}
	return err
}
