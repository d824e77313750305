package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

func testEmpty(t *testing.T, p *place) {
	for range 2 {
		head, changes := load(t, p.Store)
		same(t, "head", queue.Head{}, head)
		same(t, "changes", []job.Change(nil), changes)
		rounds, err := p.Store.Feed(t.Context(), 0, 10)
		if err != nil || len(rounds) != 0 {
			t.Errorf("Feed = %v, %v; want nothing", rounds, err)
		}
		if _, err := p.Store.Payload(t.Context(), jobID(1)); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("Payload of an unknown job: %v, want ErrNotFound", err)
		}
		f := lookup(t, p.Store, &queue.Query{
			Jobs: []job.ID{jobID(1)}, Builds: []job.ID{buildID(1)}, Requests: []job.ID{requestID(1)},
			Leases: []job.Lease{{}}, Kept: []job.Likeness{{}}, Cached: []job.Identity{{}}, Took: []job.Series{{}},
		})
		same(t, "found", &queue.Found{}, f)
		if f.Jobs == nil || f.Answers == nil {
			t.Error("Lookup gives no maps")
		}
		p.reopen(t)
	}
}

func testNumbers(t *testing.T, p *place) {
	ctx := t.Context()
	for _, n := range []uint64{0, 2} {
		if err := p.Store.Commit(ctx, &queue.Batch{Number: n, At: start}); !errors.Is(err, queue.ErrNumber) {
			t.Errorf("first batch with number %d: %v, want ErrNumber", n, err)
		}
	}
	for n := uint64(1); n <= 3; n++ {
		p.commit(t)
		for _, again := range []uint64{n, n + 2} {
			b := &queue.Batch{Number: again, At: start, Changes: []job.Change{added(int64(n))}}
			if err := p.Store.Commit(ctx, b); !errors.Is(err, queue.ErrNumber) {
				t.Errorf("batch %d after %d: %v, want ErrNumber", again, n, err)
			}
		}
		p.reopen(t)
		for look := uint64(0); look <= n+1; look++ {
			got, err := p.Store.Committed(ctx, look)
			if want := look <= n; got != want || err != nil {
				t.Errorf("Committed(%d) after %d = %v, %v; want %v", look, n, got, err, want)
			}
		}
		head, changes := load(t, p.Store)
		same(t, "head", queue.Head{Number: n}, head)
		same(t, "changes", []job.Change(nil), changes)
	}
}

// The greatest seq that was ever given counts, not the last, and not only that of what is still there.
func testGreatestSeq(t *testing.T, p *place) {
	p.commit(t, added(5), added(3), job.BuildAdded{BuildRecord: buildRecord(7)}, job.BuildAdded{BuildRecord: buildRecord(6)})
	p.commit(t, added(4), job.BuildDeleted{Build: buildID(7)})
	p.reopen(t)
	if head, _ := load(t, p.Store); head.Seq != 7 {
		t.Errorf("seq %d, want 7", head.Seq)
	}
}

func testClosed(t *testing.T, p *place) {
	ctx := t.Context()
	p.commit(t, added(1))
	if err := p.Store.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if err := p.Store.Commit(ctx, &queue.Batch{Number: 2, At: start}); err == nil {
		t.Error("Commit after Close: no error")
	}
	if _, err := p.Store.Committed(ctx, 1); err == nil {
		t.Error("Committed after Close: no error")
	}
	p.reopen(t)
	if head, _ := load(t, p.Store); head.Number != 1 || head.Seq != 1 {
		t.Errorf("head after closing and opening = %+v, want number 1 and seq 1", head)
	}
}

// A context that has ended stops a commit before it begins, and a long read at once.
func testContext(t *testing.T, p *place) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Store.Commit(ctx, &queue.Batch{Number: 1, At: start}); !errors.Is(err, context.Canceled) {
		t.Errorf("Commit: %v, want context.Canceled", err)
	}
	if _, err := p.Store.Jobs(ctx, queue.JobFilter{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Jobs: %v, want context.Canceled", err)
	}
	p.commit(t, added(1), added(2), added(3), added(4))
	ctx, cancel = context.WithCancel(t.Context())
	n := 0
	_, err := p.Store.Load(ctx, func(job.Change) error {
		n++
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) || n > 1 {
		t.Errorf("Load whose context ends at the first record: %v after %d records, want context.Canceled after 1", err, n)
	}
	refusal := errors.New("no")
	if _, err := p.Store.Load(t.Context(), func(job.Change) error { return refusal }); !errors.Is(err, refusal) {
		t.Errorf("Load whose function refuses: %v, want its error", err)
	}
}
