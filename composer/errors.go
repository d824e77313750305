package composer

import (
	"cmp"
	"errors"
)

// Errors are the values that a JobQueue reports, unwrapped, so that callers may compare them by ==. Nil fields are this package's own.
// A composer checkout sets them to those of its package jobqueue.
type Errors struct {
	NotExist       error
	NotPending     error
	NotRunning     error
	Canceled       error
	DequeueTimeout error
	ActiveJobs     error
	WorkerNotExist error
	Running        error
	Finished       error
}

// What a JobQueue reports where Errors do not say otherwise.
var (
	// ErrNotExist: there is no such job, or no job that runs under such a token.
	ErrNotExist = errors.New("job does not exist")
	// ErrNotPending: the job runs, has ended, or waits for its dependencies.
	ErrNotPending = errors.New("job is not pending")
	// ErrNotRunning: the job is pending or has finished.
	ErrNotRunning = errors.New("job is not running")
	// ErrCanceled: the job was cancelled.
	ErrCanceled = errors.New("job was canceled")
	// ErrDequeueTimeout: ctx ended before there was a job.
	ErrDequeueTimeout = errors.New("dequeue context timed out or was canceled")
	// ErrActiveJobs: the worker has jobs that run.
	ErrActiveJobs = errors.New("worker has active jobs associated with it")
	// ErrWorkerNotExist: there is no such worker.
	ErrWorkerNotExist = errors.New("worker does not exist")
	// ErrRunning: the job runs, so that it cannot be failed.
	ErrRunning = errors.New("job is running, but wasn't expected to be")
	// ErrFinished: the job has finished, so that it cannot be failed.
	ErrFinished = errors.New("job is finished, but wasn't expected to be")
)

// filled gives the errors with this package's where there are none.
func (e Errors) filled() Errors {
	return Errors{
		NotExist:       cmp.Or(e.NotExist, ErrNotExist),
		NotPending:     cmp.Or(e.NotPending, ErrNotPending),
		NotRunning:     cmp.Or(e.NotRunning, ErrNotRunning),
		Canceled:       cmp.Or(e.Canceled, ErrCanceled),
		DequeueTimeout: cmp.Or(e.DequeueTimeout, ErrDequeueTimeout),
		ActiveJobs:     cmp.Or(e.ActiveJobs, ErrActiveJobs),
		WorkerNotExist: cmp.Or(e.WorkerNotExist, ErrWorkerNotExist),
		Running:        cmp.Or(e.Running, ErrRunning),
		Finished:       cmp.Or(e.Finished, ErrFinished),
	}
}
