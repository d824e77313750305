package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker"
	"github.com/spf13/cobra"
)

// pruneOptions are the flags of prune.
type pruneOptions struct {
	store  string
	older  time.Duration
	keep   int
	all    bool
	dryRun bool
	json   bool
}

func newPrune() *cobra.Command {
	var o pruneOptions
	cmd := &cobra.Command{
		Use:   "prune [FILE] (--older-than TIME | --keep N)",
		Short: "Forget old runs, with their jobs and logs",
		Long: `Take runs that have ended out of the store of a graph file, or of the one that --store names: those that ended before the
given time, but for the newest N, where both are given. With them go their ended jobs that no other run names, with attempts,
results and logs. What an unfinished job may read stays, and so does the newest success of each job (by its name, or its key
if it has none), which serves the next run; --all gives those up, too. Nobody may be using the store meanwhile, but for --dry-run,
which tells what would go.

With --json it is one object: builds, jobs, logs and bytes that went, kept (successes that stay), busy (jobs that stay as they are needed).

` + exitHelp,
		Example: `  headrace prune build.yaml --keep 20
  headrace prune build.yaml --older-than 720h --dry-run`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := addressOf(args, o.store)
			if err != nil {
				return err
			}
			age, keep := cmd.Flags().Changed("older-than"), cmd.Flags().Changed("keep")
			switch {
			case !age && !keep:
				return usage("say with --older-than or --keep what is to go")
			case o.keep < 0:
				return usage("--keep %d: want 0 or more", o.keep)
			}
			p := &pruner{pruneOptions: o, place: a.place, before: math.MaxInt64}
			if age {
				p.before = job.At(time.Now().Add(-o.older))
			}
			if err := p.prune(cmd.Context(), &a); err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			return errors.Join(p.tell(out), out.Flush())
		},
	}
	cmd.Flags().StringVar(&o.store, "store", "", storeUse)
	spanVar(cmd.Flags(), &o.older, "older-than", 0, "forget what ended so long ago, as in 720h")
	cmd.Flags().IntVar(&o.keep, "keep", 0, "keep the newest `N` runs")
	cmd.Flags().BoolVar(&o.all, "all", false, "also forget successes that the next run could use")
	cmd.Flags().BoolVarP(&o.dryRun, "dry-run", "n", false, "only tell what would go")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// pruner is one prune.
type pruner struct {
	pruneOptions
	place place // of the logs; its dir is empty where there are none
	// before is the moment before which what goes must have ended.
	before job.Time

	builds []job.ID
	jobs   []job.ID
	went   struct {
		Builds int   `json:"builds"`
		Jobs   int   `json:"jobs"`
		Logs   int   `json:"logs"`
		Bytes  int64 `json:"bytes"`
		Kept   int   `json:"kept"`
		Busy   int   `json:"busy"`
	}
}

// prune finds what is to go and, unless it is a dry run, has it go while this process owns the store.
func (p *pruner) prune(ctx context.Context, a *address) (err error) {
	if p.dryRun {
		r, err := a.open(ctx)
		if err != nil {
			return err
		}
		err = p.find(ctx, r)
		for _, id := range p.jobs {
			p.forgetLogs(id)
		}
		p.went.Builds, p.went.Jobs = len(p.builds), len(p.jobs)
		return errors.Join(err, r.Close())
	}
	s, err := a.own(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := p.find(ctx, s); err != nil || len(p.builds)+len(p.jobs) == 0 {
		return err
	}
	q, err := queue.Open(queue.Config{Store: s, History: s, GiveUp: true})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- q.Run(running) }()
	err = p.forget(ctx, q)
	stop()
	return errors.Join(err, <-ended)
}

// find chooses: builds first, then jobs that no build which stays names.
func (p *pruner) find(ctx context.Context, h queue.History) error {
	needed := map[job.ID]bool{}
	f := queue.BuildFilter{Limit: page}
	for n := 0; ; {
		list, err := h.Builds(ctx, f)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		for i := range list {
			b := &list[i]
			f.Before = b.Seq
			n++
			if b.Ended != 0 && b.Ended < p.before && n > p.keep {
				p.builds = append(p.builds, b.Build.ID)
				continue
			}
			if err := need(ctx, h, b.Build.ID, needed); err != nil {
				return err
			}
		}
	}
	return p.findJobs(ctx, h, needed)
}

