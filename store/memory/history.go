package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

var stateWords = [...]string{
	blocked: job.Blocked{}.String(), ready: job.Ready{}.String(), running: job.Running{}.String(), done: job.Done{}.String(),
}

// reading runs f with the disk held still.
func (s *Store) reading(ctx context.Context, what string, f func(d *Disk)) error {
	s.disk.mu.RLock()
	defer s.disk.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	f(s.disk)
	return nil
}

// Jobs implements queue.History.
func (s *Store) Jobs(ctx context.Context, f queue.JobFilter) ([]job.Record, error) {
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	var found []job.Record
	err := s.reading(ctx, "list jobs", func(d *Disk) {
		for _, r := range d.newest(f.IDs) {
			if _, ok := d.refAt.get(refKey{f.Build, r.id}); !ok && !f.Build.IsZero() || !r.passes(&f) || d.unseen(r, &f) {
				continue
			}
			rec, _, err := r.record(d.sealed)
			if err != nil || !specPasses(&rec.Spec, &f) {
				continue
			}
			if rec.LastEnd != nil {
				rec.LastEnd.Result = nil
			}
			if f.Args {
				rec.Spec.Args = copied(r.args)
			}
			if found = append(found, *rec); len(found) == queue.PageLimit(f.Limit) {
				return
			}
		}
	})
	return found, err
}

// newest gives the jobs of these ids, or all if there are none, newest first.
func (d *Disk) newest(ids []job.ID) []*row {
	var list []*row
	if len(ids) == 0 {
		for _, r := range d.jobs.rows {
			list = append(list, r)
		}
	}
	for _, id := range ids {
		if r := d.job(id); r != nil {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *row) int { return cmp.Compare(b.seq, a.seq) })
	return slices.CompactFunc(list, func(a, b *row) bool { return a == b })
}

// unseen reports whether the job was made for a build that is staged, and is not asked for by its id or by a build.
func (d *Disk) unseen(r *row, f *queue.JobFilter) bool {
	b, ok := d.builds.get(r.staging)
	return ok && b.Staged && len(f.IDs) == 0 && f.Build.IsZero()
}

func (r *row) passes(f *queue.JobFilter) bool {
	switch {
	case f.Before != 0 && r.seq >= f.Before,
		f.State != "" && f.State != stateWords[r.state],
		f.Outcome != 0 && (r.end == nil || r.end.Outcome != f.Outcome),
		f.Worker != "" && f.Worker != r.worker,
		!within(r.at, f.After, f.Until):
		return false
	}
	return true
}

// within reports whether a moment lies between two, of which each may be none.
func within(at, after, until job.Time) bool {
	return (after == 0 || at >= after) && (until == 0 || at < until)
}

func specPasses(s *job.Spec, f *queue.JobFilter) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(f.Channel, s.Channel) && is(f.Kind, s.Kind) && is(f.Name, s.Name) && is(f.Key, s.Key) && strings.HasPrefix(s.Name, f.Prefix)
}

// Builds implements queue.History.
func (s *Store) Builds(ctx context.Context, f queue.BuildFilter) ([]job.BuildRecord, error) {
	if err := f.Check(); err != nil {
		return nil, fmt.Errorf("list builds: %w", err)
	}
	var found []job.BuildRecord
	err := s.reading(ctx, "list builds", func(d *Disk) {
		for _, b := range d.builds.rows {
			switch {
			case b.Staged, b.bad,
				f.Before != 0 && b.Seq >= f.Before,
				len(f.IDs) > 0 && !slices.Contains(f.IDs, b.Build.ID),
				!f.Job.IsZero() && !slices.ContainsFunc(d.refs(b), func(r job.Ref) bool { return r.Job == f.Job }),
				f.Name != "" && f.Name != b.Build.Name,
				!strings.HasPrefix(b.Build.Name, f.Prefix),
				f.Outcome != 0 && f.Outcome != b.Outcome,
				!within(b.At, f.After, f.Until),
				f.Live && b.Outcome != 0:
				continue
			}
			found = append(found, copyBuild(&b.BuildRecord))
		}
	})
	slices.SortFunc(found, func(a, b job.BuildRecord) int { return cmp.Compare(b.Seq, a.Seq) })
	return found[:min(len(found), queue.PageLimit(f.Limit))], err
}

// Refs implements queue.History.
func (s *Store) Refs(ctx context.Context, id job.ID) ([]job.Ref, error) {
	var refs []job.Ref
	err := s.reading(ctx, "list references", func(d *Disk) {
		if b, ok := d.builds.get(id); ok {
			refs = d.refs(b)
		}
	})
	return refs, err
}

// Attempts implements queue.History.
func (s *Store) Attempts(ctx context.Context, id job.ID) ([]job.AttemptEnd, error) {
	var ended []job.AttemptEnd
	err := s.reading(ctx, "list attempts", func(d *Disk) {
		if r := d.job(id); r != nil {
			for i := range r.ended {
				if !r.ended[i].bad {
					ended = append(ended, copyAttemptEnd(&r.ended[i].AttemptEnd))
				}
			}
		}
	})
	return ended, err
}

// Payload implements queue.History.
func (s *Store) Payload(ctx context.Context, id job.ID) (queue.Payload, error) {
	var p queue.Payload
	var r *row
	err := s.reading(ctx, "read payload", func(d *Disk) {
		if r = d.job(id); r != nil {
			p = queue.Payload{Args: copied(r.args), Result: copied(r.result)}
		}
	})
	if err == nil && r == nil {
		err = fmt.Errorf("job %s: %w", id, queue.ErrNotFound)
	}
	return p, err
}

// CachedFailures implements queue.Failures.
func (s *Store) CachedFailures(ctx context.Context, f queue.FailureFilter) ([]job.FailureCached, error) {
	var found []job.FailureCached
	err := s.reading(ctx, "list cached failures", func(d *Disk) {
		start := f.Start()
		for _, i := range sorted(d.cached.rows, compareIdentities) {
			if has, _ := f.Has(i); !has || compareIdentities(i, start) <= 0 {
				continue
			}
			if v, err := codec.DecodeFailure(d.cached.rows[i]); err == nil && len(found) < queue.PageLimit(f.Limit) {
				found = append(found, v)
			}
		}
	})
	return found, err
}

func compareIdentities(a, b job.Identity) int {
	return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key))
}

// Dependents implements queue.History. It reads every job: this store keeps no reverse edges.
func (s *Store) Dependents(ctx context.Context, id job.ID) ([]job.ID, error) {
	var ids []job.ID
	err := s.reading(ctx, "list dependents", func(d *Disk) {
		for _, seq := range sorted(d.jobs.rows, cmp.Compare[int64]) {
			if r := d.jobs.rows[seq]; slices.Contains(r.needs, id) {
				ids = append(ids, r.id)
			}
		}
	})
	return ids, err
}
