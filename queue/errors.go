package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/headrace/headrace/job"
)

var (
	// ErrNumber: a batch of that number is already stored, or its predecessor is not.
	ErrNumber = errors.New("batch number out of sequence")
	// ErrFenced: the store has a newer owner; this one may not write any more.
	ErrFenced = errors.New("the store has a newer owner")
	// ErrFeedTruncated: rounds after the reader's place are gone; it must start again from a snapshot. It is told as a
	// *FeedGapError.
	ErrFeedTruncated = errors.New("feed truncated")
	// ErrFeedAhead: the reader stands where the feed has not come yet; it has read another store.
	ErrFeedAhead = errors.New("feed not there yet")
	// ErrClosed: the queue has stopped, or was never run.
	ErrClosed = errors.New("queue closed")
	// ErrRequest: the request id was used before, for another command.
	ErrRequest = errors.New("request id used twice")
	// ErrUnfinished: the job has not ended, so that it has no result yet.
	ErrUnfinished = errors.New("not ended yet")
	// ErrNotFound is job.ErrNotFound: there is no such job, build, worker or setting.
	ErrNotFound = job.ErrNotFound
)

// RetryError reports that a command could not be stored, or that it is unknown whether it was. It may be sent again
// under the same request id, which makes it happen once.
type RetryError struct{ Cause error }

func (e *RetryError) Error() string { return "try again: " + e.Cause.Error() }

// Unwrap gives the cause.
func (e *RetryError) Unwrap() error { return e.Cause }

// HeldError says who owns a store that somebody else tried to open. Its fields are zero where the owner's
// note about itself could not be read.
type HeldError struct {
	Host  string
	PID   int
	Since time.Time
}

// Error says what the reader can do.
func (e *HeldError) Error() string {
	if e.PID == 0 {
		return "the store is in use by another process"
	}
	return fmt.Sprintf("the store is in use by process %d on %s since %s; wait for it, or stop it",
		e.PID, e.Host, e.Since.Local().Format(time.DateTime+" MST"))
}
