package composer_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/sqlite"
)

// crashed leaves what a process leaves that dies while it owns the store.
func (l *lab) crashed() {
	l.Helper()
	switch p := l.place.(type) {
	case *disk:
		p.Open() // nobody closes it
	case *file:
		for _, suffix := range []string{".new", ".new-wal", ".new-journal", ".tmp"} {
			l.write(p.path+suffix, "half of a")
		}
		l.write(p.path+".lock", `{"host":"`)
	case *database:
		// An owner that has not let go: its session is gone, and nobody gives a sign of life.
		l.sql(p, "UPDATE headrace.life SET beats = beats + 1")
	default:
		l.Fatalf("what does a crash leave in %T?", p)
	}
}

func (l *lab) write(path, text string) {
	l.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) sql(d *database, sql string) {
	l.Helper()
	c, err := pgx.Connect(l.Context(), d.address)
	if err != nil {
		l.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
	if _, err := c.Exec(l.Context(), sql); err != nil {
		l.Fatal(err)
	}
}

// To plant it: store/sqlite/store.go, create: leave "discard(draft)" out.
func TestS01LeftoversOfACrashKeepNobodyFromStarting(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		l.restart(l.crashed)
		l.pick(id)
		// As if it had crashed when it made the store: there is none yet.
		f, ok := l.place.(*file)
		if !ok {
			return
		}
		l.restart(func() {
			l.crashed()
			if err := os.Remove(f.path); err != nil {
				t.Fatal(err)
			}
		})
		l.onlyNext("build", "")
	})
}

// To plant it: queue/queue.go, load: "lost := []job.Change(nil)" for "lost := q.adopt(m, &head)".
func TestS02DependencyThatCannotBeReadStopsNobody(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		waits, ended := l.enqueue("first", ""), l.enqueue("first", "")
		l.pick(ended)
		l.finish(ended, "done")
		other := l.enqueue("first", "")
		second := l.enqueue("second", "", waits, ended)
		third := l.enqueue("second", "", ended, other)
		l.restart(func() { l.place.damage(t, waits); l.place.damage(t, ended) })
		l.pick(second)
		l.refused(third)
		l.pick(other)
		l.finish(other, nil)
		l.pick(third)
		if deps := l.status(second).Deps; !slices.Equal(deps, []uuid.UUID{waits, ended}) {
			t.Errorf("it depends on %v, want %s and %s", deps, waits, ended)
		}
		for _, id := range []uuid.UUID{waits, ended} {
			_, _, _, _, err := l.Job(id)
			l.gives("Job", err, composer.ErrNotExist)
		}
	})
}

// To plant it: store/memory/history.go, Jobs: give the error of r.record instead of going on.
func TestS03RootsAreListedBesideWhatCannotBeRead(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		bad := l.enqueue("first", "")
		first := l.enqueue("first", "")
		root := l.enqueue("second", "", first, bad)
		lonely, last := l.enqueue("first", ""), l.enqueue("first", "")
		l.restart(func() { l.place.damage(t, bad); l.place.damage(t, lonely) })
		roots, err := l.AllRootJobIDs(l.Context())
		if err != nil || !slices.Equal(roots, []uuid.UUID{root, last}) {
			t.Errorf("the roots are %v, %v; want %s and %s", roots, err, root, last)
		}
		if _, err := l.Expire(l.Context(), time.Now().Add(time.Hour), false); err != nil {
			t.Errorf("expire: %v", err)
		}
		l.gives("DeleteJob", l.DeleteJob(l.Context(), root), nil)
		_, _, _, _, err = l.Job(first)
		l.gives("Job of what the root alone depended on", err, composer.ErrNotExist)
	})
}

