package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headrace/headrace/store/rows"
)

// tables runs the statements of package rows on one connection. What is written is gathered, as columns, and goes to the
// server together with the next question or the end of the transaction: one exchange for all that waits.
type tables struct {
	ctx    context.Context
	c      *pgconn.PgConn
	known  map[string]bool // statements that the connection has prepared
	wait   []request
	gather [rows.Count][]column
	// last: the transaction ends with the next exchange.
	last bool
	// open: a transaction has begun and its end is not sent; torn: an exchange has failed.
	open, torn bool
	// exchanges counts how often the server was sent something and waited for.
	exchanges *atomic.Int64
}

var _ rows.Tables = (*tables)(nil)

// request is a statement on its way to the server.
type request struct {
	name   string // "": it is not worth preparing
	sql    string
	params [][]byte
	read   func(*cells) error // of each row; nil: none is expected
	done   func(pgconn.CommandTag) error
}

// Read implements rows.Tables.
func (t *tables) Read(q rows.Query, width int, keys []rows.Value, f func(int, rows.Columns) error) error {
	return t.ReadAll(rows.Ask{Query: q, Width: width, Keys: keys, Row: f})
}

// ReadAll implements rows.Tables. What waits is sent before; where there is nothing to ask, it goes on waiting.
func (t *tables) ReadAll(asks ...rows.Ask) error {
	asked := false
	for i := range asks {
		if a := &asks[i]; !a.Idle() {
			t.ask(a)
			asked = true
		}
	}
	if !asked {
		return nil
	}
	return t.exchange()
}

func (t *tables) ask(a *rows.Ask) {
	s := &statements[a.Query]
	params := make([][]byte, a.Width)
	for i := range params {
		var c column
		for k := i; k < len(a.Keys); k += a.Width {
			c.add(&a.Keys[k])
		}
		params[i] = c.wire(s.types[i])
	}
	keyed, row := a.Width > 0, a.Row
	t.send(request{name: s.name, sql: s.sql, params: params, read: func(c *cells) error {
		key := 0
		if keyed {
			key = int(c.Int()) - 1
		}
		return row(key, c)
	}})
}

// Write implements rows.Tables.
func (t *tables) Write(q rows.Query, row []rows.Value) error {
	columns := t.gather[q]
	if columns == nil {
		columns = make([]column, len(row))
		t.gather[q] = columns
	}
	for i := range row {
		columns[i].add(&row[i])
	}
	return nil
}

// Flush implements rows.Tables.
func (t *tables) Flush() error {
	for q := range t.gather {
		columns := t.gather[q]
		if len(columns) == 0 || columns[0].rows == 0 {
			continue
		}
		s := &statements[q]
		params := make([][]byte, len(columns))
		for i := range columns {
			params[i] = columns[i].wire(s.types[i])
			columns[i] = column{}
		}
		t.send(request{name: s.name, sql: s.sql, params: params})
	}
	return nil
}

func (t *tables) send(r request) { t.wait = append(t.wait, r) }

// exchange sends what waits and takes the answers. After an error of the server the connection is of no use any more:
// nobody knows which statements it has prepared.
func (t *tables) exchange() error {
	if len(t.wait) == 0 {
		return nil
	}
	if t.last {
		t.last = false
		t.commit()
	}
	t.exchanges.Add(1)
	p := t.c.StartPipeline(t.ctx)
	binaryForm := []int16{1}
	for i := range t.wait {
		r := &t.wait[i]
		switch {
		case r.name == "":
			p.SendQueryParams(r.sql, r.params, nil, binaryForm, binaryForm)
			continue
		case !t.known[r.name]:
			p.SendPrepare(r.name, r.sql, nil)
			t.known[r.name] = true
		}
		p.SendQueryPrepared(r.name, r.params, binaryForm, binaryForm)
	}
	err := p.Sync()
	if err == nil {
		err = t.answers(p)
	}
	if cerr := p.Close(); err == nil {
		err = cerr
	}
	clear(t.wait)
	t.wait = t.wait[:0]
	t.torn = t.torn || err != nil
	return err
}

