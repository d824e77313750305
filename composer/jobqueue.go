package composer

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// JobQueue is osbuild-composer's JobQueue. W is its Worker, or any struct with the same fields. Its methods may be called from any
// goroutine; they need an engine that runs, and those that have no context wait for it for as long as Patience.
type JobQueue[W ~worker] struct {
	engine   engine
	history  queue.History
	errs     Errors
	handouts *handouts
	stopped  *stopped
	roster   roster

	mu       sync.Mutex
	channels map[string]bool // that go by this door's policy
	ending   map[job.Lease]chan struct{}
	deleting chan struct{} // has room for one
}

// New gives a JobQueue on an engine that runs, or is about to, and on the history of the same store; both are the caller's to close.
// There is one for an engine: which workers there are, and when they were heard of, each would know of its own.
func New[W ~worker](q *queue.Queue, h queue.History, errs Errors) *JobQueue[W] {
	e := engine{q, q, q, q}
	given := newHandouts(e)
	return &JobQueue[W]{
		engine: e, history: h, errs: errs.filled(), handouts: given, stopped: newStopped(), roster: newRoster(q, given),
		channels: map[string]bool{}, ending: map[job.Lease]chan struct{}{}, deleting: make(chan struct{}, 1),
	}
}

// Policy is what makes a channel composer's: first come, first served; a job of which no worker is known waits for ever; and a lost
// lease is what the caller says that it is.
func Policy(c job.Channel) job.Channel {
	c.Discipline, c.CallerJudges, c.Grace = job.ByAge, true, -1
	return c
}

// served sees to it that a channel goes by this door's policy; what else is set of it stays.
func (q *JobQueue[W]) served(ctx context.Context, name string) error {
	q.mu.Lock()
	known := q.channels[name]
	q.mu.Unlock()
	if known {
		return nil
	}
	c, err := read(ctx, func(ctx context.Context) (job.Channel, error) { return q.engine.Channel(ctx, name) })
	if err != nil {
		return err
	}
	if !ours(&c) {
		err := steadily(ctx, func(ctx context.Context) error { return q.engine.SetChannel(ctx, Policy(c)) })
		if err != nil {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.channels[name] = true
	return nil
}

// ours reports whether a channel has this door's policy.
func ours(c *job.Channel) bool { return c.Discipline == job.ByAge && c.CallerJudges && c.Grace < 0 }

// Enqueue asks for a job, and gives its id. args is any value that can be written as JSON; JSON in bytes is kept to the letter. The
// job is pending once all its dependencies have ended, however they did. Errors: Errors.NotExist, if there is no such dependency, and
// *job.InvalidError.
func (q *JobQueue[W]) Enqueue(jobType string, args any, dependencies []uuid.UUID, channel string) (uuid.UUID, error) {
	return q.EnqueueGroup(jobType, args, dependencies, channel, uuid.Nil)
}

// EnqueueGroup is Enqueue of a job that is one of a group, such as a compose; uuid.Nil is none.
func (q *JobQueue[W]) EnqueueGroup(jobType string, args any, dependencies []uuid.UUID, channel string, group uuid.UUID) (uuid.UUID, error) {
	ctx := context.Background()
	b, err := marshal("arguments", args)
	if err != nil {
		return uuid.Nil, err
	}
	kind, err := word("type", jobType)
	if err != nil {
		return uuid.Nil, err
	}
	if channel, err = channelWord(channel); err != nil {
		return uuid.Nil, err
	}
	id := uuid.New()
	spec := job.Spec{
		ID: job.ID(id), Name: kind, Kind: kind, Channel: channel, Needs: needs(dependencies), Args: b,
		Retry: job.Retry{Losses: math.MaxInt32}, // the caller counts
	}
	if group != uuid.Nil {
		spec.Key = groupKey(group, id)
	}
	if err := q.served(ctx, channel); err != nil {
		return uuid.Nil, err
	}
	submission := queue.Submission{Jobs: []job.Spec{spec}, Fresh: true}
	err = repeatedly(ctx, func(ctx context.Context) error {
		_, err := q.engine.Submit(ctx, submission)
		var invalid *job.InvalidError
		if !submission.Fresh && errors.As(err, &invalid) && invalid.Field == idField {
			return nil // By nobody but the call before, whose answer was lost.
		}
		submission.Fresh = false
		return err
	})
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return uuid.Nil, q.errs.NotExist
	case err != nil:
		return uuid.Nil, err
	}
	return id, nil
}

// idField is where the engine says that an id is in use.
const idField = "jobs[0].id"

// record reads what is stored of a job; Errors.NotExist: nothing is, or it cannot be read.
func (q *JobQueue[W]) record(ctx context.Context, id uuid.UUID) (*job.Record, error) {
	return q.lookUp(ctx, queue.JobFilter{IDs: []job.ID{job.ID(id)}})
}

func (q *JobQueue[W]) lookUp(ctx context.Context, f queue.JobFilter) (*job.Record, error) {
	list, err := look(ctx, q.engine, func(ctx context.Context) ([]job.Record, error) { return q.history.Jobs(ctx, f) })
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, q.errs.NotExist
	}
	return &list[0], nil
}