// To plant it: store/memory/read.go, Load: give the error of the first of snap.head.Corrupt after "rec := snap.job(r)". That the record is
// set aside at once is done twice, by adopt of queue/queue.go, and as nobody needs what has lost its Own.
func TestS04PendingJobThatCannotBeReadIsSetAside(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		bad := l.enqueue("build", "")
		good := l.enqueue("build", "")
		l.restart(func() { l.place.damage(t, bad) })
		l.ended(bad)
		if id, _ := l.dequeue("build", ""); id != good {
			t.Errorf("dequeued %s, want %s", id, good)
		}
		l.onlyNext("build", "")
		if _, _, _, _, err := l.DequeueByID(l.Context(), bad, uuid.Nil); err == nil {
			t.Error("what cannot be read was given out")
		}
	})
}

// ended checks that the engine has done with a job.
func (l *lab) ended(id uuid.UUID) {
	l.Helper()
	if _, err := l.engine.Why(l.Context(), job.ID(id)); !errors.Is(err, queue.ErrNotFound) {
		l.Errorf("why %s does not run: %v; want that it has ended", id, err)
	}
}

// The record of a job is damaged once it was loaded: it is given out and cannot be read. To plant it: queue/contents.go, handBack: leave
// "f.Detail = 0" out: it is given out again at once, and for ever.
func TestS04PendingJobThatIsDamagedMeanwhileIsSetAside(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		bad := l.enqueue("build", "")
		good := l.enqueue("build", "")
		l.restart() // what was enqueued lately need not be read
		l.place.damage(t, bad)
		if id, _ := l.dequeue("build", ""); id != good {
			t.Errorf("dequeued %s, want %s", id, good)
		}
		l.finish(good, nil)
		l.onlyNext("build", "")
		l.until("nobody has what cannot be read", func() bool { return len(l.Heartbeats(always)) == 0 })
		if tried, err := l.store.Attempts(l.Context(), job.ID(bad)); err != nil || len(tried) > 1 { // memory has lost them all
			t.Errorf("what cannot be read was given out %d times, %v; want once for now", len(tried), err)
		}
	})
}

// outage is a store that fails while it is broken.
type outage struct {
	broken atomic.Bool
	failed atomic.Int64 // calls
}

// fail gives what makes the calls fail while the store is broken.
func (o *outage) fail(calls ...string) func(call string) error {
	return func(call string) error {
		if o.broken.Load() && slices.Contains(calls, call) {
			o.failed.Add(1)
			return errOutage
		}
		return nil
	}
}

// breakable restarts the lab with a store whose named calls can be made to fail, and an engine that steps down at once when they do.
func (l *lab) breakable(calls ...string) *outage {
	l.Helper()
	o := &outage{}
	l.patience = time.Millisecond
	l.tap(o.fail(calls...), nil)
	return o
}

// speechless does so with a store that, while it is broken, takes what it is given and does not say so.
func (l *lab) speechless() *outage {
	l.Helper()
	o := &outage{}
	l.patience = time.Millisecond
	l.tap(o.fail("Committed", "Load"), o.fail("Commit"))
	return o
}

// writes are the calls that fail on a full disk.
var writes = []string{"Commit"}

// To plant it: composer/dequeue.go, dequeue: call q.roster.as without untilDone around it.
func TestS05WriteErrorInDequeueLosesNoJob(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		o := l.breakable(writes...)
		l.finish(l.pickNew("build"), nil) // so that the worker is known, and its lease is what cannot be stored
		id := l.enqueue("build", "")
		o.broken.Store(true)
		c := l.begin("build", "")
		l.until("the engine has stepped down twice", func() bool { return o.failed.Load() > 4 })
		o.broken.Store(false)
		token := l.get(c, id)
		l.tokens(token)
		if requeued, err := l.RequeueOrFinishJob(id, 1, nil); !requeued || err != nil {
			t.Errorf("requeued %t, %v; want that nothing was lost before", requeued, err)
		}
	})
}

