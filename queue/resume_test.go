package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// A worker that has not heard what it was given is given it again, whole, also by a new owner, and as often as it asks.
func TestResumeGivesTheSameAgain(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 2)
		l.submit(job.Spec{Name: "build", Args: []byte("args")})
		first := l.lease(w)
		for range 2 {
			again, err := l.Resume(t.Context(), first.Lease)
			if err != nil || len(again) != 1 {
				t.Fatalf("resumed %v, %v", again, err)
			}
			a := again[0]
			if a.Lease != first.Lease || string(a.Spec.Args) != "args" || a.TTL != first.TTL || !a.Start.Equal(first.Start) {
				t.Errorf("resumed %+v, given %+v", a, first)
			}
			l.restart()
			synctest.Wait()
		}
		again, err := l.Resume(t.Context(), first.Lease)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.CancelJob(t.Context(), first.Lease.Job, job.ID{}, true, ""); err != nil {
			t.Fatal(err)
		}
		select {
		case <-again[0].Stop:
		default:
			t.Error("cancelled, and whoever resumed it is not told")
		}
		if got, err := l.Resume(t.Context(), first.Lease, job.Lease{Job: l.NewID()}); len(got) != 0 || err != nil {
			t.Errorf("what runs no more is resumed: %v, %v", got, err)
		}
	})
}

// Both who was given an attempt and who resumed it are told to stop it.
func TestResumeKeepsTheFirstStop(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		l.submit(job.Spec{})
		first := l.lease(w)
		again, err := l.Resume(t.Context(), first.Lease)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.CancelJob(t.Context(), first.Lease.Job, job.ID{}, true, ""); err != nil {
			t.Fatal(err)
		}
		<-first.Stop
		<-again[0].Stop
	})
}

// Whoever holds the worker's side is woken when the worker has to be told something, and not before.
func TestStandingWakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		news  func(l *lab, w job.Worker, a queue.Assignment) error
		still bool
	}{
		{name: "cancelled", news: func(l *lab, _ job.Worker, a queue.Assignment) error {
			return l.CancelJob(l.t.Context(), a.Lease.Job, job.ID{}, true, "")
		}},
		{name: "finished by another call", news: func(l *lab, _ job.Worker, a queue.Assignment) error { return l.succeed(a.Lease) }},
		{name: "drained", news: func(l *lab, w job.Worker, _ queue.Assignment) error { return l.Drain(l.t.Context(), w.Name, true) }},
		{name: "removed", news: func(l *lab, w job.Worker, _ queue.Assignment) error {
			return l.RemoveWorker(l.t.Context(), w.Name, true)
		}},
		{name: "the queue stops", news: func(l *lab, _ job.Worker, _ queue.Assignment) error { l.restart(); return nil }},
		{name: "another is drained", still: true, news: func(l *lab, _ job.Worker, _ queue.Assignment) error {
			return l.Drain(l.t.Context(), l.worker("other", 1).Name, true)
		}},
		{name: "another job", still: true, news: func(l *lab, _ job.Worker, _ queue.Assignment) error {
			l.submit(job.Spec{})
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inLab(t, func(t *testing.T, l *lab) {
				w := l.worker("w", 2)
				l.submit(job.Spec{})
				a := l.lease(w)
				var woken, late atomic.Int32
				s, forget, err := l.Standing(w.Name, func() { woken.Add(1) })
				if err != nil || len(s.Held) != 1 || s.Held[0].Lease != a.Lease || s.Worker.Session != w.Session {
					t.Fatalf("stands %+v, %v", s, err)
				}
				defer forget()
				_, gone, err := l.Standing(w.Name, func() { late.Add(1) })
				if err != nil {
					t.Fatal(err)
				}
				gone()
				if err := c.news(l, w, a); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := woken.Load(); got != 1 && !c.still || got != 0 && c.still {
					t.Errorf("woken %d times", got)
				}
				if late.Load() != 0 {
					t.Error("who had gone is woken")
				}
			})
		})
	}
}

// Where a worker stands is known as of the last commit, also by a new owner.
func TestStandingIsThatOfTheStore(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		synctest.Wait()
		if _, _, err := l.Standing("w", nil); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("nobody of the name: %v, want ErrNotFound", err)
		}
		w := l.worker("w", 3)
		if err := l.Drain(t.Context(), "w", true); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s, _, err := l.Standing("w", nil)
			if err != nil || !s.Worker.Drained || s.Worker.Session != w.Session || len(s.Held) != 0 {
				t.Errorf("stands %+v, %v", s, err)
			}
			l.restart()
			synctest.Wait()
		}
		if err := l.RemoveWorker(t.Context(), "w", false); err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Standing("w", nil); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("removed: %v, want ErrNotFound", err)
		}
		l.stop()
		if _, _, err := l.Standing("w", nil); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("stopped: %v, want ErrClosed", err)
		}
		l.open()
		l.start()
	})
}

