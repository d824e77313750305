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
	"slices"
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
results and logs; of a store in PostgreSQL the logs go only where FILE is named, and of those only the ones beside it. What an unfinished job may read stays, and so does the newest success of each job (by its name, or its key
if it has none), which serves the next run; --all gives those up, too. Nobody may be using the store meanwhile, but for --dry-run,
which tells what would go.

With --json it is one object: builds, jobs, logs and bytes that went, kept (successes that stay), busy (jobs that stay as they are needed).

` + exitHelp,
		Example: `  headrace prune build.yaml --keep 20
  headrace prune build.yaml --older-than 30d --dry-run`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := addressOf(args, o.store)
			if err != nil {
				return err
			}
			age, keep := cmd.Flags().Changed("older-than"), cmd.Flags().Changed("keep")
			if !age && !keep {
				return usage("say with --older-than or --keep what is to go")
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
	storeVar(cmd.Flags(), &o.store, "store", storeUse)
	spanVar(cmd.Flags(), &o.older, "older-than", 0, "forget what ended so long ago, as in 30d or 12h")
	wholeVar(cmd.Flags(), &o.keep, "keep", "", 0, 0, math.MaxInt32, "keep the newest `N` runs")
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
	return p.forget(ctx, s)
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

// forgetting is how many deletions are stored at once.
const forgetting = 1000

// forget deletes what was chosen, by the rules of the engine, which does not run: to what is unfinished nothing happens, however
// long it takes. The leases of a run that was killed do not run out, and no limit is judged.
func (p *pruner) forget(ctx context.Context, s ownedStore) error {
	now := job.At(time.Now())
	m := job.New(now)
	head, err := s.Load(ctx, m.Apply)
	if err != nil {
		return err
	}
	m.Restore(head.Seq)
	m.Loaded(now)
	b := queue.Batch{Number: head.Number}
	take := func(changes []job.Change, err error) {
		if err != nil {
			p.went.Busy++ // it is needed after all
		}
		b.Changes = append(b.Changes, changes...)
	}
	facts := &job.Facts{Builds: map[job.ID]*job.BuildRecord{}, Jobs: map[job.ID]*job.Record{}}
	for part := range slices.Chunk(p.builds, forgetting) {
		for _, id := range part {
			facts.Builds[id] = &job.BuildRecord{} // find saw it, and nobody else has the store
			take(m.DeleteBuild(id, facts))
		}
		p.went.Builds += len(b.Changes)
		if err := commit(ctx, s, &b); err != nil {
			return fmt.Errorf("forget runs: %w", err)
		}
	}
	for part := range slices.Chunk(p.jobs, forgetting) {
		for _, id := range part {
			dependents, err := s.Dependents(ctx, id)
			if err != nil {
				return err
			}
			facts.Jobs[id] = &job.Record{}
			take(m.DeleteJob(id, dependents, facts))
		}
		gone := b.Changes
		if err := commit(ctx, s, &b); err != nil {
			return fmt.Errorf("forget jobs: %w", err)
		}
		p.went.Jobs += len(gone)
		for _, c := range gone {
			p.forgetLogs(c.(job.JobDeleted).Job)
		}
	}
	return nil
}

// commit stores the changes of a batch, and makes it the next.
func commit(ctx context.Context, s queue.Store, b *queue.Batch) error {
	if len(b.Changes) == 0 {
		return nil
	}
	b.Number, b.At = b.Number+1, job.At(time.Now())
	err := s.Commit(ctx, b)
	b.Changes = nil
	return err
}

// forgetLogs removes the logs of a job, and the folder that then is empty. What cannot be removed is left: it is of no harm.
func (p *pruner) forgetLogs(id job.ID) {
	if p.place.dir == "" {
		return
	}
	for n := int32(1); ; n++ {
		path := filepath.Join(p.place.logs(), worker.LogPath(id, n))
		info, err := os.Stat(path)
		if err != nil {
			if n > 1 && !p.dryRun {
				_ = os.Remove(filepath.Dir(path))
			}
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
	if w.Builds+w.Jobs+w.Kept+w.Busy == 0 {
		_, err := fmt.Fprintln(out, "nothing to forget")
		return err
	}
	_, err := fmt.Fprintf(out, "%s %s and %s, with %s of %s\n", word, progress.Count(w.Builds, "run"), progress.Count(w.Jobs, "job"),
		progress.Count(w.Logs, "log"), progress.Count(int(w.Bytes), "byte"))
	if err == nil && p.place.dir == "" && w.Jobs > 0 {
		_, err = fmt.Fprintln(out, "the logs are beside the graph file, in .headrace/NAME/logs of each machine that ran it, and stay; to have those here go, too, name FILE")
	}
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
