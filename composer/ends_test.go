package composer

import (
	"errors"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// Somebody ends an attempt between its being found by another and that one's turn: the second is told that it is over. To plant it:
// composer/running.go, ends: return h, done, nil without looking again.
func TestAttemptThatEndsMeanwhileIsNotEndedAgain(t *testing.T) {
	t.Parallel()
	over := errors.New("it is over")
	q := &JobQueue[worker]{ending: map[job.Lease]chan struct{}{}}
	found := queue.Held{Lease: job.Lease{Job: job.ID{1}, Attempt: 1}}
	calls := 0
	_, done, err := q.ends(func() (queue.Held, error) {
		if calls++; calls > 1 {
			return queue.Held{}, over
		}
		return found, nil
	})
	done()
	if !errors.Is(err, over) {
		t.Errorf("told %v, want that it is over", err)
	}
	if len(q.ending) > 0 {
		t.Errorf("being ended are %v", q.ending)
	}
}
