package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// names is what to ask a store about.
type names struct {
	jobs, builds, requests []job.ID
	identities             []job.Identity
	likenesses             []job.Likeness
	series                 []job.Series
	filters                []queue.JobFilter
}

// answers is all that a store says.
type answers struct {
	Head       queue.Head
	Load       []job.Change
	Found      queue.Found
	Feed       []queue.Round
	Lists      [][]job.Record
	Builds     [][]job.BuildRecord
	Refs       map[job.ID][]job.Ref
	Attempts   map[job.ID][]job.AttemptEnd
	Payloads   map[job.ID]queue.Payload
	Dependents map[job.ID][]job.ID
}

// ask asks a store everything.
func ask(t fataler, ctx context.Context, s Store, n *names) *answers {
	t.Helper()
	a := &answers{
		Refs: map[job.ID][]job.Ref{}, Attempts: map[job.ID][]job.AttemptEnd{}, Payloads: map[job.ID]queue.Payload{},
		Dependents: map[job.ID][]job.ID{},
	}
	var err error
	check := func(what string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	a.Head, err = s.Load(ctx, func(c job.Change) error { a.Load = append(a.Load, c); return nil })
	check("Load")
	found, err := s.Lookup(ctx, &queue.Query{
		Jobs: n.jobs, Builds: n.builds, Requests: n.requests, Kept: n.likenesses, Cached: n.identities, Took: n.series,
	})
	check("Lookup")
	a.Found = *found
	a.Feed, err = s.Feed(ctx, 0, 1_000_000)
	check("Feed")
	for _, f := range n.filters {
		list, lerr := s.Jobs(ctx, f)
		err = lerr
		check("Jobs")
		a.Lists = append(a.Lists, list)
	}
	for _, f := range []queue.BuildFilter{
		{},
		{Live: true},
		{IDs: n.builds, Limit: 2},
		{Before: a.Head.Seq},
		{Name: "build 3"},
		{Name: "build 2", Live: true},
		{Name: "build 4", IDs: n.builds, Before: a.Head.Seq},
	} {
		list, lerr := s.Builds(ctx, f)
		err = lerr
		check("Builds")
		a.Builds = append(a.Builds, list)
	}
	for _, id := range n.builds {
		a.Refs[id], err = s.Refs(ctx, id)
		check("Refs")
	}
	for _, id := range n.jobs {
		a.Attempts[id], err = s.Attempts(ctx, id)
		check("Attempts")
		a.Dependents[id], err = s.Dependents(ctx, id)
		check("Dependents")
		p, perr := s.Payload(ctx, id)
		if err = perr; !errors.Is(err, queue.ErrNotFound) {
			check("Payload")
			a.Payloads[id] = p
		}
	}
	return a
}

// fataler is what testing and rapid have in common.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// diff compares; a list that is empty and one that is not there are the same.
func diff(want, got any) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateErrors())
}

// same reports what got has else than want.
func same(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// load gives what Load does.
func load(t testing.TB, s Store) (queue.Head, []job.Change) {
	t.Helper()
	var changes []job.Change
	h, err := s.Load(t.Context(), func(c job.Change) error { changes = append(changes, c); return nil })
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return h, changes
}

func lookup(t testing.TB, s Store, q *queue.Query) *queue.Found {
	t.Helper()
	f, err := s.Lookup(t.Context(), q)
	if err != nil {
		t.Fatalf("Lookup: %v", err)
	}
	return f
}

func jobs(t testing.TB, s Store, f queue.JobFilter) []job.Record {
	t.Helper()
	list, err := s.Jobs(t.Context(), f)
	if err != nil {
		t.Fatalf("Jobs(%+v): %v", f, err)
	}
	return list
}

func refs(t testing.TB, s Store, build job.ID) []job.Ref {
	t.Helper()
	list, err := s.Refs(t.Context(), build)
	if err != nil {
		t.Fatalf("Refs: %v", err)
	}
	return list
}

func attempts(t testing.TB, s Store, id job.ID) []job.AttemptEnd {
	t.Helper()
	list, err := s.Attempts(t.Context(), id)
	if err != nil {
		t.Fatalf("Attempts: %v", err)
	}
	return list
}

func payload(t testing.TB, s Store, id job.ID) queue.Payload {
	t.Helper()
	p, err := s.Payload(t.Context(), id)
	if err != nil {
		t.Fatalf("Payload: %v", err)
	}
	return p
}
