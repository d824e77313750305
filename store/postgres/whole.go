package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headrace/headrace/store/rows"
)

// Whole lends f all tables as they are at one moment, to be read only.
func (r *Reader) Whole(ctx context.Context, f func(rows.Tables) error) error {
	var refused error // by f: given back as it is
	begun := false
	err := r.moment(ctx, func(t *tables) error {
		if begun {
			return refused // What has been given cannot be given again.
		}
		begun = true
		refused = f(t)
		return refused
	})
	if err != nil && refused == nil {
		return r.fail("read", err)
	}
	return err
}

// Make makes a store of what f writes, in the database at address: in one transaction, so that there is all of it or
// nothing. If there is a store already it must be empty, else the error is a *rows.NotEmptyError; and nobody may own it, else it is
// a *queue.HeldError.
func Make(ctx context.Context, address string, f func(rows.Tables) error) (err error) {
	s, err := Open(ctx, address, Options{})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
	}()
	var refused error // by f: given back as it is
	err = s.fill(ctx, func(t rows.Tables) error {
		refused = f(t)
		return refused
	})
	if err != nil && (refused == nil || ctx.Err() != nil) {
		return s.fail("make", cause(ctx, err))
	}
	return err
}

func (s *Store) fill(ctx context.Context, f func(rows.Tables) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.writer(ctx); err != nil {
		return err
	}
	t := &filler{s.w.tables}
	t.ctx = ctx
	t.send(request{sql: "BEGIN"})
	// What is written comes as fast as it is read elsewhere: from a pipe, that can be slow.
	t.send(request{sql: "SET LOCAL idle_in_transaction_session_timeout = 0"})
	// Nothing else has the server plan anew within one transaction: it would go on as it began, when the tables were empty.
	t.send(request{sql: "SET LOCAL plan_cache_mode = force_custom_plan"})
	t.send(request{name: "own", sql: "SELECT headrace.own($1)", params: [][]byte{number(s.life.epoch)}, read: func(*cells) error { return nil }})
	err := f(t)
	if err == nil {
		// The planner has never seen them.
		t.send(request{sql: "ANALYZE headrace.job, headrace.live, headrace.ended, headrace.build, headrace.build_ref, headrace.edge"})
		err = t.finish()
	}
	s.hangUp()
	return err
}

// filler writes a whole store.
type filler struct{ tables }

// Write implements rows.Tables.
func (t *filler) Write(q rows.Query, row []rows.Value) error {
	integer := func(v int64) rows.Value { return rows.Value{Kind: rows.Integer, Int: v} }
	switch q {
	case rows.AddRound:
		row = append(row[:3:3], integer(0), integer(0)) // That of the newest round says where the store stands.
	case rows.PutUsage:
		row = append(row[:4:4], integer(1), integer(0), integer(0)) // There is none that it replaces.
	case rows.PutTook:
		row = append(row[:5:5], integer(-1))
	case rows.PutHead:
		params := make([][]byte, len(row))
		for i := range row {
			params[i] = number(row[i].Int)
		}
		t.send(request{sql: putHead, params: params, done: func(pgconn.CommandTag) error { return nil }})
		return nil
	default:
		// The others are as they come.
	}
	return t.tables.Write(q, row)
}

// Where a store lacks its newest round, as one that is damaged may, a row without changes says where it stands.
const putHead = `INSERT INTO headrace.feed (number, at, seq, dropped, changes) VALUES ($1::bigint, $2::bigint, $3::bigint, $4::bigint, '')
	ON CONFLICT (number) DO UPDATE SET at = excluded.at, seq = excluded.seq, dropped = excluded.dropped`

// Flush implements rows.Tables. What was gathered goes at once, as there is more of it than memory should hold.
func (t *filler) Flush() error {
	if err := t.tables.Flush(); err != nil {
		return err
	}
	if err := t.exchange(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