// need notes the jobs that a build names.
func need(ctx context.Context, h queue.History, build job.ID, needed map[job.ID]bool) error {
	refs, err := h.Refs(ctx, build)
	for i := range refs {
		needed[refs[i].Job] = true
	}
	return err
}

// named is what makes a job the same as an earlier one to whoever runs it again.
type named struct {
	job.Class
	name, key string
}

// findJobs goes through all jobs, the newest first.
func (p *pruner) findJobs(ctx context.Context, h queue.History, needed map[job.ID]bool) error {
	served := map[named]bool{}
	f := queue.JobFilter{State: job.Done{}.String(), Limit: page}
	for {
		list, err := h.Jobs(ctx, f)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			r := &list[i]
			f.Before = r.Seq
			newest := false
			if r.End.Outcome == job.Succeeded && r.Spec.Key != "" && !p.all {
				k := named{r.Spec.Class(), r.Spec.Name, ""}
				if k.name == "" {
					k.key = r.Spec.Key
				}
				newest = !served[k]
				served[k] = true
			}
			switch {
			case needed[r.Spec.ID] || r.End.At >= p.before || r.Held || r.Open:
			case newest:
				p.went.Kept++
			default:
				p.jobs = append(p.jobs, r.Spec.ID)
			}
		}
	}
}

// forgetting is how many deletions are asked for at once: the engine stores those that come together as one.
const forgetting = 128

// forget has the engine delete what was chosen, by its own rules.
func (p *pruner) forget(ctx context.Context, q *queue.Queue) error {
	err := p.each(p.builds, func(id job.ID) error { return q.DeleteBuild(ctx, id) }, func(job.ID) { p.went.Builds++ })
	if err != nil {
		return fmt.Errorf("forget a run: %w", err)
	}
	err = p.each(p.jobs, func(id job.ID) error { return q.DeleteJob(ctx, id) }, func(id job.ID) {
		p.went.Jobs++
		p.forgetLogs(id)
	})
	if err != nil {
		return fmt.Errorf("forget a job: %w", err)
	}
	return nil
}

// each deletes many at once. What is needed after all stays.
func (p *pruner) each(ids []job.ID, remove func(job.ID) error, gone func(job.ID)) error {
	type result struct {
		id  job.ID
		err error
	}
	asked, told := make(chan job.ID), make(chan result)
	var askers sync.WaitGroup
	for range min(forgetting, len(ids)) {
		askers.Go(func() {
			for id := range asked {
				told <- result{id, remove(id)}
			}
		})
	}
	askers.Go(func() {
		defer close(asked)
		for _, id := range ids {
			asked <- id
		}
	})
	var first error
	for range ids {
		switch r := <-told; {
		case r.err == nil:
			gone(r.id)
		case errors.Is(r.err, job.ErrBusy):
			p.went.Busy++
		case first == nil && !errors.Is(r.err, queue.ErrNotFound):
			first = r.err
		}
	}
	askers.Wait()
	return first
}

// forgetLogs removes the logs of a job. What cannot be removed is left: it is of no harm.
func (p *pruner) forgetLogs(id job.ID) {
	if p.place.dir == "" {
		return
	}
	for n := int32(1); ; n++ {
		path := filepath.Join(p.place.logs(), worker.LogPath(id, n))
		info, err := os.Stat(path)
		if err != nil {
			return
		}
		if p.dryRun || os.Remove(path) == nil {
			p.went.Logs++
			p.went.Bytes += info.Size()
		}
	}
}

// tell says what went.
func (p *pruner) tell(out *bufio.Writer) error {
	if p.json {
		return json.NewEncoder(out).Encode(p.went)
	}
	word := "forgot"
	if p.dryRun {
		word = "would forget"
	}
	w := &p.went
	_, err := fmt.Fprintf(out, "%s %s and %s, with %s of %s\n", word, progress.Count(w.Builds, "run"), progress.Count(w.Jobs, "job"),
		progress.Count(w.Logs, "log"), progress.Count(int(w.Bytes), "byte"))
	if err == nil && w.Kept > 0 {
		_, err = fmt.Fprintf(out, "%s that the next run can use %s (--all gives them up, too)\n", progress.Count(w.Kept, "old job"), stays(w.Kept))
	}
	if err == nil && w.Busy > 0 {
		_, err = fmt.Fprintf(out, "%s that unfinished ones may read %s\n", progress.Count(w.Busy, "job"), stays(w.Busy))
	}
	return err
}

func stays(n int) string {
	if n == 1 {
		return "stays"
	}
	return "stay"
}
