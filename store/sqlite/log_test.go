package sqlite

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// logging is a store with a short log, and what a test does to it.
type logging struct {
	*Store
	t      *testing.T
	number uint64
}

func openLogging(t *testing.T, patience time.Duration) *logging {
	s, _ := openFile(t)
	s.log = logKeeper{limit: 64 * pageSize, patience: patience}
	return &logging{Store: s, t: t}
}

// commit stores a batch that takes some 40 pages.
func (l *logging) commit() {
	l.t.Helper()
	l.number++
	if err := l.Commit(l.t.Context(), &queue.Batch{Number: l.number, Changes: bulk(int(l.number)*100, 100)}); err != nil {
		l.t.Fatal(err)
	}
}

// pages gives how many pages of the log are in use.
func (l *logging) pages() (n int64) {
	l.t.Helper()
	q := l.w.adhoc("PRAGMA wal_checkpoint(NOOP)")
	err := q.each(func() error {
		q.Int() // whether it is busy
		n = q.Int()
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// reading holds a moment of the store until it is told to end.
func (l *logging) reading() (end func()) {
	l.t.Helper()
	began, ends := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := l.Load(l.t.Context(), func(job.Change) error {
			once.Do(func() { close(began) })
			<-ends
			return nil
		})
		if err != nil {
			l.t.Errorf("the reading: %v", err)
		}
	})
	<-began
	return func() { close(ends); wg.Wait() }
}

// canRead tries to read, and reports whether it could.
func (l *logging) canRead() bool {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := l.Jobs(ctx, queue.JobFilter{Limit: 1})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		l.t.Fatal(err)
	}
	return err == nil
}

// Reads that overlap do not keep the log from beginning anew: those that come wait for those that are there.
func TestLogBeginsAnewBesideReaders(t *testing.T) {
	t.Parallel()
	l := openLogging(t, time.Hour)
	l.commit()
	end := l.reading()
	for range 5 {
		l.commit()
	}
	if l.canRead() {
		t.Error("a read began beside one that keeps the log from beginning anew")
	}
	if ok, err := l.Committed(t.Context(), l.number); !ok || err != nil {
		t.Errorf("a short read was held back: %v, %v", ok, err)
	}
	if _, err := l.Reader.Lookup(t.Context(), &queue.Query{Jobs: []job.ID{{1}}}); err != nil {
		t.Errorf("a look-up was held back: %v", err)
	}
	end()
	l.commit() // copies all of it
	if _, err := l.Jobs(t.Context(), queue.JobFilter{Limit: 1}); err != nil {
		t.Errorf("a read after that: %v", err)
	}
	before := l.pages()
	l.commit()
	if after := l.pages(); after >= before {
		t.Errorf("the log has %d pages, after %d; want one that has begun anew", after, before)
	}
}

// A read that takes its time holds the others up for a while only, and the log begins anew when it ends.
func TestLongReadHoldsOthersUpForAWhile(t *testing.T) {
	t.Parallel()
	l := openLogging(t, 0)
	l.commit()
	end := l.reading()
	for range 10 {
		l.commit()
		if _, err := l.Jobs(t.Context(), queue.JobFilter{Limit: 1}); err != nil {
			t.Fatal(err)
		}
	}
	end()
	before := l.pages()
	for range 10 {
		l.commit()
	}
	if after := l.pages(); after >= before {
		t.Errorf("the log has %d pages, after %d; want one that has begun anew", after, before)
	}
	info, err := os.Stat(l.path + "-wal")
	if err != nil || info.Size() > 3*before*pageSize {
		t.Errorf("the log takes %d bytes (%v)", info.Size(), err)
	}
}

// A store that is closed lets go of who waits to read.
func TestCloseEndsTheHold(t *testing.T) {
	t.Parallel()
	l := openLogging(t, time.Hour)
	l.commit()
	end := l.reading()
	for range 5 {
		l.commit()
	}
	if l.gate.held.Load() == nil {
		t.Fatal("reads are not held back")
	}
	end()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Jobs(t.Context(), queue.JobFilter{}); !errors.Is(err, errClosed) {
		t.Errorf("a read after Close: %v", err)
	}
}
