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
	inLab(t, func(t *testing.T, l *lab) {
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

func TestNoReuseOfAJobDeletedInTheSameRound(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
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
	inLab(t, func(t *testing.T, l *lab) {
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
	inLab(t, func(t *testing.T, l *lab) {
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
	inLab(t, func(t *testing.T, l *lab) {
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
	inLab(t, func(t *testing.T, l *lab) {
		j := l.submit(job.Spec{})
		ctx := queue.WithRequest(t.Context(), l.NewID())
		l.must(l.DeleteJob(ctx, j.ID))
		l.must(l.DeleteJob(ctx, j.ID))
		if err := l.DeleteJob(t.Context(), j.ID); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("without it: %v, want %v", err, queue.ErrNotFound)
		}
	})
}
