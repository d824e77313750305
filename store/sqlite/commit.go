package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/internal/crash"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

var (
	errUnknownJob   = errors.New("no such job")
	errUnknownBuild = errors.New("no such build")
	errState        = errors.New("not possible in the job's state")
	errLeft         = errors.New("the job is unknown or has left memory")
)

// How many rounds and answers one commit drops at most: more than it adds, so that the rest shrinks.
const (
	roundsDropped  = 8
	answersDropped = 64
)

// batch is one commit under way. Rows that a batch may touch several times are gathered here and written once,
// at its end. The Store keeps one and uses its memory again.
type batch struct {
	c    *conn
	head head

	buf   []byte // what live rows point to
	rows  []liveRow
	at    map[int64]int // place in rows, by seq
	added map[job.ID]bool

	workers map[string]*job.Worker // nil: removed
	usage   map[usageKey]time.Duration
	took    map[job.Series]learned
	place   int64 // of the next reference

	feed []byte
}

type head struct {
	number  uint64
	at      job.Time
	seq     int64
	dropped uint64
}

type usageKey struct {
	slice          int64
	channel, group string
}

type learned struct {
	took  time.Duration
	count int64
}

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
	s.tx.reset(s.w, b)
	if err := s.tx.run(b); err != nil {
		return errors.Join(err, s.w.end(false))
	}
	crash.Here(crash.CommitWritten)
	return s.w.end(true)
}

func (t *batch) reset(c *conn, b *queue.Batch) {
	if t.at == nil {
		t.at, t.added = map[int64]int{}, map[job.ID]bool{}
		t.workers, t.usage, t.took = map[string]*job.Worker{}, map[usageKey]time.Duration{}, map[job.Series]learned{}
	}
	clear(t.at)
	clear(t.added)
	clear(t.workers)
	clear(t.usage)
	clear(t.took)
	clear(t.rows)
	t.c, t.buf, t.rows, t.feed = c, t.buf[:0], t.rows[:0], t.feed[:0]
	t.place = int64(b.Number) << placeBits
}

// placeBits leaves room for the references of one batch.
const placeBits = 24

