package main

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// effort is the processor time that a number of jobs took: in this process, and in the database server, if there is one.
type effort struct {
	here, server time.Duration
	jobs         int
}

// text tells it of one job, and how many a second that allows if no processor ever waits.
func (e effort) text(k kind) string {
	job := func(d time.Duration) time.Duration { return d / time.Duration(max(e.jobs, 1)) }
	most := float64(runtime.NumCPU()) * float64(e.jobs) / max(e.here+e.server, 1).Seconds()
	if k == onSQLite {
		return fmt.Sprintf("%s: at most %.0f/s on %d cores", round(job(e.here)), most, runtime.NumCPU())
	}
	return fmt.Sprintf("%s here, %s in the server: at most %.0f/s on %d cores", round(job(e.here)), round(job(e.server)), most, runtime.NumCPU())
}

// spending adds to the effort what is spent until the function that it gives is called, on so many jobs. Nothing is added where
// the server's part is not known.
func (l *lab) spending(e *effort, k kind, jobs int) (func() error, error) {
	before, err := l.spent(k)
	return func() error {
		after, err := l.spent(k)
		if err != nil || after.here == 0 {
			return err
		}
		e.here += after.here - before.here
		e.server += after.server - before.server
		e.jobs += jobs
		return nil
	}, err
}

func (l *lab) spent(k kind) (e effort, err error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return e, err
	}
	e.here = time.Duration(u.Utime.Nano() + u.Stime.Nano())
	if k == onSQLite {
		return e, nil
	}
	e.server, err = l.cluster.Spent()
	if errors.Is(err, errors.ErrUnsupported) {
		return effort{}, nil
	}
	return e, err
}
