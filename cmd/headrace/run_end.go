package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/queue"
)

// conclude tells the end.
func (s *session) conclude(began time.Time, err error) (int, error) {
	cause := context.Cause(s.ctx)
	e := progress.RunEnded{Outcome: "succeeded", Took: progress.Seconds(time.Since(began))}
	var fault *faultError
	var refused *exit
	switch {
	case errors.As(err, &refused):
		return refused.code, refused.err
	case errors.Is(err, queue.ErrFenced):
		// Whatever else happened: nothing of it is kept.
		e.Outcome, e.Code = "aborted", exitMachine
	case errors.As(cause, &fault):
		e.Outcome, e.Code = "aborted", exitMachine
		if err == nil || errors.Is(err, queue.ErrClosed) || errors.Is(err, context.Canceled) {
			err = fault
		}
	case cause != nil:
		e.Outcome, e.Code = "interrupted", exitInterrupted
		err = nil
	case err != nil:
		e.Outcome, e.Code = "aborted", exitMachine
	case s.monitor.failed:
		e.Outcome, e.Code = "failed", exitFailed
	}
	switch {
	case s.monitor != nil:
		e.Unfinished, e.Counts, e.Reused = s.monitor.left, s.monitor.counts, s.monitor.reused
		s.display.Event(e)
	case errors.Is(cause, errInterrupted):
		// It was told that it stops; so it is told that it has, though no job was to start yet.
		e.Unfinished, e.Counts = len(s.work.Jobs), map[string]int{}
		s.display.Event(e)
	}
	return e.Code, err
}

// stopsAt reports whether the failure of the job is to stop the run.
func (s *session) stopsAt(i int) bool { return !s.keepGoing && !s.work.Jobs[i].Optional }

// onRetry goes on after an attempt that looked like a failure.
func (s *session) onRetry(i int) {
	if s.stopsAt(i) {
		s.brake.release(context.WithoutCancel(s.ctx))
	}
}

// onFailure stops what waits, at the first job that counts and did not succeed.
func (s *session) onFailure(name string) {
	if s.keepGoing {
		return
	}
	if s.monitor.left > 0 {
		s.display.Event(progress.RunStopping{Why: "failure", Text: fmt.Sprintf(
			"%s did not succeed: nothing more is started (--keep-going would go on)", name)})
	}
	err := s.q.CancelBuild(context.WithoutCancel(s.ctx), s.monitor.build, true)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		s.stop(&faultError{fmt.Sprintf("stop the build: %v", err)})
	}
}

// heed obeys signals, and stops the run when nobody can see it any more.
func (s *session) heed(signals chan os.Signal, over <-chan struct{}) {
	broken := s.out.Failed()
	for times := 0; ; {
		select {
		case <-over:
			return
		case <-broken:
			broken = nil
			s.stop(&faultError{fmt.Sprintf("write the progress: %v", s.out.Err())})
		case sig := <-signals:
			times++
			first, atOnce := times == 1, times == 2 || sig == syscall.SIGQUIT
			if first {
				text := "interrupted: running jobs are ended and handed back; once more to kill them at once"
				if atOnce {
					text = "interrupted: running jobs are killed at once and handed back"
				}
				s.display.Event(progress.RunStopping{Why: "interrupt", Text: text})
				s.stop(errInterrupted)
			}
			if atOnce {
				close(s.now)
				// A further one has the system end this process; what runs dies with it.
				signal.Stop(signals)
				signals = nil
			}
		}
	}
}
