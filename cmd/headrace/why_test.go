package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
	"github.com/headrace/headrace/store/sqlite"
	"github.com/headrace/headrace/worker"
)

func TestWhySaysWhatAPauseIsFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last attemptView
		want string
	}{
		"interrupts": {
			attemptView{Number: 4, Outcome: job.Aborted.String(), Detail: job.HandedBack.String(), Message: killedNote},
			progress.PauseAfterInterrupts,
		},
		"fault": {attemptView{Number: 4, Outcome: job.Aborted.String(), Message: "exit code 7"}, "after attempt 4: aborted: exit code 7"},
	} {
		a := answer{Attempts: []attemptView{{Number: 3}, c.last}}
		r := sched.Reason{What: sched.BacksOff, Until: time.Now()}
		a.plain(&r)
		if !strings.HasPrefix(r.Text, "waits until ") || !strings.HasSuffix(r.Text, ", "+c.want) {
			t.Errorf("%s: told as %q", name, r.Text)
		}
	}
}

// read counts what a reader of a store gives.
type read struct {
	*sqlite.Store
	changes, jobs int
}

func (r *read) Load(ctx context.Context, fn func(job.Change) error) (queue.Head, error) {
	return r.Store.Load(ctx, func(c job.Change) error { r.changes++; return fn(c) })
}

func (r *read) Jobs(ctx context.Context, f queue.JobFilter) ([]job.Record, error) {
	list, err := r.Store.Jobs(ctx, f)
	r.jobs += len(list)
	return list, err
}

// Why a job is blocked is told from what it waits for, who has its identity, workers and builds, however many other jobs wait; and
// it is what is told from all that is stored.
func TestWhyReadsWhatItNeeds(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	q, err := queue.Open(queue.Config{Store: store, History: store})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := q.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	w := job.Worker{Name: "w", Channels: []string{""}, Kinds: []string{worker.CommandKind}, Slots: 3, Session: q.NewID()}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(q.Register(ctx, w))
	spec := func(name, key string, needs ...job.ID) job.Spec {
		s := job.Spec{ID: q.NewID(), Kind: worker.CommandKind, Name: name, Key: key}
		for _, n := range needs {
			s.Needs = append(s.Needs, job.Need{Job: n})
		}
		return s
	}
	submit := func(b job.Build, jobs ...job.Spec) {
		s := queue.Submission{Build: &b, Jobs: jobs}
		for _, j := range jobs {
			s.Refs = append(s.Refs, job.Ref{Job: j.ID})
		}
		_, err := q.Submit(ctx, s)
		must(err)
	}
	lease := func() queue.Assignment {
		got, err := q.Lease(ctx, w.Name, w.Session, 1, 0)
		must(err)
		return got[0]
	}
	old := spec("stopping", "twin")
	submit(job.Build{Name: "old"}, old)
	lease()
	must(q.CancelJob(ctx, old.ID, job.ID{}, true, "enough"))
	twin := spec("twin", "twin")
	runs, faulty, done := spec("runs", "runs"), spec("faulty", "faulty"), spec("done", "done")
	submit(job.Build{Name: "b", Priority: 1}, runs)
	lease()
	submit(job.Build{Name: "c", Priority: 2}, faulty)
	a := lease()
	must(q.Finish(ctx, job.Report{Lease: a.Lease, Outcome: job.Aborted, Message: "no room"}))
	submit(job.Build{Name: "d", Priority: 3}, done)
	must(q.Finish(ctx, job.Report{Lease: lease().Lease, Outcome: job.Succeeded}))
	ready, elsewhere := spec("ready", "ready"), spec("elsewhere", "elsewhere")
	elsewhere.System = "riscv64-linux"
	blocked := spec("blocked", "blocked", runs.ID, ready.ID, done.ID, faulty.ID)
	far, unsupported := spec("far", "far", blocked.ID), spec("unsupported", "unsupported", runs.ID)
	unsupported.System = "riscv64-linux"
	submit(job.Build{Name: "e"}, ready, elsewhere, blocked, far, unsupported, twin)
	const others = 300
	chain := []job.Spec{spec("other", "", runs.ID)}
	for len(chain) < others {
		chain = append(chain, spec("other", "", chain[len(chain)-1].ID))
	}
	submit(job.Build{Name: "others"}, chain...)
	stop()
	running.Wait()

	for _, j := range []job.Spec{blocked, far, twin, faulty, unsupported, ready, elsewhere, chain[others-1]} {
		sameWhy(t, store, &j)
	}
}

// sameWhy compares what is told of a job from its surroundings with what is told from all that is stored, and counts what was read.
func sameWhy(t *testing.T, store *sqlite.Store, s *job.Spec) {
	t.Helper()
	recs, err := store.Jobs(t.Context(), queue.JobFilter{IDs: []job.ID{s.ID}})
	if err != nil || len(recs) != 1 {
		t.Fatalf("%s: %d jobs, %v", s.Name, len(recs), err)
	}
	now := job.At(time.Now())
	explain := func(h storeReader, part *surroundings) sched.Explanation {
		m, err := load(t.Context(), h, now, part)
		if err != nil {
			t.Fatal(err)
		}
		j, ok := m.Job(s.ID)
		if !ok {
			t.Fatalf("%s is not there", s.Name)
		}
		return sched.New(m).Why(j, now)
	}
	part := &read{Store: store}
	got, want := explain(part, around(&recs[0])), explain(store, nil)
	if recs[0].Ready { // what goes first is not looked at
		got.Reasons, want.Reasons, want.Ahead, want.Start, got.Start = nil, nil, 0, time.Time{}, time.Time{}
	}
	got.Nearest, want.Nearest = nil, nil // nor who is busy with what
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-by all, +by a part):\n%s", s.Name, diff)
	}
	// Workers, classes, usage and builds come before jobs, of which one is begun; its twin and itself come with what it needs.
	if changes, jobs := 15, 2+len(s.Needs); part.changes > changes || part.jobs > jobs {
		t.Errorf("%s: read %d changes and %d jobs, want at most %d and %d", s.Name, part.changes, part.jobs, changes, jobs)
	}
}
