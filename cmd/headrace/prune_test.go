package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
	"github.com/headrace/headrace/worker"
)

// A run was killed long ago: its attempt is over its limit, its lease has run out, and its worker is unknown. What an old run left
// goes; to what is unfinished nothing happens, as that is for the next run to judge.
func TestPruneTouchesNothingThatIsUnfinished(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	store, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := func(n byte) job.ID { return job.ID{15: n} }
	spec := func(n byte, needs ...job.Need) job.Record {
		s := job.Spec{ID: id(n), Kind: worker.CommandKind, Name: string('a' + rune(n)), Needs: needs}
		return job.Record{Spec: s, Seq: int64(n), At: 1}
	}
	build := func(n byte) job.BuildAdded {
		return job.BuildAdded{BuildRecord: job.BuildRecord{Build: job.Build{ID: id(n)}, Seq: int64(n), At: 1, Active: true}}
	}
	ended := func(n byte) job.JobEnded {
		return job.JobEnded{Job: id(n), Seq: int64(n), End: job.End{At: 2, Outcome: job.Cancelled}}
	}
	attempt := job.Attempt{Number: 1, Token: job.Token{1}, Worker: "w", Start: 1, Limits: job.Limits{Timeout: time.Second}}
	changes := []job.Change{
		job.WorkerPut{Worker: job.Worker{Name: "w", Kinds: []string{worker.CommandKind}, Channels: []string{""}, Slots: 1, Session: id(99)}},
		build(1),
		job.JobAdded{Record: spec(2)},
		job.JobAdded{Record: spec(3)},
		ended(2), ended(3),
		job.BuildEnded{Build: id(1), At: 2, Outcome: job.Cancelled, Spare: true},
		build(4),
		job.JobAdded{Record: spec(5)},
		job.JobAdded{Record: spec(6, job.Need{Job: id(3), Policy: job.Finish})},
		job.BuildReferred{Build: id(4), Refs: []job.Ref{{Job: id(5)}, {Job: id(6)}}},
		job.JobReleased{Job: id(5), Seq: 5},
		job.JobStarted{Job: id(5), Seq: 5, Attempt: attempt},
	}
	if err := store.Commit(t.Context(), &queue.Batch{Number: 1, At: 2, Changes: changes}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	a, err := addressOf(nil, path)
	if err != nil {
		t.Fatal(err)
	}
	p := &pruner{before: job.At(time.Now())}
	if err := p.prune(t.Context(), &a); err != nil {
		t.Fatal(err)
	}
	if p.went.Builds != 1 || p.went.Jobs != 1 || p.went.Busy != 1 {
		t.Errorf("%+v went", p.went)
	}
	r, err := sqlite.OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rounds, err := r.Feed(t.Context(), 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	var did []job.Change
	for _, r := range rounds {
		did = append(did, r.Changes...)
	}
	if diff := cmp.Diff([]job.Change{job.BuildDeleted{Build: id(1)}, job.JobDeleted{Job: id(2)}}, did); diff != "" {
		t.Errorf("what prune did (-want +got):\n%s", diff)
	}
}
