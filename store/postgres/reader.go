package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/headrace/headrace/queue"
)

// Reader reads a store, and leaves its owner alone. It implements queue.History, and reads as queue.Store does.
type Reader struct {
	config *pgx.ConnConfig
	pool   *pgxpool.Pool
	// exchanges with the server, of all connections.
	exchanges atomic.Int64
}

var _ queue.History = (*Reader)(nil)

// Redacted gives an address without its password, for people to read.
func Redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the database" // Whatever it is, it may have one.
	}
	q := u.Query()
	if q.Has("password") {
		q.Set("password", "xxxxx")
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}

// OpenReadOnly gives a reader of the store in the database at address, which must have this headrace's schema version. It
// sees each commit whole, also while an owner writes.
func OpenReadOnly(ctx context.Context, address string) (*Reader, error) {
	r, err := openReader(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("open for reading: %w", err)
	}
	return r, nil
}

// ErrNoStore: the database has no store of headrace.
var ErrNoStore = errNoStore

func openReader(ctx context.Context, address string) (_ *Reader, err error) {
	r, err := newReader(ctx, address, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.pool.Close()
		}
	}()
	steps, err := migrations()
	if err != nil {
		return nil, err
	}
	version, err := schemaVersion(ctx, r.pool, len(steps))
	switch {
	case err != nil:
		return nil, err
	case version == 0:
		return nil, errNoStore
	case version < len(steps):
		return nil, fmt.Errorf("its schema has version %d and version %d is needed: the next headrace that writes to it brings it there",
			version, len(steps))
	}
	return r, nil
}

// CheckAddress reports what is wrong with the address of a database, without going there. The error tells no password.
func CheckAddress(address string) error {
	_, err := pgxpool.ParseConfig(address)
	return err
}

func newReader(ctx context.Context, address string, readers int) (*Reader, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	session(config.ConnConfig)
	if readers <= 0 {
		readers = defaultReaders
	}
	config.MaxConns = int32(readers)
	config.MinConns = 0
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Reader{config: config.ConnConfig, pool: pool}, nil
}

// dial gives a connection that is the caller's alone.
func (r *Reader) dial(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, r.config.Copy())
}

// Close frees the connections. No call may be under way.
func (r *Reader) Close() error {
	r.pool.Close()
	return nil
}

// read lends f a connection. It is done anew where that had died since its last use.
func (r *Reader) read(ctx context.Context, f func(*tables) error) error {
	return r.anew(ctx, func() error {
		c, err := r.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer c.Release()
		t := &tables{ctx: ctx, c: c.Conn().PgConn(), known: known(c.Conn().PgConn()), exchanges: &r.exchanges}
		err = f(t)
		if t.torn || t.open {
			// Nobody knows what it has prepared, and where its transaction stands.
			hangUp(c.Conn())
		}
		return err
	})
}

// begin has all that is read until the end of the transaction see one moment of the store.
func (t *tables) begin() {
	t.open = true
	t.send(request{sql: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"})
}

// moment is read, with all of f seeing one moment of the store.
func (r *Reader) moment(ctx context.Context, f func(*tables) error) error {
	return r.read(ctx, func(t *tables) error {
		t.begin()
		if err := f(t); err != nil {
			return err
		}
		return t.finish()
	})
}

// byKey is moment for an f that asks once, for records that it names. Their statements are planned once: a plan for each
// call costs more than to find a few rows by their keys.
func (r *Reader) byKey(ctx context.Context, f func(*tables) error) error {
	const planOnce = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
		set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`
	return r.read(ctx, func(t *tables) error {
		t.begin()
		t.send(request{name: "plan_once", sql: planOnce})
		t.last = true
		return f(t)
	})
}

// known gives the statements that a connection has prepared.
func known(c *pgconn.PgConn) map[string]bool {
	const key = "headrace statements"
	list, ok := c.CustomData()[key].(map[string]bool)
	if !ok {
		list = map[string]bool{}
		c.CustomData()[key] = list
	}
	return list
}

// anew reads again where a connection failed: each of the pool may have died with the server that it led to.
func (r *Reader) anew(ctx context.Context, read func() error) error {
	for left := r.pool.Config().MaxConns; ; left-- {
		err := read()
		var server *pgconn.PgError
		switch {
		case err == nil || ctx.Err() != nil:
			return cause(ctx, err)
		case left == 0, !broken(err) && !(errors.As(err, &server) && server.Code == adminShutdown):
			return err
		}
	}
}

// adminShutdown is the code by which a server cuts its sessions.
const adminShutdown = "57P01"

// broken reports whether an error is that of a connection.
func broken(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}

// cause gives the context's error where that is why a read stopped.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// fail names the operation that failed.
func (r *Reader) fail(operation string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return fmt.Errorf("%s: %w", operation, fenced(err))
}
