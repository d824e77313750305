package main

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/spf13/cobra"
)

// completionPatience is how long a shell is held up for what a server has.
const completionPatience = time.Second

// lister asks a server for what can be completed, with a word about each after a tab.
type lister func(ctx context.Context, c *api.Client) []string

// offer completes with what the server has; with nothing if it cannot be asked.
func (s *serverFlags) offer(list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, there []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := s.client(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c.Patience = -1
		ctx, cancel := context.WithTimeout(context.Background(), completionPatience)
		defer cancel()
		var fit []string
		for _, text := range list(ctx, c) {
			word, about, _ := strings.Cut(text, "\t")
			if strings.HasPrefix(word, begun) && word == progress.Visible(word) && !slices.Contains(there, word) && len(fit) < completionsShown {
				fit = append(fit, word+"\t"+progress.Visible(about))
			}
		}
		return fit, cobra.ShellCompDirectiveNoFileComp
	}
}

// offerFirst is offer for the first argument alone.
func (s *serverFlags) offerFirst(list lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return s.offer(list)(cmd, args, begun)
	}
}

// offerNamed completes the first argument, which names a build or, as BUILD/NAME or by its id, a job.
func (s *serverFlags) offerNamed(builds lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return s.offerFirst(func(ctx context.Context, c *api.Client) []string {
			return append(builds(ctx, c), jobsBegun(ctx, c, begun)...)
		})(cmd, args, begun)
	}
}

// offerJob completes the first argument where that names a job of a farm, if one is known; else it is a graph file.
func (s *serverFlags) offerJob(file cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 || !cmd.Flags().Changed("server") && os.Getenv(serverEnv) == "" {
			return file(cmd, args, begun)
		}
		jobs, directive := s.offer(func(ctx context.Context, c *api.Client) []string { return jobsBegun(ctx, c, begun) })(cmd, args, begun)
		if len(jobs) > 0 {
			return jobs, directive
		}
		builds, directive := s.offer(func(ctx context.Context, c *api.Client) []string {
			names := buildNames(ctx, c)
			for i := range names {
				word, about, _ := strings.Cut(names[i], "\t")
				names[i] = word + "/\t" + about
			}
			return names
		})(cmd, args, begun)
		if len(builds) > 0 {
			return builds, directive | cobra.ShellCompDirectiveNoSpace // The name of a job follows.
		}
		return file(cmd, args, begun)
	}
}

// jobsBegun gives the jobs that BUILD/... begins to name, and those whose id begins so.
func jobsBegun(ctx context.Context, c *api.Client, begun string) []string {
	var names []string
	add := func(f api.JobFilter, word func(j *api.Job) string) {
		f.Limit = completed
		page, err := c.Jobs(ctx, f)
		if err != nil {
			return // Completion is no place for errors.
		}
		for i := range page.Items {
			j := &page.Items[i]
			names = append(names, word(j)+"\t"+cmp.Or(j.Outcome, j.State))
		}
	}
	for i, char := range begun {
		if char != '/' || i == 0 {
			continue
		}
		id, err := job.ParseID(begun[:i])
		if err != nil {
			page, err := c.Builds(ctx, api.BuildFilter{Name: begun[:i], Limit: 1})
			if err != nil || len(page.Items) == 0 {
				continue
			}
			id = page.Items[0].ID
		}
		add(api.JobFilter{Build: id, Prefix: begun[i+1:]}, func(j *api.Job) string { return begun[:i+1] + j.Name })
	}
	if len(begun) >= 4 && strings.Trim(begun, "0123456789abcdef-") == "" {
		add(api.JobFilter{}, func(j *api.Job) string { return j.ID.String() })
	}
	return names
}

// completed is how many builds are looked at.
const completed = 200

func buildNames(ctx context.Context, c *api.Client) []string {
	return buildsFor(ctx, c, api.BuildFilter{Limit: completed})
}

func liveBuildNames(ctx context.Context, c *api.Client) []string {
	return buildsFor(ctx, c, api.BuildFilter{Limit: completed, Live: true})
}

// buildsFor gives the names of builds, each once, and their ids.
func buildsFor(ctx context.Context, c *api.Client, f api.BuildFilter) []string {
	page, err := c.Builds(ctx, f)
	if err != nil {
		return nil // Completion is no place for errors.
	}
	var names, ids []string
	seen := map[string]bool{}
	for i := range page.Items {
		b := &page.Items[i]
		about := b.State
		if b.Outcome != "" {
			about = b.Outcome
		}
		if !seen[b.Name] {
			names = append(names, b.Name+"\t"+about)
		}
		seen[b.Name] = true
		ids = append(ids, b.ID.String()+"\t"+b.Name+", "+about)
	}
	return append(names, ids...)
}

func workerNames(ctx context.Context, c *api.Client) []string {
	all, err := c.Workers(ctx)
	if err != nil {
		return nil // Completion is no place for errors.
	}
	var names []string
	for i := range all {
		names = append(names, all[i].Name+"\t"+strings.Join(all[i].Systems, " "))
	}
	return names
}

// channelNames gives the channels that are known from builds and workers: a server lists none.
func channelNames(ctx context.Context, c *api.Client) []string {
	names := []string{api.DefaultChannel}
	if page, err := c.Builds(ctx, api.BuildFilter{Limit: completed}); err == nil {
		for i := range page.Items {
			names = append(names, page.Items[i].Channel)
		}
	} else {
		return nil // Completion is no place for errors.
	}
	if all, err := c.Workers(ctx); err == nil {
		for i := range all {
			names = append(names, all[i].Channels...)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(names, func(n string) bool { return n == "" || n == "*" })
}

func scheduleNames(ctx context.Context, c *api.Client) []string {
	all, err := c.Schedules(ctx)
	if err != nil {
		return nil // Completion is no place for errors.
	}
	var names []string
	for i := range all {
		names = append(names, all[i].Name+"\t"+all[i].Cron)
	}
	return names
}
