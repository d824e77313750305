package linear

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/sqlite"
)

// backend is a store that can be opened again.
type backend interface {
	queue.Store
	queue.History
}

// place is where a store is kept.
type place interface {
	// open makes a new owner of what is stored.
	open(ctx context.Context) (backend, error)
	// cut has the last owner's process be gone: what it says from now on is not stored.
	cut() error
}

// file is a place for SQLite. The next owner gets a copy of what the last one had on disk at its death, as no process can close
// its own files then.
type file struct {
	dir   string
	count int
}

func (f *file) path() string { return filepath.Join(f.dir, strconv.Itoa(f.count)) }

func (f *file) open(ctx context.Context) (backend, error) {
	return sqlite.Open(ctx, f.path(), sqlite.Options{})
}

func (f *file) cut() error {
	last := f.path()
	f.count++
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(last + suffix)
		if err == nil {
			err = os.WriteFile(f.path()+suffix, b, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// database is a place on a PostgreSQL server. Each owner has a network of its own, which ends with it.
type database struct {
	cluster *pgtest.Cluster
	name    string
	proxy   *pgtest.Proxy
}

func (d *database) open(ctx context.Context) (_ backend, err error) {
	if d.proxy, err = d.cluster.Proxy(); err != nil {
		return nil, err
	}
	for {
		s, err := postgres.Open(ctx, d.proxy.URL(d.name), postgres.Options{})
		var held *queue.HeldError
		if !errors.As(err, &held) {
			return s, err
		}
		// A last sign of life of the one that is gone was on its way.
	}
}

func (d *database) cut() error { return d.proxy.Close() }

// world is a place with its owners, one after the other.
type world struct {
	t      *testing.T
	place  place
	faults faults

	mu    sync.Mutex
	reign *reign        // the present one; nil: between two
	news  chan struct{} // closed when there is another
	kills int

	lapses int // leases that ran out, in the end
}

// reign is the life of one owner.
type reign struct {
	q     *queue.Queue
	store *owned
	died  chan struct{} // closed when it is dropped: nobody is told anything any more

	mu    sync.Mutex
	over  bool
	calls sync.WaitGroup // that are under way
}

// begin reports whether a call may begin; if so it must end with calls.Done.
func (r *reign) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.calls.Add(1)
	}
	return !r.over
}

// present gives the present reign, and waits for it.
func (w *world) present() *reign {
	for {
		w.mu.Lock()
		r, news := w.reign, w.news
		w.mu.Unlock()
		if r != nil {
			return r
		}
		<-news
	}
}

func (w *world) crown(r *reign) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reign = r
	if r != nil {
		close(w.news)
		w.news = make(chan struct{})
	}
}

// patience is how long the queue tries to commit; an outage lasts longer.
const patience = 30 * time.Millisecond

// rule has one owner after the other until finished is closed.
func (w *world) rule(finished <-chan struct{}) error {
	var past sync.WaitGroup
	defer past.Wait()
	for life := uint64(1); ; life++ {
		store, err := w.place.open(context.Background())
		if err != nil {
			return fmt.Errorf("life %d: %v", life, err)
		}
		r := &reign{died: make(chan struct{})}
		r.store = &owned{backend: store, faults: &w.faults, died: r.died, released: make(chan struct{})}
		r.q, err = queue.Open(queue.Config{Store: r.store, History: r.store, Patience: patience, Random: rand.NewPCG(w.faults.seed, life)})
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(context.Background())
		ran := make(chan error, 1)
		past.Go(func() { ran <- r.q.Run(ctx) })
		w.crown(r)
		end := func() error {
			stop()
			err := <-ran
			r.mu.Lock()
			r.over = true
			r.mu.Unlock()
			r.calls.Wait()
			return errors.Join(err, store.Close())
		}
		select {
		case <-finished:
			return errors.Join(end(), w.place.cut())
		case <-r.died:
			w.crown(nil)
			w.kills++
			err := w.place.cut()
			past.Go(func() {
				close(r.store.released)
				_ = end() // Nothing that it says counts any more.
			})
			if err != nil {
				return fmt.Errorf("end of life %d: %v", life, err)
			}
		}
	}
}