// A worker that does not wait is told at once that there is nothing, and given what there is.
func TestLeaseReady(t *testing.T) {
	t.Parallel()
	inRounds(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 3)
		got, err := l.LeaseReady(t.Context(), w.Name, w.Session, 2, 0)
		if err != nil || len(got) != 0 {
			t.Fatalf("nothing is ready, given %v, %v", got, err)
		}
		l.submit(job.Spec{})
		l.submit(job.Spec{})
		l.submit(job.Spec{})
		got, err = l.LeaseReady(t.Context(), w.Name, w.Session, 2, 0)
		if err != nil || len(got) != 2 {
			t.Fatalf("given %v, %v; want two", got, err)
		}
		views, err := l.Workers(t.Context())
		if err != nil || views[0].Waits != 0 {
			t.Errorf("it waits for %d, %v", views[0].Waits, err)
		}
		if _, err := l.LeaseReady(t.Context(), w.Name, l.NewID(), 2, 0); !errors.Is(err, job.ErrWorkerLive) {
			t.Errorf("another session: %v", err)
		}
	})
}

// Nobody is told that an attempt runs no more before its end is stored: who asked would not look for it again, and it runs on. To plant it:
// queue/resume.go, Resume: return nil where lost is returned.
func TestResumeLeavesNothingOutBeforeTheCommit(t *testing.T) {
	t.Parallel()
	inRounds(t, func(t *testing.T, l *lab) {
		if l.mode == inBits {
			return // what the lab does for that cannot be stored either
		}
		w := l.worker("w", 1)
		l.submit(job.Spec{})
		a := l.lease(w)
		l.commit = func(*queue.Batch) error { return queue.ErrNumber } // it does not happen: the owner steps down
		var got []queue.Assignment
		var resumed, finished error
		l.together(
			func() { finished = l.succeed(a.Lease) },
			func() { got, resumed = l.Resume(t.Context(), a.Lease) },
		)
		l.commit = nil
		var again *queue.RetryError
		if !errors.As(finished, &again) || !errors.As(resumed, &again) {
			t.Errorf("the finish was told %v, and resumed is %v, %v", finished, got, resumed)
		}
		synctest.Wait()
		if got, err := l.Resume(t.Context(), a.Lease); err != nil || len(got) != 1 {
			t.Errorf("resumed %v, %v; want the attempt, which runs", got, err)
		}
	})
}

// Whoever is told to try again finds no lease as it was before, though the owner has not stepped down yet: what was asked may have
// happened. To plant it: queue/serve.go, land: leave q.leases.reset(nil) out.
func TestStandingIsNotToldOfTheTimeBeforeACommitInDoubt(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		l.submit(job.Spec{})
		l.stop()
		l.open()
		var standing error
		l.Log = slog.New(&listener{Handler: slog.DiscardHandler, hear: func(text string) {
			if strings.HasPrefix(text, "the owner steps down") {
				_, _, standing = l.Standing(w.Name, nil)
			}
		}})
		l.start()
		synctest.Wait()
		l.committed = func(*queue.Batch) error { return errHiccup }
		l.ask = func() error { return errHiccup }
		_, err := l.Lease(t.Context(), w.Name, w.Session, 1, 0)
		synctest.Wait()
		l.committed, l.ask = nil, nil
		var again *queue.RetryError
		if !errors.As(err, &again) || !errors.As(standing, &again) {
			t.Errorf("the lease was told %v, and who asked then %v; want both to try again", err, standing)
		}
		if _, err := l.Workers(t.Context()); err != nil { // answered once there is an owner again
			t.Fatal(err)
		}
		if s, _, err := l.Standing(w.Name, nil); err != nil || len(s.Held) != 1 {
			t.Errorf("stands %+v, %v; want that it has the job", s, err)
		}
	})
}

// listener hears what is logged.
type listener struct {
	slog.Handler
	hear func(text string)
}

func (h *listener) Enabled(context.Context, slog.Level) bool { return true }

func (h *listener) Handle(_ context.Context, r slog.Record) error {
	h.hear(r.Message)
	return nil
}
