package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headrace/headrace/internal/crash"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// batch is one commit under way: what its changes leave of each row is worked out here, and written once, table by
// table. Part of it outlives the commit: what this owner wrote last, it need not read.
type batch struct {
	head  head
	known bool // head is where the store stands
	// usage has, for rows that this owner wrote, the round of the one that counts.
	usage map[usageKey]uint64
	// looked is when what is too old was last looked for, without finding any.
	lookedRounds, lookedAnswers job.Time
	answered                    uint64 // no answer is older than this round

	number uint64
	at     job.Time
	buf    []byte // what rows point to
	work
	out pgx.Batch
}

// work is what one batch gathers.
type work struct {
	rows     map[int64]*liveRow
	added    map[job.ID]jobFound // in this batch
	stored   map[job.ID]jobFound // that was read
	dropped  map[job.ID]bool
	outcomes map[int64]job.Outcome // of jobs that ended in this batch

	jobs     []jobRow
	ended    []endedRow
	attempts map[attemptKey]attemptRow
	results  map[int64]resultRow
	drops    []jobFound

	builds map[job.ID]*buildRow
	refs   map[refKey]*refRow
	place  int64 // of the next reference

	channels map[string]*job.Channel
	workers  map[string]*job.Worker // nil: removed
	classes  map[job.Class]job.Time
	failures map[job.Identity]*job.FailureCached // nil: cleared
	used     map[usageKey]time.Duration
	took     map[job.Series]learned
}

type usageKey struct {
	slice          int64
	channel, group string
}

type (
	attemptKey struct {
		seq    int64
		number int32
	}
	attemptRow struct{ body, result []byte }
	resultRow  struct {
		job, attempt []byte
		same         bool
	}
	endedRow struct {
		seq                       int64
		outcome                   int16
		body, attempt, tally, own []byte
	}
	jobRow struct {
		record *job.Record
		spec   []byte
	}
	// jobFound is what is known of a job that is to be dropped or referred to.
	jobFound struct {
		id      job.ID
		seq     int64
		outcome job.Outcome // 0: it has not ended
		needs   []job.Need
	}
)

// forget is for when what was written is not sure any more.
func (t *batch) forget() {
	t.known, t.usage = false, nil
	t.lookedRounds, t.lookedAnswers, t.answered = 0, 0, 0
}

// Commit implements queue.Store. A batch of one change costs about as much as one of a hundred: what costs is the way to
// the server and its sync. If another has become the owner, the error is queue.ErrFenced.
func (s *Store) Commit(ctx context.Context, b *queue.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.commit(ctx, b); err != nil {
		s.batch.forget()
		return s.fail(fmt.Sprintf("commit batch %d", b.Number), err)
	}
	return nil
}

func (s *Store) commit(ctx context.Context, b *queue.Batch) error {
	c, err := s.writer(ctx)
	if err != nil {
		return err
	}
	t := &s.batch
	t.reset(b)
	err = t.run(ctx, c, s.life.epoch, b)
	if err != nil && !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		_, undo := c.Exec(ctx, "ROLLBACK")
		if undo != nil {
			hangUp(c) // That ends the transaction, too.
		}
	}
	return err
}

func (t *batch) reset(b *queue.Batch) {
	t.number, t.at, t.buf = b.Number, b.At, t.buf[:0]
	t.work = work{
		rows: map[int64]*liveRow{}, added: map[job.ID]jobFound{}, stored: map[job.ID]jobFound{}, dropped: map[job.ID]bool{},
		outcomes: map[int64]job.Outcome{}, attempts: map[attemptKey]attemptRow{}, results: map[int64]resultRow{},
		builds: map[job.ID]*buildRow{}, refs: map[refKey]*refRow{}, place: int64(b.Number) << placeBits,
		channels: map[string]*job.Channel{}, workers: map[string]*job.Worker{}, classes: map[job.Class]job.Time{},
		failures: map[job.Identity]*job.FailureCached{}, used: map[usageKey]time.Duration{}, took: map[job.Series]learned{},
	}
	t.out = pgx.Batch{}
	if t.usage == nil {
		t.usage = map[usageKey]uint64{}
	}
}

// placeBits leaves room for the references of one batch.
const placeBits = 24

func (t *batch) run(ctx context.Context, c *pgx.Conn, epoch int64, b *queue.Batch) error {
	t.out.Queue("BEGIN")
	t.out.Queue("SELECT headrace.own($1)", epoch)
	if t.read(b) {
		if err := c.SendBatch(ctx, &t.out).Close(); err != nil {
			return err
		}
		t.out = pgx.Batch{}
		crash.Here(crash.CommitBegun)
	}
	if b.Number != t.head.number+1 {
		return fmt.Errorf("the last batch has number %d: %w", t.head.number, queue.ErrNumber)
	}
	feed, err := codec.AppendChanges(nil, b.Changes)
	if err != nil {
		return err
	}
	for _, c := range b.Changes {
		if err := t.apply(c); err != nil {
			return fmt.Errorf("%T: %w", c, err)
		}
	}
	t.flush()
	t.settings()
	t.answers(b.Answers)
	t.round(feed)
	t.out.Queue("SELECT pg_notify('headrace', $1)", fmt.Sprint(b.Number))
	committed := false
	t.out.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String() == "COMMIT"
		return nil
	})
	if err := c.SendBatch(ctx, &t.out).Close(); err != nil {
		return err
	}
	if !committed {
		return errors.New("the server rolled the transaction back")
	}
	t.head.number, t.head.at, t.known = b.Number, b.At, true
	for k := range t.used {
		t.usage[k] = b.Number
	}
	return nil
}

// apply works out what one change leaves.
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
		t.used[usageKey{c.Slice, c.Channel, c.Group}] = c.Used
	case job.DurationLearned:
		old := t.took[c.Series]
		t.took[c.Series] = learned{job.Learn(old.took, old.count, c.Took), old.count + 1, old.before}
	case job.ChannelPut:
		t.channels[c.Channel.Name] = &c.Channel
	case job.ClassMarked:
		t.classes[c.Class] = c.Since
	case job.FailureCached:
		t.failures[c.Identity] = &c
	case job.FailureCleared:
		t.failures[c.Identity] = nil
	default:
		return t.applyLive(c)
	}
	return nil
}

// kept appends to the batch's memory and gives what was appended.
func (t *batch) kept(b []byte) []byte {
	from := len(t.buf)
	t.buf = b
	return slices.Clip(b[from:])
}
