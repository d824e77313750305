package queue_test

import (
	"errors"
	"testing"

	"github.com/headrace/headrace/job"
)

// Two processes that register one name in the same round: one has it, and the other is told.
func TestOneOfTwoSessionsOfARoundIsRefused(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := job.Worker{Name: "w", Channels: []string{""}, Kinds: []string{"k"}, Slots: 1, Session: l.NewID()}
		other := w
		other.Session = l.NewID()
		var first, second error
		l.together(
			func() { first = l.Register(t.Context(), w) },
			func() { second = l.Register(t.Context(), other) },
		)
		if first != nil || !errors.Is(second, job.ErrWorkerLive) {
			t.Errorf("told %v and %v, want nil and %v", first, second, job.ErrWorkerLive)
		}
	})
}

// A session that signs off before its registration is stored leaves the name to the next at once.
func TestNameIsFreeAfterASignOffOfTheSameRound(t *testing.T) {
	t.Parallel()
	inRounds(t, func(t *testing.T, l *lab) {
		w := job.Worker{Name: "w", Channels: []string{""}, Kinds: []string{"k"}, Slots: 1, Session: l.NewID()}
		other := w
		other.Session = l.NewID()
		var errs [3]error
		l.together(
			func() { errs[0] = l.Register(t.Context(), w) },
			func() { errs[1] = l.SignOff(t.Context(), w.Name, w.Session) },
			func() { errs[2] = l.Register(t.Context(), other) },
		)
		if err := errors.Join(errs[:]...); err != nil {
			t.Error(err)
		}
		if _, err := l.Lease(t.Context(), w.Name, w.Session, 1, 0); !errors.Is(err, job.ErrWorkerLive) {
			t.Errorf("the first session was told %v, want %v", err, job.ErrWorkerLive)
		}
		l.submit(job.Spec{})
		l.lease(other)
	})
}
