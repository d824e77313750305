package postgres_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/store/memory"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/storetest"
)

var made struct {
	sync.Once
	name string
}

// database gives the address of a database with an empty store of its own.
func database(t testing.TB) string {
	t.Helper()
	c := pgtest.Shared(t)
	made.Do(func() {
		address, err := c.Create(context.Background())
		if err != nil {
			return
		}
		s, err := postgres.Open(context.Background(), address, postgres.Options{})
		if err == nil && s.Close() == nil {
			made.name = pgtest.Name(address)
		}
	})
	if made.name == "" {
		t.Fatal("there is no template database: its store could not be made")
	}
	address, err := c.Clone(t.Context(), made.name)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// place is a database.
type place struct {
	address string
	store   *postgres.Store
}

func open(t testing.TB) storetest.Reopener { return &place{address: database(t)} }

func (p *place) Open(t testing.TB) storetest.Store {
	p.Close(t)
	s, err := postgres.Open(t.Context(), p.address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.store = s
	return s
}

// damages has for each table the statement that spoils the record of a key.
var damages = map[string]string{
	"job":            "UPDATE headrace.job SET spec = decode('ff', 'hex') WHERE id::text = $1",
	"live":           "UPDATE headrace.live SET tally = decode('ff','hex'), own = decode('ff','hex'), attempt = CASE state WHEN 2 THEN decode('ff','hex') END WHERE seq = (SELECT seq FROM headrace.job WHERE id::text = $1)",
	"ended":          "UPDATE headrace.ended SET body = decode('ff', 'hex') WHERE seq = (SELECT seq FROM headrace.job WHERE id::text = $1)",
	"attempt":        "UPDATE headrace.attempt SET body = decode('ff', 'hex') WHERE (SELECT id::text FROM headrace.job j WHERE j.seq = attempt.seq) || '/' || number = $1",
	"build":          "UPDATE headrace.build SET body = decode('ff', 'hex') WHERE id::text = $1",
	"channel":        "UPDATE headrace.channel SET body = decode('ff', 'hex') WHERE name = $1",
	"worker":         "UPDATE headrace.worker SET body = decode('ff', 'hex') WHERE name = $1",
	"setting":        "UPDATE headrace.setting SET body = decode('ff', 'hex') WHERE space || '/' || name = $1",
	"cached_failure": "UPDATE headrace.cached_failure SET body = decode('ff', 'hex') WHERE key = $1",
	"feed":           "UPDATE headrace.feed SET changes = decode('ff', 'hex') WHERE number::text = $1",
}

// lastAttempt spoils the attempt that ended with its job.
const lastAttempt = "UPDATE headrace.ended SET attempt = decode('ff', 'hex') WHERE seq = (SELECT seq FROM headrace.job WHERE id::text || '/1' = $1)"

func (p *place) Damage(t testing.TB, table, key string) {
	n := run(t, p.address, damages[table], key)
	if n == 0 && table == "attempt" {
		n = run(t, p.address, lastAttempt, key)
	}
	if n != 1 {
		t.Fatalf("damage %q of table %s: there are %d", key, table, n)
	}
}

func (p *place) Close(testing.TB) {
	if p.store != nil {
		p.store.Close() // a test may have closed it
		p.store = nil
	}
}

// run gives how many rows the statement was about.
func run(t testing.TB, address, sql string, args ...any) int64 {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
	tag, err := c.Exec(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	return tag.RowsAffected()
}

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, open)
}

func TestClockThatSteps(t *testing.T) {
	t.Parallel()
	storetest.Clock(t, open)
}

type model struct{ disk *memory.Disk }

func (m model) Open(testing.TB) storetest.Store   { return m.disk.Open() }
func (m model) Damage(testing.TB, string, string) {}
func (m model) Close(testing.TB)                  {}

func TestSameAsMemory(t *testing.T) {
	t.Parallel()
	address := database(t) // one for all: to empty a store is quicker than to make one
	reopen := func(t testing.TB) storetest.Reopener {
		run(t, address, emptied)
		return &place{address: address}
	}
	storetest.Compare(t, func(testing.TB) storetest.Reopener { return model{memory.NewDisk()} }, reopen)
}

// emptied makes a store that nobody owns as new.
const emptied = `DO $$
DECLARE t text;
BEGIN
	FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'headrace' AND tablename NOT IN ('version', 'owner', 'life') LOOP
		EXECUTE format('DELETE FROM headrace.%I', t);
	END LOOP;
	INSERT INTO headrace.feed VALUES (0, 0, 0, 0, '');
END $$`