// Job gives what a job was enqueued with. Error: Errors.NotExist.
func (q *JobQueue[W]) Job(id uuid.UUID) (jobType string, args json.RawMessage, deps []uuid.UUID, channel string, err error) {
	r, err := q.lookUp(context.Background(), queue.JobFilter{IDs: []job.ID{job.ID(id)}, Args: true})
	if err != nil {
		return "", nil, nil, "", err
	}
	s := &r.Spec
	return unescape(s.Kind), s.Args, dependencies(s.Needs), unescape(s.Channel), nil
}

// GroupID gives the group of a job; uuid.Nil: it is of none. Error: Errors.NotExist.
func (q *JobQueue[W]) GroupID(id uuid.UUID) (uuid.UUID, error) {
	r, err := q.record(context.Background(), id)
	if err != nil {
		return uuid.Nil, err
	}
	return groupOf(r.Spec.Key), nil
}

// JobStatus gives where a job is. started and finished are zero where it has not come to that, also if it was cancelled before;
// result is nil where none was stored: that of a job that runs is what UpdateJobResult stored, and a job that was requeued has none.
// dependents are in the order in which they were enqueued. Error: Errors.NotExist.
func (q *JobQueue[W]) JobStatus(id uuid.UUID) (
	jobType, channel string, result json.RawMessage, queued, started, finished time.Time, canceled bool, deps, dependents []uuid.UUID, err error,
) {
	ctx := context.Background()
	r, stored, err := q.read(ctx, id)
	var after []job.ID
	if err == nil {
		after, err = q.dependents(ctx, r.Spec.ID)
	}
	if err != nil {
		return jobType, channel, nil, queued, started, finished, false, nil, nil, err
	}
	result, started, finished, canceled = status(r, stored)
	dependents = make([]uuid.UUID, 0, len(after))
	for _, d := range after {
		dependents = append(dependents, uuid.UUID(d))
	}
	jobType, channel = unescape(r.Spec.Kind), unescape(r.Spec.Channel)
	return jobType, channel, result, r.At.Std(), started, finished, canceled, dependencies(r.Spec.Needs), dependents, nil
}

// read gives a job and the result that is stored of it. Between the two the job may finish: then it is read again, as it would run with
// the result of its end.
func (q *JobQueue[W]) read(ctx context.Context, id uuid.UUID) (r *job.Record, stored []byte, err error) {
	for {
		r, err = q.record(ctx, id)
		if err != nil || !r.Running && r.End == nil {
			return r, nil, err
		}
		p, err := look(ctx, q.engine, func(ctx context.Context) (queue.Payload, error) { return q.history.Payload(ctx, r.Spec.ID) })
		switch {
		case errors.Is(err, queue.ErrNotFound):
			return nil, nil, q.errs.NotExist // deleted
		case err != nil:
			return nil, nil, err
		case r.End != nil || len(p.Result) == 0 || isPartial(p.Result):
			return r, p.Result, nil
		}
	}
}

