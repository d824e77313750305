package queue

import (
	"context"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/sched"
)

// Inspect runs look in the owner's goroutine, between rounds, on what it holds as of the last commit. It is for tests,
// checks and dumps: the queue stands still meanwhile, look must change nothing, and keep nothing of what it was given. If ctx
// ends before look has begun, it never does.
func (q *Queue) Inspect(ctx context.Context, look func(*job.Machine, *sched.Scheduler)) error {
	return q.errand(ctx, func(r *round, e *errand) {
		r.looks = append(r.looks, func(failed error) {
			switch {
			case !e.begin():
			case failed != nil:
				e.answer(nil, failed)
			default:
				look(q.machine, q.sched)
				e.answer(nil, nil)
			}
		})
	})
}
