package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/headrace/headrace/internal/crash"
	"github.com/headrace/headrace/queue"
)

// Commit implements queue.Store. A batch of one change costs about as much as one of a hundred: what costs is
// the sync at its end. If the file has been removed or replaced, the error is queue.ErrFenced.
func (s *Store) Commit(ctx context.Context, b *queue.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.err
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = s.write(b)
	}
	if err == nil {
		s.log.keep(s.path, s.w, &s.gate)
		// Whoever removed the file took away what was just stored.
		err = s.inPlace()
	}
	if err != nil {
		return s.fail(fmt.Sprintf("commit batch %d", b.Number), err)
	}
	return nil
}

func (s *Store) write(b *queue.Batch) error {
	if err := s.w.begin(qBegin); err != nil {
		return errors.Join(err, s.w.end(false))
	}
	crash.Here(crash.CommitBegun)
	if err := s.tx.Write(s.w, b); err != nil {
		return errors.Join(err, s.w.end(false))
	}
	crash.Here(crash.CommitWritten)
	return s.w.end(true)
}
