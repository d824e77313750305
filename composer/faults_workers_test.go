package composer_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

// insert makes a worker known.
func (l *lab) insert(channel, arch string) uuid.UUID {
	l.Helper()
	id, err := l.InsertWorker(channel, arch)
	if err != nil {
		l.Fatal(err)
	}
	return id
}

// workers checks which workers are known, in no order.
func (l *lab) workers(want ...worker) {
	l.Helper()
	got, err := l.Workers(always)
	if err != nil {
		l.Fatal(err)
	}
	want = slices.Clone(want)
	slices.SortFunc(want, func(a, b worker) int { return slices.Compare(a.ID[:], b.ID[:]) })
	if !slices.Equal(got, want) {
		l.Errorf("the workers are %v, want %v", got, want)
	}
}

// dequeueAs takes the next job as a worker.
func (l *lab) dequeueAs(workerID uuid.UUID, jobType, channel string) (id, token uuid.UUID) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), soon)
	defer cancel()
	id, token, _, _, _, err := l.Dequeue(ctx, workerID, []string{jobType}, []string{channel})
	if err != nil {
		l.Fatalf("dequeue as %s: %v", workerID, err)
	}
	return id, token
}

// To plant it: composer/roster.go, leave: "return q.errs.ActiveJobs" for what is done with attempts that are being stopped.
func TestF20WorkerWhoseJobWasCancelledCanBeDeleted(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "org")
		w := l.insert("org", "x86_64")
		_, token := l.dequeueAs(w, "build", "org")
		l.gives("DeleteWorker", l.DeleteWorker(w), composer.ErrActiveJobs)
		if err := l.CancelJob(id); err != nil {
			t.Fatal(err)
		}
		l.gives("DeleteWorker", l.DeleteWorker(w), nil)
		l.workers()
		l.noToken(token)
		l.is(id, isCanceled)
		l.restart()
		l.workers()
	})
}

// To plant it: composer/roster.go: have roster.workers be a map[uuid.UUID]member, so that UpdateWorkerStatus writes to a copy; or leave
// "m.seen = time.Now()" out there.
func TestF22WorkerThatWasHeardOfIsNotTakenForDead(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		w, silent := l.insert("org", "x86_64"), l.insert("org", "aarch64")
		inserted := time.Now()
		// Whoever was not heard of since then was silent for longer than the time since then, whenever that is asked.
		l.until("the one that was heard of is not listed", func() bool {
			if err := l.UpdateWorkerStatus(w); err != nil {
				t.Fatal(err)
			}
			list, err := l.Workers(time.Since(inserted))
			if err != nil {
				t.Fatal(err)
			}
			return slices.Equal(list, []worker{{silent, "org", "aarch64"}})
		})
	})
}

// To plant it: composer/roster.go, fetch: "reach != """ for "reach == """ where members are made.
func TestF24WorkersOutliveARestart(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		a, b := l.insert("org", "x86_64"), l.insert("", "aarch64")
		want := []worker{{a, "org", "x86_64"}, {b, "", "aarch64"}}
		l.workers(want...)
		l.restart()
		l.workers(want...)
		l.gives("UpdateWorkerStatus", l.UpdateWorkerStatus(a), nil)
		if list, err := l.Workers(time.Hour); err != nil || len(list) > 0 {
			t.Errorf("workers that were heard of at the restart are silent: %v, %v", list, err)
		}
		l.gives("DeleteWorker", l.DeleteWorker(a), nil)
		l.restart()
		l.workers(want[1])
	})
}

// To plant it: composer/roster.go, name: leave "if known" and what it does out: all is anybody's.
func TestF24bWorkerHasItsJobAfterARestart(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		id := l.enqueue("build", "org")
		w := l.insert("org", "x86_64")
		_, token := l.dequeueAs(w, "build", "org")
		l.restart()
		l.gives("DeleteWorker", l.DeleteWorker(w), composer.ErrActiveJobs)
		l.tokens(token)
		l.workers(worker{w, "org", "x86_64"})
		l.finish(id, nil)
		l.gives("DeleteWorker", l.DeleteWorker(w), nil)
	})
}

// To plant it: composer/roster.go, as: "return ErrWorkerNotExist" for a worker that is not known and not uuid.Nil.
func TestF40UnknownWorkerIsServed(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		stranger, gone := uuid.New(), l.insert("org", "x86_64")
		l.gives("DeleteWorker", l.DeleteWorker(gone), nil)
		for _, w := range []uuid.UUID{stranger, gone, uuid.Nil} {
			want := l.enqueue("build", "org")
			if id, _ := l.dequeueAs(w, "build", "org"); id != want {
				t.Errorf("dequeued %s, want %s", id, want)
			}
			l.finish(want, nil)
		}
		byID := l.enqueue("build", "org")
		if _, _, _, _, err := l.DequeueByID(l.Context(), byID, stranger); err != nil {
			t.Errorf("DequeueByID of a worker that is not known: %v", err)
		}
		l.workers()
	})
}

// To plant it: composer/roster.go, leave: leave the case of !h.Stopping out.
func TestD03JobOfAWorkerThatIsDeletedMeanwhileIsNotLost(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		busy := l.enqueue("build", "org")
		w := l.insert("org", "x86_64")
		_, token := l.dequeueAs(w, "build", "org")
		l.gives("DeleteWorker", l.DeleteWorker(w), composer.ErrActiveJobs)
		l.tokens(token)
		l.finish(busy, nil)
		// Whichever comes first: a job that was given out is watched, and can be finished.
		for range 20 {
			id := l.enqueue("build", "org")
			w := l.insert("org", "x86_64")
			deleted := make(chan error, 1)
			q := l.JobQueue
			go func() { deleted <- q.DeleteWorker(w) }()
			got, token := l.dequeueAs(w, "build", "org")
			err := <-deleted
			if got != id || err != nil && !errors.Is(err, composer.ErrActiveJobs) {
				t.Fatalf("dequeued %s, want %s; DeleteWorker gives %v", got, id, err)
			}
			l.tokens(token)
			l.finish(id, "done")
			l.is(id, `finished, result "\"done\""`)
		}
	})
}
