package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
)

// round is one turn of the owner: the commands that it took, what they changed, and who is told what after the
// commit.
type round struct {
	q         *Queue
	at        job.Moment
	took      int     // commands
	weight    int     // of them
	untouched int     // weight of those that were not decided yet
	calls     []*call // that are not decided yet
	found     *Found
	fresh     fresh
	batch     Batch
	after     []func(error)     // run once the batch is stored, or cannot be
	looks     []func(error)     // run after those
	sessions  map[string]job.ID // of workers that registered in this round
	room      int               // how much the machine may still draw of consequences
	unread    error             // the history did not answer: others that need it are refused
	err       error             // the machine refused a change: the state in memory is of no use any more
}

func (q *Queue) newRound() *round {
	return &round{q: q, at: q.moment(), found: &Found{}, room: q.RoundBudget}
}

// errVolatile says that a command has answered for itself, without a commit.
var errVolatile = errors.New("volatile")

// call is a command on its way to the owner.
type call struct {
	command
	ctx     context.Context
	request job.ID
	// decide looks at the machine and gives changes and a reply, or an error and nothing. A nil decide only needs the
	// round.
	decide func(r *round) ([]job.Change, any, error)
	// fresh makes an empty reply, to read a stored answer into.
	fresh func() any
	reply chan answer
}

type answer struct {
	value any
	err   error
}

// answer never blocks: each call is answered once, into a buffer of one.
func (c *call) answer(v any, err error) { c.reply <- answer{v, err} }

// look reads, in one go, what the commands name and memory does not hold. If that fails, those that asked for something are
// refused; the others go on, above all the heartbeats.
func (r *round) look(ctx context.Context) {
	var query Query
	var asking, others []*call
	for _, c := range r.calls {
		before := query.size()
		if !c.request.IsZero() {
			query.Requests = append(query.Requests, c.request)
		}
		if c.query != nil {
			c.query(r.q.machine, &query)
		}
		if query.size() > before {
			asking = append(asking, c)
		} else {
			others = append(others, c)
		}
	}
	r.found = &Found{}
	if query.Empty() {
		return
	}
	query.tidy()
	// A store that does not answer must not keep heartbeats waiting for ever.
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	found, err := r.q.Store.Lookup(ctx, &query)
	if err == nil {
		r.found = found
		if r.q.aloft != nil {
			r.q.aloft.fresh.over(&query, found)
		}
		r.fresh.over(&query, found)
		return
	}
	r.q.Log.Warn("a lookup failed; the callers may try again", "err", err)
	for _, c := range asking {
		c.answer(nil, &RetryError{Cause: fmt.Errorf("lookup: %w", err)})
	}
	r.calls = others
}

// decide lets one command decide, and makes its changes and what follows from them.
func (r *round) decide(c *call) {
	if c.ctx.Err() != nil {
		c.answer(nil, c.ctx.Err())
		return
	}
	if !c.request.IsZero() && r.repeated(c) {
		return
	}
	changes, v, err := c.decide(r)
	if errors.Is(err, errVolatile) {
		return
	}
	if err != nil {
		// A refusal may rest on what an earlier command of this round did: it is told once that is stored.
		r.after = append(r.after, func(failed error) { c.answer(v, or(failed, err)) })
		return
	}
	r.apply(changes)
	r.advance()
	if !c.request.IsZero() {
		told := c.record(v)
		put(&r.fresh.Answers, c.request, told)
		r.batch.Answers = append(r.batch.Answers, Answer{c.request, told})
	}
	r.later(c, v)
}

// repeated gives a request that was made before its first answer, and reports whether there was one.
func (r *round) repeated(c *call) bool {
	told, ok := r.fresh.Answers[c.request]
	if !ok && r.q.aloft != nil {
		told, ok = r.q.aloft.fresh.Answers[c.request]
	}
	if ok {
		// Read back from what is stored, so that the two callers share nothing.
		if v, err := c.recall(told); err != nil {
			c.answer(nil, err)
		} else {
			r.later(c, v)
		}
		return true
	}
	stored, ok := r.found.Answers[c.request]
	if ok {
		v, err := c.recall(stored)
		c.answer(v, err)
	}
	return ok
}

