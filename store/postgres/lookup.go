package postgres

import (
	"context"
	"fmt"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/rows"
)

// stream has the server give the jobs in their order as it finds them, by the keys of their rows: to gather and sort them
// first takes twice as long, and writes to its disk. Pages that lie side by side are read about as quickly as in a scan.
const stream = `SELECT set_config('enable_sort', 'off', true), set_config('random_page_cost', '1.1', true),
	set_config('max_parallel_workers_per_gather', '0', true)`

// Load implements queue.Store.
func (r *Reader) Load(ctx context.Context, fn func(job.Change) error) (head queue.Head, err error) {
	var refused error // by fn: given back as it is
	var cut error     // of a connection that failed when fn had been told something: it is told nothing twice
	err = r.moment(ctx, func(t *tables) (err error) {
		if cut != nil {
			return cut
		}
		t.send(request{sql: stream, read: func(*cells) error { return nil }})
		told := false
		head, err = rows.Load(ctx, t, func(v job.Change) error {
			told = true
			refused = fn(v)
			return refused
		})
		if told {
			cut = err
		}
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

// Committed implements queue.Store. It looks as the owner, on the connection that writes: what an earlier connection was
// about is decided by then.
func (s *Store) Committed(ctx context.Context, number uint64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.look(ctx)
	if err != nil {
		return false, s.fail(fmt.Sprintf("look for batch %d", number), cause(ctx, err))
	}
	return number <= h.Number, nil
}

func (s *Store) look(ctx context.Context) (h rows.Head, err error) {
	w, err := s.writer(ctx)
	if err != nil {
		return h, err
	}
	w.begin(ctx, s.life.epoch, &queue.Batch{})
	w.head = nil
	if h, err = rows.ReadHead(w); err == nil {
		err = w.finish()
	}
	if err != nil {
		s.hangUp()
	}
	return h, err
}

// Lookup implements queue.Store. It reads on the connection that writes, if that is free: between two commits nothing
// changes there, so it needs no transaction of its own.
func (s *Store) Lookup(ctx context.Context, q *queue.Query) (*queue.Found, error) {
	f := rows.Nothing()
	if q.Empty() || !s.mu.TryLock() {
		return s.Reader.Lookup(ctx, q)
	}
	defer s.mu.Unlock()
	w, err := s.writer(ctx)
	if err == nil {
		w.ctx = ctx
		if err = rows.Lookup(w, q, f); err != nil {
			s.hangUp()
		}
	}
	if err != nil {
		return nil, s.fail("look up", cause(ctx, err))
	}
	return f, nil
}

// Lookup reads as queue.Store does.
func (r *Reader) Lookup(ctx context.Context, q *queue.Query) (*queue.Found, error) {
	f := rows.Nothing()
	if q.Empty() {
		return f, nil
	}
	err := r.moment(ctx, func(t *tables) error {
		f = rows.Nothing()
		return rows.Lookup(t, q, f)
	})
	if err != nil {
		return nil, r.fail("look up", err)
	}
	return f, nil
}

// Feed implements queue.Store.
func (r *Reader) Feed(ctx context.Context, after uint64, limit int) (rounds []queue.Round, err error) {
	err = r.byKey(ctx, func(t *tables) (err error) {
		rounds, err = rows.Rounds(t, after, limit)
		return err
	})
	if err != nil {
		return nil, r.fail(fmt.Sprintf("read feed after %d", after), err)
	}
	return rounds, nil
}
