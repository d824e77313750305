package queue

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNumber: a batch of that number is already stored, or its predecessor is not.
	ErrNumber = errors.New("batch number out of sequence")
	// ErrFeedTruncated: the feed no longer reaches back to where the reader stands; it must start again
	// from a snapshot.
	ErrFeedTruncated = errors.New("feed truncated")
	// ErrFenced: the store has a newer owner; this one must stop.
	ErrFenced = errors.New("the store has a newer owner")
	// ErrNotFound: there is no such job or build.
	ErrNotFound = errors.New("not found")
)

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
	return fmt.Sprintf("the store is in use by process %d on %s since %s; stop that process first",
		e.PID, e.Host, e.Since.UTC().Format(time.DateTime+" MST"))
}
