package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/depot"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// sealAfter is how long after its end the log of an attempt is still open: for what its worker could not send in time.
const sealAfter = 30 * time.Second

// Run does what is nobody's request, until ctx ends or the queue closes: it asks for what schedules ask for, seals logs, and takes away
// what has been kept for long enough, and what belonged to jobs that are deleted. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	var clock sync.WaitGroup
	defer clock.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	clock.Go(func() { timekeeper{s}.run(ctx) })
	if s.KeepBuilds > 0 {
		clock.Go(func() { s.retire(ctx) })
	}
	if s.Depot == nil {
		<-ctx.Done()
		return nil
	}
	return s.keep(ctx)
}

// keep follows what becomes of attempts, and sees to what they leave.
func (s *Server) keep(ctx context.Context) error {
	k := keeper{s: s, place: s.Queue.Round()}
	for {
		err := k.run(ctx)
		var retry *queue.RetryError
		switch {
		case ctx.Err() != nil || errors.Is(err, queue.ErrClosed):
			return nil
		case errors.As(err, &retry):
			s.Log.Debug("the keeping of logs begins anew", "err", err) // The engine tells of it itself.
		case errors.Is(err, queue.ErrFeedTruncated):
			s.Log.Warn("the keeping of logs begins anew", "err", err)
			k.place = s.Queue.Round()
		default:
			s.Log.Error("the keeping of logs begins anew", "err", err)
		}
		timer := time.NewTimer(time.Second)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// keeper follows what becomes of attempts.
type keeper struct {
	s     *Server
	place uint64    // in the feed: what comes after it is to be followed, also by a run that begins anew
	due   []sealing // in order
}

type sealing struct {
	at   time.Time
	what depot.Attempt
}

// tick is how often what is due is looked at.
const tick = time.Second

func (k *keeper) run(ctx context.Context) error {
	tidied := time.Now()
	if err := k.leftovers(ctx); err != nil {
		return err
	}
	for {
		watched, cancel := context.WithTimeout(ctx, tick)
		err := k.s.Queue.Watch(watched, k.place, func(r queue.Round) error {
			for _, c := range r.Changes {
				k.follow(ctx, c)
			}
			k.place = r.Number
			return nil
		})
		pause := watched.Err() != nil && ctx.Err() == nil
		cancel()
		if !pause {
			return err
		}
		for len(k.due) > 0 && !time.Now().Before(k.due[0].at) {
			k.seal(ctx, k.due[0].what)
			k.due = k.due[1:]
		}
		if time.Since(tidied) >= tidyEvery {
			tidied = time.Now()
			if err := k.tidy(ctx); err != nil {
				return err
			}
		}
	}
}

// tidyEvery is how often is looked for what is too old, and abandonedAfter for how long an upload may rest.
const (
	tidyEvery      = time.Hour
	abandonedAfter = 24 * time.Hour
)

// tidy removes uploads that nobody goes on with, and what has been kept for long enough.
func (k *keeper) tidy(ctx context.Context) error {
	now := time.Now()
	if _, err := k.s.Depot.Sweep(ctx, now.Add(-abandonedAfter)); err != nil {
		return err
	}
	if k.s.Keep <= 0 {
		return nil
	}
	list, _, err := k.s.Depot.List(ctx)
	if err != nil {
		return err
	}
	for _, h := range list { // what was changed longest ago first
		if h.Changed.After(now.Add(-k.s.Keep)) {
			return nil
		}
		if err := k.expire(ctx, &h); err != nil {
			return err
		}
	}
	return nil
}

// expire removes what is kept of a job that has ended. One that has artifacts leaves the history with them: a success serves only while
// they are kept.
func (k *keeper) expire(ctx context.Context, h *depot.Holding) error {
	recs, err := k.s.History.Jobs(ctx, queue.JobFilter{IDs: []job.ID{h.Job}, Limit: 1})
	if err != nil {
		return err
	}
	if len(recs) == 0 {
		return k.s.Depot.Remove(ctx, h.Job)
	}
	if recs[0].End == nil || recs[0].Last == nil {
		return nil
	}
	for n := int32(1); n <= recs[0].Last.Number; n++ {
		has, err := k.s.Depot.Artifacts(ctx, depot.Attempt{Job: h.Job, Number: n})
		if err != nil {
			return err
		}
		if len(has) == 0 {
			continue
		}
		err = k.s.Queue.DeleteJob(ctx, h.Job)
		if errors.Is(err, job.ErrBusy) {
			return nil // A dependent can still read it.
		}
		return err // It goes when the feed tells of the deletion.
	}
	return k.s.Depot.Remove(ctx, h.Job)
}

// leftovers sees to what an earlier life of this server left. A log that is open, and whose attempt is over, is sealed: not
// at once, as while no server was there no worker could send the rest. What belonged to jobs that are deleted goes: of that the feed told
// while nobody followed it. If the store knows no job of all these, the folder is thought to be another store's, and stays as it is.
func (k *keeper) leftovers(ctx context.Context) error {
	list, _, err := k.s.Depot.List(ctx)
	if err != nil {
		return err
	}
	known, orphans, err := k.sort(ctx, list)
	if err != nil {
		return err
	}
	for _, h := range known {
		if len(h.Open) == 0 {
			continue
		}
		held, err := k.s.Queue.LeaseOf(ctx, h.Job)
		if err != nil && !errors.Is(err, queue.ErrNotFound) {
			return err
		}
		for _, n := range h.Open {
			if err == nil && held.Lease.Attempt == n {
				continue
			}
			k.later(depot.Attempt{Job: h.Job, Number: n})
		}
	}
	if len(known) == 0 && len(orphans) > 0 {
		k.s.Log.Warn("what is kept is of no job of this store, and stays", "jobs", len(orphans))
		return nil
	}
	for _, id := range orphans {
		if err := k.s.Depot.Remove(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// sort tells what is kept of jobs that there are from the jobs that are no more.
func (k *keeper) sort(ctx context.Context, list []depot.Holding) (known []depot.Holding, orphans []job.ID, err error) {
	const page = 500
	for some := range slices.Chunk(list, page) {
		ids := make([]job.ID, len(some))
		for i := range some {
			ids[i] = some[i].Job
		}
		recs, err := k.s.History.Jobs(ctx, queue.JobFilter{IDs: ids, Limit: page})
		if err != nil {
			return nil, nil, err
		}
		there := make(map[job.ID]bool, len(recs))
		for i := range recs {
			there[recs[i].Spec.ID] = true
		}
		for _, h := range some {
			if !there[h.Job] {
				// One whose record cannot be read is left out, too.
				if _, err := k.s.History.Payload(ctx, h.Job); errors.Is(err, queue.ErrNotFound) {
					orphans = append(orphans, h.Job)
					continue
				}
			}
			known = append(known, h)
		}
	}
	return known, orphans, nil
}

func (k *keeper) follow(ctx context.Context, c job.Change) {
	switch c := c.(type) {
	case job.JobRetried:
		k.later(depot.Attempt{Job: c.Job, Number: c.Attempt.Number})
	case job.JobEnded:
		if c.Attempt != nil && !c.Held {
			k.later(depot.Attempt{Job: c.Job, Number: c.Attempt.Number})
		}
	case job.JobFreed:
		recs, err := k.s.History.Jobs(ctx, queue.JobFilter{IDs: []job.ID{c.Job}, Limit: 1})
		if err == nil && len(recs) == 1 && recs[0].Last != nil {
			k.later(depot.Attempt{Job: c.Job, Number: recs[0].Last.Number})
		}
	case job.JobDeleted:
		if err := k.s.Depot.Remove(ctx, c.Job); err != nil {
			k.s.Log.Error("what a deleted job left cannot be removed", "job", c.Job, "err", err)
		}
	default:
		// The others end no attempt.
	}
}

func (k *keeper) later(at depot.Attempt) {
	k.due = append(k.due, sealing{time.Now().Add(sealAfter), at})
}

func (k *keeper) seal(ctx context.Context, at depot.Attempt) {
	if log, err := k.s.Depot.OpenLog(ctx, at); err != nil {
		return // it wrote nothing, or is gone
	} else if err := log.Close(); err != nil {
		k.s.Log.Warn("a log cannot be closed", "job", at.Job, "attempt", at.Number, "err", err)
	}
	if err := k.s.Depot.Seal(ctx, at); err != nil {
		k.s.Log.Error("a log cannot be sealed", "job", at.Job, "attempt", at.Number, "err", err)
	}
}
