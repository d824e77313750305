package main

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// surroundings are the jobs of which a machine must know to tell why one of them is blocked.
type surroundings struct {
	of       *job.Record
	needs    []job.ID
	identity queue.JobFilter // of those that may be its twin
}

// around gives the surroundings of a job: what it waits for, and who may have its identity still.
func around(rec *job.Record) *surroundings {
	s := &surroundings{of: rec, identity: queue.JobFilter{
		Channel: rec.Spec.Channel, Kind: rec.Spec.Kind, Key: rec.Spec.Key, State: job.Done{}.String(), Limit: 10,
	}}
	for _, n := range rec.Spec.Needs {
		s.needs = append(s.needs, n.Job)
	}
	return s
}

// errEnough ends the reading of a store before its jobs.
var errEnough = errors.New("the jobs are not asked for")

// load gives a machine that knows what is stored; of jobs only the part, unless that is nil.
func load(ctx context.Context, store storeReader, now job.Time, part *surroundings) (*job.Machine, error) {
	m := job.New(now)
	head, err := store.Load(ctx, func(c job.Change) error {
		if _, isJob := c.(job.JobAdded); isJob && part != nil {
			return errEnough
		}
		return m.Apply(c)
	})
	if err == nil || errors.Is(err, errEnough) {
		err = part.load(ctx, store, m)
	}
	if err != nil {
		return nil, err
	}
	m.Restore(head.Seq)
	m.Loaded(now)
	return m, nil
}

// load gives the machine, which knows the live builds, the surroundings as they are now. A job that waits is needed by a build; by
// which, of those that are live, would take a look at all of their jobs, and a run makes none that is not under way.
func (s *surroundings) load(ctx context.Context, h queue.History, m *job.Machine) error {
	if s == nil {
		return nil
	}
	recs, err := h.Jobs(ctx, queue.JobFilter{IDs: []job.ID{s.of.Spec.ID}})
	if err != nil {
		return err
	}
	if len(recs) == 0 || recs[0].End != nil || recs[0].Running {
		return errMoved
	}
	if s.identity.Key != "" {
		twins, err := h.Jobs(ctx, s.identity)
		if err != nil {
			return err
		}
		recs = append(recs, slices.DeleteFunc(twins, func(r job.Record) bool { return !r.Held })...)
	}
	for needs := s.needs; len(needs) > 0; {
		next := needs[:min(len(needs), page)]
		needs = needs[len(next):]
		more, err := h.Jobs(ctx, queue.JobFilter{IDs: next, Limit: page})
		if err != nil {
			return err
		}
		recs = append(recs, more...)
	}
	slices.SortFunc(recs, func(a, b job.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	recs = slices.CompactFunc(recs, func(a, b job.Record) bool { return a.Seq == b.Seq })
	for i := range recs {
		r := &recs[i]
		if r.End != nil && !r.Held && !r.Open {
			continue
		}
		if r.Spec.ID != s.of.Spec.ID {
			r.Spec.Needs = nil
		}
		if err := m.Apply(job.JobAdded{Record: *r}); err != nil {
			return err
		}
	}
	if !s.of.Staging.IsZero() {
		return nil
	}
	for _, b := range m.Builds() {
		if err := m.Apply(job.BuildReferred{Build: b.Build.ID, Refs: []job.Ref{{Job: s.of.Spec.ID}}}); err != nil {
			return err
		}
	}
	return nil
}
