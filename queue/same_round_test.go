package queue_test

import (
	"errors"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// What one command of a round does, a later one of the same round knows, though memory has forgotten it and the store has not
// heard of it yet.

func TestReuseOfASuccessOfTheSameRound(t *testing.T) {
	t.Parallel()
	inRounds(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		first := l.submit(job.Spec{Key: "a"})
		a := l.lease(w)
		var again job.Submitted
		l.together(
			func() { l.check(l.succeed(a.Lease)) },
			func() { again = l.submit(job.Spec{Key: "a", Reuse: true}) },
		)
		if again.How != job.Reused || again.ID != first.ID {
			t.Errorf("asked for reuse, got %v", again)
		}
	})
}

func TestNoReuseOfASuccessOnAnotherSystemOfTheSameRound(t *testing.T) {
	t.Parallel()
	inRounds(t, func(t *testing.T, l *lab) {
		w := job.Worker{Name: "w", Channels: []string{""}, Kinds: []string{"k"}, Systems: []string{"x", "y"}, Features: []string{"a", "b"}, Slots: 1, Session: l.NewID()}
		l.must(l.Register(t.Context(), w))
		features := []string{"a", "b"}
		first := l.submit(job.Spec{Key: "a", System: "x", Features: features, CacheFailure: true})
		a := l.lease(w)
		var same, other job.Submitted
		l.together(
			func() { l.check(l.succeed(a.Lease)) },
			func() { same = l.submit(job.Spec{Key: "a", System: "x", Features: features, Reuse: true}) },
			func() { other = l.submit(job.Spec{Key: "a", System: "y", Features: features, Reuse: true}) },
		)
		if same.ID != first.ID || same.How != job.Reused || other.How != job.Created {
			t.Errorf("of %s on system x, the same was told %v, system y %v", first.ID, same, other)
		}
		a = l.lease(w)
		l.together(
			func() { l.check(l.Finish(t.Context(), job.Report{Lease: a.Lease, Outcome: job.Succeeded})) },
			func() { same = l.submit(job.Spec{Key: "a", System: "x", Features: features, Reuse: true}) },
		)
		if same.ID != first.ID || same.How != job.Reused {
			t.Errorf("behind a newer success on system y, it was told %v", same)
		}
	})
}

func TestNoFailureOnAnotherSystemOfTheSameRound(t *testing.T) {
	t.Parallel()
	inRounds(t, func(t *testing.T, l *lab) {
		w := job.Worker{Name: "w", Channels: []string{""}, Kinds: []string{"k"}, Systems: []string{"x"}, Slots: 1, Session: l.NewID()}
		l.must(l.Register(t.Context(), w))
		l.submit(job.Spec{Key: "a", System: "x", CacheFailure: true})
		a := l.lease(w)
		var same, other job.Submitted
		l.together(
			func() { l.check(l.Finish(t.Context(), job.Report{Lease: a.Lease, Outcome: job.Failed})) },
			func() { same = l.submit(job.Spec{Key: "a", System: "x", CacheFailure: true}) },
			func() { other = l.submit(job.Spec{Key: "a", System: "y", CacheFailure: true}) },
		)
		if same.How != job.CachedFailure || other.How != job.Created {
			t.Errorf("the same was told %v, system y %v", same, other)
		}
	})
}

func TestNoReuseOfAJobDeletedInTheSameRound(t *testing.T) {
	t.Parallel()
	inRounds(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		first := l.submit(job.Spec{Key: "a"})
		l.check(l.succeed(l.lease(w).Lease))
		var again job.Submitted
		l.together(
			func() { l.check(l.DeleteJob(t.Context(), first.ID)) },
			func() { again = l.submit(job.Spec{Key: "a", Reuse: true}) },
		)
		if again.How != job.Created || again.ID == first.ID {
			t.Errorf("%v was told %v of %s, which is deleted", again.ID, again.How, first.ID)
		}
	})
}

// A job that was cancelled stays in memory until its worker confirms; then it is as known as any that has ended.
func TestNeedOfAJobFreedInTheSameRound(t *testing.T) {
	t.Parallel()
	inRounds(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		first := l.submit(job.Spec{Key: "a"})
		a := l.lease(w)
		l.must(l.CancelJob(t.Context(), first.ID, job.ID{}, false, ""))
		l.together(
			func() { _ = l.succeed(a.Lease) }, // its lease is lost: this confirms that it is over
			func() { l.submit(job.Spec{Needs: []job.Need{{Job: first.ID, Policy: job.Finish}}}) },
		)
	})
}

// Rule 3: what an unfinished dependent can read is kept, also if that dependent comes in the very round of the deletion.
func TestDeleteOfAJobThatANewDependentReads(t *testing.T) {
	t.Parallel()
	inRounds(t, func(t *testing.T, l *lab) {
		j := l.submit(job.Spec{})
		l.must(l.FailJob(t.Context(), j.ID, "", nil))
		var err error
		l.together(
			func() { l.submit(job.Spec{Needs: []job.Need{{Job: j.ID, Policy: job.Finish}}}) },
			func() { err = l.DeleteJob(t.Context(), j.ID) },
		)
		if !errors.Is(err, job.ErrBusy) {
			t.Errorf("the deletion was told %v, want %v", err, job.ErrBusy)
		}
		if err := l.DeleteJob(t.Context(), j.ID); !errors.Is(err, job.ErrBusy) {
			t.Errorf("once the dependent is stored: %v, want %v", err, job.ErrBusy)
		}
	})
}

// A deletion that is refused changes nothing.
func TestDeleteThatIsRefusedCancelsNothing(t *testing.T) {
	t.Parallel()
	inRounds(t, func(t *testing.T, l *lab) {
		j := l.submit(job.Spec{})
		reader := l.submit(job.Spec{Needs: []job.Need{{Job: j.ID, Policy: job.Finish}}})
		if err := l.DeleteJob(t.Context(), j.ID); !errors.Is(err, job.ErrBusy) {
			t.Errorf("told %v, want %v", err, job.ErrBusy)
		}
		if r := l.record(j.ID); r.End != nil {
			t.Errorf("it ended: %+v", r.End)
		}
		l.must(l.CancelJob(t.Context(), reader.ID, job.ID{}, false, ""))
		l.must(l.DeleteJob(t.Context(), j.ID))
	})
}

func TestDeleteIsRepeatedUnderItsRequest(t *testing.T) {
	t.Parallel()
	inRounds(t, func(t *testing.T, l *lab) {
		j := l.submit(job.Spec{})
		ctx := queue.WithRequest(t.Context(), l.NewID())
		l.must(l.DeleteJob(ctx, j.ID))
		l.must(l.DeleteJob(ctx, j.ID))
		if err := l.DeleteJob(t.Context(), j.ID); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("without it: %v, want %v", err, queue.ErrNotFound)
		}
	})
}
