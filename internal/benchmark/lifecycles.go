package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
)

// lifecycles measures enqueue, lease and finish on SQLite with synchronous=FULL, with several numbers of callers, each
// of which is a producer and a worker with one slot.
func lifecycles(ctx context.Context, o options) (section, error) {
	s := section{
		title: "Lifecycles on SQLite",
		note:  "Enqueue, lease, finish: each durable before it is answered; args and result of 100 bytes, history kept.",
	}
	for _, callers := range o.callers {
		var list []float64
		for i := range o.rounds {
			path := filepath.Join(o.dir, fmt.Sprintf("lifecycles-%d-%d.db", callers, i))
			rate, err := lifecycleRate(ctx, path, callers, o.window)
			if err != nil {
				return s, err
			}
			list = append(list, rate)
		}
		median, text := rates(list)
		row := figure{what: fmt.Sprintf("%d callers", callers), value: text}
		if callers == 512 {
			row.bar, row.met = "15,000/s", median >= 15_000
		}
		s.rows = append(s.rows, row)
	}
	return s, nil
}

func lifecycleRate(ctx context.Context, path string, callers int, window time.Duration) (float64, error) {
	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return 0, err
	}
	defer store.Close()
	q, err := queue.Open(queue.Config{Store: store, History: store})
	if err != nil {
		return 0, err
	}
	owner, stop := context.WithCancel(ctx)
	var run sync.WaitGroup
	run.Go(func() { _ = q.Run(owner) })
	defer run.Wait()
	defer stop()

	limit, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	began := time.Now()
	for i := range callers {
		all.Go(func() {
			if err := lifecycle(limit, q, i, &done); err != nil && limit.Err() == nil {
				failed.Store(&err)
				cancel()
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(began).Seconds(), nil
}

func lifecycle(ctx context.Context, q *queue.Queue, i int, done *atomic.Int64) error {
	payload := make([]byte, 100)
	w := job.Worker{Name: fmt.Sprintf("w%d", i), Channels: []string{""}, Kinds: []string{"noop"}, Slots: 1, Session: q.NewID()}
	if err := q.Register(ctx, w); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if _, err := q.Submit(ctx, queue.Submission{Jobs: []job.Spec{{Kind: "noop", Name: "noop", Args: payload}}}); err != nil {
			return err
		}
		got, err := q.Lease(ctx, w.Name, w.Session, 1, 0)
		if err != nil {
			return err
		}
		err = q.Finish(ctx, job.Report{Lease: got[0].Lease, Outcome: job.Succeeded, Result: payload})
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		done.Add(1)
	}
	return nil
}
