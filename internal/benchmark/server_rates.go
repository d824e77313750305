package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// webLifecycles measures how many jobs workers lease and finish in a second.
func (l *lab) webLifecycles(ctx context.Context, k kind, s *section) error {
	for _, batch := range l.web.batches {
		var list rates
		var calls sample
		var took shares
		for range l.rounds {
			err := l.onRemote(ctx, k, func(r *remote) error {
				rate, each, err := l.drainRemote(ctx, r, batch, &took)
				list, calls = append(list, rate), append(calls, each...)
				return err
			})
			if err != nil {
				return err
			}
		}
		row := figure{what: fmt.Sprintf("%s, lifecycles, %d workers, %d at once", k, l.web.workers, batch), value: list.text() + "; a call " + calls.tails()}
		if batch > 1 {
			row.bar, row.met = "5000/s", list.median() >= 5000
		}
		s.rows = append(s.rows, row)
		s.add(fmt.Sprintf("%s, lifecycles, %d at once, processor time a job", k, batch), took.text(k))
	}
	return nil
}

// shares is the processor time that a number of jobs took, by process.
type shares struct {
	server, client, database time.Duration
	jobs                     int
}

// text tells it of one job, and how many a second that allows if no processor ever waits.
func (e shares) text(k kind) string {
	job := func(d time.Duration) string { return round(d / time.Duration(max(e.jobs, 1))) }
	text := fmt.Sprintf("%s in the server, %s in the client", job(e.server), job(e.client))
	if k == onPostgres {
		text += fmt.Sprintf(", %s in the database", job(e.database))
	}
	most := float64(runtime.NumCPU()) * float64(e.jobs) / max(e.server+e.client+e.database, 1).Seconds()
	return fmt.Sprintf("%s: at most %.0f/s on %d cores", text, most, runtime.NumCPU())
}

// spendingOf adds what is spent until the function that it gives is called.
func (l *lab) spendingOf(r *remote, e *shares, jobs int) (func() error, error) {
	look := func() (now shares, err error) {
		here, err := l.spent(r.kind)
		if err != nil {
			return now, err
		}
		now.client, now.database = here.here, here.server
		now.server, err = r.spent()
		return now, err
	}
	before, err := look()
	return func() error {
		after, err := look()
		e.server += after.server - before.server
		e.client += after.client - before.client
		e.database += after.database - before.database
		e.jobs += jobs
		return err
	}, err
}

// drainRemote has workers run what waits, and gives how many jobs they ran in a second, and how long each call took.
func (l *lab) drainRemote(ctx context.Context, r *remote, batch int, took *shares) (float64, sample, error) {
	if err := r.stock(ctx, noop, l.web.drain); err != nil {
		return 0, nil, err
	}
	crew, err := r.crew(ctx, noop, l.web.workers, batch)
	if err != nil {
		return 0, nil, err
	}
	over, err := l.spendingOf(r, took, l.web.drain)
	if err != nil {
		return 0, nil, err
	}
	profiled := r.profile(ctx, fmt.Sprintf("lifecycles-%d", batch), 4*time.Second)
	running, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var calls sample
	left, lasted := l.web.drain, time.Duration(0)
	began := time.Now()
	err = together(len(crew), len(crew), func(i int) error {
		for running.Err() == nil {
			at := time.Now()
			reply, err := crew[i].call(running, batch)
			if running.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return err
			}
			crew[i].ran(reply.Start)
			mu.Lock()
			calls = append(calls, time.Since(at))
			left -= len(reply.Acknowledged)
			if left <= 0 {
				lasted = time.Since(began)
				stop()
			}
			mu.Unlock()
			for _, a := range reply.Acknowledged {
				if a.Problem != nil {
					return a.Problem
				}
			}
		}
		return nil
	})
	err = errors.Join(err, over(), profiled())
	if err == nil && left != 0 {
		err = fmt.Errorf("%d jobs are left", left)
	}
	return float64(l.web.drain) / max(lasted, 1).Seconds(), calls, err
}

