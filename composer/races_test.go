package composer_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
)

// Of jobs that are requeued while nothing new comes, each waits behind those that were requeued before it, also across a restart.
func TestRequeuedWaitsBehindWhatWasRequeuedBefore(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		a, b, c := l.enqueue("build", ""), l.enqueue("build", ""), l.enqueue("build", "")
		for range 3 {
			l.dequeue("build", "")
		}
		for _, id := range []uuid.UUID{b, c, a} {
			if requeued, err := l.RequeueOrFinishJob(id, 9, nil); !requeued || err != nil {
				t.Fatalf("requeued %t, %v", requeued, err)
			}
		}
		last := l.enqueue("build", "")
		for i, want := range []uuid.UUID{b, c, a, last} {
			if i == 1 {
				l.restart()
			}
			if id, _ := l.dequeue("build", ""); id != want {
				t.Errorf("dequeued %v in place %d, want %s", l.status(id), i, want)
			}
		}
	})
}

// Of several who end one attempt at the same time one does, and the others are told that it is over: none takes its result for stored.
func TestOneOfManyEndsCounts(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		for round := range 20 {
			id := l.enqueue("build", "")
			_, token := l.dequeue("build", "")
			var done atomic.Int32
			var winner atomic.Value
			var all sync.WaitGroup
			for n := range 8 {
				all.Go(func() {
					result := strconv.Itoa(n)
					end := func() (bool, error) { return l.RequeueOrFinishJob(id, 0, result) }
					gone := composer.ErrNotRunning
					if n%2 == 1 {
						end = func() (bool, error) { return l.RequeueOrFinishToken(token, 0, 0, result) }
						gone = composer.ErrNotExist
					}
					switch _, err := end(); {
					case err == nil:
						done.Add(1)
						winner.Store(result)
					case any(err) != any(gone):
						t.Errorf("round %d: %v, want %v", round, err, gone)
					}
				})
			}
			all.Wait()
			if got := l.status(id).Result; done.Load() != 1 || got != strconv.Quote(winner.Load().(string)) {
				t.Fatalf("round %d: %d were told that they ended it, the result is %s, and %v was told so", round, done.Load(), got, winner.Load())
			}
		}
	})
}

// once gives a tap that does something at the first call of a method, before or after that.
func once(method string, do func()) func(string) error {
	var begun atomic.Bool
	return func(call string) error {
		if call == method && begun.CompareAndSwap(false, true) {
			do()
		}
		return nil
	}
}

// A job that something has come to depend on since somebody looked stays, as it was: also if that has ended by then.
func TestDeleteJobLeavesWhatIsNeededMeanwhile(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		var root, dep, other uuid.UUID
		var armed atomic.Bool
		l.tap(nil, func(call string) error {
			if call == "Dependents" && armed.CompareAndSwap(true, false) {
				other = l.enqueue("other", "", dep)
				if err := l.FailJob(other, nil); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		dep = l.enqueue("build", "")
		armed.Store(true)
		if err := l.DeleteJob(t.Context(), dep); err != nil {
			t.Error(err)
		}
		l.is(dep, isPending)
		root = l.enqueue("upload", "", dep)
		if err := l.DeleteJob(t.Context(), other); err != nil {
			t.Error(err)
		}
		armed.Store(true)
		if err := l.DeleteJob(t.Context(), root); err != nil {
			t.Error(err)
		}
		l.is(dep, isPending)
		_, _, _, _, err := l.Job(root)
		l.gives("Job", err, composer.ErrNotExist)
	})
}

// A graph goes at once or not at all, also what runs of it.
func TestDeleteJobIsOneStep(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		first := l.enqueue("build", "")
		l.dequeue("build", "")
		l.finish(first, nil)
		second := l.enqueue("build", "", first)
		_, token := l.dequeue("build", "")
		root := l.enqueue("upload", "", first, second)
		before := l.engine.Round()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.DeleteJob(ctx, root); err == nil {
			t.Error("it was deleted though ctx had ended")
		}
		if err := l.DeleteJob(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		if n := l.engine.Round() - before; n != 1 {
			t.Errorf("it took %d rounds, want 1", n)
		}
		l.noToken(token)
		if roots, err := l.AllRootJobIDs(t.Context()); len(roots) != 0 || err != nil {
			t.Errorf("there are %v still, %v", roots, err)
		}
	})
}

