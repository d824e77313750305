package queue

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/headrace/headrace/job"
)

// Kind is a kind of job whose arguments are an A and whose result is an R, for programs that submit and run work of
// their own. On the way and in the store both are JSON; what encoding/json says of A and R holds. A Kind is a value: declare one
// beside A and R, and use it on both sides.
//
//	var Resize = queue.NewKind[ResizeArgs, ResizeResult]("resize")
type Kind[A, R any] struct{ name string }

// NewKind gives the kind of that name, which a worker states to be given such jobs.
func NewKind[A, R any](name string) Kind[A, R] { return Kind[A, R]{name} }

// Name gives the kind's name.
func (k Kind[A, R]) Name() string { return k.name }

// Spec gives a job of this kind, with a name for people and these arguments; the caller adds what else it wants, such as needs. It
// reports *job.InvalidError if args cannot be written as JSON, or are larger than job.MaxArgs.
func (k Kind[A, R]) Spec(name string, args A) (job.Spec, error) {
	b, err := json.Marshal(args)
	switch {
	case err != nil:
		return job.Spec{}, &job.InvalidError{Field: "args", Want: err.Error()}
	case len(b) > job.MaxArgs:
		return job.Spec{}, &job.InvalidError{Field: "args", Want: fmt.Sprintf("has %d bytes, want at most %d", len(b), job.MaxArgs)}
	}
	return job.Spec{Kind: k.name, Name: name, Args: b}, nil
}

// Args reads the arguments of an attempt. Fields that A does not have are passed over, so that an older worker can run what a
// newer program submits. It reports *job.InvalidError if the job is of another kind, or its arguments are no A: the work
// should then end as failed, as no further attempt would read more.
func (k Kind[A, R]) Args(a Assignment) (A, error) {
	var args A
	if a.Spec.Kind != k.name {
		return args, &job.InvalidError{Field: "kind", Want: fmt.Sprintf("is %q, want %q", a.Spec.Kind, k.name)}
	}
	if err := json.Unmarshal(a.Spec.Args, &args); err != nil {
		return args, &job.InvalidError{Field: "args", Want: err.Error()}
	}
	return args, nil
}

// Report gives what to Finish a successful attempt with. It reports *job.InvalidError if the result cannot be written as JSON.
func (k Kind[A, R]) Report(l job.Lease, result R) (job.Report, error) {
	b, err := json.Marshal(result)
	if err != nil {
		return job.Report{}, &job.InvalidError{Field: "result", Want: err.Error()}
	}
	return job.Report{Lease: l, Outcome: job.Succeeded, Result: b}, nil
}

// Result reads the result of a job that has succeeded, also long after, and also in a job that needed it. It reports
// ErrNotFound if there is no such job, *EndError if it ended otherwise, ErrUnfinished if it has not ended, and
// *job.InvalidError if it is of another kind or its result is no R.
func (k Kind[A, R]) Result(ctx context.Context, h History, id job.ID) (R, error) {
	var result R
	recs, err := h.Jobs(ctx, JobFilter{IDs: []job.ID{id}})
	switch {
	case err != nil:
		return result, err
	case len(recs) == 0:
		return result, ErrNotFound
	case recs[0].Spec.Kind != k.name:
		return result, &job.InvalidError{Field: "kind", Want: fmt.Sprintf("is %q, want %q", recs[0].Spec.Kind, k.name)}
	case recs[0].End == nil:
		return result, ErrUnfinished
	case recs[0].End.Outcome != job.Succeeded:
		return result, &EndError{Job: id, Name: recs[0].Spec.Name, End: *recs[0].End}
	}
	p, err := h.Payload(ctx, id)
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(p.Result, &result); err != nil {
		return result, &job.InvalidError{Field: "result", Want: err.Error()}
	}
	return result, nil
}

// Await waits until the job has ended, and reads its result as Result does. It also reports ctx's error.
func (k Kind[A, R]) Await(ctx context.Context, q *Queue, id job.ID) (R, error) {
	if _, err := q.AwaitJob(ctx, id); err != nil {
		var none R
		return none, err
	}
	return k.Result(ctx, q.History, id)
}

// EndError reports that a job whose result was asked for did not succeed.
type EndError struct {
	Job  job.ID
	Name string
	End  job.End
}

func (e *EndError) Error() string {
	text := fmt.Sprintf("job %s %q ended %s", e.Job, e.Name, e.End.Outcome)
	if e.End.Outcome == job.DependencyFailed {
		text += fmt.Sprintf(", as job %s ended %s", e.End.Root, e.End.RootOutcome)
	}
	if e.End.Message != "" {
		text += ": " + e.End.Message
	}
	return text
}
