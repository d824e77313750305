package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/rows"
)

// A server that has vacuumed a store while it was empty takes it for empty: what is loaded is still not gone through again for each
// part that comes.
func TestMakeOfAVacuumedStoreReadsNothingAgain(t *testing.T) {
	t.Parallel()
	address := database(t)
	run(t, address, "VACUUM")
	const series = 5_000
	err := postgres.Make(t.Context(), address, func(tables rows.Tables) error {
		for n := range int64(series) {
			text := func(s string) rows.Value { return rows.Value{Kind: rows.Text, Text: s} }
			integer := func(v int64) rows.Value { return rows.Value{Kind: rows.Integer, Int: v} }
			row := []rows.Value{text("main"), text("command"), text(fmt.Sprint(n)), integer(5), integer(1)}
			if err := tables.Write(rows.PutTook, row); err != nil {
				return err
			}
			if n%250 == 249 {
				if err := tables.Flush(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// It counts what a backend did once that has gone.
	until(t, address, "SELECT n_tup_ins >= 5000 FROM pg_stat_user_tables WHERE schemaname = 'headrace' AND relname = 'took'")
	var read int64
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
	err = c.QueryRow(t.Context(), "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE schemaname = 'headrace' AND relname = 'took'").Scan(&read)
	if err != nil || read > 2*series {
		t.Errorf("%d rows were read to load %d, %v", read, series, err)
	}
}

// Of several who open a new database at the same time one has it, and the others are told who.
func TestFirstOwnersAtTheSameTime(t *testing.T) {
	t.Parallel()
	address, err := pgtest.Shared(t).Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtext('headrace owner'))"); err != nil {
		t.Fatal(err)
	}
	const all = 3
	type opened struct {
		*postgres.Store
		err error
	}
	ends := make(chan opened, all)
	for range all {
		go func() {
			s, err := postgres.Open(t.Context(), address, postgres.Options{})
			ends <- opened{s, err}
		}()
	}
	// Each has found that there is no store.
	until(t, address, fmt.Sprintf("SELECT count(*) = %d FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", all))
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	owners := 0
	for range all {
		o := <-ends
		var held *queue.HeldError
		switch {
		case o.err == nil:
			owners++
			defer o.Close() //nolint:errcheck // its database goes away
			if _, err := o.Load(t.Context(), func(job.Change) error { return nil }); err != nil {
				t.Errorf("the owner cannot load: %v", err)
			}
		case !errors.As(o.err, &held):
			t.Errorf("refused by %v, want a *queue.HeldError", o.err)
		}
	}
	if owners != 1 {
		t.Errorf("%d own it", owners)
	}
}
