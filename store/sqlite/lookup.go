package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// Committed implements queue.Store.
func (r *Reader) Committed(ctx context.Context, number uint64) (bool, error) {
	var h head
	err := r.with(ctx, func(c *conn) (err error) {
		h, err = readHead(c)
		return err
	})
	if err != nil {
		return false, r.fail(fmt.Sprintf("look for batch %d", number), err)
	}
	return number <= h.number, nil
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
	f := nothing()
	if err == nil && !q.Empty() {
		err = s.w.reading(func(c *conn) error { return lookup(c, q, f) })
	}
	if err != nil {
		return nil, s.fail("look up", err)
	}
	return f, nil
}

// Lookup reads as queue.Store does.
func (r *Reader) Lookup(ctx context.Context, q *queue.Query) (*queue.Found, error) {
	f := nothing()
	if err := r.with(ctx, func(c *conn) error { return lookup(c, q, f) }); err != nil {
		return nil, r.fail("look up", err)
	}
	return f, nil
}

func nothing() *queue.Found {
	return &queue.Found{
		Facts: job.Facts{
			Jobs: map[job.ID]*job.Record{}, Ended: map[job.Lease]*job.AttemptEnd{}, Kept: map[job.Likeness]job.ID{}, Cached: map[job.Identity]*job.FailureCached{},
			Took: map[job.Series]time.Duration{}, Builds: map[job.ID]*job.BuildRecord{},
		},
		Answers: map[job.ID][]byte{},
	}
}

func lookup(c *conn, q *queue.Query, f *queue.Found) error {
	for _, id := range q.Jobs {
		if err := lookupJob(c, id, f); err != nil {
			return err
		}
	}
	for _, l := range q.Leases {
		if err := lookupEnded(c, l, f); err != nil {
			return err
		}
	}
	for _, id := range q.Builds {
		if err := lookupBuild(c, id, f); err != nil {
			return err
		}
	}
	for _, id := range q.Requests {
		if err := lookupAnswer(c, id, f); err != nil {
			return err
		}
	}
	return lookupNamed(c, q, f)
}

func lookupJob(c *conn, id job.ID, f *queue.Found) error {
	var rec *job.Record
	inJob := false // the last attempt ended with the job
	err := each(c.query(qSettledJob).blob(id[:]), func(q *stmt) error {
		if v, err := readRecord(q); err == nil {
			rec, inJob = v, !q.isNull(endedAttemptColumn)
		}
		return nil
	})
	if err != nil || rec == nil {
		return err
	}
	f.Jobs[id] = rec
	if rec.LastEnd == nil {
		return nil
	}
	q := c.query(qAttemptResult).int(rec.Seq).int(int64(rec.LastEnd.Number))
	if inJob {
		q = c.query(qResult).int(rec.Seq)
	}
	return each(q, func(q *stmt) error {
		rec.LastEnd.Result = q.readBytes()
		return nil
	})
}

// lookupEnded finds an attempt that ended before its job or with it; the latter stands over the former, as in a late finish.
func lookupEnded(c *conn, l job.Lease, f *queue.Found) error {
	take := func(q *stmt) error {
		e, err := codec.DecodeAttemptEnd(q.readBytes())
		if err == nil && e.Number == l.Attempt && e.Token == l.Token {
			e.Result = nil
			f.Ended[l] = &e
		}
		return nil
	}
	if err := each(c.query(qAttemptEnd).blob(l.Job[:]).int(int64(l.Attempt)), take); err != nil {
		return err
	}
	return each(c.query(qJobsAttempt).blob(l.Job[:]), take)
}

func lookupBuild(c *conn, id job.ID, f *queue.Found) error {
	return each(c.query(qEndedBuild).blob(id[:]), func(q *stmt) error {
		if b, err := readBuild(q); err == nil {
			f.Builds[id] = &b
		}
		return nil
	})
}

func lookupAnswer(c *conn, id job.ID, f *queue.Found) error {
	return each(c.query(qAnswer).blob(id[:]), func(q *stmt) error {
		f.Answers[id] = q.appendBytes([]byte{})
		return nil
	})
}

func lookupNamed(c *conn, q *queue.Query, f *queue.Found) error {
	for _, k := range q.Kept {
		id, err := lookupKept(c, k)
		if err != nil {
			return err
		}
		if !id.IsZero() {
			f.Kept[k] = id
		}
	}
	for _, k := range q.Cached {
		err := each(c.query(qFailure).string(k.Channel).string(k.Kind).string(k.Key), func(q *stmt) error {
			if v, err := codec.DecodeFailure(q.readBytes()); err == nil {
				f.Cached[k] = &v
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, k := range q.Took {
		v, ok, err := readTook(c, k)
		if err != nil {
			return err
		}
		if ok {
			f.Took[k] = v.took
		}
	}
	return nil
}

// lookupKept gives the newest success of the likeness; zero: there is none. Nearly always it is the first that is looked at.
func lookupKept(c *conn, k job.Likeness) (job.ID, error) {
	i := k.Identity()
	q := c.query(qKept).string(i.Key).string(i.Kind).string(i.Channel).int(int64(job.Succeeded)).int(queue.KeptMost)
	for {
		more, err := q.next()
		if err != nil || !more {
			return job.ID{}, err
		}
		var id job.ID
		copy(id[:], q.readBytes())
		s, err := codec.DecodeSpec(q.readBytes())
		s.Channel, s.Kind = i.Channel, i.Kind // which the row has beside the spec
		if err == nil && s.Class() == k.Class {
			return id, q.done()
		}
	}
}

func readTook(c *conn, k job.Series) (v learned, ok bool, err error) {
	err = each(c.query(qTook).string(k.Channel).string(k.Kind).string(k.Name), func(q *stmt) error {
		v, ok = learned{time.Duration(q.readInt()), q.readInt()}, true
		return nil
	})
	return v, ok, err
}

// Feed implements queue.Store.
func (r *Reader) Feed(ctx context.Context, after uint64, limit int) ([]queue.Round, error) {
	var rounds []queue.Round
	err := r.long(ctx, func(c *conn) error {
		h, err := readHead(c)
		if err != nil {
			return err
		}
		if after < h.dropped {
			return queue.ErrFeedTruncated
		}
		return each(c.query(qFeed).int(int64(after)).int(int64(max(limit, 0))), func(q *stmt) error {
			v := queue.Round{Number: uint64(q.readInt()), At: job.Time(q.readInt())}
			v.Changes, err = codec.DecodeChanges(q.readBytes())
			rounds = append(rounds, v)
			return err
		})
	})
	if err != nil {
		return nil, r.fail(fmt.Sprintf("read feed after %d", after), err)
	}
	return rounds, nil
}