// A worker that is deleted while it waits is nobody from then on, and leaves nothing in the store.
func TestDeletedWorkerThatWaitsDoesNotComeBack(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		w := l.insert("", "x86_64")
		c := make(chan uuid.UUID, 1)
		go func() {
			id, _, _, _, _, err := l.Dequeue(l.Context(), w, []string{"build"}, []string{""})
			if err != nil {
				t.Error(err)
			}
			c <- id
		}()
		l.waiting(1)
		if err := l.DeleteWorker(w); err != nil {
			t.Fatal(err)
		}
		l.waiting(1)
		views, err := l.engine.Workers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range views {
			if strings.Contains(views[i].Name, w.String()) {
				t.Errorf("%s is still there", views[i].Name)
			}
		}
		if id := l.enqueue("build", ""); <-c != id {
			t.Error("who waits was given another job")
		}
	})
}

// A worker that cannot be deleted stays as it was: it learns of the cancel of one job while another runs.
func TestRefusedDeleteWorkerChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		w := l.insert("", "x86_64")
		var tokens []uuid.UUID
		for n := range 6 { // each is a worker of the engine, and the one that runs comes in any place
			id := l.enqueue(strconv.Itoa(n), "")
			token, _, _, _, err := l.DequeueByID(t.Context(), id, w)
			if err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, token)
			if n != 3 {
				if err := l.CancelJob(id); err != nil {
					t.Fatal(err)
				}
			}
		}
		l.gives("DeleteWorker", l.DeleteWorker(w), composer.ErrActiveJobs)
		for n, token := range tokens {
			if _, err := l.IdFromToken(token); err != nil {
				t.Errorf("token %d: %v", n, err)
			}
		}
	})
}

// Whatever anybody asks for leaves no more than some thousand workers in the store.
func TestStraysAreBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t, &disk{memory.NewDisk()})
	for n := range 1100 {
		l.enqueue(strconv.Itoa(n), "")
		id, _ := l.dequeue(strconv.Itoa(n), "")
		l.finish(id, nil)
		if n == 550 {
			l.restart()
		}
	}
	views, err := l.engine.Workers(t.Context())
	if err != nil || len(views) > 1000 {
		t.Errorf("there are %d workers, %v", len(views), err)
	}
}

// A job that finishes between two reads of its status is not told as running without the result that it had.
func TestStatusIsOfOneMoment(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		var id uuid.UUID
		l.tap(once("Payload", func() { l.finish(id, "all") }), nil)
		id = l.enqueue("build", "")
		l.dequeue("build", "")
		if err := l.UpdateJobResult(id, "half"); err != nil {
			t.Fatal(err)
		}
		l.is(id, `finished, result "\"all\""`)
	})
}

func TestDequeueByIDWhoseContextEndsOnTheWay(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		ctx, cancel := context.WithCancel(t.Context())
		l.tap(func(call string) error {
			if call == "Jobs" && ctx.Err() == nil {
				cancel()
				return ctx.Err()
			}
			return nil
		}, nil)
		id := l.enqueue("build", "")
		_, _, _, _, err := l.DequeueByID(ctx, id, uuid.Nil)
		l.gives("DequeueByID", err, composer.ErrDequeueTimeout)
		l.is(id, isPending)
	})
}

