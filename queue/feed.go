package queue

import (
	"errors"
	"fmt"
)

// FeedGapError is how ErrFeedTruncated is told: rounds after the reader's place are gone, so that what it knows is no
// longer the whole. It starts again from a snapshot, which is newer than the gap, or goes on from Next without them.
type FeedGapError struct {
	After uint64 // the reader's place
	Next  uint64 // the place behind the gap
	Err   error  // why a round cannot be read; nil: the rounds were dropped for their age
}

func (e *FeedGapError) Error() string {
	rounds := fmt.Sprintf("round %d is", e.Next)
	if e.Next > e.After+1 {
		rounds = fmt.Sprintf("rounds %d to %d are", e.After+1, e.Next)
	}
	if e.Err != nil {
		return fmt.Sprintf("%s unreadable: %v", rounds, e.Err)
	}
	return rounds + " no longer kept"
}

// Is makes it an ErrFeedTruncated.
func (e *FeedGapError) Is(target error) bool { return target == ErrFeedTruncated }

var errMissing = errors.New("missing from the store")

// FeedPage puts together what Feed gives, of the rows that a backend finds: all backends tell a gap alike.
type FeedPage struct {
	after, last uint64
	limit       int
	rounds      []Round
	gap         *FeedGapError
}

// NewFeedPage begins a page of up to limit rounds after a place, of a feed that begins behind the round dropped and
// ends with the round last.
func NewFeedPage(after, dropped, last uint64, limit int) *FeedPage {
	p := &FeedPage{after: after, last: last, limit: limit}
	if after < dropped {
		p.gap = &FeedGapError{After: after, Next: dropped}
	}
	return p
}

// More reports whether the page wants another row: the rows go to Add in order, from the first after the place.
func (p *FeedPage) More() bool { return p.gap == nil && len(p.rounds) < p.limit }

// Add takes the next row; err says that it cannot be read.
func (p *FeedPage) Add(r Round, err error) {
	place := p.after + uint64(len(p.rounds))
	switch {
	case !p.More():
	case r.Number > place+1:
		p.gap = &FeedGapError{After: place, Next: r.Number - 1, Err: errMissing}
	case err != nil:
		p.gap = &FeedGapError{After: place, Next: r.Number, Err: err}
	default:
		p.rounds = append(p.rounds, r)
	}
}

// End gives the rounds up to a gap, or the gap where the reader stands before it. All rows must have been added, up to
// where the page wanted no more.
func (p *FeedPage) End() ([]Round, error) {
	place := p.after + uint64(len(p.rounds))
	if p.More() && place < p.last {
		p.gap = &FeedGapError{After: place, Next: p.last, Err: errMissing}
	}
	if p.gap != nil && len(p.rounds) == 0 {
		return nil, p.gap
	}
	return p.rounds, nil
}
