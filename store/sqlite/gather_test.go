package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
	"github.com/headrace/headrace/store/rows"
	"github.com/headrace/headrace/store/storetest"
)

// gathering writes rows as late as rows.Tables allows: by statement, at the next Flush, as a backend does that sends
// many rows at once.
type gathering struct {
	*conn
	t    testing.TB
	rows [rows.Count][][]rows.Value
	seen map[string]bool
}

// keyed has the columns by which statements name a record.
var keyed = map[rows.Query][]int{
	rows.PutLive: {8}, rows.DropLive: {0}, rows.PutAttempt: {0, 1}, rows.PutProgress: {0}, rows.PutResult: {0}, rows.PutBuild: {5},
	rows.PutRef: {0, 1}, rows.PutChannel: {0}, rows.PutWorker: {0}, rows.PutClass: {0, 1, 2, 3, 4}, rows.PutUsage: {0, 1, 2}, rows.PutSetting: {0, 1},
	rows.PutTook: {0, 1, 2}, rows.PutFailure: {0, 1, 2},
}

func (g *gathering) Write(q rows.Query, row []rows.Value) error {
	own := append([]rows.Value(nil), row...)
	for i := range own {
		own[i].Blob = append([]byte{}, own[i].Blob...)
	}
	g.rows[q] = append(g.rows[q], own)
	if columns := keyed[q]; columns != nil {
		key := fmt.Sprint(q)
		for _, c := range columns {
			key += fmt.Sprintf(" %v", own[c])
		}
		if g.seen[key] {
			g.t.Errorf("statement %d has two rows about one record", q)
		}
		g.seen[key] = true
	}
	return nil
}

func (g *gathering) Flush() error {
	clear(g.seen)
	for q := range g.rows {
		for _, row := range g.rows[q] {
			if err := g.conn.Write(rows.Query(q), row); err != nil {
				return err
			}
		}
		g.rows[q] = nil
	}
	return nil
}

// lateStore is a Store that gathers.
type lateStore struct {
	*Store
	t testing.TB
}

func (s lateStore) Commit(_ context.Context, b *queue.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.w.begin(qBegin)
	if err == nil {
		err = s.tx.Write(&gathering{conn: s.w, t: s.t, seen: map[string]bool{}}, b)
	}
	if end := s.w.end(err == nil); err == nil {
		err = end
	}
	return err
}

// latePlace is a file that is closed and opened.
type latePlace struct {
	dir   string
	store *Store
}

func (p *latePlace) Open(t testing.TB) storetest.Store {
	p.Close(nil)
	s, err := Open(t.Context(), filepath.Join(p.dir, "db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is killed here.
	if err := s.w.script("PRAGMA synchronous = off"); err != nil {
		t.Fatal(err)
	}
	p.store = s
	return lateStore{s, t}
}

func (p *latePlace) Damage(testing.TB, string, string) {}

func (p *latePlace) Close(t testing.TB) {
	if p.store != nil {
		p.store.Close() // nothing is written any more
		p.store = nil
	}
	if t != nil {
		if err := os.RemoveAll(p.dir); err != nil {
			t.Fatal(err)
		}
	}
}

type memoryPlace struct{ disk *memory.Disk }

func (m memoryPlace) Open(testing.TB) storetest.Store   { return m.disk.Open() }
func (m memoryPlace) Damage(testing.TB, string, string) {}
func (m memoryPlace) Close(testing.TB)                  {}

func openLate(t testing.TB) storetest.Reopener {
	dir, err := os.MkdirTemp("", "headrace-sqlite")
	if err != nil {
		t.Fatal(err)
	}
	return &latePlace{dir: dir}
}

func TestRowsOfOneIDComeAndGo(t *testing.T) {
	t.Parallel()
	p := openLate(t)
	defer p.Close(t)
	s := p.Open(t)
	id := job.ID{1}
	added := func(seq int64) job.Change {
		return job.JobAdded{Record: job.Record{Seq: seq, Spec: job.Spec{ID: id}}}
	}
	for n, changes := range [][]job.Change{
		{added(1)},
		{job.JobDeleted{Job: id}, added(2), job.JobDeleted{Job: id}, added(3)},
	} {
		if err := s.Commit(t.Context(), &queue.Batch{Number: uint64(n + 1), Changes: changes}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.Jobs(t.Context(), queue.JobFilter{})
	if err != nil || len(list) != 1 || list[0].Seq != 3 {
		t.Errorf("%+v (%v), want the last job alone", list, err)
	}
}

// Rows that are written late and by statement leave the same store.
func TestRowsMayBeWrittenLate(t *testing.T) {
	t.Parallel()
	storetest.Compare(t, func(testing.TB) storetest.Reopener { return memoryPlace{memory.NewDisk()} }, openLate)
}