// To plant it: composer/running.go, conclude: call q.engine.Finish without repeatedly around it.
func TestS06WriteErrorInFinishLosesNoResult(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		o := l.breakable(writes...)
		id := l.pickNew("build")
		o.broken.Store(true)
		ended := make(chan error, 1)
		q := l.JobQueue
		go func() {
			_, err := q.RequeueOrFinishJob(id, 0, "done")
			ended <- err
		}()
		l.until("the engine has stepped down twice", func() bool { return o.failed.Load() > 4 })
		o.broken.Store(false)
		l.gives("RequeueOrFinishJob", <-ended, nil)
		l.is(id, `finished, result "\"done\""`)
		l.tokens()
		l.restart()
		l.is(id, `finished, result "\"done\""`)
	})
}

// The disk stays full for longer than anybody is patient. Only in virtual time is that quick, which the other stores have none of. To
// plant it: queue/round.go, persist: "return nil" for "return err" at the deadline.
func TestS06JobRunsOnIfItsResultCannotBeStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, &disk{memory.NewDisk()})
		o := l.breakable(writes...)
		id := l.pickNew("build")
		token := l.Heartbeats(always)
		o.broken.Store(true)
		began := time.Now()
		_, err := l.RequeueOrFinishJob(id, 0, "done")
		var again *queue.RetryError
		if !errors.As(err, &again) || time.Since(began) < composer.Patience {
			t.Errorf("after %v RequeueOrFinishJob gives %v, want that it may be tried again, after %v", time.Since(began), err, composer.Patience)
		}
		o.broken.Store(false)
		l.is(id, isRunning)
		l.tokens(token...)
		l.finish(id, "done")
		l.is(id, `finished, result "\"done\""`)
	})
}

// To plant it: store/sqlite/lock.go, takeLock: syscall.LOCK_SH for syscall.LOCK_EX.
func TestS08SecondProcessIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "")
		var second store
		var err error
		switch p := l.place.(type) {
		case *disk:
			return // a map in this process: nobody else can open it
		case *file:
			second, err = sqlite.Open(l.Context(), p.path, sqlite.Options{})
		case *database:
			second, err = postgres.Open(l.Context(), p.address, postgres.Options{})
		}
		host, _ := os.Hostname() // where there is none, the error names another
		var held *queue.HeldError
		if !errors.As(err, &held) || held.Host != host || held.PID != os.Getpid() || time.Since(held.Since) > time.Hour {
			t.Errorf("the second process gets %v; want that process %d on %s has the store", err, os.Getpid(), host)
		}
		if err == nil {
			second.Close() //nolint:errcheck // it should not be there
		}
		l.pick(id)
		l.finish(id, nil)
		l.onlyNext("build", "")
	})
}

// The store takes a job and is gone before it says so: the caller is given the id of that job, and there is one. To plant it:
// composer/jobqueue.go, EnqueueGroup: leave out that an id in use is the job's own.
func TestEnqueueWhoseAnswerIsLostIsMadeOnce(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		o := l.speechless()
		first := l.enqueue("build", "")
		o.broken.Store(true)
		q, enqueued := l.JobQueue, make(chan given, 1)
		go func() {
			id, err := q.Enqueue("build", "args", []uuid.UUID{first}, "")
			enqueued <- given{id: id, err: err}
		}()
		l.until("the engine has stepped down", func() bool { return o.failed.Load() > 4 })
		o.broken.Store(false)
		g := <-enqueued
		if g.err != nil {
			t.Fatal(g.err)
		}
		if args, deps := l.arguments(g.id); string(args) != `"args"` || !slices.Equal(deps, []uuid.UUID{first}) {
			t.Errorf("it has the arguments %s and depends on %v", args, deps)
		}
		roots, err := l.AllRootJobIDs(t.Context())
		if err != nil || !slices.Equal(roots, []uuid.UUID{g.id}) {
			t.Errorf("the roots are %v, %v; want %s alone", roots, err, g.id)
		}
	})
}
