package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

var (
	// ErrNotFound: there is no such job, build, worker or setting, or it is no longer unfinished where that matters.
	ErrNotFound = errors.New("not found")
	// ErrExists: there is such a setting already.
	ErrExists = errors.New("exists already")
	// ErrLeaseLost: the token gives no right to the attempt any more; the worker must stop it.
	ErrLeaseLost = errors.New("lease lost")
	// ErrNotReady: the job cannot start now.
	ErrNotReady = errors.New("not ready")
	// ErrEnded: the job or build has ended, so that there is nothing to do.
	ErrEnded = errors.New("already ended")
	// ErrBusy: something that runs or waits still needs it.
	ErrBusy = errors.New("in use")
	// ErrWorkerLive: another process works under this name.
	ErrWorkerLive = errors.New("a worker of this name is alive")
	// ErrSignedOff: the worker's session said, or somebody said for it, that it is over; it gets nothing any more.
	ErrSignedOff = errors.New("the worker's session has signed off")
)

// InvalidError reports a field that is not as it must be. Nothing was changed.
type InvalidError struct {
	Field string // such as jobs[3].needs[0]
	Want  string
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Want }

// ConflictError reports that a job of the same identity is unfinished and differs in what may not differ.
type ConflictError struct {
	Identity Identity
	Job      ID
	Have     Class
	Asked    Class
}

func (e *ConflictError) Error() string {
	var diff []string
	add := func(what, have, asked string) {
		if have != asked {
			diff = append(diff, fmt.Sprintf("%s %q, asked %q", what, have, asked))
		}
	}
	add("system", e.Have.System, e.Asked.System)
	add("features", e.Have.Features, e.Asked.Features)
	add("pin", e.Have.Pin, e.Asked.Pin)
	return fmt.Sprintf("key %q: job %s is unfinished with %s", e.Identity.Key, e.Job, strings.Join(diff, ", "))
}

// NeededError reports that a cancel was refused because others need the job.
type NeededError struct {
	Job    ID
	Builds []BuildRecord // that need it, oldest first, at most 20
	// Alone: it was asked for outside any build, too.
	Alone bool
	// More: too many depend on it to look at all of them, so that these are not all, or may not be.
	More bool
}

func (e *NeededError) Error() string {
	names := make([]string, 0, len(e.Builds)+1)
	for _, b := range e.Builds {
		names = append(names, fmt.Sprintf("%q", b.Build.Name))
	}
	if e.Alone {
		names = append(names, "a caller outside any build")
	}
	if e.More {
		names = append(names, "so many jobs that not all were looked at")
	}
	return fmt.Sprintf("job %s is needed by %s; force to cancel it all the same", e.Job, strings.Join(names, ", "))
}

// CycleError reports that jobs of a submission need each other in a circle: each the next, the last the first.
type CycleError struct{ Names []string }

func (e *CycleError) Error() string {
	return "cycle: " + strings.Join(append(slices.Clone(e.Names), e.Names[0]), " needs ")
}
