package postgres_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/job"
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

func (p *place) Damage(t testing.TB, id job.ID) {
	run(t, p.address, "UPDATE headrace.job SET spec = '\\xff' WHERE id = $1", id.String())
}

func (p *place) Close(testing.TB) {
	if p.store != nil {
		p.store.Close() // a test may have closed it
		p.store = nil
	}
}

func run(t testing.TB, address, sql string, args ...any) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
	if _, err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
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

func (m model) Open(testing.TB) storetest.Store { return m.disk.Open() }
func (m model) Damage(testing.TB, job.ID)       {}
func (m model) Close(testing.TB)                {}

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
