package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
)

// conclude tells the end.
func (s *session) conclude(began time.Time, err error) (int, error) {
	cause := context.Cause(s.ctx)
	e := progress.RunEnded{Outcome: "succeeded", Took: progress.Seconds(time.Since(began)), Store: fateOf(err)}
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
	case s.begun:
		left := s.monitor.left
		e.Unfinished, e.Counts, e.Reused = &left, s.monitor.counts, s.monitor.reused
		s.relay.Event(e)
	case s.monitor != nil, errors.Is(cause, errInterrupted):
		// It was told that it stops; so it is told that it has, though no job was to start yet.
		e.Counts = map[string]int{}
		s.relay.Event(e)
	}
	return e.Code, err
}

// fateOf says what the next run will find after an error of the engine or its store.
func fateOf(err error) progress.StoreFate {
	var file *sqlite.FileError
	switch {
	case err == nil, errors.Is(err, queue.ErrClosed), errors.Is(err, context.Canceled):
		return progress.StoreSound
	case errors.As(err, &file) && (file.Fault == sqlite.Gone || file.Fault == sqlite.Damaged):
		return progress.StoreLost
	case errors.Is(err, queue.ErrFenced):
		return progress.StoreSound // Another process has it.
	}
	return progress.StoreFailed
}

// onRetry goes on after an attempt that looked like a failure.
func (s *session) onRetry(a attemptName) { s.brake.release(context.WithoutCancel(s.ctx), a) }

// onFailure stops what waits, at the first job that counts and did not succeed.
func (s *session) onFailure(name string) {
	if s.keepGoing {
		return
	}
	if s.monitor.left > 0 {
		s.barrier.stop(progress.RunStopping{Why: "failure", Text: fmt.Sprintf(
			"%s did not succeed: nothing more is started (--keep-going would go on)", name)})
	}
	err := s.q.CancelBuild(context.WithoutCancel(s.ctx), s.monitor.build, true)
	if err != nil && !errors.Is(err, queue.ErrNotFound) {
		s.fail("stop the build: " + explain(err))
	}
}

// fail stops the run as the machine, not a job, failed.
func (s *session) fail(text string) {
	if s.ctx.Err() == nil { // Else it has been told why the run stops.
		s.barrier.stop(progress.RunStopping{Why: "fault", Text: text + "; running jobs are ended"})
	}
	s.stop(&faultError{text})
}

// heed obeys signals, and stops the run when nobody can see it any more.
func (s *session) heed(signals chan os.Signal, over <-chan struct{}) {
	broken := s.out.Failed()
	times, hurried := 0, false
	for {
		select {
		case <-over:
			return
		case <-broken:
			broken = nil
			s.fail(fmt.Sprintf("write the progress: %v", s.out.Err()))
		case sig := <-signals:
			times++
			first, atOnce := times == 1, times == 2 || sig == syscall.SIGQUIT
			switch {
			case hurried:
				os.Exit(exitInterrupted) // What runs dies with this process.
			case first:
				text := "interrupted: running jobs are ended and handed back; once more to kill them at once"
				if atOnce {
					text = "interrupted: running jobs are killed at once and handed back"
				}
				s.barrier.stop(progress.RunStopping{Why: "interrupt", Text: text})
				s.stop(errInterrupted)
			}
			if atOnce {
				hurried = true
				close(s.now)
			}
		}
	}
}
