package queue

import (
	"context"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/sched"
)

// Inspect runs look in the owner's goroutine, between rounds, on what it holds as of the last commit. It is for tests,
// checks and dumps: the queue stands still meanwhile, look must change nothing, and keep nothing of what it was given.
func (q *Queue) Inspect(ctx context.Context, look func(*job.Machine, *sched.Scheduler)) error {
	return q.volatile(ctx, func(*round) error {
		look(q.machine, q.sched)
		return nil
	})
}
