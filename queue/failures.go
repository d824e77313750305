package queue

import (
	"context"

	"github.com/headrace/headrace/job"
)

// Failures is what a store tells besides its History: which verdicts are remembered.
type Failures interface {
	// CachedFailures lists remembered verdicts by channel, kind and key, also those whose time is over. It gives as many as the filter
	// wants, or all that are left. What cannot be read is left out.
	CachedFailures(ctx context.Context, f FailureFilter) ([]job.FailureCached, error)
}

// FailureFilter selects remembered verdicts; zero fields select all.
type FailureFilter struct {
	Channel string
	Kind    string
	After   job.Identity // the last of the page before; zero: from the first
	Limit   int          // 0: 100; at most 10,000
}

// Start gives the identity after which the page begins.
func (f *FailureFilter) Start() job.Identity {
	if f.Channel == "" || f.After.Channel == f.Channel && (f.Kind == "" || f.After.Kind == f.Kind) {
		return f.After
	}
	return job.Identity{Channel: f.Channel, Kind: f.Kind}
}

// Has reports whether the filter selects an identity. If it does not, over says that it selects none of those after this one
// either, for one that comes after Start.
func (f *FailureFilter) Has(i job.Identity) (has, over bool) {
	channel, kind := f.Channel == "" || i.Channel == f.Channel, f.Kind == "" || i.Kind == f.Kind
	return channel && kind, !channel || !kind && f.Channel != ""
}
