package sqlite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/memory"
	"github.com/headrace/headrace/store/sqlite"
	"github.com/headrace/headrace/store/storetest"
)

// place is a folder in which each crash makes a new file: a copy of what the dead store had on disk. The dead
// store is not touched, as no process can close its own files at its death.
type place struct {
	dir   string
	count int
	store *sqlite.Store
}

func open(t testing.TB) storetest.Reopener {
	dir, err := os.MkdirTemp("", "headrace-sqlite")
	if err != nil {
		t.Fatal(err)
	}
	return &place{dir: dir}
}

func (p *place) path() string { return filepath.Join(p.dir, strconv.Itoa(p.count)) }

func (p *place) Open(t testing.TB) storetest.Store {
	old, dead := p.path(), p.store
	p.count++
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(old + suffix)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(p.path()+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if dead != nil {
		dead.Close() // only to free it; its files are the past
	}
	s, err := sqlite.Open(t.Context(), p.path(), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.store = s
	return s
}

func (p *place) Damage(t testing.TB, id job.ID) {
	p.Open(t)
	p.Close(nil)
	c, err := zombie.OpenConn(p.path(), zombie.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.Execute(c, "UPDATE job SET spec = x'ff' WHERE id = ?", &sqlitex.ExecOptions{Args: []any{id[:]}})
	if err = errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
}

func (p *place) Close(t testing.TB) {
	if p.store != nil {
		p.store.Close() // a test may have closed it
		p.store = nil
	}
	if t != nil {
		if err := os.RemoveAll(p.dir); err != nil {
			t.Fatal(err)
		}
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
	storetest.Compare(t, func(testing.TB) storetest.Reopener { return model{memory.NewDisk()} }, open)
}