func (t *batch) run(b *queue.Batch) (err error) {
	if t.head, err = readHead(t.c); err != nil {
		return err
	}
	if b.Number != t.head.number+1 {
		return fmt.Errorf("the last batch has number %d: %w", t.head.number, queue.ErrNumber)
	}
	if t.feed, err = codec.AppendChanges(t.feed, b.Changes); err != nil {
		return err
	}
	for _, c := range b.Changes {
		if err := t.apply(c); err != nil {
			return fmt.Errorf("%T: %w", c, err)
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	if err := t.c.query(qAddRound).int(int64(b.Number)).int(int64(b.At)).blob(t.feed).run(); err != nil {
		return err
	}
	for _, a := range b.Answers {
		if err := t.c.query(qAddAnswer).blob(a.Request[:]).int(int64(b.At)).blob(a.Reply).run(); err != nil {
			return err
		}
	}
	if err := t.prune(b); err != nil {
		return err
	}
	return t.c.query(qPutHead).int(int64(b.Number)).int(int64(b.At)).int(t.head.seq).int(int64(t.head.dropped)).run()
}

func readHead(c *conn) (head, error) {
	q := c.query(qHead)
	ok, err := q.next()
	if !ok || err != nil {
		return head{}, errors.Join(errors.New("the head row is missing"), err)
	}
	h := head{uint64(q.readInt()), job.Time(q.readInt()), q.readInt(), uint64(q.readInt())}
	return h, q.done()
}

// apply makes one change, or gathers it.
func (t *batch) apply(c job.Change) error {
	switch c := c.(type) {
	case job.BuildAdded, job.BuildReferred, job.BuildSealed, job.BuildActivated, job.BuildBumped, job.BuildEnded,
		job.BuildDeleted:
		return t.applyBuild(c)
	case job.JobAdded:
		return t.addJob(&c.Record)
	case job.JobDeleted:
		return t.dropJob(c.Job)
	case job.WorkerPut:
		t.workers[c.Worker.Name] = &c.Worker
	case job.WorkerRemoved:
		t.workers[c.Name] = nil
	case job.UsagePut:
		t.usage[usageKey{c.Slice, c.Channel, c.Group}] = c.Used
	case job.DurationLearned:
		return t.learn(c)
	case job.ChannelPut:
		return t.c.query(qPutChannel).string(c.Channel.Name).blob(codec.AppendChannel(nil, &c.Channel)).run()
	case job.ClassMarked:
		q := t.c.query(qPutClass)
		if c.Since == 0 {
			q = t.c.query(qDropClass)
		}
		q.string(c.Class.Channel).string(c.Class.Kind).string(c.Class.System).string(c.Class.Features).string(c.Class.Pin)
		if c.Since != 0 {
			q.int(int64(c.Since))
		}
		return q.run()
	case job.FailureCached:
		i := c.Identity
		return t.c.query(qPutFailure).string(i.Channel).string(i.Kind).string(i.Key).blob(codec.AppendFailure(nil, &c)).run()
	case job.FailureCleared:
		i := c.Identity
		return t.c.query(qDropFailure).string(i.Channel).string(i.Kind).string(i.Key).run()
	default:
		return t.applyLive(c)
	}
	return nil
}

func (t *batch) learn(c job.DurationLearned) error {
	old, ok := t.took[c.Series]
	if !ok {
		var err error
		if old, _, err = readTook(t.c, c.Series); err != nil {
			return err
		}
	}
	t.took[c.Series] = learned{job.Learn(old.took, old.count, c.Took), old.count + 1}
	return nil
}

// flush writes what was gathered.
func (t *batch) flush() error {
	if err := t.flushLive(); err != nil {
		return err
	}
	for name, w := range t.workers {
		q := t.c.query(qDropWorker).string(name)
		if w != nil {
			q = t.c.query(qPutWorker).string(name).blob(codec.AppendWorker(nil, w))
		}
		if err := q.run(); err != nil {
			return err
		}
	}
	for k, used := range t.usage {
		if err := t.c.query(qPutUsage).int(k.slice).string(k.channel).string(k.group).int(int64(used)).run(); err != nil {
			return err
		}
	}
	for k, v := range t.took {
		q := t.c.query(qPutTook).string(k.Channel).string(k.Kind).string(k.Name).int(int64(v.took)).int(v.count)
		if err := q.run(); err != nil {
			return err
		}
	}
	return nil
}

// prune drops a portion of what is kept for a time only.
func (t *batch) prune(b *queue.Batch) error {
	if last, ok, err := t.older(qOldRounds, roundsDropped, b.At.Add(-queue.FeedRetention)); err != nil {
		return err
	} else if ok {
		t.head.dropped = uint64(last)
		if err := t.c.query(qDropRounds).int(last).run(); err != nil {
			return err
		}
	}
	portion := answersDropped + 2*len(b.Answers)
	if last, ok, err := t.older(qOldAnswers, portion, b.At.Add(-queue.AnswerRetention)); err != nil {
		return err
	} else if ok {
		if err := t.c.query(qDropAnswers).int(last).run(); err != nil {
			return err
		}
	}
	if first := firstSlice(b.At); first > firstSlice(t.head.at) {
		return t.c.query(qDropUsage).int(first).run()
	}
	return nil
}

// older finds the last of the first few rows of a list that lie before a moment. The list is in the order of its
// making, so what follows a row that is not old is not looked at.
func (t *batch) older(list query, most int, moment job.Time) (last int64, ok bool, err error) {
	q := t.c.query(list).int(int64(most))
	for {
		more, err := q.next()
		if err != nil || !more {
			return last, ok, err
		}
		n, at := q.readInt(), q.readInt()
		if job.Time(at) >= moment {
			return last, ok, q.done()
		}
		last, ok = n, true
	}
}

// firstSlice gives the oldest slice of usage that still counts at a moment.
func firstSlice(at job.Time) int64 {
	width := int64(job.UsageSlice / time.Microsecond)
	return int64(at)/width - int64(job.UsageWindow/job.UsageSlice) + 1
}

// kept appends to the batch's memory and gives what was appended.
func (t *batch) kept(b []byte) []byte {
	from := len(t.buf)
	t.buf = b
	return slices.Clip(b[from:])
}
