package main

import (
	"github.com/headrace/headrace/graph"
	"github.com/spf13/cobra"
)

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of graph files",
		Long: `Print the JSON Schema (draft 2020-12) of graph files, for editors and checkers.

` + exitHelp,
		Example: "  headrace schema > headrace.schema.json",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(graph.Schema())
			return err
		},
	}
}
