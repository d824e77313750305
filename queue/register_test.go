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
