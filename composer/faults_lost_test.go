package composer_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

// breaks has the store be out of order until the engine has stepped down, once somebody has been asked to begin.
func (l *lab) breaks(o *outage, begin func()) {
	l.Helper()
	n := o.failed.Load()
	o.broken.Store(true)
	begin()
	l.until("the engine has stepped down", func() bool { return o.failed.Load() > n+4 })
	o.broken.Store(false)
}

// loses checks that nothing of a job's tries was lost before, and finishes it.
func (l *lab) losesNothing(id, token uuid.UUID) {
	l.Helper()
	l.tokens(token)
	if requeued, err := l.RequeueOrFinishToken(token, 0, 1, nil); !requeued || err != nil {
		l.Errorf("requeued %t, %v; want that nothing was lost before", requeued, err)
	}
	l.pick(id)
	l.finish(id, nil)
}

// The store takes the lease and is gone before it says so. Whoever waits on is given the job by that lease. To plant it:
// composer/handouts.go, given: leave c.doubt(name) out.
func TestS05LeaseWhoseAnswerIsLostIsGiven(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		o := l.speechless()
		l.finish(l.pickNew("build"), nil) // so that the worker is known, and its lease is what is stored
		id := l.enqueue("build", "")
		var c <-chan given
		l.breaks(o, func() { c = l.begin("build", "") })
		l.losesNothing(id, l.get(c, id))
	})
}

func TestS05LeaseByIDWhoseAnswerIsLostIsGiven(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		o := l.speechless()
		l.finish(l.pickNew("build"), nil)
		id, other := l.enqueue("build", ""), l.enqueue("build", "")
		ctx, cancel := context.WithTimeout(l.Context(), soon)
		defer cancel()
		picked := make(chan given, 1)
		q := l.JobQueue
		l.breaks(o, func() {
			go func() {
				g := given{id: other}
				g.token, _, _, _, g.err = q.DequeueByID(ctx, other, uuid.Nil)
				picked <- g
			}()
		})
		l.losesNothing(other, l.get(picked, other))
		l.is(id, isPending)
	})
}

// Nobody waits any more when the engine is back: whoever comes next, or looks who is silent, finds that the job is pending. To plant it:
// composer/handouts.go, settle: return at once.
func TestS05LeaseThatNobodyWaitsForIsHandedBack(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		o := l.speechless()
		l.finish(l.pickNew("build"), nil)
		takes := map[string]func(ctx context.Context, id uuid.UUID) error{
			"Dequeue": func(ctx context.Context, _ uuid.UUID) error {
				_, _, _, _, _, err := l.Dequeue(ctx, uuid.Nil, []string{"build"}, []string{""})
				return err
			},
			"DequeueByID": func(ctx context.Context, id uuid.UUID) error {
				_, _, _, _, err := l.DequeueByID(ctx, id, uuid.Nil)
				return err
			},
		}
		for name, take := range takes {
			looks := map[string]func(id uuid.UUID) uuid.UUID{
				"Dequeue":     func(uuid.UUID) uuid.UUID { _, token := l.dequeue("build", ""); return token },
				"DequeueByID": l.pick,
				"Heartbeats":  func(id uuid.UUID) uuid.UUID { l.tokens(); l.is(id, isPending); return l.pick(id) },
				"another type": func(id uuid.UUID) uuid.UUID {
					l.onlyNext("other", "")
					l.is(id, isPending)
					return l.pick(id)
				},
			}
			for look, finds := range looks {
				id := l.enqueue("build", "")
				ctx, cancel := context.WithCancel(l.Context())
				ended := make(chan error, 1)
				n := o.failed.Load()
				o.broken.Store(true)
				go func() { ended <- take(ctx, id) }()
				l.until("the engine has stepped down", func() bool { return o.failed.Load() > n+4 })
				cancel()
				l.gives(name, <-ended, composer.ErrDequeueTimeout)
				o.broken.Store(false)
				l.until("the engine is back", func() bool { _, err := l.IdFromToken(uuid.Nil); return any(err) == any(composer.ErrNotExist) })
				if s := l.status(id); s.state() != "running" {
					t.Fatalf("%s, then %s: the job is %v, want that its lease is stored", name, look, s)
				}
				l.losesNothing(id, finds(id))
			}
		}
	})
}

// What was given out before, by this process or the last, stays with whom it was given to, whoever is in doubt under the same name. To plant
// it: composer/roster.go, fetch: leave the loop out.
func TestS05LeaseThatWasToldStaysItsHolders(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		before := l.pickNew("build")
		o := l.speechless()
		first := l.Heartbeats(always)
		now := l.pickNew("build")
		id := l.enqueue("build", "")
		var c <-chan given
		l.breaks(o, func() { c = l.begin("build", "") })
		token := l.get(c, id)
		again := l.enqueue("build", "")
		l.breaks(o, func() { c = l.begin("build", "") })
		l.get(c, again)
		l.resolves(first[0], before)
		l.resolves(token, id)
		for _, id := range []uuid.UUID{before, now, id, again} {
			l.is(id, isRunning)
			if requeued, err := l.RequeueOrFinishJob(id, 1, nil); !requeued || err != nil {
				t.Errorf("requeued %t, %v", requeued, err)
			}
		}
	})
}

