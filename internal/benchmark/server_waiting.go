package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// webStarts measures how soon a job reaches one of many workers that wait.
func (l *lab) webStarts(ctx context.Context, k kind, s *section) error {
	var list, acks sample
	var took shares
	err := l.onRemote(ctx, k, func(r *remote) error {
		if err := r.stock(ctx, "foreign", l.web.foreign); err != nil {
			return err
		}
		crew, err := r.crew(ctx, noop, l.web.crowd, 1)
		if err != nil {
			return err
		}
		running, stop := context.WithCancel(ctx)
		defer stop()
		var asked sync.Map // of job.ID to time.Time
		starts := make(chan time.Duration, l.web.offered)
		errs := make([]error, len(crew))
		var all sync.WaitGroup
		for i, h := range crew {
			all.Go(func() { errs[i] = h.serve(running, &asked, starts) })
		}
		if err := r.waits(ctx, len(crew)); err != nil {
			return err
		}
		over, err := l.spendingOf(r, &took, l.web.offered)
		if err != nil {
			return err
		}
		profiled := r.profile(ctx, "starts", time.Duration(l.web.offered)*l.web.every)
		acks, err = r.offer(ctx, l.web.offered, l.web.every, &asked)
		limit := time.After(time.Minute)
		for err == nil && len(list) < l.web.offered {
			select {
			case took := <-starts:
				list = append(list, took)
			case <-limit:
				err = fmt.Errorf("%d of %d jobs were started", len(list), l.web.offered)
			}
		}
		err = errors.Join(err, over(), profiled())
		stop()
		all.Wait()
		return errors.Join(append(errs, err)...)
	})
	if err != nil {
		return err
	}
	s.judge(fmt.Sprintf("%s, start at one of %d workers", k, l.web.crowd), list.tails(), "10 ms p99", list.at(0.99) <= 10*time.Millisecond)
	s.add(fmt.Sprintf("%s, answer to the submission meanwhile", k), acks.tails())
	s.add(fmt.Sprintf("%s, starts, processor time a job", k), took.text(k))
	return nil
}

// offer submits so many builds of one job, one at each tick whatever becomes of the others, and gives how long each took.
func (r *remote) offer(ctx context.Context, n int, every time.Duration, asked *sync.Map) (sample, error) {
	list, errs := make(sample, n), make([]error, n)
	pace := time.NewTicker(every)
	defer pace.Stop()
	var all sync.WaitGroup
	for i := range n {
		<-pace.C
		submission := plain(noop, 1)
		all.Go(func() {
			began := time.Now()
			asked.Store(*submission.Jobs[0].ID, began)
			_, errs[i] = r.Submit(ctx, submission)
			list[i] = time.Since(began)
		})
	}
	all.Wait()
	return list, errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
}

// serve takes a job at a time, and tells how long ago each was asked for.
func (h *hired) serve(ctx context.Context, asked *sync.Map, starts chan<- time.Duration) error {
	for {
		reply, err := h.call(ctx, 1)
		now := time.Now()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range reply.Start {
			if at, ok := asked.Load(reply.Start[i].Job); ok {
				starts <- now.Sub(at.(time.Time))
			}
		}
		h.ran(reply.Start)
	}
}

// waits returns once so many jobs are waited for.
func (r *remote) waits(ctx context.Context, n int) error {
	for deadline := time.Now().Add(2 * time.Minute); ; {
		list, err := r.Workers(ctx)
		if err != nil {
			return err
		}
		waits := 0
		for i := range list {
			waits += list[i].Waits
		}
		if waits >= n {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d jobs are waited for, want %d", waits, n)
		}
		wait(ctx, time.After(100*time.Millisecond))
	}
}

// webIdle measures what workers cost that wait for long.
func (l *lab) webIdle(ctx context.Context, k kind, s *section) error {
	return l.onRemote(ctx, k, func(r *remote) error {
		before, err := r.resident()
		if err != nil {
			return err
		}
		crew, err := r.crew(ctx, noop, l.web.idle, 1)
		if err != nil {
			return err
		}
		running, stop := context.WithCancel(ctx)
		defer stop()
		var failed atomic.Int64
		var all sync.WaitGroup
		for _, h := range crew {
			all.Go(func() {
				for running.Err() == nil {
					// So many connections at once overflow what the system keeps for a listener: whoever is refused calls again, as workers do.
					if _, err := h.call(running, 1); err != nil && running.Err() == nil {
						failed.Add(1)
						wait(running, time.After(200*time.Millisecond))
					}
				}
			})
		}
		if err := r.waits(ctx, len(crew)); err != nil {
			return err
		}
		wait(ctx, time.After(l.web.rest/10)) // What it took to come is not measured.
		failed.Store(0)
		var took shares
		over, err := l.spendingOf(r, &took, 1)
		if err != nil {
			return err
		}
		profiled := r.profile(ctx, "idle", l.web.rest-time.Second)
		began := time.Now()
		var most int64
		for time.Since(began) < l.web.rest {
			wait(ctx, time.After(l.web.rest/50))
			now, err := r.resident()
			if err != nil {
				return err
			}
			most = max(most, now)
		}
		err = over()
		rested := time.Since(began)
		if err := errors.Join(err, profiled()); err != nil {
			return err
		}
		share := 100 * took.server.Seconds() / rested.Seconds()
		each := float64(most-before) / 1000 / float64(len(crew))
		s.judge(fmt.Sprintf("%s, %d idle workers, the server's processor time", k, len(crew)), fmt.Sprintf("%.1f %% of a core", share), "5 %", share < 5)
		if k == onPostgres {
			s.add(fmt.Sprintf("%s, %d idle workers, the database's", k, len(crew)), fmt.Sprintf("%.1f %% of a core", 100*took.database.Seconds()/rested.Seconds()))
		}
		s.judge(fmt.Sprintf("%s, %d idle workers, memory of each", k, len(crew)), fmt.Sprintf("%.1f kB (from %d MB to %d MB at most)", each, before/1e6, most/1e6), "40 kB", each <= 40)
		if n := failed.Load(); n > 0 {
			s.add(fmt.Sprintf("%s, %d idle workers, calls that failed", k, len(crew)), fmt.Sprint(n))
		}
		stop()
		all.Wait()
		return ctx.Err()
	})
}
