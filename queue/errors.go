package queue

import "errors"

var (
	// ErrNumber: a batch of that number is already stored, or its predecessor is not.
	ErrNumber = errors.New("batch number out of sequence")
	// ErrFeedTruncated: the feed no longer reaches back to where the reader stands; it must start again
	// from a snapshot.
	ErrFeedTruncated = errors.New("feed truncated")
	// ErrNotFound: there is no such job or build.
	ErrNotFound = errors.New("not found")
)