// faults says what befalls the commits, as the seed wants it.
type faults struct {
	seed  uint64
	kills int // how many owners may be dropped

	mu     sync.Mutex
	random *rand.Rand
	asked  int       // commits
	until  time.Time // the end of an outage
	count  map[fault]int
}

// planned are the faults of which each seed has one at an early commit, in turn: of as many seeds in a row no fault is missing,
// however few commits this machine comes to.
var planned = []fault{killBefore, killDuring, killAfter, failBefore, failAfter, outBefore, outAfter}

// fault is what befalls a commit.
type fault string

const (
	none       fault = "none"
	killBefore fault = "killed before"
	killDuring fault = "killed during"
	killAfter  fault = "killed after"
	failBefore fault = "failed before"
	failAfter  fault = "failed after"
	outBefore  fault = "outage before"
	outAfter   fault = "outage after"
)

func (f *faults) next() fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Now().Before(f.until) {
		return failBefore
	}
	got := none
	f.asked++
	switch n := f.random.IntN(100); {
	case f.asked == 3+int(f.seed%5):
		got = planned[f.seed%uint64(len(planned))]
	case n < 6 && f.kills > 0:
		f.kills--
		got = []fault{killBefore, killDuring, killAfter}[n%3]
	case n >= 90 && n < 94:
		got = failBefore
	case n >= 94 && n < 98:
		got = failAfter
	case n >= 98:
		got = []fault{outBefore, outAfter}[n%2]
	}
	if got == outBefore || got == outAfter {
		f.until = time.Now().Add(2 * patience)
	}
	f.count[got]++
	return got
}

func (f *faults) out() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.until)
}

var (
	errPlanned = errors.New("planned to fail")
	errDead    = errors.New("the owner is dead")
)

// owned is an owner's store, which fails as planned, and in which a dead owner stands still until it is released.
type owned struct {
	backend
	faults   *faults
	once     sync.Once
	died     chan struct{}
	released chan struct{}
}

func (o *owned) die() { o.once.Do(func() { close(o.died) }) }

// dead gives an error to a dead owner; what is under way stands still first.
func (o *owned) dead() error {
	select {
	case <-o.died:
		<-o.released
		return errDead
	default:
		return nil
	}
}

// Commit implements queue.Store.
func (o *owned) Commit(ctx context.Context, b *queue.Batch) error {
	if err := o.dead(); err != nil {
		return err
	}
	what := o.faults.next()
	switch what {
	case killBefore, killDuring:
		o.die()
	case failBefore, outBefore:
		return errPlanned
	case none, failAfter, outAfter, killAfter:
	}
	var err error
	if what != killBefore {
		err = o.backend.Commit(ctx, b)
	}
	switch what {
	case killAfter:
		o.die()
	case failAfter, outAfter:
		return errPlanned
	case none, failBefore, outBefore, killBefore, killDuring:
	}
	return errors.Join(err, o.dead())
}

// Committed implements queue.Store.
func (o *owned) Committed(ctx context.Context, number uint64) (bool, error) {
	if err := o.fails(); err != nil {
		return false, err
	}
	ok, err := o.backend.Committed(ctx, number)
	return ok, errors.Join(err, o.dead())
}

// Load implements queue.Store.
func (o *owned) Load(ctx context.Context, fn func(job.Change) error) (queue.Head, error) {
	if err := o.fails(); err != nil {
		return queue.Head{}, err
	}
	return o.backend.Load(ctx, fn)
}

// Lookup implements queue.Store.
func (o *owned) Lookup(ctx context.Context, q *queue.Query) (*queue.Found, error) {
	if err := o.fails(); err != nil {
		return nil, err
	}
	return o.backend.Lookup(ctx, q)
}

func (o *owned) fails() error {
	if o.faults.out() {
		return errPlanned
	}
	return o.dead()
}

// Owned implements queue.Fenced, where the store does.
func (o *owned) Owned() error {
	if f, ok := o.backend.(queue.Fenced); ok {
		return f.Owned()
	}
	return nil
}

// Lost implements queue.Fenced, where the store does.
func (o *owned) Lost() <-chan struct{} {
	if f, ok := o.backend.(queue.Fenced); ok {
		return f.Lost()
	}
	return nil
}
