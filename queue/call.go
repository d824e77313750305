package queue

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/headrace/headrace/job"
)

type requestKey struct{}

// WithRequest gives the commands made under the context a request id: the same command under the same id
// happens once, and a repeat gets the first answer. Refusals change nothing and are not kept. One id goes with one
// command. Answers are kept for AnswerRetention.
func WithRequest(ctx context.Context, id job.ID) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestOf gives the request id of a context; zero: it has none.
func RequestOf(ctx context.Context) job.ID {
	id, _ := ctx.Value(requestKey{}).(job.ID)
	return id
}

// Answered reports whether a command was made under the request id of the context, as of the last commit; not if it has none. It is for
// callers that cannot tell a repeat from a request for what is not there.
func (q *Queue) Answered(ctx context.Context) (bool, error) {
	_, ok, err := q.answerTo(ctx)
	return ok, err
}

// answerTo gives what is stored as the answer to the context's request id.
func (q *Queue) answerTo(ctx context.Context) (stored []byte, ok bool, err error) {
	id := RequestOf(ctx)
	if id.IsZero() {
		return nil, false, nil
	}
	found, err := q.Store.Lookup(ctx, &Query{Requests: []job.ID{id}})
	if err != nil {
		return nil, false, &RetryError{Cause: fmt.Errorf("lookup: %w", err)}
	}
	stored, ok = found.Answers[id]
	return stored, ok, nil
}

// command is what the owner knows of a command before it decides it.
type command struct {
	name string
	// weight is about how many changes it makes; 0 counts as 1.
	weight int
	// query adds what the command names and memory does not hold; nil: nothing.
	query func(*job.Machine, *Query)
}

// do sends a command to the owner and waits for its answer. R must survive JSON. Once it is sent, an ending ctx
// does not take it back: it may or may not happen, and ctx's error says only that nobody waited.
func do[R any](ctx context.Context, q *Queue, cmd command, decide func(*round) ([]job.Change, R, error)) (R, error) {
	var zero R
	c := &call{
		command: cmd, ctx: ctx, request: RequestOf(ctx),
		decide: func(r *round) ([]job.Change, any, error) {
			changes, v, err := decide(r)
			return changes, &v, err
		},
		fresh: func() any { return new(R) },
		reply: make(chan answer, 1),
	}
	if err := q.send(ctx, c); err != nil {
		return zero, err
	}
	select {
	case a := <-c.reply:
		v, ok := a.value.(*R)
		if ok && v != nil {
			return *v, a.err
		}
		return zero, a.err
	case <-ctx.Done():
		return zero, ctx.Err()
	case <-q.done:
		// The owner may have answered just before it went.
		select {
		case a := <-c.reply:
			if v, ok := a.value.(*R); ok && v != nil {
				return *v, a.err
			}
			return zero, or(a.err, q.end)
		default:
			return zero, q.end
		}
	}
}

func (q *Queue) send(ctx context.Context, c *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-q.done:
		return q.end
	default:
	}
	select {
	case q.calls <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-q.done:
		return q.end
	}
}

// none is the reply of a command that only succeeds.
type none struct{}

// change sends a command that has no reply.
func change(ctx context.Context, q *Queue, cmd command, decide func(*round) ([]job.Change, error)) error {
	_, err := do(ctx, q, cmd, func(r *round) ([]job.Change, none, error) {
		changes, err := decide(r)
		return changes, none{}, err
	})
	return err
}

// ask reads the machine in the owner's goroutine, as of the last commit.
func ask[R any](ctx context.Context, q *Queue, read func(*round) (R, error)) (R, error) {
	return do(context.WithValue(ctx, requestKey{}, nil), q, command{name: "ask"}, func(r *round) ([]job.Change, R, error) {
		v, err := read(r)
		return nil, v, err
	})
}

// volatile runs f in the owner's goroutine, changing nothing durable, and answers without a commit; but a refusal may rest
// on what an earlier command of the round did, and is told once that is stored. If ctx ends before f has begun, f never runs.
func (q *Queue) volatile(ctx context.Context, f func(*round) error) error {
	return q.errand(ctx, func(r *round, e *errand) {
		if !e.begin() {
			return
		}
		if err := f(r); err != nil {
			r.after = append(r.after, func(failed error) { e.answer(nil, or(failed, err)) })
		} else {
			e.answer(nil, nil)
		}
	})
}

// errand is a call that is not repeated under a request id, as one that changes nothing durable. What it does is either done while its
// caller waits, or not at all.
type errand struct {
	call
	begun atomic.Bool
}

// begin reports whether the caller still waits; from then on it does until it is answered.
func (e *errand) begin() bool { return e.begun.CompareAndSwap(false, true) }

// errand has the owner run what must begin the errand and answer it.
func (q *Queue) errand(ctx context.Context, run func(*round, *errand)) error {
	e := &errand{call: call{ctx: ctx, reply: make(chan answer, 1)}}
	e.decide = func(r *round) ([]job.Change, any, error) {
		// No commit will tell whether this is still the owner.
		if err := q.owned(); err != nil {
			e.answer(nil, err)
		} else {
			run(r, e)
		}
		return nil, nil, errVolatile
	}
	_, err := q.deliver(ctx, e)
	return err
}

// deliver sends an errand, and waits for its answer. If ctx ends before it has begun, it never does.
func (q *Queue) deliver(ctx context.Context, e *errand) (any, error) {
	if err := q.send(ctx, &e.call); err != nil {
		return nil, err
	}
	ended := ctx.Done()
	for {
		select {
		case a := <-e.reply:
			return a.value, a.err
		case <-ended:
			if e.begin() {
				return nil, ctx.Err()
			}
			ended = nil // the owner is at it: the answer comes
		case <-q.done:
			select {
			case a := <-e.reply:
				return a.value, a.err
			default:
				return nil, q.end
			}
		}
	}
}