// answers takes what the server says to each request, to the end.
func (t *tables) answers(p *pgconn.Pipeline) (first error) {
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	for next := 0; ; {
		v, err := p.GetResults()
		if err != nil {
			note(err)
			var refusal *pgconn.PgError
			if !errors.As(err, &refusal) {
				return first
			}
			continue
		}
		switch v := v.(type) {
		case nil:
			return first
		case *pgconn.ResultReader:
			r := &t.wait[next]
			next++
			var row cells
			for v.NextRow() {
				if r.read == nil || first != nil {
					continue
				}
				row.values, row.at = v.Values(), 0
				if err := r.read(&row); errors.Is(err, rows.ErrEnough) {
					r.read = nil
				} else if err != nil {
					note(err)
				} else if err := t.ctx.Err(); err != nil {
					note(err)
				}
			}
			tag, err := v.Close()
			if err != nil {
				note(err)
			} else if r.done != nil && first == nil {
				note(r.done(tag))
			}
		}
	}
}

// cells are the columns of one row, in binary form. It implements rows.Columns.
type cells struct {
	values [][]byte
	at     int
}

func (c *cells) next() []byte {
	v := c.values[c.at]
	c.at++
	return v
}

// Int reads an integer of any size.
func (c *cells) Int() int64 {
	switch v := c.next(); len(v) {
	case 8:
		return int64(binary.BigEndian.Uint64(v))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(v)))
	case 2:
		return int64(int16(binary.BigEndian.Uint16(v)))
	default:
		return 0
	}
}

// Bool reads a boolean.
func (c *cells) Bool() bool {
	v := c.next()
	return len(v) == 1 && v[0] == 1
}

// Text reads a text.
func (c *cells) Text() string { return unescaped(string(c.next())) }

// Bytes reads a blob or an id.
func (c *cells) Bytes() []byte {
	v := c.next()
	if len(v) == 0 {
		return nil
	}
	return append([]byte(nil), v...)
}

// Append reads a blob or an id onto dst.
func (c *cells) Append(dst []byte) []byte { return append(dst, c.next()...) }

// Null passes over a null.
func (c *cells) Null() bool {
	if c.values[c.at] != nil {
		return false
	}
	c.at++
	return true
}

// column is a parameter: an array in PostgreSQL's binary form, as it grows.
type column struct {
	buf   []byte
	rows  int
	nulls bool
}

// The types of arrays' elements, by their numbers in the server.
const (
	oidBool  = 16
	oidBytea = 17
	oidInt8  = 20
	oidText  = 25
	oidUUID  = 2950
)

// The header of an array: dimensions, whether it has nulls, type, length, lower bound.
const arrayHeader = 20

func (c *column) add(v *rows.Value) {
	if c.buf == nil {
		c.buf = make([]byte, arrayHeader, 128)
	}
	c.rows++
	switch v.Kind {
	case rows.Null:
		c.nulls = true
		c.buf = append(c.buf, 0xff, 0xff, 0xff, 0xff)
	case rows.Integer:
		c.buf = binary.BigEndian.AppendUint32(c.buf, 8)
		c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(v.Int))
	case rows.Boolean:
		c.buf = append(c.buf, 0, 0, 0, 1, byte(v.Int))
	case rows.Text:
		s := escaped(v.Text)
		c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(s)))
		c.buf = append(c.buf, s...)
	case rows.Blob:
		c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(len(v.Blob)))
		c.buf = append(c.buf, v.Blob...)
	case rows.ID:
		c.buf = append(c.buf, 0, 0, 0, 16)
		c.buf = append(c.buf, v.ID[:]...)
	}
}

// wire gives the array, of elements of a type.
func (c *column) wire(oid uint32) []byte {
	if c.buf == nil {
		c.buf = make([]byte, arrayHeader)
	}
	binary.BigEndian.PutUint32(c.buf[0:], 1)
	if c.nulls {
		binary.BigEndian.PutUint32(c.buf[4:], 1)
	}
	binary.BigEndian.PutUint32(c.buf[8:], oid)
	binary.BigEndian.PutUint32(c.buf[12:], uint32(c.rows))
	binary.BigEndian.PutUint32(c.buf[16:], 1)
	return c.buf
}

var errRolledBack = errors.New("the server rolled the transaction back")

// finish ends the transaction well, with all that waits.
func (t *tables) finish() error {
	t.commit()
	return t.exchange()
}

func (t *tables) commit() {
	t.open = false
	t.send(request{sql: "COMMIT", done: func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errRolledBack
		}
		return nil
	}})
}
