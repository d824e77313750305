package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/headrace/headrace/internal/crash"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/rows"
)

// Commit implements queue.Store. A batch of one change costs about as much as one of a hundred: what costs is the way to
// the server and its sync. If another has become the owner, the error is queue.ErrFenced.
func (s *Store) Commit(ctx context.Context, b *queue.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.commit(ctx, b); err != nil {
		return s.fail(fmt.Sprintf("commit batch %d", b.Number), cause(ctx, err))
	}
	return nil
}

func (s *Store) commit(ctx context.Context, b *queue.Batch) error {
	t, err := s.writer(ctx)
	if err != nil {
		return err
	}
	t.begin(ctx, s.life.epoch, b)
	if err = s.batch.Write(t, b); err == nil {
		t.send(request{sql: `SELECT pg_notify('headrace', $1)`, params: [][]byte{[]byte(fmt.Sprint(b.Number))}})
		err = t.finish()
	}
	if err != nil {
		// What the server has of it goes with the session, and so does whatever this owner believes to be there.
		s.hangUp()
		return err
	}
	t.committed()
	return nil
}

// writer is what the owner's connection knows between two commits: what this owner wrote last, it need not read.
type writer struct {
	tables
	head  *rows.Head // nil: to be read
	usage map[usageKey]int64
	// after has, for lists that lose their oldest rows, the newest that is gone: what stands before it is dead.
	after [rows.Count]int64
	// looked is when such a list was found to have nothing that is too old.
	looked [rows.Count]job.Time

	number uint64
	at     job.Time
	next   rows.Head         // once the batch is stored
	used   map[usageKey]bool // rows of usage that the batch has added
	took   map[string]int64  // the count of the row that a series has
	lost   map[rows.Query]int64
	round  []rows.Value
	begun  bool // the transaction is
}

type usageKey struct {
	slice          int64
	channel, group string
}

// looksApart is the least time between two looks for what is too old, of which the first found nothing.
const looksApart = time.Minute

func (w *writer) begin(ctx context.Context, epoch int64, b *queue.Batch) {
	w.ctx, w.number, w.at, w.begun = ctx, b.Number, b.At, false
	w.used, w.took, w.lost = map[usageKey]bool{}, map[string]int64{}, map[rows.Query]int64{}
	if w.usage == nil {
		w.usage = map[usageKey]int64{}
	}
	w.send(request{sql: "BEGIN"})
	w.send(request{name: "own", sql: "SELECT headrace.own($1)", params: [][]byte{number(epoch)}, read: func(*cells) error { return nil }})
}

// committed notes what the batch has made true.
func (w *writer) committed() {
	w.head = &w.next
	for k := range w.used {
		w.usage[k] = int64(w.number)
	}
	for q, n := range w.lost {
		w.after[q], w.looked[q] = n, 0
	}
	first := queue.FirstSlice(w.at)
	for k := range w.usage {
		if k.slice < first {
			delete(w.usage, k)
		}
	}
}

// Read implements rows.Tables.
func (w *writer) Read(q rows.Query, width int, keys []rows.Value, f func(int, rows.Columns) error) error {
	switch q {
	case rows.GetHead:
		if h := w.head; h != nil {
			return f(0, &cells{values: [][]byte{number(int64(h.Number)), number(int64(h.At)), number(h.Seq), number(int64(h.Dropped))}})
		}
	case rows.OldRounds, rows.OldAnswers:
		if w.looked[q] != 0 && w.at >= w.looked[q] && w.at < w.looked[q].Add(looksApart) {
			return nil
		}
		w.looked[q] = w.at
		keys, width = []rows.Value{keys[0], {Kind: rows.Integer, Int: w.after[q]}}, 2
	case rows.Took:
		read := f
		f = func(n int, c rows.Columns) error {
			row := *c.(*cells)
			took := row
			took.Int()
			w.took[series(keys[3*n:])] = took.Int()
			return read(n, &row)
		}
	default:
		// The others are read as they are.
	}
	if err := w.tables.Read(q, width, keys, f); err != nil {
		return err
	}
	if !w.begun {
		w.begun = true
		crash.Here(crash.CommitBegun)
	}
	return nil
}

func series(row []rows.Value) string {
	return row[0].Text + "\x00" + row[1].Text + "\x00" + row[2].Text
}

// Write implements rows.Tables.
func (w *writer) Write(q rows.Query, row []rows.Value) error {
	integer := func(v int64) rows.Value { return rows.Value{Kind: rows.Integer, Int: v} }
	switch q {
	case rows.AddRound:
		// Written with the head, whose row it is.
		w.round = append(w.round[:0], row...)
		return nil
	case rows.PutHead:
		w.next = rows.Head{Number: uint64(row[0].Int), At: job.Time(row[1].Int), Seq: row[2].Int, Dropped: uint64(row[3].Int)}
		return w.tables.Write(rows.AddRound, append(w.round, row[2], row[3]))
	case rows.PutUsage:
		k := usageKey{row[0].Int, row[1].Text, row[2].Text}
		first, last := w.usage[k], w.usage[k]
		switch {
		case w.used[k]: // the batch has written it already, over what was there
			first, last = 1, 0
		case first == 0: // by another owner, if at all
			last = int64(w.number) - 1
		}
		w.used[k] = true
		row = append(row[:4:4], integer(first), integer(last), integer(int64(w.number)))
	case rows.PutTook:
		k := series(row)
		before, ok := w.took[k]
		if !ok || before == row[4].Int {
			before = -1
		}
		w.took[k] = row[4].Int
		row = append(row[:5:5], integer(before))
	case rows.DropRounds:
		w.lost[rows.OldRounds] = row[0].Int
		row = append(row[:1:1], integer(w.after[rows.OldRounds]))
	case rows.DropAnswers:
		w.lost[rows.OldAnswers] = row[0].Int
		row = append(row[:1:1], integer(w.after[rows.OldAnswers]))
	default:
		// The others are as they come.
	}
	return w.tables.Write(q, row)
}
