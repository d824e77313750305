package job

import "time"

// Time is a moment in UTC, in microseconds since 1970. The zero Time means "none": the queue lives
// in an age in which no event happens at it. A plain integer, so that what is decided, stored and
// decided again after a restart is the same to the last digit.
type Time int64

// At converts a time.Time, dropping what is finer than a microsecond and any monotonic reading.
func At(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixMicro())
}

// Std converts to a time.Time in UTC; none gives the zero time.Time.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(t)).UTC()
}

// Add gives the moment d later; d below a microsecond is dropped. It saturates instead of wrapping.
func (t Time) Add(d time.Duration) Time {
	s := t + Time(d/time.Microsecond)
	if d > 0 && s < t {
		return maxTime
	}
	return s
}

// Sub gives the time from o to t.
func (t Time) Sub(o Time) time.Duration {
	d := int64(t - o)
	if d > int64(maxDuration/time.Microsecond) {
		return maxDuration
	}
	return time.Duration(d) * time.Microsecond
}

const (
	maxTime     = Time(1<<63 - 1)
	maxDuration = time.Duration(1<<63 - 1)
)
