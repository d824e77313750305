package sqlite

import (
	"context"
	"fmt"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/rows"
)

// Load implements queue.Store.
func (r *Reader) Load(ctx context.Context, fn func(job.Change) error) (head queue.Head, err error) {
	var refused error // by fn: given back as it is
	err = r.long(ctx, func(c *conn) (err error) {
		head, err = rows.Load(ctx, c, func(v job.Change) error {
			refused = fn(v)
			return refused
		})
		return err
	})
	switch {
	case refused != nil:
		return queue.Head{}, refused
	case err != nil:
		return queue.Head{}, r.fail("load", err)
	}
	return head, nil
}

// Committed implements queue.Store.
func (r *Reader) Committed(ctx context.Context, number uint64) (bool, error) {
	var h rows.Head
	err := r.with(ctx, func(c *conn) (err error) {
		h, err = rows.ReadHead(c)
		return err
	})
	if err != nil {
		return false, r.fail(fmt.Sprintf("look for batch %d", number), err)
	}
	return number <= h.Number, nil
}

// Lookup implements queue.Store. It reads with the connection that writes, if that is free: its pages are still in
// memory, where any other connection drops its own at each commit.
func (s *Store) Lookup(ctx context.Context, q *queue.Query) (*queue.Found, error) {
	if !s.mu.TryLock() {
		return s.Reader.Lookup(ctx, q)
	}
	defer s.mu.Unlock()
	err := s.err
	if err == nil {
		err = ctx.Err()
	}
	f := rows.Nothing()
	if err == nil && !q.Empty() {
		err = s.w.reading(func(c *conn) error { return rows.Lookup(c, q, f) })
	}
	if err != nil {
		return nil, s.fail("look up", err)
	}
	return f, nil
}

// Lookup reads as queue.Store does.
func (r *Reader) Lookup(ctx context.Context, q *queue.Query) (*queue.Found, error) {
	f := rows.Nothing()
	if err := r.with(ctx, func(c *conn) error { return rows.Lookup(c, q, f) }); err != nil {
		return nil, r.fail("look up", err)
	}
	return f, nil
}

// Feed implements queue.Store.
func (r *Reader) Feed(ctx context.Context, after uint64, limit int) (rounds []queue.Round, err error) {
	err = r.long(ctx, func(c *conn) (err error) {
		rounds, err = rows.Rounds(c, after, limit)
		return err
	})
	if err != nil {
		return nil, r.fail(fmt.Sprintf("read feed after %d", after), err)
	}
	return rounds, nil
}
