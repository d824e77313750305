package composer_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/queue"
)

// story is what becomes of two jobs. Each step is done once the one before was; what it gives may be wrong if the engine ends meanwhile.
type story struct {
	q             *composer.JobQueue[worker]
	first, second uuid.UUID
	told          int // steps that were acknowledged
}

// tell goes on with the story where the last one who told it was stopped, until the engine ends or it is over.
func (s *story) tell(ctx context.Context) (err error) {
	steps := []func() error{
		func() (err error) { s.first, err = s.q.Enqueue("first", 1, nil, "org"); return err },
		func() (err error) { s.second, err = s.q.Enqueue("second", 2, []uuid.UUID{s.first}, "org"); return err },
		func() error { return s.dequeue(ctx, s.first) },
		func() error { return s.again(s.q.UpdateJobResult(s.first, "half"), s.first) },
		func() error { return s.finish(s.first) },
		func() error { return s.dequeue(ctx, s.second) },
		func() error { return s.finish(s.second) },
	}
	for s.told < len(steps) {
		if err := steps[s.told](); err != nil {
			return err
		}
		s.told++
	}
	return nil
}

// dequeue takes a job by its id, or finds it taken by the step that was not acknowledged: then its token is lost, and its watchdog
// gives it to others.
func (s *story) dequeue(ctx context.Context, id uuid.UUID) error {
	for {
		_, _, _, _, err := s.q.DequeueByID(ctx, id, uuid.Nil)
		if !errors.Is(err, composer.ErrNotPending) {
			return err
		}
		if _, err := s.q.RequeueOrFinishJob(id, 9, nil); err != nil {
			return err
		}
	}
}

// finish ends a job, or finds it ended.
func (s *story) finish(id uuid.UUID) error {
	_, err := s.q.RequeueOrFinishJob(id, 0, "done")
	return s.again(err, id)
}

// again takes it for done if what was not acknowledged had been done.
func (s *story) again(err error, id uuid.UUID) error {
	if errors.Is(err, composer.ErrNotRunning) {
		if _, _, result, _, _, _, _, _, _, failed := s.q.JobStatus(id); failed == nil && string(result) == `"done"` {
			return nil
		}
	}
	return err
}

// whole checks that what was acknowledged is there, and nothing is there by halves.
func (l *lab) whole(s *story) {
	l.Helper()
	if s.told > 0 {
		l.status(s.first)
	}
	if s.told > 1 {
		if after := l.status(s.first).Dependents; !slices.Contains(after, s.second) {
			l.Errorf("%s is no dependent of its dependency, which has %v", s.second, after)
		}
	}
	records, err := l.store.Jobs(l.Context(), queue.JobFilter{})
	if err != nil {
		l.Fatal(err)
	}
	ids := map[uuid.UUID]bool{}
	for i := range records {
		ids[uuid.UUID(records[i].Spec.ID)] = true
	}
	for id := range ids {
		now := l.status(id)
		for _, other := range slices.Concat(now.Deps, now.Dependents) {
			if !ids[other] {
				l.Errorf("job %s names %s, which is not there", id, other)
			}
		}
	}
	if s.told > 4 {
		l.is(s.first, `finished, result "\"done\""`)
	}
}

// The process dies before or after each write in turn, and another takes over. No write is of less than all of a step; what can be wrong
// is that a step is told before it is stored. To plant that: queue/serve.go, launch: run r.after with nil before "q.aloft = r".
func TestS07CrashBetweenAnyTwoWritesLeavesNothingByHalves(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		var left atomic.Int64 // writes until it dies; below 0: it is dead
		var after atomic.Bool
		dying := make(chan struct{}, 1)
		die := func(late bool) func(string) error {
			return func(call string) error {
				switch {
				case left.Load() < 0:
					return errOutage
				case call != "Commit" || after.Load() != late || left.Add(-1) >= 0:
					return nil
				}
				dying <- struct{}{}
				return errOutage
			}
		}
		l.patience = time.Millisecond
		left.Store(1 << 40)
		l.tap(die(false), die(true))
		for _, late := range []bool{false, true} {
			after.Store(late)
			over := false
			for n := int64(0); !over; n++ {
				s := &story{q: l.JobQueue}
				left.Store(n)
				over = l.dies(s, dying)
				left.Store(1 << 40)
				l.restart()
				l.whole(s)
				s.q = l.JobQueue
				if err := s.tell(l.Context()); err != nil {
					t.Fatalf("the story cannot be told to its end after step %d, and %d writes: %v", s.told, n, err)
				}
				l.whole(s)
				l.is(s.second, `finished, result "\"done\""`)
				l.tokens()
			}
		}
	})
}

// dies tells the story until the engine dies, and reports whether it came to its end before.
func (l *lab) dies(s *story, dying <-chan struct{}) bool {
	l.Helper()
	told := make(chan error, 1)
	go func() { told <- s.tell(l.Context()) }()
	select {
	case err := <-told:
		if err != nil {
			l.Fatalf("the story ended at step %d: %v", s.told, err)
		}
		return true
	case <-dying:
		l.stop()
		if err := <-told; err == nil {
			l.Errorf("step %d was acknowledged by an engine that was dead", s.told)
		}
		return false
	}
}

