package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// recovery measures how long it takes from opening a store with many unfinished jobs to the first answer.
func recovery(ctx context.Context, l *lab) (section, error) {
	s := section{
		title: "Recovery",
		note: "From opening the store to the first answer of the queue, with so many waiting jobs of three dependencies each, in builds of 10,000. " +
			"The store was closed in good order and its pages are in the system's cache.",
	}
	bars := map[int]time.Duration{100_000: 1500 * time.Millisecond, 1_000_000: 10 * time.Second}
	for _, k := range l.kinds {
		for _, n := range l.waiting {
			p, err := l.filled(ctx, k, n, 3)
			if err != nil {
				return s, err
			}
			var list sample
			for range l.rounds {
				runtime.GC()
				began := time.Now()
				err := with(ctx, p, func(*engine) error {
					list = append(list, time.Since(began))
					return nil
				})
				if err != nil {
					return s, err
				}
			}
			row := figure{what: fmt.Sprintf("%s, %d jobs", k, n), value: list.span()}
			if bar := bars[n]; bar > 0 {
				row.bar, row.met = bar.String(), list.at(0.5) <= bar
			}
			s.rows = append(s.rows, row)
		}
	}
	return s, nil
}

// filled makes a place with n jobs of a system that no worker has, in builds of up to ten thousand, each with so many
// dependencies. It goes through the queue, as jobs do.
func (l *lab) filled(ctx context.Context, k kind, n, needs int) (place, error) {
	p, err := l.place(ctx, k)
	if err != nil {
		return p, err
	}
	return p, with(ctx, p, func(e *engine) error { return fill(ctx, e, n, needs) })
}

func fill(ctx context.Context, e *engine, n, needs int) error {
	const size = 10_000
	return together(4, (n+size-1)/size, func(i int) error {
		_, err := e.Submit(ctx, waitingBuild(e, i*size, min(size, n-i*size), needs))
		return err
	})
}

// together calls f with the numbers below n, from so many goroutines, and gives the first error.
func together(hands, n int, f func(int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range hands {
		all.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// waitingBuild asks for jobs that wait, in a graph about as deep as real ones are.
func waitingBuild(e *engine, from, n, needs int) queue.Submission {
	s := queue.Submission{Build: &job.Build{Name: fmt.Sprintf("build-%d", from), Group: fmt.Sprintf("group-%d", from%7)}}
	for i := range n {
		spec := job.Spec{
			ID: e.NewID(), Name: fmt.Sprintf("job-%d", from+i), Kind: "build", System: "darwin",
			Key: fmt.Sprintf("/store/%032d-job-%d", from+i, from+i), Args: payload,
		}
		for d := 1; d <= needs && d <= i; d++ {
			spec.Needs = append(spec.Needs, job.Need{Job: s.Jobs[i*d/(needs+1)].ID})
		}
		s.Jobs = append(s.Jobs, spec)
		s.Refs = append(s.Refs, job.Ref{Job: spec.ID})
	}
	return s
}
