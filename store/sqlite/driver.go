package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/headrace/headrace/store/rows"
)

// This file is the only one that knows the driver. A conn belongs to one goroutine at a time.

// busyWait is how long a connection waits for another one's lock. Only a migration or a recovery holds one
// that a reader has to wait for.
const busyWait = 10 * time.Second

// oldestEngine is the first SQLite version without the fault by which resetting the WAL loses pages.
var oldestEngine = [3]int{3, 51, 3}

type conn struct {
	db    *sqlite.Conn
	stmts [statements]*stmt
	lists map[string]*stmt // by their text
	begun bool
}

// mode is what a connection may do.
type mode int

const (
	writing mode = iota
	reading
	// frozen reads a file that nobody can be writing and beside which nothing can be created.
	frozen
)

func dial(path string, m mode) (*conn, error) {
	flags := sqlite.OpenReadWrite | sqlite.OpenCreate
	switch m {
	case reading:
		flags = sqlite.OpenReadOnly
	case frozen:
		flags = sqlite.OpenReadOnly | sqlite.OpenURI
		path = (&url.URL{Scheme: "file", Path: path, RawQuery: "immutable=1"}).String()
	case writing:
	}
	db, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, reason(err)
	}
	db.SetBusyTimeout(busyWait)
	c := &conn{db: db}
	if err := c.checkEngine(); err != nil {
		return nil, errors.Join(reason(err), c.close())
	}
	return c, nil
}

func (c *conn) checkEngine() error {
	version, err := c.text("SELECT sqlite_version()")
	if err != nil {
		return err
	}
	return checkVersion(version)
}

func checkVersion(version string) error {
	var have [3]int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &have[0], &have[1], &have[2]); err != nil {
		return fmt.Errorf("sqlite version %q: %v", version, err)
	}
	if slices.Compare(have[:], oldestEngine[:]) < 0 {
		return fmt.Errorf("sqlite %s loses data: build headrace with the versions that its go.mod names", version)
	}
	return nil
}

func (c *conn) close() error { return c.db.Close() }

// script runs statements that give no rows.
func (c *conn) script(sql string) error { return sqlitex.ExecuteTransient(c.db, sql, nil) }

// define gives the connection the function by which a migration reads the worker out of an attempt.
func (c *conn) define() error {
	return c.db.CreateFunction("attempt_worker", &sqlite.FunctionImpl{NArgs: 1, Deterministic: true, Scalar: func(_ sqlite.Context, args []sqlite.Value) (sqlite.Value, error) {
		worker := rows.WorkerOf(rows.Value{Kind: rows.Blob, Blob: args[0].Blob()})
		if worker.Kind == rows.Null {
			return sqlite.Value{}, nil
		}
		return sqlite.TextValue(worker.Text), nil
	}})
}

// scripts runs several statements, as in a migration, within one savepoint.
func (c *conn) scripts(sql string) error { return sqlitex.ExecuteScript(c.db, sql, nil) }

// number gives the first column of the first row.
func (c *conn) number(sql string) (n int64, err error) {
	err = sqlitex.ExecuteTransient(c.db, sql, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { n = s.ColumnInt64(0); return nil },
	})
	return n, err
}

// text gives the first column of the first row.
func (c *conn) text(sql string) (t string, err error) {
	err = sqlitex.ExecuteTransient(c.db, sql, &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error { t = s.ColumnText(0); return nil },
	})
	return t, err
}

// copyLog copies of the log what nobody needs there any more back into the file, and reports whether that was all.
func (c *conn) copyLog() (whole bool, err error) {
	err = sqlitex.ExecuteTransient(c.db, "PRAGMA wal_checkpoint(PASSIVE)", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			whole = s.ColumnInt(0) == 0 && s.ColumnInt(1) == s.ColumnInt(2)
			return nil
		},
	})
	return whole, err
}

// fill writes what f does in one transaction. The file is a draft that nobody else knows: what is left of it after a crash is
// thrown away, so that nothing need be kept for going back.
func (c *conn) fill(f func(rows.Tables) error) (err error) {
	if f == nil {
		return nil
	}
	for _, pragma := range []string{"PRAGMA journal_mode = off", "PRAGMA synchronous = off"} {
		if err := c.script(pragma); err != nil {
			return err
		}
	}
	if err := c.begin(qBegin); err != nil {
		return err
	}
	if err := f(c); err != nil {
		return errors.Join(err, c.end(false))
	}
	if err := c.end(true); err != nil {
		return err
	}
	for _, pragma := range []string{"PRAGMA synchronous = full", "PRAGMA journal_mode = wal"} {
		if err := c.script(pragma); err != nil {
			return err
		}
	}
	return nil
}

// copyInto writes the content into a file that is empty or is not there yet.
func (c *conn) copyInto(path string) error {
	return sqlitex.ExecuteTransient(c.db, "VACUUM INTO ?", &sqlitex.ExecOptions{Args: []any{path}})
}

// integrity gives what the engine finds wrong, but for the first few hundred findings none.
func (c *conn) integrity() (found []string, err error) {
	err = sqlitex.ExecuteTransient(c.db, "PRAGMA integrity_check(300)", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			if line := s.ColumnText(0); line != "ok" {
				found = append(found, line)
			}
			return nil
		},
	})
	return found, err
}

// watch makes statements fail once ctx is done.
func (c *conn) watch(ctx context.Context) { c.db.SetInterrupt(ctx.Done()) }

// unwatch ends that.
func (c *conn) unwatch() { c.db.SetInterrupt(nil) }

func (c *conn) begin(q rows.Query) error {
	if err := c.query(q).run(); err != nil {
		return err
	}
	c.begun = true
	return nil
}