// To plant it: job/time.go, Std: "time.UnixMicro(int64(t)).UTC().Add(5 * time.Hour)", as upstream's database has it in New York.
func TestD04TimesAreTheSameInEachZone(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		if d, ok := l.place.(*database); ok {
			l.restart(func() { l.sql(d, "ALTER DATABASE "+pgtest.Name(d.address)+" SET timezone = 'America/New_York'") })
		}
		moment := func() time.Time { return time.Now().Truncate(time.Microsecond) }
		before := moment()
		id := l.enqueue("build", "")
		enqueued := time.Now()
		l.pick(id)
		l.finish(id, nil)
		after := time.Now()
		for range 2 {
			s := l.status(id)
			if s.Queued.Before(before) || s.Queued.After(enqueued) || s.Started.Before(s.Queued) || s.Finished.Before(s.Started) || s.Finished.After(after) {
				t.Errorf("queued %v, started %v, finished %v; want all in this order between %v and %v", s.Queued, s.Started, s.Finished, before, after)
			}
			l.restart()
		}
	})
}

// The next owner's clock shows a time long before all that is stored: a bubble of synctest begins in the year 2000. To plant it:
// job/load.go, Loaded: leave "m.clamp(j, now)" out: what runs counts as heard of in 26 years.
func TestD05ClockThatStepsBackBetweenTwoOwners(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		first, runs := l.enqueue("first", ""), l.enqueue("build", "")
		second := l.enqueue("second", "", first)
		token := l.pick(runs)
		l.stop()
		synctest.Test(t, func(t *testing.T) {
			m := newLab(t, l.place)
			defer m.stop()
			m.tokens(token)
			m.RefreshHeartbeat(token)
			if requeued, err := m.RequeueOrFinishJob(runs, 1, nil); !requeued || err != nil {
				t.Errorf("requeued %t, %v", requeued, err)
			}
			later := m.enqueue("build", "")
			for _, want := range []uuid.UUID{first, runs, second, later} {
				m.pick(want)
				m.finish(want, nil)
				if s := m.status(want); s.state() != "finished" {
					t.Errorf("the job is %v", s)
				}
			}
		})
		l.start()
		l.tokens()
		l.onlyNext("build", "")
	})
}

// To plant it: composer/engine.go, untilDone: "|| err != nil" for "|| errors.Is(err, queue.ErrClosed)".
func TestC1DequeueWaitsOutAnOutageOfTheStore(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		if _, ok := l.place.(*database); ok {
			c, err := pgtest.Start(t.Context(), pgtest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				l.stop()
				if err := c.Stop(); err != nil {
					t.Error(err)
				}
			})
			address, err := c.Create(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l.patience = time.Millisecond
			l.restart(func() { l.place = &database{address} })
			l.outlives(
				func() { l.must(c.Crash()) },
				func() { l.must(c.Up(context.Background())) },
			)
			return
		}
		// A lookup that fails is no reason to step down: the commit is to be the first.
		o := l.breakable("Commit", "Committed", "Load", "Jobs", "Payload", "Dependents")
		l.outlives(func() { o.broken.Store(true) }, func() { o.broken.Store(false) })
	})
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// outlives lets the store be out of order while callers wait, one of which asks for a job meanwhile.
func (l *lab) outlives(fail, mend func()) {
	l.Helper()
	c := []<-chan given{l.begin("build", ""), l.begin("other", "")}
	l.waiting(2)
	fail()
	q, enqueued := l.JobQueue, make(chan given, 1)
	go func() {
		id, err := q.Enqueue("build", nil, nil, "")
		enqueued <- given{id: id, err: err}
	}()
	l.until("nobody is sure to own the store", func() bool {
		_, err := l.engine.LeaseOf(l.Context(), [16]byte{})
		return !errors.Is(err, queue.ErrNotFound)
	})
	mend()
	e := <-enqueued
	if e.err != nil {
		l.Fatal(e.err)
	}
	l.tokens(l.get(c[0], e.id))
	l.finish(e.id, "done")
	l.get(c[1], l.enqueue("other", ""))
}

// To plant it: composer/engine.go, untilDone: "if errors.As(err, &last); err == nil" for the condition before "return err".
func TestC2EngineStopsWhileCallersWait(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		for n := range 3 {
			var got []<-chan given
			for range 5 {
				got = append(got, l.begin("build", ""))
			}
			if n > 0 { // else at once
				l.waiting(5)
			}
			l.stop()
			for _, c := range got {
				if g := <-c; g.err == nil || errors.Is(g.err, composer.ErrDequeueTimeout) {
					t.Errorf("Dequeue of an engine that was stopped gives %s, %v", g.id, g.err)
				}
			}
			l.start()
			l.stop() // at once
			l.start()
		}
		l.onlyNext("build", "")
	})
}
