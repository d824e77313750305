package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// completeJobs offers the names of jobs after the graph file, and for the file what the shell finds. At most so many names
// are given; variants says that the name of a matrix job, which stands for all its variants, will do, too.
func completeJobs(most int, variants bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		if most > 0 && len(args) > most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return jobNames(args[0], begun, variants, args[1:]), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeJobFlag offers the names of the jobs of the graph file that is named.
func completeJobFlag(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return jobNames(args[0], begun, false, nil), cobra.ShellCompDirectiveNoFileComp
}

// complete has the values of a flag offered. The command must have it.
func complete(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err)
	}
}

// completionsShown is how many names are offered: a shell shows no million of them.
const completionsShown = 1000

// jobNames lists names in a graph file that begin as given, without those that are there already. A file that cannot be
// read has none: completion is no place for errors.
func jobNames(file, begun string, variants bool, there []string) []string {
	g, err := parseFile(file)
	if err != nil {
		return nil
	}
	var names []string
	seen := map[string]bool{"": true}
	offer := func(name string) {
		if !seen[name] && len(names) < completionsShown && strings.HasPrefix(name, begun) && !slices.Contains(there, name) {
			names = append(names, name)
		}
		seen[name] = true
	}
	for i := range g.Jobs {
		if variants {
			offer(g.Jobs[i].Base)
		}
		offer(g.Jobs[i].Name)
	}
	return names
}
