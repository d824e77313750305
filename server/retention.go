package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// retire takes builds out of the history that ended long ago, until ctx ends.
func (s *Server) retire(ctx context.Context) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		gone, err := s.retireBuilds(ctx, job.At(time.Now().Add(-s.KeepBuilds)))
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("what has been kept for long enough stays for now", "err", err)
		}
		if gone > 0 {
			s.Log.Info("builds that have been kept for long enough are gone", "builds", gone)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// retireBuilds takes those away that ended before a moment, and counts them.
func (s *Server) retireBuilds(ctx context.Context, before job.Time) (gone int, err error) {
	for f := (queue.BuildFilter{Until: before, Limit: 100}); ; {
		recs, err := s.History.Builds(ctx, f)
		if err != nil || len(recs) == 0 {
			return gone, err
		}
		for i := range recs {
			f.Before = recs[i].Seq
			if recs[i].Outcome == 0 || recs[i].Ended >= before {
				continue
			}
			all, err := s.retireBuild(ctx, recs[i].Build.ID)
			if err != nil {
				return gone, err
			}
			if all {
				gone++
			}
		}
	}
}

// retireBuild takes a build away, after the jobs that it alone refers to: if that is interrupted, the build is still there to go on with.
// all is false if some of them is still of use, so that both stay.
func (s *Server) retireBuild(ctx context.Context, build job.ID) (all bool, err error) {
	refs, err := s.History.Refs(ctx, build)
	if err != nil {
		return false, err
	}
	all = true
	// Several at once, as they share a commit.
	const atOnce = 8
	for some := range slices.Chunk(refs, atOnce) {
		kept, errs := make([]bool, len(some)), make([]error, len(some))
		var under sync.WaitGroup
		for i := range some {
			under.Go(func() { kept[i], errs[i] = s.retireJob(ctx, build, &some[i]) })
		}
		under.Wait()
		if err := errors.Join(errs...); err != nil {
			return false, err
		}
		all = all && !slices.Contains(kept, true)
	}
	if !all {
		return false, nil
	}
	err = s.Queue.DeleteBuild(ctx, build)
	if errors.Is(err, queue.ErrNotFound) {
		err = nil
	}
	return err == nil, err
}

// retirePatience is how long a job is waited for that has ended, and of which somebody is still to be told.
const retirePatience = 10 * time.Second

// retireJob takes a job away that a build refers to, unless another one does. busy: it has not ended, or somebody can still read what it left.
func (s *Server) retireJob(ctx context.Context, build job.ID, r *job.Ref) (busy bool, err error) {
	if r.Ended == 0 {
		return true, nil // To delete it would be to cancel it.
	}
	by, err := s.History.Builds(ctx, queue.BuildFilter{Job: r.Job, Limit: 2})
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(by, func(b job.BuildRecord) bool { return b.Build.ID != build }) {
		return false, nil
	}
	brief, cancel := context.WithTimeout(ctx, retirePatience)
	defer cancel()
	switch err := s.Queue.DeleteJob(brief, r.Job); {
	case errors.Is(err, job.ErrBusy), brief.Err() != nil && ctx.Err() == nil:
		return true, nil
	case err == nil, errors.Is(err, queue.ErrNotFound):
		return false, nil
	default:
		return false, err
	}
}
