package queue

import (
	"context"
	"errors"

	"github.com/headrace/headrace/job"
)

// Resume gives again what was given under these leases, for a worker that has not heard of it, as the answer was lost or the owner
// is a new one. What no longer runs is left out, but not before what ended it is stored. Whoever got an attempt before keeps its Stop
// channel.
func (q *Queue) Resume(ctx context.Context, leases ...job.Lease) ([]Assignment, error) {
	var got []*grant
	err := q.volatile(ctx, func(*round) (lost error) {
		for _, l := range leases {
			if j, ok := q.machine.Job(l.Job); ok {
				running, ok := j.State().(job.Running)
				if ok && running.Attempt.Number == l.Attempt && running.Attempt.Token == l.Token {
					got = append(got, q.grant(j, running.Attempt))
					continue
				}
			}
			lost = errLost
		}
		return lost
	})
	if err != nil && !errors.Is(err, errLost) {
		return nil, err
	}
	return q.complete(ctx, got)
}