// Many who go by one name are in doubt at the same time, and some give up: each lease is told to one caller at most, and in the end each job
// was given out, by no more leases than there are, none of which is lost. To plant it: composer/handouts.go, tell: always true.
func TestS05EachLeaseIsToldToOne(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		o := l.speechless()
		l.finish(l.pickNew("build"), nil)
		const jobs, callers = 40, 8
		left := map[uuid.UUID]bool{}
		for range jobs {
			left[l.enqueue("build", "")] = true
		}
		var mu sync.Mutex
		told := map[uuid.UUID]bool{}
		took := func(id, token uuid.UUID) {
			mu.Lock()
			defer mu.Unlock()
			if told[token] || !left[id] {
				t.Errorf("job %s was given twice, by %s", id, token)
			}
			told[token] = true
			delete(left, id)
		}
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(left) }
		var all sync.WaitGroup
		for n := range callers {
			all.Go(func() {
				for range jobs {
					if count() == 0 {
						return
					}
					ctx, cancel := context.WithTimeout(l.Context(), []time.Duration{30 * time.Millisecond, time.Second}[n%2])
					id, token, _, _, _, err := l.Dequeue(ctx, uuid.Nil, []string{"build"}, []string{""})
					cancel()
					if err == nil {
						took(id, token)
					}
				}
			})
		}
		for range 4 {
			n := o.failed.Load()
			o.broken.Store(true)
			l.until("the engine has stepped down, or all is given out", func() bool { return o.failed.Load() > n+2 || count() == 0 })
			o.broken.Store(false)
			at := count()
			l.until("some are given out", func() bool { return count() < max(at-2, 1) })
		}
		all.Wait()
		for count() > 0 {
			took(l.dequeue("build", ""))
		}
		for _, token := range l.Heartbeats(always) {
			if !told[token] {
				t.Errorf("token %s runs, and nobody was told", token)
			}
			if requeued, err := l.RequeueOrFinishToken(token, 0, 1, nil); !requeued || err != nil {
				t.Errorf("requeued %t, %v; want that nothing was lost before", requeued, err)
			}
		}
	})
}

// One who is in doubt takes what another was just given and still reads: that one asks again. To plant it: composer/handouts.go, tell: always
// true.
func TestS05LeaseThatIsBeingReadIsToldToOne(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		o := &outage{}
		l.patience = time.Millisecond
		fails := o.fail("Committed", "Load")
		var armed atomic.Bool
		var release chan struct{}
		l.tap(func(call string) error {
			if call == "Jobs" && armed.CompareAndSwap(true, false) {
				<-release
			}
			return fails(call)
		}, o.fail("Commit"))
		for range 8 { // the one or the other lease is looked at first
			first := l.pickNew("build")
			if requeued, err := l.RequeueOrFinishJob(first, 1, nil); !requeued || err != nil {
				t.Fatalf("requeued %t, %v", requeued, err) // so that the engine does not remember it
			}
			release = make(chan struct{})
			armed.Store(true)
			reads := l.begin("build", "")
			l.until("it is read", func() bool { return !armed.Load() })
			second := l.enqueue("build", "")
			var doubts <-chan given
			l.breaks(o, func() { doubts = l.begin("build", "") })
			a := <-doubts
			close(release)
			b := <-reads
			if a.err != nil || b.err != nil || a.id == b.id || a.token == b.token {
				t.Fatalf("%v and %v, want %s and %s, each once", a, b, first, second)
			}
			l.tokens(a.token, b.token)
			l.finish(first, nil)
			l.finish(second, nil)
		}
	})
}

// A lease of which nobody was told cannot be handed back, and another one looks meanwhile whether there is such a lease: the next who comes
// finds it all the same. To plant it: composer/handouts.go, untell: leave the doubt as it is.
func TestS05LeaseThatCannotBeHandedBackStaysInDoubt(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		o := &outage{}
		l.patience = time.Millisecond
		fails := o.fail("Committed", "Load")
		var armed atomic.Bool
		entered, release := make(chan struct{}), make(chan struct{})
		l.tap(func(call string) error {
			if call == "Commit" && armed.CompareAndSwap(true, false) {
				entered <- struct{}{}
				<-release
				return errOutage
			}
			return fails(call)
		}, o.fail("Commit"))
		l.finish(l.pickNew("build"), nil)
		l.finish(l.pickNew("other"), nil)
		id := l.enqueue("build", "")
		take := func(ctx context.Context, jobType string) error {
			_, _, _, _, _, err := l.Dequeue(ctx, uuid.Nil, []string{jobType}, []string{""})
			return err
		}
		ctx, cancel := context.WithCancel(l.Context())
		ended := make(chan error, 1)
		l.breaks(o, func() {
			go func() { ended <- take(ctx, "build") }()
			l.until("the engine has stepped down", func() bool { return o.failed.Load() > 4 })
			cancel()
			l.gives("Dequeue", <-ended, composer.ErrDequeueTimeout)
		})
		l.until("the engine is back", func() bool { _, err := l.IdFromToken(uuid.Nil); return any(err) == any(composer.ErrNotExist) })
		l.is(id, isRunning)

		armed.Store(true)
		other := l.begin("other", "")
		<-entered
		short, end := context.WithTimeout(l.Context(), 20*time.Millisecond)
		defer end()
		l.gives("Dequeue while it is handed back", take(short, "build"), composer.ErrDequeueTimeout)
		close(release)
		l.get(other, l.enqueue("other", ""))
		found, token := l.dequeue("build", "")
		if found != id {
			t.Fatalf("dequeued %s, want %s", found, id)
		}
		if requeued, err := l.RequeueOrFinishToken(token, 0, 1, nil); !requeued || err != nil {
			t.Errorf("requeued %t, %v; want that nothing was lost before", requeued, err)
		}
	})
}