// record makes what is kept of an answer: the command's name, and the reply as JSON.
func (c *call) record(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("the reply of %s is no JSON: %v", c.name, err)) // replies are plain structs of this package
	}
	return append([]byte(c.name+"\n"), b...)
}

// recall reads what record made.
func (c *call) recall(stored []byte) (any, error) {
	name, reply, _ := strings.Cut(string(stored), "\n")
	if name != c.name {
		return nil, c.reused(name)
	}
	v := c.fresh()
	if err := json.Unmarshal([]byte(reply), v); err != nil {
		return nil, fmt.Errorf("request %s: the stored answer cannot be read: %v", c.request, err)
	}
	return v, nil
}

func (c *call) reused(name string) error {
	return fmt.Errorf("request %s was used to %s: %w", c.request, name, ErrRequest)
}

func or(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// later answers the call once the batch is stored.
func (r *round) later(c *call, v any) {
	r.after = append(r.after, func(err error) {
		if err != nil {
			c.answer(nil, err)
			return
		}
		c.answer(v, nil)
	})
}

// run applies what a decision gave, unless it was refused.
func (r *round) run(changes []job.Change, err error) {
	if err == nil {
		r.apply(changes)
	}
}

// apply makes changes and books them for the commit.
func (r *round) apply(changes []job.Change) {
	for _, c := range changes {
		if r.err != nil {
			return
		}
		if r.err = r.q.machine.Apply(c); r.err == nil {
			r.q.machine.Left(r.keep)
			r.note(c)
		}
	}
}

// advance lets the machine draw its consequences.
func (r *round) advance() {
	if r.err != nil {
		return
	}
	changes, err := r.q.machine.Advance(r.at, r.room)
	r.err = err
	r.room -= r.q.machine.Effort()
	r.q.machine.Left(r.keep)
	for _, c := range changes {
		r.note(c)
	}
	r.q.sched.Update()
}

// note books a change, and keeps what later commands of this round can no longer find in memory.
func (r *round) note(c job.Change) {
	r.batch.Changes = append(r.batch.Changes, c)
	q := r.q
	switch c := c.(type) {
	case job.JobAdded:
		q.specs.put(&c.Spec)
	case job.JobStarted:
		q.Log.Info("started", "job", c.Job, "attempt", c.Attempt.Number, "worker", c.Attempt.Worker)
	case job.JobRetried:
		r.concluded(c.Job, &c.Attempt)
		q.Log.Info("to be tried again", "job", c.Job, "attempt", c.Attempt.Number, "outcome", c.Attempt.Outcome, "detail", c.Attempt.Detail)
	case job.JobEnded:
		if c.Attempt != nil {
			r.concluded(c.Job, c.Attempt)
		}
		r.after = append(r.after, func(error) { q.awaited.wake(c.Job) })
		q.Log.Info("ended", "job", c.Job, "outcome", c.End.Outcome, "detail", c.End.Detail)
	case job.JobFreed:
		q.Log.Info("freed", "job", c.Job)
	case job.JobDeleted:
		r.lose(c.Job)
	case job.BuildDeleted:
		delete(r.found.Builds, c.Build)
		put(&r.fresh.Builds, c.Build, nil)
	case job.WorkerPut:
		r.evict(c.Worker.Name, func(s job.ID) bool { return s != c.Worker.Session }, job.ErrWorkerLive)
	case job.WorkerRemoved:
		r.signed(c.Name, job.ID{})
		r.evict(c.Name, func(job.ID) bool { return true }, ErrNotFound)
	case job.BuildEnded:
		ended := &job.BuildRecord{Build: job.Build{ID: c.Build}, Outcome: c.Outcome, Ended: c.At}
		put(&r.found.Builds, c.Build, ended)
		put(&r.fresh.Builds, c.Build, ended)
		r.after = append(r.after, func(error) { q.awaited.wake(c.Build) })
		q.Log.Info("build ended", "build", c.Build, "outcome", c.Outcome)
	case job.FailureCached:
		put(&r.found.Cached, c.Identity, &c)
		put(&r.fresh.Cached, c.Identity, &c)
	case job.FailureCleared:
		delete(r.found.Cached, c.Identity)
		put(&r.fresh.Cached, c.Identity, nil)
	default:
		// The others tell later commands of the round nothing, and nobody waits for them.
	}
}

// concluded tells the worker of an attempt that it is over, and keeps how it ended: the next attempt may begin in this very round.
func (r *round) concluded(id job.ID, a *job.AttemptEnd) {
	r.stop(id, a.Number)
	put(&r.fresh.Ended, job.Lease{Job: id, Attempt: a.Number, Token: a.Token}, a)
}

// keep adds a job that left memory to what is known of those that are not in it.
func (r *round) keep(rec *job.Record) {
	for _, f := range []*Found{r.found, &r.fresh.Found} {
		put(&f.Jobs, rec.Spec.ID, rec)
		if rec.End.Outcome == job.Succeeded {
			put(&f.Kept, rec.Spec.Likeness(), rec.Spec.ID)
		}
	}
}

// lose takes a deleted job out of that. An older success of its likeness is not looked for: who asks runs it again.
func (r *round) lose(id job.ID) {
	for _, f := range []*Found{r.found, &r.fresh.Found} {
		maps.DeleteFunc(f.Kept, func(_ job.Likeness, kept job.ID) bool { return kept == id })
	}
	delete(r.found.Jobs, id)
	put(&r.fresh.Jobs, id, nil)
}

// match hands ready jobs to waiting workers, but not too many in one round: others wait for it.
func (r *round) match() {
	q := r.q
	q.sched.Begin()
	q.behind = false
	for n := 0; r.err == nil; n++ {
		j, name, ok := q.sched.Next(r.at.Now)
		if !ok {
			return
		}
		if n == maxLeases {
			q.behind = true
			return
		}
		w := q.next(name)
		if w == nil {
			continue
		}
		token := q.NewToken()
		changes, err := q.machine.Start(r.at, j.ID(), name, token)
		if err != nil {
			r.err = fmt.Errorf("start job %s on %q: %w", j.ID(), name, err)
			return
		}
		r.apply(changes)
		r.advance()
		if r.err == nil {
			q.assign(r, j, w)
		}
	}
}

// tell wakes whoever watches.
func (q *Queue) tell() {
	next := make(chan struct{})
	close(*q.news.Swap(&next))
}

func (r *round) finish(err error) {
	for _, f := range r.after {
		f(err)
	}
	for _, f := range r.looks {
		f(err)
	}
	r.after, r.looks = nil, nil
}

// persist commits a batch. A commit that failed may have happened: it is looked for before it is sent again.
func (q *Queue) persist(ctx context.Context, b *Batch) error {
	deadline := time.Now().Add(q.Patience)
	for pause := time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := q.attempt(ctx, b)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrFenced) {
			return err
		}
		q.Log.Warn("a commit failed; looking whether it happened", "err", err)
		if there, look := q.committed(ctx, b.Number); look == nil && there {
			return nil
		} else if errors.Is(look, ErrFenced) {
			return look
		}
		if errors.Is(err, ErrNumber) || !time.Now().Add(pause).Before(deadline) {
			return err
		}
		<-time.After(pause)
	}
}

// attempt commits a batch, and gives up on a store that does not answer.
func (q *Queue) attempt(ctx context.Context, b *Batch) error {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	return q.Store.Commit(ctx, b)
}

// committed looks for a batch, in the same way.
func (q *Queue) committed(ctx context.Context, number uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	return q.Store.Committed(ctx, number)
}
