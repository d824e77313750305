package job

import "time"

// Retry says how often an attempt that did not end well is followed by another (rule 5). Zero fields
// take the channel's; a negative count allows none.
type Retry struct {
	// Failures: how many verdicts are tried again.
	Failures int32
	// Aborts: how many attempts may end Aborted before the job does.
	Aborts int32
	// Losses and Crashes: how many lost leases and worker crashes are tried again.
	Losses, Crashes int32
	// Delay before the second attempt after an abort; each further one waits Factor times as long.
	Delay  time.Duration
	Factor int32
}

// Or fills the zero fields from d.
func (r Retry) Or(d Retry) Retry {
	r.Failures = or(r.Failures, d.Failures)
	r.Aborts = or(r.Aborts, d.Aborts)
	r.Losses = or(r.Losses, d.Losses)
	r.Crashes = or(r.Crashes, d.Crashes)
	r.Delay = or(r.Delay, d.Delay)
	r.Factor = or(r.Factor, d.Factor)
	return r
}

func or[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

// MaxBackoff caps every back-off, whatever the count: far below where a duration would overflow.
const MaxBackoff = 24 * time.Hour

// Backoff gives the wait after the n-th failure in a row (n from 1): delay x factor^(n-1), capped at
// MaxBackoff, plus a jitter below a sixth of delay drawn from r (any 64 random bits).
func Backoff(delay time.Duration, factor int32, n int32, r uint64) time.Duration {
	if delay <= 0 {
		return 0
	}
	wait := min(delay, MaxBackoff)
	for i := int32(1); i < n && factor > 1 && wait < MaxBackoff; i++ {
		wait *= time.Duration(min(factor, 1000))
	}
	wait = min(wait, MaxBackoff)
	if span := min(delay, MaxBackoff) / 6; span > 0 {
		wait += time.Duration(r % uint64(span))
	}
	return wait.Truncate(time.Microsecond)
}

// A job that was handed back within HandBackPause of its start waits so long, after the first HandBacksAtOnce that were: a
// worker that gives back all that it gets would else be given it without end. One that is drained is not given it again, so
// that its hand-backs do not count.
const (
	HandBackPause   = time.Second
	HandBacksAtOnce = 3
)

// Tally counts how a job's attempts ended.
type Tally struct {
	// Attempts that were started.
	Attempts int32
	Failures int32
	Aborts   int32
	Losses   int32
	Crashes  int32
	// HandBacks that came within HandBackPause of the start, by workers that were not drained.
	HandBacks int32
	// Turn is the greatest age that was handed out when the job was last put back, but for a hand-back: where jobs go by age,
	// those that were there go first. 0: its own age.
	Turn int64
	// Fault is the worker that failed on its own account under this job, "" if none did (rule 10).
	Fault string
}

// verdict is what becomes of a job after an attempt.
type verdict struct {
	again bool          // another attempt follows
	wait  time.Duration // before it
	tally Tally
}

// judge applies rule 5 to an attempt that did not succeed. The tally passed in is the one before it.
func judge(r Retry, t Tally, o Outcome, d Detail, rnd uint64) verdict {
	switch {
	case o == Aborted && d == HandedBack:
		return verdict{again: true, tally: t}
	case o == Aborted && d == LeaseLost:
		t.Losses++
		return verdict{again: t.Losses <= r.Losses, tally: t}
	case o == Aborted && d == WorkerCrashed:
		t.Crashes++
		return verdict{again: t.Crashes <= r.Crashes, tally: t}
	case o == Aborted:
		t.Aborts++
		return verdict{again: t.Aborts < r.Aborts, wait: Backoff(r.Delay, r.Factor, t.Aborts, rnd), tally: t}
	case o == Failed && d != LogLimit && d != OutputLimit:
		t.Failures++
		return verdict{again: t.Failures <= r.Failures, tally: t}
	default:
		return verdict{tally: t}
	}
}
