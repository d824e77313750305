package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
)

// Q12 (Oban #1259, River #590): a conflict failed the whole statement, and all queues stopped. Here many submissions wait for
// one round, and every third conflicts: those are refused, and the rest go on.
func TestQ12AConflictIsolatesToOneSubmission(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		q, err := queue.Open(queue.Config{Store: s, History: s})
		if err != nil {
			t.Fatal(err)
		}
		const count = 60
		errs := make([]error, count)
		done := make(chan struct{})
		for i := range count {
			go func() {
				j := job.Spec{Name: fmt.Sprintf("j%d", i), Kind: "k", Key: "same", System: "x"}
				if i%3 == 0 {
					j.Key, j.System = fmt.Sprintf("own%d", i), "y"
				}
				if i%3 == 1 {
					j.System = "z"
				}
				_, errs[i] = q.Submit(t.Context(), queue.Submission{Jobs: []job.Spec{j}})
				done <- struct{}{}
			}()
			synctest.Wait() // so that they stand in line in this order
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- q.Run(ctx) }()
		for range count {
			<-done
		}
		if n := q.Round(); n != 1 {
			t.Errorf("%d rounds, want all in one", n)
		}
		for i, err := range errs {
			// The first of the shared key is number 1, which asks for z; those that ask for x conflict.
			var conflict *job.ConflictError
			if want := i%3 == 2; errors.As(err, &conflict) != want || err != nil && !want {
				t.Errorf("submission %d: %v, want a conflict: %t", i, err, want)
			}
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// Q4 in a crowd: thousands of leases that end at one moment, in more rounds than one, are all tried again at that moment.
func TestManyLeasesEndAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		q, err := queue.Open(queue.Config{Store: s, History: s})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- q.Run(ctx) }()
		const count = 2500
		w := job.Worker{Name: "w", Channels: []string{""}, Kinds: []string{"k"}, Slots: 2 * count, Session: q.NewID()}
		if err := q.Register(ctx, w); err != nil {
			t.Fatal(err)
		}
		specs := make([]job.Spec, count)
		for i := range specs {
			specs[i] = job.Spec{Kind: "k"}
		}
		if _, err := q.Submit(ctx, queue.Submission{Jobs: specs}); err != nil {
			t.Fatal(err)
		}
		got, err := q.Lease(ctx, w.Name, w.Session, count, 0)
		if err != nil || len(got) != count {
			t.Fatalf("leased %d, %v", len(got), err)
		}
		<-time.After(job.DefaultTTL)
		synctest.Wait()
		list, err := s.Jobs(ctx, queue.JobFilter{State: "Ready", Limit: 10_000})
		if err != nil || len(list) != count || list[0].Tally.Losses != 1 {
			t.Errorf("%d are Ready again, %v; want %d", len(list), err, count)
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// Hundreds of commands of one round may name the same: the store is asked once for each name.
func TestRoundAsksOnceForEachName(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		asked := job.ID{7}
		submit := func(key string) func() {
			return func() {
				s := job.Spec{Kind: "k", Name: "n", Key: key, Reuse: true}
				_, err := l.Submit(t.Context(), queue.Submission{Jobs: []job.Spec{s, {Kind: "k", Name: "n", Needs: []job.Need{{Job: asked}}}}})
				var invalid *job.InvalidError
				if err != nil && !errors.Is(err, queue.ErrNotFound) && !errors.As(err, &invalid) {
					t.Error(err)
				}
			}
		}
		finish := func() {
			if err := l.succeed(job.Lease{Job: asked, Attempt: 1}); err == nil {
				t.Error("an attempt of no job has ended")
			}
		}
		l.together(submit("a"), submit("a"), submit("b"), finish, finish)
		q := l.query
		if len(q.Took) != 1 || len(q.Kept) != 2 || len(q.Jobs) != 1 || len(q.Leases) != 1 {
			t.Errorf("the store was asked for %+v", q)
		}
	})
}
