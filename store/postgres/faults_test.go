package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
)

// A connection that is cut at any byte of a commit, either way, leaves the batch whole or not at all; the owner finds out
// which, and goes on.
func TestConnectionCutInCommit(t *testing.T) {
	t.Parallel()
	c := pgtest.Shared(t)
	p, err := c.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := postgres.Open(t.Context(), p.URL(pgtest.Name(database(t))), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // its database goes away
	number := uint64(0)
	// Each batch ends the last one's job, which it reads first, and adds one.
	batch := func() *queue.Batch {
		number++
		b := &queue.Batch{Number: number, At: job.Time(number)}
		if number > 1 {
			id := cutID(number - 1)
			b.Changes = append(b.Changes, job.JobEnded{Job: id, Seq: int64(number) - 1, End: job.End{At: b.At, Outcome: job.Cancelled}})
		}
		r := job.Record{Seq: int64(number), At: b.At, Spec: job.Spec{ID: cutID(number), Channel: "main", Kind: "test"}, Own: &job.Own{}}
		b.Changes = append(b.Changes, job.JobAdded{Record: r})
		b.Answers = []queue.Answer{{Request: cutID(number), Reply: []byte("yes")}}
		return b
	}
	var length [2]int64
	for range 8 { // until all statements are prepared
		before := [2]int64{p.Passed(pgtest.ToServer), p.Passed(pgtest.ToClient)}
		if err := s.Commit(t.Context(), batch()); err != nil {
			t.Fatal(err)
		}
		for d := range length {
			length[d] = p.Passed(pgtest.Direction(d)) - before[d]
		}
	}
	there, absent := 0, 0
	for d, n := range length {
		step := max(1, n/24)
		for at := int64(1); at <= n; at += step {
			p.CutAfter(pgtest.Direction(d), at)
			b := batch()
			err := s.Commit(t.Context(), b)
			if err == nil {
				p.Cut() // it was shorter this time
				continue
			}
			if errors.Is(err, queue.ErrFenced) {
				t.Fatalf("cut after byte %d of %d, way %d: %v", at, n, d, err)
			}
			ok, err := s.Committed(t.Context(), b.Number)
			if err != nil {
				t.Fatalf("cut after byte %d of %d, way %d: look: %v", at, n, d, err)
			}
			if ok {
				there++
				continue
			}
			absent++
			if err := s.Commit(t.Context(), b); err != nil {
				t.Fatalf("cut after byte %d of %d, way %d: again: %v", at, n, d, err)
			}
		}
	}
	if there == 0 || absent == 0 {
		t.Errorf("%d batches were there after a cut and %d were not; both must have happened", there, absent)
	}
	var live []string
	head, err := s.Load(t.Context(), func(c job.Change) error {
		live = append(live, fmt.Sprint(c.(job.JobAdded).Spec.ID))
		return nil
	})
	if err != nil || head.Number != number || len(live) != 1 || live[0] != fmt.Sprint(cutID(number)) {
		t.Errorf("the store stands at %d with %v (%v), want %d with the last job alone", head.Number, live, err, number)
	}
}

func cutID(n uint64) job.ID { return job.ID{0: 'c', 14: byte(n >> 8), 15: byte(n)} }
