package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into a folder",
		Long: `Write a manual page for each command into a folder, which is made if it is not there.

  headrace man /usr/local/share/man/man1

` + exitHelp,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("make the folder: %v", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // The same pages each time.
			return doc.GenManTree(root, &doc.GenManHeader{Title: "HEADRACE", Section: "1", Source: "headrace " + version}, args[0])
		},
	}
}
