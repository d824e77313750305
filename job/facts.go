package job

import "time"

// Series is what durations are learned by: jobs of one series take about as long.
type Series struct{ Channel, Kind, Name string }

// Series gives the job's series; one without a name learns nothing.
func (s *Spec) Series() Series { return Series{s.Channel, s.Kind, s.Name} }

// Facts is what a command names that is no longer, or never was, in the Machine's memory. It is read
// beforehand in one go; what is not in a map does not exist.
type Facts struct {
	// Jobs that are Done and settled, by id.
	Jobs map[ID]*Record
	// Ended attempts, by the lease that gave the right to them; without their results.
	Ended map[Lease]*AttemptEnd
	// Kept successes, the newest of each likeness.
	Kept map[Likeness]ID
	// Cached failures by identity, the newest of each; it has a class.
	Cached map[Identity]*FailureCached
	// Learned durations, by what is stored: a guess need not know of this very round.
	Took map[Series]time.Duration
	// Builds that have ended, by id.
	Builds map[ID]*BuildRecord
}

// Learn merges a new duration into an estimate that n durations have made (n from 0): a running mean
// of the last few, so that a series which changes is followed within some runs.
func Learn(old time.Duration, n int64, took time.Duration) time.Duration {
	weight := time.Duration(min(n, 4))
	return (old*weight + took) / (weight + 1)
}
