package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker"
)

// ahead measures a lease through the queue while many jobs are ready that the worker cannot run.
func ahead(ctx context.Context, l *lab) (section, error) {
	s := section{
		title: "Lease with many jobs ahead",
		note: "From the call of Lease to its durable answer, one worker with one slot and one job at a time, while so many older jobs are ready that it cannot run. " +
			fmt.Sprintf("The sizes take turns of %d leases, so that all meet the same disk, and whatever stalls it for a tenth of a second.", turnSize),
	}
	for _, k := range l.kinds {
		tails, err := l.aheadOn(ctx, k, &s)
		if err != nil {
			return s, err
		}
		least, most := l.ahead[0], l.ahead[len(l.ahead)-1]
		ratio := float64(tails[len(tails)-1]) / float64(tails[0])
		s.judge(fmt.Sprintf("%s, p99 at %d over p99 at %d", k, most, least), fmt.Sprintf("%.2f", ratio), "1.5", ratio <= 1.5)
	}
	return s, nil
}

const turnSize = 5

// aheadOn has an engine for each size, and gives the tail of each.
func (l *lab) aheadOn(ctx context.Context, k kind, s *section) (tails []time.Duration, err error) {
	engines := make([]*engine, len(l.ahead))
	workers := make([]job.Worker, len(l.ahead))
	defer func() {
		for _, e := range engines {
			if e != nil {
				err = errors.Join(err, e.close())
			}
		}
	}()
	for i, n := range l.ahead {
		if engines[i], err = l.fresh(ctx, k); err != nil {
			return nil, err
		}
		if err := fill(ctx, engines[i], n, 0); err != nil {
			return nil, err
		}
		if err := stock(ctx, engines[i], l.leases); err != nil {
			return nil, err
		}
		workers[i] = hand(engines[i], "w", 1)
		if err := engines[i].Register(ctx, workers[i]); err != nil {
			return nil, err
		}
	}
	lists := make([]sample, len(l.ahead))
	for turn := 0; turn < l.leases; turn += turnSize {
		for i, e := range engines {
			for range min(turnSize, l.leases-turn) {
				took, err := leaseOne(ctx, e, &workers[i])
				if err != nil {
					return nil, err
				}
				lists[i] = append(lists[i], took)
			}
		}
	}
	for i, n := range l.ahead {
		s.add(fmt.Sprintf("%s, %d ahead", k, n), lists[i].tails())
		tails = append(tails, lists[i].at(0.99))
	}
	return tails, nil
}

// leaseOne leases a job and finishes it, and gives how long the lease took.
func leaseOne(ctx context.Context, e *engine, w *job.Worker) (time.Duration, error) {
	began := time.Now()
	got, err := e.Lease(ctx, w.Name, w.Session, 1, 0)
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, e.Finish(ctx, job.Report{Lease: got[0].Lease, Outcome: job.Succeeded, Result: payload})
}

