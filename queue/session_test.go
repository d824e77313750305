package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// ways in which a session of a worker ends, and what its Lease call that waits is then told.
var ways = map[string]struct {
	end  func(*lab, job.Worker) error
	told error
}{
	"it signs off":     {func(l *lab, w job.Worker) error { return l.SignOff(l.t.Context(), w.Name, w.Session) }, job.ErrSignedOff},
	"it is removed":    {func(l *lab, w job.Worker) error { return l.RemoveWorker(l.t.Context(), w.Name, false) }, queue.ErrNotFound},
	"another takes on": {func(l *lab, w job.Worker) error { w.Session = job.ID{7}; return l.Register(l.t.Context(), w) }, job.ErrWorkerLive},
}

// A session that is over is given nothing: whoever waits for it is told at once, whatever else the round brings.
func TestSessionThatIsOverIsGivenNothing(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		for _, ready := range []string{"nothing", "a job before", "a job after"} {
			t.Run(name+", "+ready, func(t *testing.T) {
				t.Parallel()
				inLab(t, func(t *testing.T, l *lab) {
					w := l.worker("w", 2)
					waiting := make(chan error, 1)
					go func() {
						_, err := l.Lease(t.Context(), w.Name, w.Session, 1, 0)
						waiting <- err
					}()
					synctest.Wait()
					<-time.After(2 * job.DefaultTTL) // it looks dead: its name is free
					commands := []func(){func() { l.check(way.end(l, w)) }}
					submit := func() { l.submit(job.Spec{}) }
					switch ready {
					case "a job before":
						commands = append([]func(){submit}, commands...)
					case "a job after":
						commands = append(commands, submit)
					}
					l.together(commands...)
					synctest.Wait()
					select {
					case err := <-waiting:
						if !errors.Is(err, way.told) {
							t.Errorf("the waiting call was told %v, want %v", err, way.told)
						}
					default:
						t.Error("the call still waits")
					}
					if _, err := l.Lease(t.Context(), w.Name, w.Session, 1, 0); !errors.Is(err, way.told) {
						t.Errorf("a further call was told %v, want %v", err, way.told)
					}
					if ready == "nothing" {
						submit()
					}
					l.lease(l.worker("next", 1)) // nobody else has it
				})
			})
		}
	}
}

// A drained worker is still there: it waits, is given nothing, and goes on when the drain is lifted.
func TestDrainedSessionWaitsOn(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		got := make(chan error, 1)
		go func() {
			_, err := l.Lease(t.Context(), w.Name, w.Session, 1, 0)
			got <- err
		}()
		synctest.Wait()
		l.together(
			func() { l.submit(job.Spec{}) },
			func() { l.check(l.Drain(t.Context(), w.Name, true)) },
		)
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("it was told %v", <-got)
		}
		l.must(l.Drain(t.Context(), w.Name, false))
		l.must(<-got)
	})
}

// A session that signed off is over for good: a late heartbeat, finish or call of it keeps the next one waiting no longer.
// Only if it registers again is it there again.
func TestSessionThatSignedOffShowsNoSignOfLife(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		l.submit(job.Spec{})
		a := l.lease(w)
		l.must(l.SignOff(t.Context(), w.Name, w.Session))
		if errs, err := l.Heartbeat(t.Context(), queue.Beat{Lease: a.Lease}); err != nil || errs[0] != nil {
			t.Errorf("its attempt goes on, and the heartbeat was told %v, %v", errs, err)
		}
		l.check(l.succeed(a.Lease))
		if _, err := l.Lease(t.Context(), w.Name, w.Session, 1, 0); !errors.Is(err, job.ErrSignedOff) {
			t.Errorf("told %v, want %v", err, job.ErrSignedOff)
		}
		next := w
		next.Session = l.NewID()
		l.must(l.Register(t.Context(), next))
		l.must(l.SignOff(t.Context(), next.Name, next.Session))
		l.must(l.Register(t.Context(), next))
		l.submit(job.Spec{})
		l.lease(next)
		if err := l.Register(t.Context(), w); !errors.Is(err, job.ErrWorkerLive) {
			t.Errorf("once it is there again, another was told %v, want %v", err, job.ErrWorkerLive)
		}
	})
}

// Nobody is told anything before it is stored: the round in which a session signs off cannot be stored, so the one that waits
// may try again.
func TestSignOffOfARoundThatFails(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Lease(context.WithoutCancel(t.Context()), w.Name, w.Session, 1, 0)
			waiting <- err
		}()
		synctest.Wait()
		l.commit = func(*queue.Batch) error { return queue.ErrNumber }
		err := l.SignOff(t.Context(), w.Name, w.Session)
		l.commit = nil
		var again *queue.RetryError
		if !errors.As(err, &again) {
			t.Errorf("who signs it off was told %v, want a *RetryError", err)
		}
		if err := <-waiting; !errors.As(err, &again) {
			t.Errorf("who waits was told %v, want a *RetryError", err)
		}
	})
}
