package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/store/archive"
	"github.com/headrace/headrace/store/rows"
	"github.com/headrace/headrace/store/sqlite"
	"github.com/headrace/headrace/worker"
	"github.com/spf13/cobra"
)

func newCheck() *cobra.Command {
	var store string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check that what a store holds is sound",
		Long: `Check all that the store of a graph file holds, or the one that --store names, also while a run goes on: that each record
can be read, that what names another names one that is there, that each job is in one state, that nothing is missing in between,
and that the engine could go on with it. Nothing is changed. Each finding names the table and the row, what is there and what
should be. A file is also checked as its database engine does.

With --json each line is a finding: table, key, problem, want; the last has jobs, builds, rounds, findings: how many there were.

Exit codes:
  0    all is well
  1    there are findings
  2    wrong usage, or no such store
  3    the store cannot be read to its end`,
		Example: `  headrace check build.yaml
  headrace check --store backup.db`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := addressOf(args, store)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			c := checker{out: out}
			if asJSON {
				c.json = json.NewEncoder(out)
			}
			err = c.check(cmd.Context(), &a)
			if ferr := out.Flush(); err == nil {
				err = ferr
			}
			if err == nil && c.found > 0 {
				err = &exit{code: exitFailed}
			}
			return err
		},
	}
	storeVar(cmd.Flags(), &store, "store", storeUse)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// checker prints what is found.
type checker struct {
	out   *bufio.Writer
	json  *json.Encoder // nil: for people
	found int
}

func (c *checker) report(f archive.Finding) error {
	c.found++
	if c.json != nil {
		return c.json.Encode(f)
	}
	_, err := fmt.Fprintln(c.out, progress.Clean(f.String()))
	return err
}

func (c *checker) check(ctx context.Context, a *address) error {
	r, err := a.open(ctx)
	if err != nil {
		return err
	}
	counts, err := c.read(ctx, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	if c.json != nil {
		return c.json.Encode(struct {
			archive.Counts
			Findings int `json:"findings"`
		}{counts, c.found})
	}
	verdict := "all is well"
	if c.found > 0 {
		verdict = progress.Count(c.found, "finding")
	}
	_, err = fmt.Fprintf(c.out, "%s: %s, %s, %s; %s\n", progress.Clean(a.String()), progress.Count(counts.Jobs, "job"),
		progress.Count(counts.Builds, "build"), progress.Count(counts.Rounds, "round"), verdict)
	return err
}

func (c *checker) read(ctx context.Context, r anyReader) (counts archive.Counts, err error) {
	// What the engine finds comes first: it may be why reading ends early.
	if file, ok := r.(*sqlite.Reader); ok {
		faults, err := file.Integrity(ctx)
		if err != nil {
			return counts, err
		}
		for _, text := range faults {
			if err := c.report(archive.Finding{Table: "file", Problem: text, Want: "a file that the database engine finds sound"}); err != nil {
				return counts, err
			}
		}
	}
	err = r.Whole(ctx, func(t rows.Tables) (err error) {
		counts, err = archive.Check(t, kinds, c.report)
		return err
	})
	return counts, err
}

// kinds are those whose arguments and results the command knows. On a farm, workers and those who ask may be anybody's: what these leave
// there is opaque, and need not be there.
var kinds = []archive.Kind{
	{Channel: localChannel, Kind: worker.CommandKind, Args: decodes[worker.CommandArgs], Result: decodes[worker.CommandResult]},
}

func decodes[T any](b []byte) error {
	var v T
	return json.Unmarshal(b, &v)
}
