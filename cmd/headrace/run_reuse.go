package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker"
)

// lookup is the part of a store that knows what happened before.
type lookup interface {
	queue.History
	Lookup(ctx context.Context, q *queue.Query) (*queue.Found, error)
}

// page is how many jobs one look-up asks about.
const page = 2000

// past is what earlier runs left for the jobs of a graph, by index.
type past struct {
	// kept successes serve instead of a new run; zero: none does.
	kept []job.ID
	// seqs are their places in the order in which jobs were asked for.
	seqs []int64
	// twins are unfinished jobs of a run that was stopped, which this run goes on with; zero: none.
	twins []job.ID
	// stale are unfinished jobs, too, but what they waited for is run again: they have to go.
	stale []job.ID
	// waiting are those of the twins that are not to be tried again at once.
	waiting map[job.ID]*job.Record
	// notes say what is run again, and why.
	notes []note
}

type note struct {
	index int
	text  string
}

// recall finds out what need not be run again. A success serves if no job of its name has run since, its outputs are as it
// left them, and nothing that the job waits for has run since or is run again. With fresh, no success serves.
func recall(ctx context.Context, s lookup, w *work, fresh bool) (*past, error) {
	p := &past{
		kept: make([]job.ID, len(w.Jobs)), seqs: make([]int64, len(w.Jobs)), twins: make([]job.ID, len(w.Jobs)),
		waiting: map[job.ID]*job.Record{},
	}
	if !fresh {
		if err := p.findKept(ctx, s, w); err != nil {
			return nil, err
		}
	}
	if err := p.dropOvertaken(ctx, s, w); err != nil {
		return nil, err
	}
	if err := p.findSeqs(ctx, s); err != nil {
		return nil, err
	}
	if err := p.findTwins(ctx, s, w); err != nil {
		return nil, err
	}
	// What a job waits for comes before it.
	for i := range w.Jobs {
		if err := p.judge(ctx, s, w, i); err != nil {
			return nil, err
		}
	}
	p.notes = append(p.notes, w.rivals()...)
	return p, nil
}

