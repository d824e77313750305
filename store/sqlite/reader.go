package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/headrace/headrace/queue"
)

var errClosed = errors.New("the store is closed")

// Reader reads a file, and leaves its owner alone. It implements queue.History, and reads as queue.Store does.
type Reader struct {
	path string
	// idle has the connections that nobody uses.
	idle  chan *conn
	conns []*conn
	open  bool
	gate  gate // of long reads
}

var _ queue.History = (*Reader)(nil)

// OpenReadOnly gives a reader of the file at path, which must be a store of this headrace's schema version. It
// needs no lock: it sees each commit whole, also while an owner writes.
func OpenReadOnly(ctx context.Context, path string) (*Reader, error) {
	r, err := openReader(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("open for reading: %w", fileError(path, err))
	}
	return r, nil
}

func openReader(ctx context.Context, path string) (*Reader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	r := &Reader{path: path}
	err = r.connect(defaultReaders, reading)
	if err != nil && unlogged(path) {
		// SQLite keeps an index of the log beside the file. Where it can make none, and there is no log, nobody
		// can be writing either.
		if again := r.connect(defaultReaders, frozen); again == nil {
			err = nil
		}
	}
	if err == nil {
		err = r.with(ctx, func(c *conn) error { return checkFile(c, false) })
	}
	if err != nil {
		return nil, errors.Join(reason(err), r.release())
	}
	return r, nil
}

func unlogged(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err != nil || info.Size() == 0
}

// connect opens n connections, and sees to it that each can read.
func (r *Reader) connect(n int, m mode) error {
	r.idle, r.open = make(chan *conn, n), true
	for range n {
		c, err := dial(r.path, m)
		if err == nil {
			r.conns = append(r.conns, c)
			_, err = c.number("SELECT count(*) FROM sqlite_schema")
		}
		if err != nil {
			return errors.Join(reason(err), r.release())
		}
		r.idle <- c
	}
	return nil
}

// Close frees the connections. No call may be under way.
func (r *Reader) Close() error {
	if err := r.release(); err != nil {
		return r.fail("close", err)
	}
	return nil
}

func (r *Reader) release() error {
	r.open = false
	var errs []error
	for _, c := range r.conns {
		errs = append(errs, c.close())
	}
	r.conns = nil
	return errors.Join(errs...)
}

// with lends f a connection that sees one moment of the store. It is for reads that end by themselves.
func (r *Reader) with(ctx context.Context, f func(*conn) error) error {
	return r.lend(ctx, func(c *conn) error { return c.reading(f) })
}

// lend lends f a connection that is in no transaction.
func (r *Reader) lend(ctx context.Context, f func(*conn) error) error {
	if !r.open {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var c *conn
	select {
	case c = <-r.idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { r.idle <- c }()
	return f(c)
}

// long is with for reads that may take long: they stop when ctx does, and may have to let the log begin anew first.
func (r *Reader) long(ctx context.Context, f func(*conn) error) error {
	if err := r.gate.pass(ctx); err != nil {
		return err
	}
	return r.with(ctx, func(c *conn) error {
		if ctx.Done() != nil {
			c.watch(ctx)
			defer c.unwatch()
		}
		return cause(ctx, f(c))
	})
}

// cause gives the context's error where that is why a read stopped.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