// dependents gives the jobs that depend on one.
func (q *JobQueue[W]) dependents(ctx context.Context, id job.ID) ([]job.ID, error) {
	return look(ctx, q.engine, func(ctx context.Context) ([]job.ID, error) { return q.history.Dependents(ctx, id) })
}

// status tells a record in composer's words.
func status(r *job.Record, stored []byte) (result json.RawMessage, started, finished time.Time, canceled bool) {
	switch {
	case r.Running:
		return partial(r.Last.Number, stored), r.Last.Start.Std(), time.Time{}, false
	case r.End == nil:
		return nil, time.Time{}, time.Time{}, false
	case r.End.Outcome == job.Cancelled:
		if r.LastEnd != nil && r.LastEnd.Outcome == job.Cancelled {
			return partial(r.Last.Number, stored), r.Last.Start.Std(), time.Time{}, true
		}
		return nil, time.Time{}, time.Time{}, true
	}
	finished = r.End.At.Std()
	started = finished // it was failed where it waited
	if r.LastEnd != nil && r.LastEnd.At == r.End.At {
		started = r.Last.Start.Std()
	}
	return final(stored), started, finished, false
}

// CancelJob cancels a job that has not finished; one that was cancelled before stays so. Whoever waits for it is released. The
// worker of one that runs is told so by JobStatus for as long as its token is good: until it finishes, at most for StopTold or, if that is
// longer, the time of a lease from when it was last heard of before; after a restart for that alone. Errors: Errors.NotExist,
// Errors.NotRunning if it has finished.
func (q *JobQueue[W]) CancelJob(id uuid.UUID) error {
	ctx := context.Background()
	var l job.Lease
	done := q.stopped.begin(job.ID(id))
	defer func() { done(l) }()
	err := steadily(ctx, func(ctx context.Context) error {
		return q.engine.CancelJob(ctx, job.ID(id), job.ID{}, true, "cancelled")
	})
	ended := errors.Is(err, job.ErrEnded)
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return q.errs.NotExist
	case err != nil && !ended:
		return err
	}
	// Which attempt was stopped, if any, is known only now. Its lease may be over already.
	r, err := q.record(ctx, id)
	switch {
	case err != nil && ended:
		return err
	case err != nil: // it is cancelled all the same
	case r.End == nil || r.End.Outcome != job.Cancelled:
		return q.errs.NotRunning
	case r.LastEnd != nil && r.LastEnd.Outcome == job.Cancelled && (r.Held || !ended):
		l = job.Lease{Job: r.Spec.ID, Attempt: r.Last.Number, Token: r.Last.Token}
	}
	return nil
}

// FailJob ends a job that no worker has with a result. Errors: Errors.NotExist, Errors.Running, Errors.Finished, Errors.Canceled,
// *job.InvalidError if the result is larger than job.MaxResult.
func (q *JobQueue[W]) FailJob(id uuid.UUID, result any) error {
	b, err := marshal("result", result)
	if err != nil {
		return err
	}
	ctx := context.Background()
	err = steadily(ctx, func(ctx context.Context) error { return q.engine.FailJob(ctx, job.ID(id), "failed by the server", b) })
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return q.errs.NotExist
	case errors.Is(err, job.ErrBusy):
		return q.errs.Running
	case errors.Is(err, job.ErrEnded):
		return q.ended(ctx, id, q.errs.Finished)
	}
	return err
}

// ended tells how a job has ended: Errors.Canceled, or the given error.
func (q *JobQueue[W]) ended(ctx context.Context, id uuid.UUID, other error) error {
	r, err := q.record(ctx, id)
	switch {
	case err != nil:
		return err
	case r.End != nil && r.End.Outcome == job.Cancelled:
		return q.errs.Canceled
	}
	return other
}