// While the engine does not answer, each call ends when it says: one that has a context with that, the others after Patience,
// however many wait.
func TestNobodyWaitsBehindAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		e, err := queue.Open(queue.Config{Store: s, History: s})
		if err != nil {
			t.Fatal(err)
		}
		q := composer.New[worker](e, s, composer.Errors{})
		start := time.Now()
		var all sync.WaitGroup
		took := make([]time.Duration, 5)
		for n, call := range []func(){
			func() { _ = q.UpdateWorkerStatus(uuid.New()) }, func() { _ = q.UpdateWorkerStatus(uuid.New()) },
			func() { _, _ = q.Workers(0) }, func() { q.Heartbeats(0) },
			func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, _, _, _, _, err := q.Dequeue(ctx, uuid.Nil, []string{"build"}, []string{""})
				if !errors.Is(err, composer.ErrDequeueTimeout) {
					t.Errorf("Dequeue: %v", err)
				}
			},
		} {
			all.Go(func() {
				call()
				took[n] = time.Since(start)
			})
		}
		all.Wait()
		want := []time.Duration{composer.Patience, composer.Patience, composer.Patience, composer.Patience, time.Second}
		if !slices.Equal(took, want) {
			t.Errorf("they took %v, want %v", took, want)
		}
	})
}

// What a job depends on whose record cannot be read stays, and a dry run says so.
func TestExpireCountsDryAsItDeletes(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		l.finish(l.pickNew("build"), nil)
		first := l.enqueue("first", "")
		l.dequeue("first", "")
		l.finish(first, nil)
		spoiled := l.enqueue("second", "", first)
		l.dequeue("second", "")
		l.finish(spoiled, nil)
		l.restart(func() { l.place.damage(t, spoiled) })
		for _, dry := range []bool{true, false} {
			l.expires(1, dry)
		}
		l.is(first, `finished, result "null"`)
	})
}

// The owner stands before a store that does not answer: Dequeue comes back when its context ends, and what comes later waits for others. To
// plant it: queue/lease.go, leaveAs: "false &&" before w.state.CompareAndSwap.
func TestDequeueEndsWithItsContextWhateverTheStoreDoes(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		var stuck atomic.Bool
		reached, release := make(chan struct{}), make(chan struct{})
		l.tap(func(call string) error {
			if call == "Lookup" && stuck.CompareAndSwap(true, false) {
				close(reached)
				<-release
			}
			return nil
		}, nil)
		l.finish(l.pickNew("build"), nil)
		ctx, cancel := context.WithCancel(t.Context())
		c := l.waitsWithin(ctx, from("", "build"))
		l.callsWait(1)
		stuck.Store(true)
		q, cancelled := l.JobQueue, make(chan error, 1)
		go func() { cancelled <- q.CancelJob(uuid.New()) }() // which has to be looked for
		<-reached
		cancel()
		select {
		case g := <-c:
			l.isTimeout(g)
		case <-time.After(5 * time.Second):
			t.Error("Dequeue waits for the store after its context has ended")
		}
		close(release)
		l.gives("CancelJob", <-cancelled, composer.ErrNotExist)
		id := l.enqueue("build", "")
		l.callsWait(0)
		l.tokens()
		l.is(id, isPending)
		l.pick(id)
	})
}

// Jobs come while callers give up: each is told to somebody, or is still to be had.
func TestJobsThatComeAsCallersLeaveAreNotStranded(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		l.finish(l.pickNew("build"), nil)
		var told sync.Map
		var all sync.WaitGroup
		for n := range 4 {
			all.Go(func() {
				for i := range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(i*7+n*3)%11)*300*time.Microsecond)
					id, token, _, _, _, err := l.Dequeue(ctx, uuid.Nil, []string{"build"}, []string{""})
					cancel()
					if err == nil {
						told.Store(id, token)
					}
				}
			})
		}
		ids := map[uuid.UUID]bool{}
		for range 60 {
			ids[l.enqueue("build", "")] = true
		}
		all.Wait()
		l.callsWait(0)
		for _, token := range l.Heartbeats(always) {
			id, err := l.IdFromToken(token)
			if got, ok := told.Load(id); err != nil || !ok || got != token {
				t.Errorf("job %s runs under a token that nobody was told of, %v", id, err)
			}
			delete(ids, id)
		}
		for id := range ids {
			l.pick(id)
		}
	})
}
