package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
	"github.com/headrace/headrace/store/memory"
)

// The wall clock is set by an hour while an owner lives. Its own clock, by which leases and waits run, goes on as if nothing had been, and
// a worker's sign of output has the moment at which it was: neither does it look old, nor does it come from the future.
func TestClockThatIsSetMovesNothing(t *testing.T) {
	t.Parallel()
	const silence = 10 * time.Second
	for name, by := range map[string]time.Duration{"not": 0, "back": -time.Hour, "forward": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &lab{t: t, bench: &bench{Store: memory.New()}}
			l.open()
			opened := queue.Now(l.Queue)
			queue.Set(l.Queue, by)
			// Its clock goes on from what the wall showed when it was opened, which is changed here, and not the wall.
			if moved := queue.Now(l.Queue).Sub(opened.Add(-by)); moved < 0 || moved > time.Hour/2 {
				t.Errorf("the owner's clock is moved by %v", moved)
			}
			l.start()
			w := l.worker("w", 1)
			wish := queue.Submission{Jobs: []job.Spec{{Kind: "k"}}, Own: job.Own{Limits: job.Limits{Silence: silence}}}
			_, err := l.Submit(t.Context(), wish)
			l.must(err)
			lease := l.lease(w).Lease
			before := l.later()
			spoke := time.Now()
			after := queue.Now(l.Queue)
			l.later()
			errs, err := l.Heartbeat(t.Context(), queue.Beat{Lease: lease, Output: spoke})
			l.must(err)
			l.must(errs[0])
			var judged job.Time
			l.must(l.Inspect(context.WithoutCancel(t.Context()), func(m *job.Machine, _ *sched.Scheduler) { judged, _ = m.Due() }))
			output := judged.Add(-silence - job.JudgeSlack)
			if output < before || output > after {
				t.Errorf("output between %v and %v counts as of %v", before.Std(), after.Std(), output.Std())
			}
			l.stop()
		})
	}
}

// later waits until the owner's clock shows another time.
func (l *lab) later() job.Time {
	for was := queue.Now(l.Queue); ; {
		if now := queue.Now(l.Queue); now != was {
			return now
		}
	}
}
