package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// The databases were written by the code of those schema versions, with their dumps: jobs in each state, builds, attempts, results, a
// remembered failure, answers and the feed.
func TestOldDatabaseIsUpgraded(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			t.Parallel()
			testUpgrade(t, version)
		})
	}
}

// oldDatabase makes a database that is kept.
func oldDatabase(t *testing.T, version int) string {
	t.Helper()
	old, err := os.ReadFile(fmt.Sprintf("testdata/version%d.sql", version))
	if err != nil {
		t.Fatal(err)
	}
	address, err := pgtest.Shared(t).Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	script(t, address, string(old))
	return address
}

func testUpgrade(t *testing.T, version int) {
	want, err := os.ReadFile(fmt.Sprintf("testdata/version%d.jsonl", version))
	if err != nil {
		t.Fatal(err)
	}
	address := oldDatabase(t, version)
	if r, err := postgres.OpenReadOnly(t.Context(), address); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("version %d and version", version)) {
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
	list, err := s.Jobs(t.Context(), queue.JobFilter{Worker: "w"})
	if n := run(t, address, "SELECT FROM headrace.ended WHERE attempt IS NOT NULL"); err != nil || n == 0 || int(n) != len(list) {
		t.Errorf("%d jobs ended with an attempt, and %d by worker w (%v)", n, len(list), err)
	}
	for i := range list {
		if list[i].LastEnd == nil || list[i].LastEnd.Worker != "w" {
			t.Errorf("job %s is listed by worker w, and ended with %+v", list[i].Spec.ID, list[i].LastEnd)
		}
	}
	head, err := s.Load(t.Context(), discard)
	if err != nil || len(head.Corrupt) > 0 {
		t.Errorf("load: %+v, %v", head, err)
	}
	if err := s.Commit(t.Context(), &queue.Batch{Number: head.Number + 1}); err != nil {
		t.Errorf("the next batch: %v", err)
	}
}

// Whoever brings the schema up to date is the owner by then: the last one, of which nothing was heard, is in the middle of a commit,
// which goes through whole before that, and none does after it.
func TestUpgradeWaitsForTheLastOwnersCommit(t *testing.T) {
	t.Parallel()
	address := oldDatabase(t, 2)
	run(t, address, "UPDATE headrace.owner SET epoch = 70")
	run(t, address, "UPDATE headrace.life SET epoch = 70, beats = 5")
	old, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close(context.Background()) //nolint:errcheck // nothing rests on it
	do := func(sql string) error {
		_, err := old.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		return err
	}
	if err := do("BEGIN; SELECT headrace.own(70)"); err != nil {
		t.Fatal(err)
	}
	type opened struct {
		s   *postgres.Store
		err error
	}
	done := make(chan opened, 1)
	go func() {
		s, err := postgres.Open(t.Context(), address, postgres.Options{})
		done <- opened{s, err}
	}()
	until(t, address, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')")
	if err := do(`INSERT INTO headrace.job (seq, id, at, channel, kind, name, spec) VALUES (9000, gen_random_uuid(), 1, 'c', 'k', 'n', '');
		INSERT INTO headrace.build (seq, id, at, name, priority, active, staged, outcome, ended, body) VALUES (9001, gen_random_uuid(), 1, 'n', 0, true, false, 1, 1, '');
		COMMIT`); err != nil {
		t.Errorf("the commit under way: %v", err)
	}
	o := <-done
	if o.err != nil {
		t.Fatal(o.err)
	}
	defer o.s.Close() //nolint:errcheck // its database goes away
	if n := run(t, address, "SELECT FROM headrace.job WHERE seq = 9000"); n != 1 {
		t.Error("what was committed before is gone")
	}
	if n := run(t, address, "SELECT FROM headrace.setting"); n != 0 {
		t.Errorf("%d settings in an upgraded store", n)
	}
	if err := do("BEGIN; SELECT headrace.own(70)"); err == nil || !strings.Contains(err.Error(), "epoch 70 is over") {
		t.Errorf("a commit of the last owner after the upgrade: %v", err)
	}
}

// A store that has an owner is not upgraded.
func TestOwnedDatabaseIsNotUpgraded(t *testing.T) {
	t.Parallel()
	address := database(t)
	s, err := postgres.Open(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // its database goes away
	run(t, address, "DROP TABLE headrace.setting")
	run(t, address, "UPDATE headrace.version SET version = 2")
	var held *queue.HeldError
	if other, err := postgres.Open(t.Context(), address, postgres.Options{}); !errors.As(err, &held) {
		t.Errorf("Open beside an owner: %v, %v; want a HeldError", other, err)
	}
	if n := run(t, address, "SELECT FROM headrace.version WHERE version = 2"); n != 1 {
		t.Error("the store was upgraded under its owner")
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
