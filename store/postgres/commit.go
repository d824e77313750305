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
		t.started()
		t.send(request{name: "notify", sql: `SELECT pg_notify('headrace', $1)`, params: [][]byte{[]byte(fmt.Sprint(b.Number))}})
		err = t.finish()
	}
	if err != nil {
		s.takeBack()
		return err
	}
	t.committed()
	return nil
}

// takeBack undoes what the server has of a batch, and forgets whatever this owner believes to be there. Where only the batch
// was wrong the connection stays: without one, a store cannot let go, and the next owner waits for Lapse. Else what
// the server has of it goes with the session.
func (s *Store) takeBack() {
	t := &s.w.tables
	if !t.torn {
		t.wait = t.wait[:0]
		if !s.w.begins {
			t.send(request{sql: "ROLLBACK"})
			t.exchange() //nolint:errcheck // it says so in torn
		}
	}
	if t.torn {
		s.hangUp()
		return
	}
	s.w = writer{tables: tables{c: t.c, known: t.known, exchanges: t.exchanges}}
}

// writer is what the owner's connection knows between two commits: what this owner wrote last, it need not read.
type writer struct {
	tables
	head  *rows.Head // nil: to be read
	usage map[usageKey]int64
	own   ownRows
	// after has, for lists that lose their oldest rows, the newest that is gone, and of usage the oldest slice that is left: what
	// stands before is dead.
	after [rows.Count]int64
	// looked is when such a list was found to have nothing that is too old.
	looked [rows.Count]job.Time

	number uint64
	at     job.Time
	next   rows.Head         // once the batch is stored
	used   map[usageKey]bool // rows of usage that the batch has added
	lost   map[rows.Query]int64
	round  []rows.Value
	begins bool // the transaction, with what is sent next
}

type usageKey struct {
	slice          int64
	channel, group string
}

// looksApart is the least time between two looks for what is too old, of which the first found nothing.
const looksApart = time.Minute

func (w *writer) begin(ctx context.Context, epoch int64, b *queue.Batch) {
	w.ctx, w.number, w.at, w.begins = ctx, b.Number, b.At, true
	w.used, w.lost = map[usageKey]bool{}, map[rows.Query]int64{}
	if w.usage == nil {
		w.usage = map[usageKey]int64{}
	}
	w.send(request{sql: "BEGIN"})
	w.send(request{name: "own", sql: "SELECT headrace.own($1)", params: [][]byte{number(epoch)}, read: func(*cells) error { return nil }})
}

// committed notes what the batch has made true.
func (w *writer) committed() {
	w.head = &w.next
	w.own.bound()
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
	return w.ReadAll(rows.Ask{Query: q, Width: width, Keys: keys, Row: f})
}

// ReadAll implements rows.Tables.
func (w *writer) ReadAll(asks ...rows.Ask) error {
	left := make([]rows.Ask, 0, len(asks))
	for _, a := range asks {
		switch a.Query {
		case rows.GetHead:
			if h := w.head; h != nil {
				err := a.Row(0, &cells{values: [][]byte{number(int64(h.Number)), number(int64(h.At)), number(h.Seq), number(int64(h.Dropped))}})
				if err != nil {
					return err
				}
				continue
			}
		case rows.OldRounds, rows.OldAnswers:
			if looked := w.looked[a.Query]; looked != 0 && w.at >= looked && w.at < looked.Add(looksApart) {
				continue
			}
			w.looked[a.Query] = w.at
			a.Keys, a.Width = []rows.Value{a.Keys[0], {Kind: rows.Integer, Int: w.after[a.Query]}}, 2
		case rows.GetLive:
			if err := w.own.live(&a); err != nil {
				return err
			}
		case rows.Took:
			if err := w.own.learned(&a); err != nil {
				return err
			}
		default:
			// The others are asked as they come.
		}
		left = append(left, a)
	}
	if err := w.tables.ReadAll(left...); err != nil {
		return err
	}
	if len(w.wait) == 0 {
		w.started()
	}
	return nil
}

// started is where the transaction has begun, or would have if it did not go to the server as a whole.
func (w *writer) started() {
	if w.begins {
		w.begins = false
		crash.Here(crash.CommitBegun)
	}
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
		row = append(row[:5:5], integer(w.own.learn(row)))
	case rows.AddLive:
		w.own.put(row)
		w.own.added(row[8].Int)
	case rows.PutLive:
		w.own.put(row)
	case rows.PutProgress:
		w.own.setBare(row[0].Int, false)
	case rows.PutResult:
		// To look whether there is one already costs as much again as to add it.
		if w.own.bare[row[0].Int] {
			q = rows.AddResult
		}
	case rows.DropLive:
		w.own.drop(row[0].Int)
	case rows.DropRounds:
		w.lost[rows.OldRounds] = row[0].Int
		row = append(row[:1:1], integer(w.after[rows.OldRounds]))
	case rows.DropAnswers:
		w.lost[rows.OldAnswers] = row[0].Int
		row = append(row[:1:1], integer(w.after[rows.OldAnswers]))
	case rows.DropUsage:
		w.lost[rows.Usage] = row[0].Int
		row = append(row[:1:1], integer(w.after[rows.Usage]))
	default:
		// The others are as they come.
	}
	return w.tables.Write(q, row)
}
