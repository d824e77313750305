package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

// doorSizes are how much is measured of composer's queue.
type doorSizes struct {
	producers []int // that enqueue
	workers   []int // that drain
	drain     int   // jobs
	graphs    int
	pending   []int // jobs of a type that nobody serves
	finished  int
	turns     int // jobs of which the latency is told
	idle      int // workers of another type
	foreign   int // jobs of a third
}

var (
	fullDoor = doorSizes{
		producers: []int{1, 8}, workers: []int{1, 8, 64}, drain: 2000, graphs: 40,
		pending: []int{0, 1000, 10_000, 100_000}, finished: 100_000, turns: 300, idle: 64, foreign: 1000,
	}
	quickDoor = doorSizes{
		producers: []int{2}, workers: []int{3}, drain: 20, graphs: 2, pending: []int{0, 10}, finished: 10, turns: 3, idle: 3, foreign: 5,
	}
)

// upstreams are what osbuild-composer's own queues take on the same kind of machine. That on files, which syncs nothing, stands beside SQLite.
var upstreams = map[kind]struct{ drain, pending, herd, wake, open string }{
	onSQLite:   {"599/s", "5168ms", "2820ms", "0.9ms", "3.745s"},
	onPostgres: {"200/s", "37ms", "53ms", "3.8ms", "1.2ms, its first job 357ms"},
}

// composers measures composer's queue (package composer) as its users see it.
func composers(ctx context.Context, l *lab) (section, error) {
	s := section{
		title: "Composer's job queue",
		note: "Through package composer alone; arguments and results of 100 bytes of JSON; every worker is one that was inserted, with one job at a time. " +
			"Each job is looked at when the clock has stopped: it was handed out once, has ended with its result, and not before what it depends on. " +
			fmt.Sprintf("A drain is of %d jobs that wait: Dequeue and RequeueOrFinishJob, until the last end is durable. ", l.door.drain) +
			"A graph is 13 jobs: depsolve, a manifest that needs it, ten images that need the manifest, an upload that needs all images. " +
			fmt.Sprintf("Dequeue alone is timed where jobs are pending of a type that nobody serves; the sizes take turns of %d. ", turnSize) +
			fmt.Sprintf("In the herd, one job is enqueued, dequeued and finished while %d workers wait for another type and %d jobs of a third are pending. ", l.door.idle, l.door.foreign) +
			"A wake-up is from the call of Enqueue to the return of a Dequeue that waited; it takes turns with the disk. " +
			"Upstream: osbuild-composer's own queues on the same kind of machine, that on files, which syncs nothing, beside SQLite.",
	}
	for _, k := range l.kinds {
		for _, measure := range []func(context.Context, kind, *section) error{l.doorRates, l.behind, l.herd, l.wakeUps, l.reopen} {
			if err := measure(ctx, k, &s); err != nil {
				return s, fmt.Errorf("%s: %w", k, err)
			}
		}
	}
	return s, nil
}

// member is declared as composer's Worker is.
type member struct {
	ID      uuid.UUID
	Channel string
	Arch    string
}

// door is composer's queue on an engine.
type door struct {
	*composer.JobQueue[member]
	engine *engine
}

func newDoor(e *engine) door {
	return door{composer.New[member](e.Queue, e.store, composer.Errors{}), e}
}

const (
	tenant = "org-1" // the channel of all jobs
	image  = "osbuild:x86_64"
	// Nobody asks for these.
	foreign = "osbuild:s390x"
)

var (
	doorArgs   = json.RawMessage(`{"manifest":"` + strings.Repeat("m", 86) + `"}`)
	doorResult = json.RawMessage(`{"image_log":"` + strings.Repeat("r", 85) + `"}`)
)

// enqueue asks for n jobs of a type that depend on nothing, by so many producers, and gives their ids.
func (d door) enqueue(producers, n int, jobType string) ([]uuid.UUID, error) {
	ids := make([]uuid.UUID, n)
	return ids, together(producers, n, func(i int) (err error) {
		ids[i], err = d.Enqueue(jobType, doorArgs, nil, tenant)
		return err
	})
}

// crowd is how many producers fill a queue where that is not what is measured.
const crowd = 512

// hire inserts n workers.
func (d door) hire(n int) ([]uuid.UUID, error) {
	ids := make([]uuid.UUID, n)
	return ids, together(n, n, func(i int) (err error) {
		ids[i], err = d.InsertWorker(tenant, "x86_64")
		return err
	})
}

// finish ends a job, which must be granted.
func (d door) finish(id uuid.UUID) error {
	requeued, err := d.RequeueOrFinishJob(id, 0, doorResult)
	if err == nil && requeued {
		err = fmt.Errorf("job %s was requeued", id)
	}
	return err
}

// work has these workers dequeue and finish n jobs of these types, and gives how long it took them until the last end was durable.
func (d door) work(ctx context.Context, workers []uuid.UUID, n int, types ...string) (took time.Duration, given ledger, err error) {
	runtime.GC()
	over, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	given, left := ledger{}, n
	began := time.Now()
	err = together(len(workers), len(workers), func(i int) error {
		for {
			id, _, _, _, _, err := d.Dequeue(over, workers[i], types, []string{tenant})
			if errors.Is(err, composer.ErrDequeueTimeout) {
				return ctx.Err()
			}
			if err == nil {
				err = d.finish(id)
			}
			mu.Lock()
			given[id]++
			if left--; left == 0 {
				took = time.Since(began)
			}
			if left == 0 || err != nil {
				stop()
			}
			mu.Unlock()
			if err != nil {
				return err
			}
		}
	})
	return took, given, err
}

// ledger counts how often each job was handed out.
type ledger map[uuid.UUID]int

// check reports unless each of these jobs was handed out once, and no other.
func (g ledger) check(want []uuid.UUID) error {
	for _, id := range want {
		if g[id] != 1 {
			return fmt.Errorf("job %s was handed out %d times", id, g[id])
		}
	}
	if len(g) != len(want) {
		return fmt.Errorf("%d jobs were handed out, want %d", len(g), len(want))
	}
	return nil
}

// ended reports unless each of these jobs has its result, and did not start before what it depends on had finished.
func (d door) ended(jobs []uuid.UUID) error {
	ends := map[uuid.UUID]time.Time{}
	for _, id := range jobs {
		_, _, result, _, started, finished, canceled, deps, _, err := d.JobStatus(id)
		switch {
		case err != nil:
			return fmt.Errorf("job %s: %w", id, err)
		case finished.IsZero() || canceled || !bytes.Equal(result, doorResult):
			return fmt.Errorf("job %s has not finished with its result but with %q", id, result)
		}
		ends[id] = finished
		for _, dep := range deps {
			if end, ok := ends[dep]; !ok || started.Before(end) {
				return fmt.Errorf("job %s started before its dependency %s had finished", id, dep)
			}
		}
	}
	return nil
}

// waiting returns once so many callers of Dequeue wait.
func (d door) waiting(ctx context.Context, n int) error {
	for {
		list, err := d.engine.Workers(ctx)
		if err != nil {
			return err
		}
		waits := 0
		for i := range list {
			waits += list[i].Waits
		}
		if waits == n {
			return nil
		}
		runtime.Gosched()
	}
}

// onDoor runs f with composer's queue on an empty store.
func (l *lab) onDoor(ctx context.Context, k kind, f func(door) error) error {
	e, err := l.fresh(ctx, k)
	if err != nil {
		return err
	}
	return errors.Join(f(newDoor(e)), e.close())
}
