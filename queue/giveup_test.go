package queue_test

import (
	"context"
	"errors"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
)

// unreadable is a store that cannot be loaded.
type unreadable struct{ *memory.Store }

var errUnreadable = errors.New("unreadable")

func (unreadable) Load(context.Context, func(job.Change) error) (queue.Head, error) {
	return queue.Head{}, errUnreadable
}

func TestQueueThatGivesUpReturnsTheStoresError(t *testing.T) {
	t.Parallel()
	s := unreadable{memory.New()}
	q, err := queue.Open(queue.Config{Store: s, History: s, GiveUp: true})
	if err != nil {
		t.Fatal(err)
	}
	// Without GiveUp it would try again until ctx ends, and return nil.
	if err := q.Run(t.Context()); !errors.Is(err, errUnreadable) {
		t.Errorf("Run: %v, want %v", err, errUnreadable)
	}
	if _, err := q.Submit(t.Context(), queue.Submission{}); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Submit after that: %v, want %v", err, queue.ErrClosed)
	}
}
