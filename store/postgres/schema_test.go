package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/archive"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/rows"
)

// What is not ours to change is refused, says why, and stays as it is.
func TestDatabaseThatIsNotForThisHeadrace(t *testing.T) {
	t.Parallel()
	newer, empty := database(t), ""
	run(t, newer, "UPDATE headrace.version SET version = 99")
	foreign, err := pgtest.Shared(t).Create(t.Context())
	if err == nil {
		empty, err = pgtest.Shared(t).Create(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	run(t, foreign, "CREATE SCHEMA headrace CREATE TABLE others (n integer)")
	for _, c := range []struct{ address, want string }{
		{newer, "version 99 and this headrace knows no version after"},
		{foreign, "not a store of headrace"},
	} {
		if s, err := postgres.Open(t.Context(), c.address, postgres.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open: %v, %v; want %q", s, err, c.want)
		}
		if r, err := postgres.OpenReadOnly(t.Context(), c.address); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("OpenReadOnly: %v, %v; want %q", r, err, c.want)
		}
	}
	if n := run(t, newer, "UPDATE headrace.version SET version = 99 WHERE version = 99"); n != 1 {
		t.Error("the newer store was changed")
	}
	if n := run(t, foreign, "SELECT FROM pg_tables WHERE schemaname = 'headrace'"); n != 1 {
		t.Error("the foreign schema was changed")
	}
	if _, err := postgres.OpenReadOnly(t.Context(), empty); !errors.Is(err, postgres.ErrNoStore) {
		t.Errorf("to read where there is no store: %v, want ErrNoStore", err)
	}
}

// The database was written by the code of that schema version, with its dump: jobs in each state, builds, attempts, results, a
// remembered failure, answers and the feed.
func TestOldDatabaseIsUpgraded(t *testing.T) {
	t.Parallel()
	old, err := os.ReadFile("testdata/version1.sql")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/version1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	address, err := pgtest.Shared(t).Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	script(t, address, string(old))
	if r, err := postgres.OpenReadOnly(t.Context(), address); err == nil || !strings.Contains(err.Error(), "version 1 and version") {
		t.Errorf("to read an old store: %v, %v; want an error that names its version", r, err)
	}
	for range 2 {
		s, err := postgres.Open(t.Context(), address, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := s.Whole(t.Context(), func(tables rows.Tables) error { return archive.Dump(&got, tables) }); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); d != "" {
			t.Errorf("the store (-before +after):\n%s", d)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(schema(t, database(t)), schema(t, address)); d != "" {
		t.Errorf("the upgraded schema is not that of a new store (-new +upgraded):\n%s", d)
	}
	s, err := postgres.Open(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // its database goes away
	head, err := s.Load(t.Context(), discard)
	if err != nil || len(head.Corrupt) > 0 {
		t.Errorf("load: %+v, %v", head, err)
	}
	if err := s.Commit(t.Context(), &queue.Batch{Number: head.Number + 1}); err != nil {
		t.Errorf("the next batch: %v", err)
	}
}

func discard(job.Change) error { return nil }

// script runs statements one after the other.
func script(t *testing.T, address, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
	if _, err := c.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
}

// schema gives what a store's tables, indexes and functions are made of. In what order a table's columns came is no matter.
func schema(t *testing.T, address string) []string {
	t.Helper()
	const sql = `SELECT indexdef FROM pg_indexes WHERE schemaname = 'headrace'
		UNION ALL SELECT format('%s %s %s %s %s', table_name, column_name, data_type, is_nullable, column_default) FROM information_schema.columns WHERE table_schema = 'headrace'
		UNION ALL SELECT format('%s %s', conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = 'headrace'::regnamespace
		UNION ALL SELECT format('%s %s', oid::regclass, reloptions) FROM pg_class WHERE relnamespace = 'headrace'::regnamespace
		UNION ALL SELECT format('%s %s', attrelid::regclass, attname) FROM pg_attribute WHERE attstorage = 'e' AND attrelid::regclass::text LIKE 'headrace.%'
		UNION ALL SELECT prosrc FROM pg_proc WHERE pronamespace = 'headrace'::regnamespace ORDER BY 1`
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
	found, err := c.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}
