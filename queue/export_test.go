package queue

import (
	"time"
	"unsafe"

	"github.com/headrace/headrace/job"
)

// Set has the wall clock be set by d once the queue is open: what time.Now gives from then on shows d more, and the
// monotonic clock knows nothing of it.
func Set(q *Queue, d time.Duration) {
	// A time.Time with a monotonic reading has, from bit 30 on, the wall clock's seconds.
	const monotonic, seconds = 1 << 63, 30
	wall := (*uint64)(unsafe.Pointer(&q.start))
	if *wall&monotonic == 0 {
		panic("the queue does not run on the monotonic clock")
	}
	*wall -= uint64(d/time.Second) << seconds
}

// Now gives what the owner's clock shows.
func Now(q *Queue) job.Time { return q.now() }