// rivals tells of jobs that name one file as their output: each changes what the other left, so that one is run again each time.
// Globs are not compared, and each file is told once.
func (w *work) rivals() (notes []note) {
	makers := map[string]int{}
	told := map[string]bool{}
	for i := range w.Jobs {
		for _, output := range w.Jobs[i].Outputs {
			if strings.ContainsAny(output, `*?[\`) {
				continue
			}
			path := filepath.Join(w.dir(i), output)
			first, ok := makers[path]
			switch {
			case !ok:
				makers[path] = i
			case first != i && !told[path]:
				told[path] = true
				notes = append(notes, note{i, fmt.Sprintf("%s and %s have the same output, %s: each is run again whenever the other has changed it",
					w.Jobs[first].Name, w.Jobs[i].Name, output)})
			}
		}
	}
	return notes
}

func (p *past) findKept(ctx context.Context, s lookup, w *work) error {
	for from := 0; from < len(w.Jobs); from += page {
		var q queue.Query
		to := min(from+page, len(w.Jobs))
		for i := from; i < to; i++ {
			q.Kept = append(q.Kept, w.likeness(i))
		}
		found, err := s.Lookup(ctx, &q)
		if err != nil {
			return err
		}
		for i := from; i < to; i++ {
			p.kept[i] = found.Kept[w.likeness(i)]
		}
	}
	return nil
}

// Where few are left, or the newest jobs are of other names, each name is asked for by itself.
const (
	fewNames = 100
	ownShare = 10 // one in so many must be of a name that is looked for
)

// dropOvertaken gives up successes after which a job of the same name has run, in whatever form: what it left is no longer
// what the success left, as when an edit is reverted. Of a large graph most have run lately, so that it goes back from the newest
// job while that finds enough; the history may be far longer than the graph.
func (p *past) dropOvertaken(ctx context.Context, s lookup, w *work) error {
	open := map[string]int{} // kept jobs whose name has not come yet
	for i, id := range p.kept {
		if !id.IsZero() {
			open[w.Jobs[i].Name] = i
		}
	}
	f := queue.JobFilter{Kind: worker.CommandKind, Limit: 5 * page}
	for enough := true; enough && len(open) > fewNames; {
		recs, err := s.Jobs(ctx, f)
		if err != nil || len(recs) == 0 {
			return err
		}
		before := len(open)
		for k := range recs {
			f.Before = recs[k].Seq
			p.drop(&recs[k], open, w)
		}
		enough = (before-len(open))*ownShare >= len(recs)
	}
	for i := range w.Jobs {
		name := w.Jobs[i].Name
		f := queue.JobFilter{Kind: worker.CommandKind, Name: name, Limit: 1}
		for _, asked := open[name]; asked; _, asked = open[name] {
			recs, err := s.Jobs(ctx, f)
			if err != nil {
				return err
			}
			if len(recs) == 0 {
				break
			}
			for k := range recs {
				f.Before = recs[k].Seq
				p.drop(&recs[k], open, w)
			}
			f.Limit = min(2*f.Limit, page) // of what never started there may be many
		}
	}
	return nil
}

// drop gives up the success of the name that the job has, if the job is another that has run. Whoever comes first of a name is
// the newest.
func (p *past) drop(r *job.Record, open map[string]int, w *work) {
	i, asked := open[r.Spec.Name]
	if !asked || r.Last == nil {
		return // One that never started has left nothing.
	}
	delete(open, r.Spec.Name)
	if r.Spec.ID == p.kept[i] {
		p.seqs[i] = r.Seq
		return
	}
	p.kept[i] = job.ID{}
	if r.Spec.Key != w.keys[i] {
		p.notes = append(p.notes, note{i, fmt.Sprintf("%s is run again: it has run in another form since it last ran in this one", w.Jobs[i].Name)})
	}
}

// findSeqs looks up those that dropOvertaken did not come upon: a job known by a key of its own may have had another name.
func (p *past) findSeqs(ctx context.Context, s lookup) error {
	var missing []job.ID
	index := map[job.ID]int{}
	for i, id := range p.kept {
		if !id.IsZero() && p.seqs[i] == 0 {
			missing, index[id] = append(missing, id), i
		}
	}
	for ids := range slices.Chunk(missing, page) {
		recs, err := s.Jobs(ctx, queue.JobFilter{IDs: ids, Limit: len(ids)})
		if err != nil {
			return err
		}
		for k := range recs {
			p.seqs[index[recs[k].Spec.ID]] = recs[k].Seq
		}
	}
	return nil
}

// findTwins looks for unfinished jobs. There are some only after a run that was stopped.
func (p *past) findTwins(ctx context.Context, s lookup, w *work) error {
	live, err := s.Builds(ctx, queue.BuildFilter{Live: true, Limit: 1})
	if err != nil || len(live) == 0 {
		return err
	}
	byKey := map[string]job.ID{}
	for _, state := range []job.State{job.Blocked{}, job.Ready{}, job.Running{}} {
		f := queue.JobFilter{Kind: worker.CommandKind, State: state.String(), Limit: page}
		for {
			recs, err := s.Jobs(ctx, f)
			if err != nil {
				return err
			}
			for i := range recs {
				byKey[recs[i].Spec.Key] = recs[i].Spec.ID
				if recs[i].LastEnd != nil && recs[i].Delay > 0 {
					p.waiting[recs[i].Spec.ID] = &recs[i]
				}
				f.Before = recs[i].Seq
			}
			if len(recs) < page {
				break
			}
		}
	}
	for i := range w.Jobs {
		if p.twins[i] = byKey[w.keys[i]]; !p.twins[i].IsZero() {
			// A run with --fresh was stopped: it did not want the earlier success, and it is this run that goes on.
			p.kept[i] = job.ID{}
		}
	}
	return nil
}

// judge decides on one job, after those that it waits for.
func (p *past) judge(ctx context.Context, s lookup, w *work, i int) error {
	again, renewed, changed := false, false, ""
	for _, n := range w.Jobs[i].Needs {
		switch {
		case n.Policy == job.Order:
		case p.kept[n.Job].IsZero():
			again = true
			renewed = renewed || p.twins[n.Job].IsZero()
		case p.seqs[n.Job] > p.seqs[i]:
			// It ran without this one: as another target, or in a run that was stopped before it came to this one.
			changed = fmt.Sprintf("%s, which it needs, has run since", w.Jobs[n.Job].Name)
		}
	}
	if renewed && !p.twins[i].IsZero() {
		p.stale = append(p.stale, p.twins[i])
		p.twins[i] = job.ID{}
	}
	if p.kept[i].IsZero() {
		return nil
	}
	if !again && changed == "" {
		var err error
		if changed, err = outputsChanged(ctx, s, w, i, p.kept[i]); err != nil {
			return err
		}
	}
	if again || changed != "" {
		p.kept[i] = job.ID{}
	}
	if !again && changed != "" {
		p.notes = append(p.notes, note{i, fmt.Sprintf("%s is run again: %s", w.Jobs[i].Name, changed)})
	}
	return nil
}

// outputsChanged compares the outputs of an earlier success with what is there, and says what differs, if anything.
func outputsChanged(ctx context.Context, s lookup, w *work, i int, kept job.ID) (string, error) {
	if len(w.Jobs[i].Outputs) == 0 {
		return "", nil
	}
	payload, err := s.Payload(ctx, kept)
	if err != nil {
		return "", err
	}
	var result worker.CommandResult
	if err := json.Unmarshal(payload.Result, &result); err != nil {
		return "its stored result cannot be read", nil
	}
	for _, o := range result.Outputs {
		path := filepath.Join(w.dir(i), filepath.FromSlash(o.Path))
		sum, err := digest(ctx, path, o.Size)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Sprintf("its output %s is gone", o.Path), nil
		case err != nil:
			return fmt.Sprintf("its output %s cannot be read", o.Path), nil
		case sum != o.SHA256:
			return fmt.Sprintf("its output %s has changed", o.Path), nil
		}
	}
	return "", nil
}

// digest gives the SHA-256 of a regular file, or "" if its size is another one.
func digest(ctx context.Context, path string, size int64) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() != size {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() // Only read from.
	sum := sha256.New()
	for ctx.Err() == nil {
		if _, err := io.CopyN(sum, f, 4<<20); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), ctx.Err()
}

// durations gives how long each job takes, as earlier runs tell; nil if they tell nothing. One that never ran counts as
// the mean of the others.
func durations(ctx context.Context, s lookup, w *work) ([]time.Duration, error) {
	took := make([]time.Duration, len(w.Jobs))
	var sum time.Duration
	known := 0
	for from := 0; from < len(w.Jobs); from += page {
		var q queue.Query
		to := min(from+page, len(w.Jobs))
		for i := from; i < to; i++ {
			q.Took = append(q.Took, w.series(i))
		}
		found, err := s.Lookup(ctx, &q)
		if err != nil {
			return nil, err
		}
		for i := from; i < to; i++ {
			if took[i] = found.Took[w.series(i)]; took[i] > 0 {
				sum += took[i]
				known++
			}
		}
	}
	if known == 0 {
		return nil, nil
	}
	for i := range took {
		if took[i] <= 0 {
			took[i] = max(sum/time.Duration(known), 1)
		}
	}
	return took, nil
}

// paths gives for each job the longest path from its start to the end of the run.
func paths(g *graph.Graph, took []time.Duration) []time.Duration {
	after := make([]time.Duration, len(g.Jobs)) // the longest path behind a job
	out := make([]time.Duration, len(g.Jobs))
	for i := len(g.Jobs) - 1; i >= 0; i-- {
		out[i] = after[i] + took[i]
		for _, n := range g.Jobs[i].Needs {
			if n.Policy != job.Order {
				after[n.Job] = max(after[n.Job], out[i])
			}
		}
	}
	return out
}
