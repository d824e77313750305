package queue

import (
	"context"
	"fmt"

	"github.com/headrace/headrace/job"
)

type requestKey struct{}

// WithRequest gives the commands made under the context a request id: the same command under the same id
// happens once, and a repeat gets the first answer. Refusals change nothing and are not kept. One id goes with one
// command. Answers are kept for AnswerRetention.
func WithRequest(ctx context.Context, id job.ID) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

func requestOf(ctx context.Context) job.ID {
	id, _ := ctx.Value(requestKey{}).(job.ID)
	return id
}

// do sends a command to the owner and waits for its answer. R must survive JSON. Once it is sent, an ending ctx
// does not take it back: it may or may not happen, and ctx's error says only that nobody waited.
func do[R any](ctx context.Context, q *Queue, query func(*job.Machine, *Query), decide func(*round) ([]job.Change, R, error)) (R, error) {
	return doHeavy(ctx, q, 1, query, decide)
}

// doHeavy is do for a command that makes about so many changes.
func doHeavy[R any](ctx context.Context, q *Queue, weight int, query func(*job.Machine, *Query), decide func(*round) ([]job.Change, R, error)) (R, error) {
	var zero R
	c := &call{
		ctx: ctx, request: requestOf(ctx), query: query, weight: weight,
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
		switch {
		case ok && v != nil:
			return *v, a.err
		case a.err == nil:
			return zero, fmt.Errorf("request %s was made with another command: %w", c.request, ErrRequest)
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
			return zero, or(a.err, ErrClosed)
		default:
			return zero, ErrClosed
		}
	}
}

func (q *Queue) send(ctx context.Context, c *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-q.done:
		return ErrClosed
	default:
	}
	select {
	case q.calls <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-q.done:
		return ErrClosed
	}
}

// none is the reply of a command that only succeeds.
type none struct{}

// change sends a command that has no reply.
func change(ctx context.Context, q *Queue, query func(*job.Machine, *Query), decide func(*round) ([]job.Change, error)) error {
	_, err := do(ctx, q, query, func(r *round) ([]job.Change, none, error) {
		changes, err := decide(r)
		return changes, none{}, err
	})
	return err
}

// ask reads the machine in the owner's goroutine, as of the last commit.
func ask[R any](ctx context.Context, q *Queue, read func(*round) (R, error)) (R, error) {
	return do(context.WithValue(ctx, requestKey{}, nil), q, nil, func(r *round) ([]job.Change, R, error) {
		v, err := read(r)
		return nil, v, err
	})
}
