package pgtest_test

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func query(t *testing.T, address, sql string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // the server goes away with it
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	c := pgtest.Shared(t)
	first, err := c.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	query(t, first, "WITH a AS (SELECT 1) SELECT count(*) FROM a")
	conn, err := pgx.Connect(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE a AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	like, err := c.Clone(t.Context(), pgtest.Name(first))
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := query(t, like, "SELECT n FROM a"); n != 7 {
		t.Errorf("the clone has %d, want 7", n)
	}
	if n := query(t, other, "SELECT count(*) FROM pg_tables WHERE tablename = 'a'"); n != 0 {
		t.Error("a new database has the table of another")
	}
}

func TestCommittedRowsOutliveCrashOfServer(t *testing.T) {
	t.Parallel()
	c, err := pgtest.Start(t.Context(), pgtest.Options{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	address, err := c.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE a AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	for _, stop := range []func() error{c.Crash, c.Down} {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := pgx.Connect(t.Context(), address); err == nil {
			t.Fatal("a stopped server answers")
		}
		if err := c.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := query(t, address, "SELECT n FROM a"); n != 7 {
			t.Errorf("the server has %d, want 7", n)
		}
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the session outlived its server")
	}
}