// idle measures one job at a time on a queue with nothing else to do, and a chain.
func idle(ctx context.Context, l *lab) (section, error) {
	s := section{
		title: "One job on an idle queue, and a chain",
		note: fmt.Sprintf("From the call of Submit to the start on a worker that waits, and until its end is durable. The chain is a build of %d no-op jobs, each of which "+
			"needs the one before, from Submit to the durable end of the build, with one worker that waits.", l.chain),
	}
	for _, k := range l.kinds {
		e, err := l.fresh(ctx, k)
		if err != nil {
			return s, err
		}
		if err := errors.Join(l.idleOn(ctx, k, e, &s), e.close()); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (l *lab) idleOn(ctx context.Context, k kind, e *engine, s *section) error {
	started, finished, err := singles(ctx, e, l.single)
	if err != nil {
		return err
	}
	s.add(fmt.Sprintf("%s, started", k), started.tails())
	s.judge(fmt.Sprintf("%s, durably finished", k), finished.tails(), "4 ms median", finished.at(0.5) <= 4*time.Millisecond)
	var chains sample
	for range max(l.rounds, 3) {
		took, err := chain(ctx, e, l.chain)
		if err != nil {
			return err
		}
		chains = append(chains, took)
	}
	s.judge(fmt.Sprintf("%s, chain of %d", k, l.chain), chains.span(), "0.2 s", chains.at(0.5) < 200*time.Millisecond)
	return nil
}

// working has a worker of package worker, with one slot, wait for jobs while f runs. It tells ends when Finish has
// returned, with the times of start and end.
func working(ctx context.Context, e *engine, ends chan<- [2]time.Time, f func(context.Context) error) error {
	c := &noting{engine: e, ends: ends}
	w := hand(e, "waiting", 1)
	r := worker.Runtime{Source: c, Worker: w, Handlers: map[string]worker.Handler{
		noop: func(context.Context, *worker.Attempt) job.Report {
			c.began = time.Now()
			return job.Report{Outcome: job.Succeeded, Result: payload}
		},
	}}
	whole, end := context.WithCancel(ctx)
	defer end()
	over, stop := context.WithCancel(whole)
	var all sync.WaitGroup
	var runs error
	all.Go(func() {
		runs = r.Run(whole, over)
		end() // f would wait for ever
	})
	err := f(whole)
	stop()
	all.Wait()
	return errors.Join(err, runs, e.dismiss(ctx, w.Name))
}

// noting is an engine that notes when attempts begin and end; there is one at a time.
type noting struct {
	*engine
	began time.Time
	ends  chan<- [2]time.Time
}

// Finish implements worker.Source.
func (n *noting) Finish(ctx context.Context, r job.Report) error {
	err := n.engine.Finish(ctx, r)
	if err == nil && n.ends != nil {
		n.ends <- [2]time.Time{n.began, time.Now()}
	}
	return err
}

// singles runs n jobs, each once the last has ended.
func singles(ctx context.Context, e *engine, n int) (started, finished sample, err error) {
	ends := make(chan [2]time.Time, 1)
	err = working(ctx, e, ends, func(ctx context.Context) error {
		for range n {
			began := time.Now()
			if _, err := e.Submit(ctx, queue.Submission{Jobs: noopJobs(1)}); err != nil {
				return err
			}
			select {
			case t := <-ends:
				started, finished = append(started, t[0].Sub(began)), append(finished, t[1].Sub(began))
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return started, finished, err
}

// chain runs a build of jobs of which each needs the one before, and gives how long it took.
func chain(ctx context.Context, e *engine, n int) (took time.Duration, err error) {
	jobs := noopJobs(n)
	for i := range jobs {
		jobs[i].ID = e.NewID()
		if i > 0 {
			jobs[i].Needs = []job.Need{{Job: jobs[i-1].ID}}
		}
	}
	err = working(ctx, e, nil, func(ctx context.Context) error {
		began := time.Now()
		r, err := e.Submit(ctx, queue.Submission{Build: &job.Build{Name: "chain"}, Jobs: jobs, Refs: []job.Ref{{Job: jobs[n-1].ID}}})
		if err != nil {
			return err
		}
		b, err := e.AwaitBuild(ctx, r.Build)
		took = time.Since(began)
		if err == nil && b.Outcome != job.Succeeded {
			err = fmt.Errorf("the chain ended as %s", b.Outcome)
		}
		return err
	})
	return took, err
}

// people measures what a person does to many jobs at once, and what others feel of it.
func people(ctx context.Context, l *lab) (section, error) {
	s := section{
		title: "Priority bump and cancel",
		note: fmt.Sprintf("A build of %d waiting jobs of three dependencies each gets a new priority: until the call has its durable answer, and until the job that the "+
			"new priority reaches last goes ahead of a job of another build. %d builds of one job each are cancelled by 64 callers. "+
			"Meanwhile another caller asks for something, again and again: the longest that it waited is told, and the 99th percentile.", l.bump, l.cancel),
	}
	for _, k := range l.kinds {
		e, err := l.fresh(ctx, k)
		if err != nil {
			return s, err
		}
		if err := errors.Join(l.bumpOn(ctx, k, e, &s), e.close()); err != nil {
			return s, err
		}
		if e, err = l.fresh(ctx, k); err != nil {
			return s, err
		}
		if err := errors.Join(l.cancelOn(ctx, k, e, &s), e.close()); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (l *lab) bumpOn(ctx context.Context, k kind, e *engine, s *section) error {
	// One system, which a worker has: the order among jobs is that of one class.
	if err := e.Register(ctx, job.Worker{Name: "w", Channels: []string{""}, Kinds: []string{"build"}, Systems: []string{"darwin"}, Slots: 1, Session: e.NewID()}); err != nil {
		return err
	}
	large := waitingBuild(e, 0, l.bump, 3)
	got, err := e.Submit(ctx, large)
	if err != nil {
		return err
	}
	other := waitingBuild(e, l.bump, 1, 0)
	other.Build.Priority = 5
	if _, err := e.Submit(ctx, other); err != nil {
		return err
	}
	// The oldest job: all others depend on it in the end, so that its path is the longest of its build.
	oldest := got.Jobs[0].ID
	goesFirst := func() (bool, error) {
		why, err := e.Why(ctx, oldest)
		return why.Ahead == 0, err
	}
	if first, err := goesFirst(); err != nil || first {
		return errors.Join(err, errors.New("the oldest job goes ahead of a higher priority"))
	}
	var answered, reached sample
	waits, err := probed(ctx, e, func() error {
		for round := range max(l.rounds, 1) {
			began := time.Now()
			if err := e.Bump(ctx, got.Build, 10); err != nil {
				return err
			}
			answered = append(answered, time.Since(began))
			for first := false; !first; {
				if first, err = goesFirst(); err != nil {
					return err
				}
			}
			reached = append(reached, time.Since(began))
			if err := e.Bump(ctx, got.Build, int32(-1-round)); err != nil {
				return err
			}
			for first := true; first; {
				if first, err = goesFirst(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.add(fmt.Sprintf("%s, bump over %d jobs: answered", k, l.bump), answered.span())
	s.add(fmt.Sprintf("%s, bump over %d jobs: the last job has it", k, l.bump), reached.span())
	s.add(fmt.Sprintf("%s, others meanwhile", k), worst(waits))
	return nil
}

func worst(waits sample) string {
	return fmt.Sprintf("%s at most, %s p99", round(slices.Max(waits)), round(waits.at(0.99)))
}

func (l *lab) cancelOn(ctx context.Context, k kind, e *engine, s *section) error {
	ids := make([]job.ID, l.cancel)
	if err := together(64, l.cancel, func(i int) error {
		r, err := e.Submit(ctx, waitingBuild(e, i, 1, 0))
		ids[i] = r.Build
		return err
	}); err != nil {
		return err
	}
	var took time.Duration
	waits, err := probed(ctx, e, func() error {
		began := time.Now()
		err := together(64, l.cancel, func(i int) error { return e.CancelBuild(ctx, ids[i], false) })
		took = time.Since(began)
		return err
	})
	if err != nil {
		return err
	}
	s.add(fmt.Sprintf("%s, cancel of %d builds", k, l.cancel), fmt.Sprintf("%s, %.0f/s", round(took), float64(l.cancel)/took.Seconds()))
	s.add(fmt.Sprintf("%s, others meanwhile", k), worst(waits))
	return nil
}

// probed runs f while another caller asks the queue for something, and gives how long each answer took.
func probed(ctx context.Context, e *engine, f func() error) (sample, error) {
	over, stop := context.WithCancel(ctx)
	defer stop()
	var waits sample
	var all sync.WaitGroup
	all.Go(func() {
		for len(waits) == 0 || over.Err() == nil {
			began := time.Now()
			if _, err := e.Channel(ctx, ""); err != nil {
				break // f meets it, too
			}
			waits = append(waits, time.Since(began))
		}
	})
	err := f()
	stop()
	all.Wait()
	return waits, err
}