// reading lets f see one moment of the store.
func (c *conn) reading(f func(*conn) error) (err error) {
	if err := c.begin(qBeginRead); err != nil {
		return err
	}
	defer func() {
		if end := c.end(false); err == nil {
			err = end
		}
	}()
	return f(c)
}

// end commits or rolls back, and always leaves the connection outside a transaction unless SQLite cannot.
func (c *conn) end(commit bool) error {
	if !c.begun {
		return nil
	}
	c.begun = false
	if commit {
		if err := c.query(qCommit).run(); err != nil {
			return errors.Join(err, c.rollback())
		}
		return nil
	}
	return c.rollback()
}

// rollback does nothing where SQLite has rolled back by itself, as it does when the disk is full.
func (c *conn) rollback() error {
	if c.db.AutocommitEnabled() {
		return nil
	}
	return c.query(qRollback).run()
}

// stmt is a prepared statement that parameters are given to, and columns are read from, in order.
type stmt struct {
	s   *sqlite.Stmt
	err error
	n   int // parameters given, or columns read
	// once: the statement is not kept.
	once bool
}

func (c *conn) query(q rows.Query) *stmt {
	s := c.stmts[q]
	if s == nil {
		s = &stmt{}
		s.s, s.err = c.db.Prepare(queries[q])
		if s.err != nil {
			return s
		}
		c.stmts[q] = s
	}
	s.n = 0
	return s
}

// kept gives a statement that is prepared once, of which there must be few.
func (c *conn) kept(sql string) *stmt {
	s := c.lists[sql]
	if s == nil {
		s = &stmt{}
		s.s, s.err = c.db.Prepare(sql)
		if s.err != nil {
			return s
		}
		if c.lists == nil {
			c.lists = map[string]*stmt{}
		}
		c.lists[sql] = s
	}
	s.n = 0
	return s
}

// adhoc prepares a statement for one use.
func (c *conn) adhoc(sql string) *stmt {
	s := &stmt{once: true}
	s.s, _, s.err = c.db.PrepareTransient(sql)
	return s
}

// bind gives the next parameters.
func (s *stmt) bind(values ...rows.Value) *stmt {
	if s.err != nil {
		return s
	}
	for i := range values {
		s.n++
		switch v := &values[i]; v.Kind {
		case rows.Integer, rows.Boolean:
			s.s.BindInt64(s.n, v.Int)
		case rows.Text:
			s.s.BindText(s.n, v.Text)
		case rows.Blob:
			s.s.BindBytes(s.n, v.Blob)
		case rows.ID:
			s.s.BindBytes(s.n, v.ID[:])
		case rows.Null:
			s.s.BindNull(s.n)
		}
	}
	return s
}

// run runs a statement that gives no rows.
func (s *stmt) run() error {
	more, err := s.next()
	if more {
		return s.done()
	}
	return err
}

// next goes to the next row; false after the last.
func (s *stmt) next() (bool, error) {
	if s.err != nil {
		return false, s.err
	}
	s.n = 0
	more, err := s.s.Step()
	if !more {
		if end := s.done(); err == nil {
			err = end
		}
	}
	return more, err
}

// done lets go of the rows that are left. It may be called at any time, and again.
func (s *stmt) done() error {
	if s.s == nil {
		return nil
	}
	if s.once {
		err := s.s.Finalize()
		s.s = nil
		return err
	}
	return s.s.Reset()
}

// Int implements rows.Columns, as do those that follow.
func (s *stmt) Int() int64 {
	s.n++
	return s.s.ColumnInt64(s.n - 1)
}

func (s *stmt) Bool() bool { return s.Int() != 0 }

func (s *stmt) Text() string {
	s.n++
	return s.s.ColumnText(s.n - 1)
}

func (s *stmt) Null() bool {
	if s.s.ColumnType(s.n) != sqlite.TypeNull {
		return false
	}
	s.n++
	return true
}

func (s *stmt) Bytes() []byte { return s.Append(nil) }

func (s *stmt) Append(dst []byte) []byte {
	s.n++
	n := s.s.ColumnLen(s.n - 1)
	if n == 0 {
		return dst
	}
	at := len(dst)
	dst = append(dst, make([]byte, n)...)
	s.s.ColumnBytes(s.n-1, dst[at:])
	return dst
}

// each calls f at each row, and always lets go of the statement.
func (s *stmt) each(f func() error) error {
	for {
		more, err := s.next()
		if err != nil || !more {
			return err
		}
		if err := f(); err != nil {
			if end := s.done(); end != nil {
				return errors.Join(err, end)
			}
			return err
		}
	}
}

// Read implements rows.Tables.
func (c *conn) Read(q rows.Query, width int, keys []rows.Value, f func(key int, c rows.Columns) error) error {
	return c.ReadAll(rows.Ask{Query: q, Width: width, Keys: keys, Row: f})
}

// ReadAll implements rows.Tables.
func (c *conn) ReadAll(asks ...rows.Ask) error {
	for i := range asks {
		if err := c.read(&asks[i]); err != nil && !errors.Is(err, rows.ErrEnough) {
			return err
		}
	}
	return nil
}

func (c *conn) read(a *rows.Ask) error {
	key := 0
	row := func() error { return a.Row(key, c.stmts[a.Query]) }
	if a.Width == 0 {
		return c.query(a.Query).each(row)
	}
	for keys := a.Keys; len(keys) > 0; keys = keys[a.Width:] {
		if err := c.query(a.Query).bind(keys[:a.Width]...).each(row); err != nil {
			return err
		}
		key++
	}
	return nil
}

// Write implements rows.Tables.
func (c *conn) Write(q rows.Query, row []rows.Value) error { return c.query(q).bind(row...).run() }

// Flush implements rows.Tables: nothing is gathered.
func (c *conn) Flush() error { return nil }
