package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/rows"
)

// Options say how a store is opened; the zero value is right for most.
type Options struct {
	// Readers is how many reads may be under way at once; 0: 4.
	Readers int
}

const defaultReaders = 4

// Store owns the store in a database. It implements queue.Store, queue.History and queue.Fenced.
type Store struct {
	*Reader
	life   *life
	before *queue.HeldError

	mu     sync.Mutex // held by the one who writes
	conn   *pgx.Conn  // nil after a failure
	w      writer     // on that
	batch  rows.Batch
	closed bool
}

var (
	_ queue.Store   = (*Store)(nil)
	_ queue.History = (*Store)(nil)
	_ queue.Fenced  = (*Store)(nil)
)

// Open makes the caller the owner of the store in the database at address, a URL or a list of settings as libpq takes
// them, and brings its schema up to date; where there is none, it is made. The caller's role must own it. The address must
// lead to the server itself: a pool that shares sessions among transactions would part the owner from its backend.
//
// While somebody else owns the store the error is a *queue.HeldError; that takes up to Lapse to see, and an owner that was
// silent for so long is put out. A server that is too old, a schema headrace that is not ours, or one that a newer headrace
// has written, is refused and not touched.
func Open(ctx context.Context, address string, opts Options) (*Store, error) {
	s, err := open(ctx, address, opts)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, address string, opts Options) (_ *Store, err error) {
	r, err := newReader(ctx, address, opts.Readers)
	if err != nil {
		return nil, err
	}
	s := &Store{Reader: r}
	c, err := r.dial(ctx)
	defer func() {
		if err != nil {
			hangUp(c)
			r.pool.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	if err := checkServer(ctx, c); err != nil {
		return nil, err
	}
	t, err := take(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.use(ctx, c); err != nil {
		return nil, err
	}
	s.before = t.before
	s.life = live(t.epoch, t.began, r.dial)
	return s, nil
}

// session is what every connection asks of its server.
func session(config *pgx.ConnConfig) {
	set := func(name, value string) {
		if _, ok := config.RuntimeParams[name]; !ok {
			config.RuntimeParams[name] = value
		}
	}
	set("application_name", "headrace")
	// A client that stops in the middle of a transaction keeps nobody waiting.
	config.RuntimeParams["idle_in_transaction_session_timeout"] = strconv.FormatInt(stalled.Milliseconds(), 10)
	// What is acknowledged is on disk, whatever the server's default is.
	set("synchronous_commit", "on")
	// Compiling a plan costs more than any of ours takes.
	set("jit", "off")
	set("timezone", "UTC")
}

// writer gives the tables of the connection that writes, a new one if the last has failed. The lock must be held.
func (s *Store) writer(ctx context.Context) (*writer, error) {
	if s.closed {
		return nil, errClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.conn != nil && !s.conn.IsClosed() {
		return &s.w, nil
	}
	s.hangUp()
	c, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := reclaim(ctx, c, s.life.epoch); err != nil {
		hangUp(c)
		return nil, err
	}
	return &s.w, s.use(ctx, c)
}

// All that a commit touches it finds by an index, and its plans are the same whatever is in the tables.
const planning = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off"

// use takes a connection to write on.
func (s *Store) use(ctx context.Context, c *pgx.Conn) error {
	if _, err := c.Exec(ctx, planning, pgx.QueryExecModeSimpleProtocol); err != nil {
		hangUp(c)
		return err
	}
	s.conn, s.w = c, writer{tables: tables{c: c.PgConn(), known: map[string]bool{}, exchanges: &s.exchanges}}
	return nil
}

// hangUp gives up the connection that writes, and what is known of it.
func (s *Store) hangUp() {
	hangUp(s.conn)
	s.conn, s.w = nil, writer{}
}

// Owned implements queue.Fenced.
func (s *Store) Owned() error { return s.life.owned() }

// Before tells who had the store and did not let go of it, so that this owner waited until it was as good as dead; nil:
// nobody. What that one had begun may still be under way.
func (s *Store) Before() *queue.HeldError { return s.before }

// Lost implements queue.Fenced.
func (s *Store) Lost() <-chan struct{} { return s.life.lost }

// Close implements queue.Store. It lets go of the store, so that another may have it at once.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.closed = true
	s.life.end()
	s.letGo()
	s.hangUp()
	s.pool.Close()
	return nil
}

// letGo tells the next owner that it need not wait. Where that fails, it waits.
func (s *Store) letGo() {
	if s.conn == nil || s.conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), Lapse)
	defer cancel()
	s.conn.Exec(ctx, "UPDATE headrace.life SET beats = 0 WHERE epoch = $1", s.life.epoch) //nolint:errcheck // see above
}

var errClosed = errors.New("the store is closed")