// webSubmission measures a large submission, and what a worker feels of it.
func (l *lab) webSubmission(ctx context.Context, k kind, s *section) error {
	var took, finishes, slowest sample
	var spent shares
	for range l.rounds {
		err := l.onRemote(ctx, k, func(r *remote) error {
			submission := needy(l.web.graph)
			if err := r.stock(ctx, noop, 4*l.web.offered); err != nil {
				return err
			}
			profiled := r.profile(ctx, "submission", 10*time.Second)
			list, err := r.finishing(ctx, func() error {
				over, err := l.spendingOf(r, &spent, l.web.graph)
				if err != nil {
					return err
				}
				began := time.Now()
				receipt, err := r.Submit(ctx, submission)
				took = append(took, time.Since(began))
				if err == nil && len(receipt.Jobs) != l.web.graph {
					err = fmt.Errorf("the receipt tells of %d jobs", len(receipt.Jobs))
				}
				return errors.Join(err, over())
			})
			if len(list) > 0 {
				finishes, slowest = append(finishes, list...), append(slowest, list.at(1))
			}
			return errors.Join(err, profiled())
		})
		if err != nil {
			return err
		}
	}
	s.judge(fmt.Sprintf("%s, submission of %d jobs", k, l.web.graph), took.span(), "5 s", took.at(0.5) < 5*time.Second)
	s.add(fmt.Sprintf("%s, submission, processor time a job, the finishes' included", k), spent.text(k))
	if len(slowest) > 0 {
		s.add(fmt.Sprintf("%s, finishes meanwhile", k), finishes.tails()+"; slowest "+slowest.span())
	}
	return nil
}

// needy asks for a build of n jobs of three needs each.
func needy(n int) *api.Submission {
	const needs = 3
	s := plain("build", n)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		j.Name, j.Key = fmt.Sprintf("job-%d", i), fmt.Sprintf("/store/%032d-job-%d", i, i)
		for d := 1; d <= needs && d <= i; d++ {
			j.Needs = append(j.Needs, api.Need{Job: s.Jobs[i*d/(needs+1)].Name})
		}
	}
	return s
}

// finishing has a worker run jobs one at a time while f runs, and gives how long each call with an end took.
func (r *remote) finishing(ctx context.Context, f func() error) (list sample, err error) {
	h := r.hire("finishing", noop, 1)
	reply, err := h.call(ctx, 1)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	var failed error
	all.Go(func() {
		for running.Err() == nil && failed == nil {
			h.ran(reply.Start)
			began := time.Now()
			reply, failed = h.call(ctx, 1)
			list = append(list, time.Since(began))
		}
	})
	err = f()
	stop()
	all.Wait()
	return list, errors.Join(err, failed)
}

// webCancels measures how long it takes until a worker hears that its job is cancelled.
func (l *lab) webCancels(ctx context.Context, k kind, s *section) error {
	const workers = 100
	return l.onRemote(ctx, k, func(r *remote) error {
		if err := r.stock(ctx, noop, l.web.cancels+workers); err != nil {
			return err
		}
		crew, err := r.crew(ctx, noop, min(workers, l.web.cancels), 1)
		if err != nil {
			return err
		}
		running, stop := context.WithCancel(ctx)
		defer stop()
		at := make(chan job.ID, workers)
		heard := make(chan time.Time, 1)
		var all sync.WaitGroup
		errs := make([]error, len(crew))
		for i, h := range crew {
			all.Go(func() { errs[i] = h.obey(running, at, heard) })
		}
		var list sample
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for range l.web.cancels {
			<-pace.C
			id := <-at
			began := time.Now()
			if err := r.CancelJob(ctx, id, job.ID{}, true, ""); err != nil {
				return err
			}
			list = append(list, (<-heard).Sub(began))
		}
		stop()
		all.Wait()
		s.judge(fmt.Sprintf("%s, cancel to the worker", k), list.tails(), "20 ms p99", list.at(0.99) <= 20*time.Millisecond)
		return errors.Join(errs...)
	})
}

// obey runs a job at a time until it is told to stop it, tells which, and when.
func (h *hired) obey(ctx context.Context, at chan<- job.ID, heard chan<- time.Time) error {
	for {
		reply, err := h.call(ctx, 1)
		h.says.Finished = nil
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if len(reply.Start) == 0 {
			continue
		}
		lease := reply.Start[0].Lease
		h.says.Running = []api.Running{{Lease: lease}}
		at <- lease.Job
		for len(reply.Stop) == 0 {
			if reply, err = h.call(ctx, 0); ctx.Err() != nil {
				return nil
			} else if err != nil {
				return err
			}
		}
		heard <- time.Now()
		h.says.Running, h.says.Finished = nil, []api.Finished{{Lease: lease, Outcome: job.Cancelled.String()}}
	}
}
