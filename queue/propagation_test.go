package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
	"github.com/headrace/headrace/store/memory"
)

// mortal is a store whose owner dies before its n-th commit from now.
type mortal struct {
	queue.Store
	mu   sync.Mutex
	left int // -1: it lives
}

func (m *mortal) Commit(ctx context.Context, b *queue.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == 0 {
		return queue.ErrFenced
	}
	if m.left > 0 {
		m.left--
	}
	return m.Store.Commit(ctx, b)
}

func (m *mortal) dieAfter(n int) {
	m.mu.Lock()
	m.left = n
	m.mu.Unlock()
}

// life is one owner of a disk.
type life struct {
	*queue.Queue
	store *mortal
	over  chan error
	stop  context.CancelFunc
}

func live(t *testing.T, d *memory.Disk) *life {
	t.Helper()
	s := d.Open()
	m := &mortal{Store: s, left: -1}
	q, err := queue.Open(queue.Config{Store: m, History: s})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	l := &life{q, m, make(chan error, 1), stop}
	go func() { l.over <- q.Run(ctx) }()
	return l
}

// The end of a job reaches thousands of dependents over several rounds; an owner that dies between two of them
// leaves nobody waiting.
func TestLongPropagationSurvivesADeathBetweenItsRounds(t *testing.T) {
	t.Parallel()
	const dependents = 9000
	for _, c := range []struct {
		name    string
		outcome job.Outcome
		deaths  int // after so many commits, counted from the finish
	}{
		{"failed, at once", job.Failed, 1},
		{"failed, later", job.Failed, 2},
		{"failed, at the end", job.Failed, 3},
		{"succeeded", job.Succeeded, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := memory.NewDisk()
			l := live(t, d)
			s := queue.Submission{Build: &job.Build{Name: "wide"}, Jobs: []job.Spec{{ID: l.NewID(), Kind: "root"}}}
			for i := range dependents {
				id := l.NewID()
				s.Jobs = append(s.Jobs, job.Spec{ID: id, Name: fmt.Sprint(i), Kind: "leaf", Needs: []job.Need{{Job: s.Jobs[0].ID}}})
				s.Refs = append(s.Refs, job.Ref{Job: id})
			}
			receipt, err := l.Submit(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			w := job.Worker{Name: "w", Channels: []string{""}, Kinds: []string{"root", "leaf"}, Slots: 1, Session: l.NewID()}
			if err := l.Register(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			got, err := l.Lease(t.Context(), "w", w.Session, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			l.store.dieAfter(c.deaths)
			report := job.Report{Lease: got[0].Lease, Outcome: c.outcome}
			if err := l.Finish(t.Context(), report); err != nil {
				t.Fatal(err)
			}
			// Any further round, of its own or of this command, meets the death.
			for err == nil {
				err = l.SetChannel(t.Context(), job.DefaultChannel("other"))
			}
			if err := <-l.over; !errors.Is(err, queue.ErrFenced) {
				t.Fatalf("the first owner ended with %v", err)
			}

			l = live(t, d)
			defer func() { l.stop(); <-l.over }()
			if c.outcome == job.Succeeded {
				for behind := true; behind; {
					err := l.Inspect(t.Context(), func(m *job.Machine, _ *sched.Scheduler) { behind = m.Behind() })
					if err != nil {
						t.Fatal(err)
					}
				}
				recs, err := l.History.Jobs(t.Context(), queue.JobFilter{Kind: "leaf", State: "Blocked", Limit: 10})
				if err != nil || len(recs) > 0 {
					t.Errorf("%d jobs still wait, %v", len(recs), err)
				}
				if e, err := l.Why(t.Context(), s.Jobs[dependents].ID); err != nil || e.State != "Ready" {
					t.Errorf("the last dependent is %q, %v", e.State, err)
				}
				return
			}
			b, err := l.AwaitBuild(t.Context(), receipt.Build)
			if err != nil || b.Outcome != job.DependencyFailed {
				t.Fatalf("the build ended %v, %v", b.Outcome, err)
			}
			recs, err := l.History.Jobs(t.Context(), queue.JobFilter{Kind: "leaf", Outcome: job.DependencyFailed, Limit: 10_000})
			if err != nil || len(recs) != dependents {
				t.Fatalf("%d dependents ended, %v; want %d", len(recs), err, dependents)
			}
			for _, r := range recs {
				if r.End.Root != s.Jobs[0].ID || r.End.RootOutcome != job.Failed {
					t.Fatalf("root %s %v", r.End.Root, r.End.RootOutcome)
				}
			}
		})
	}
}
