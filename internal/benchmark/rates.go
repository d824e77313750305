package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker"
)

// payload is what each job is given, and what it leaves.
var payload = make([]byte, 100)

// noop is the kind of all jobs that are run here.
const noop = "noop"

func noopJob() job.Spec { return job.Spec{Kind: noop, Name: noop, System: "linux", Args: payload} }

// noopJobs gives n of them.
func noopJobs(n int) []job.Spec {
	list := make([]job.Spec, n)
	for i := range list {
		list[i] = noopJob()
	}
	return list
}

// hand is a worker's registration.
func hand(e *engine, name string, slots int32) job.Worker {
	return job.Worker{
		Name: name, Channels: []string{""}, Kinds: []string{noop}, Systems: []string{"linux"}, Slots: slots, Session: e.NewID(),
	}
}

// caller prepares what one caller does again and again.
type caller func(ctx context.Context, e *engine, name string) (again func(context.Context) error, err error)

// rate counts how often a number of callers are done in a second, over a window of time, or until the first is. What is
// under way at its end is taken back, and not counted.
func rate(ctx context.Context, e *engine, callers int, window time.Duration, c caller) (float64, error) {
	again, names := make([]func(context.Context) error, callers), make([]string, callers)
	for i := range again {
		names[i] = fmt.Sprintf("caller-%d", i)
		var err error
		if again[i], err = c(ctx, e, names[i]); err != nil {
			return 0, err
		}
	}
	limit, cancel := context.WithCancel(ctx)
	defer cancel()
	some := make(chan struct{})
	var once sync.Once
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for _, f := range again {
		all.Go(func() {
			for limit.Err() == nil {
				err := f(limit)
				if limit.Err() != nil {
					return
				}
				if err != nil {
					failed.Store(&err)
					cancel()
					return
				}
				done.Add(1)
				once.Do(func() { close(some) })
			}
		})
	}
	wait(limit, time.After(window))
	wait(limit, some)
	counted, took := done.Load(), time.Since(began)
	cancel()
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(counted) / took.Seconds(), e.dismiss(ctx, names...)
}

func wait[T any](ctx context.Context, c <-chan T) {
	select {
	case <-c:
	case <-ctx.Done():
	}
}

// dismiss removes the workers of these names, if there are such: the next measurement shall not choose among them.
func (e *engine) dismiss(ctx context.Context, names ...string) error {
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			if err := e.RemoveWorker(ctx, name, true); !errors.Is(err, job.ErrNotFound) {
				errs[i] = err
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// lifecycle is a caller that is a producer and a worker with one slot: it enqueues a job, leases one and finishes it.
func lifecycle(ctx context.Context, e *engine, name string) (func(context.Context) error, error) {
	w := hand(e, name, 1)
	if err := e.Register(ctx, w); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if _, err := e.Submit(ctx, queue.Submission{Jobs: []job.Spec{noopJob()}}); err != nil {
			return err
		}
		got, err := e.Lease(ctx, w.Name, w.Session, 1, 0)
		if err != nil {
			return err
		}
		return e.Finish(ctx, job.Report{Lease: got[0].Lease, Outcome: job.Succeeded, Result: payload})
	}, nil
}

// enqueue gives a caller that enqueues so many jobs at once.
func enqueue(jobs int) caller {
	return func(_ context.Context, e *engine, _ string) (func(context.Context) error, error) {
		return func(ctx context.Context) error {
			_, err := e.Submit(ctx, queue.Submission{Jobs: noopJobs(jobs)})
			return err
		}, nil
	}
}

// stock enqueues n no-op jobs, a thousand at a time.
func stock(ctx context.Context, e *engine, n int) error {
	const piece = 1000
	for from := 0; from < n; from += piece {
		if _, err := e.Submit(ctx, queue.Submission{Jobs: noopJobs(min(piece, n-from))}); err != nil {
			return err
		}
	}
	return nil
}

// counted is an engine that counts the attempts whose end is stored.
type counted struct {
	*engine
	left atomic.Int64
	done chan struct{} // closed when none is left
}

// Finish implements worker.Source.
func (c *counted) Finish(ctx context.Context, r job.Report) error {
	err := c.engine.Finish(ctx, r)
	if err == nil && c.left.Add(-1) == 0 {
		close(c.done)
	}
	return err
}

// drain has one worker, package worker's own, with so many slots run the n no-op jobs that wait, and gives how many it
// ran in a second, each until its end was stored.
func drain(ctx context.Context, e *engine, n, slots int) (float64, error) {
	c := &counted{engine: e, done: make(chan struct{})}
	c.left.Store(int64(n))
	w := hand(e, "drain-"+e.NewID().String(), int32(slots))
	r := worker.Runtime{Source: c, Worker: w, Handlers: map[string]worker.Handler{
		noop: func(context.Context, *worker.Attempt) job.Report {
			return job.Report{Outcome: job.Succeeded, Result: payload}
		},
	}}
	over, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	var err error
	began := time.Now()
	all.Go(func() {
		err = r.Run(ctx, over)
		stop()
	})
	select {
	case <-c.done:
	case <-over.Done():
	}
	took := time.Since(began)
	stop()
	all.Wait()
	if left := c.left.Load(); left > 0 && err == nil {
		err = fmt.Errorf("%d jobs are left", left)
	}
	return float64(n) / took.Seconds(), errors.Join(err, ctx.Err(), e.dismiss(ctx, w.Name))
}
