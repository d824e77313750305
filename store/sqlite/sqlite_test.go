package sqlite_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

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

// damages spoil the record that is named.
var damages = map[string]string{
	"job": "UPDATE job SET spec = x'ff' WHERE lower(hex(id)) = ?",
	"live": `UPDATE live SET tally = x'ff', own = x'ff', attempt = CASE state WHEN 2 THEN x'ff' END
		WHERE seq = (SELECT seq FROM job WHERE lower(hex(id)) = ?)`,
	"ended": "UPDATE ended SET body = x'ff' WHERE seq = (SELECT seq FROM job WHERE lower(hex(id)) = ?)",
	"attempt": `UPDATE attempt SET body = x'ff' WHERE (SELECT lower(hex(id)) || '/' || attempt.number FROM job
		WHERE seq = attempt.seq) = ?`,
	"build":          "UPDATE build SET body = x'ff' WHERE lower(hex(id)) = ?",
	"worker":         "UPDATE worker SET body = x'ff' WHERE name = ?",
	"channel":        "UPDATE channel SET body = x'ff' WHERE name = ?",
	"setting":        "UPDATE setting SET body = x'ff' WHERE space || '/' || name = ?",
	"cached_failure": "UPDATE cached_failure SET body = x'ff' WHERE key = ?",
	"feed":           "UPDATE feed SET changes = x'ff' WHERE number = CAST(? AS INTEGER)",
}

// lastAttempt spoils the attempt that ended with its job.
const lastAttempt = "UPDATE ended SET attempt = x'ff' WHERE seq = (SELECT seq FROM job WHERE lower(hex(id)) || '/1' = ?)"

func (p *place) Damage(t testing.TB, table, key string) {
	p.Open(t)
	p.Close(nil)
	c, err := zombie.OpenConn(p.path(), zombie.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	args := &sqlitex.ExecOptions{Args: []any{strings.ReplaceAll(key, "-", "")}}
	if err = sqlitex.Execute(c, damages[table], args); err == nil && table == "attempt" && c.Changes() == 0 {
		err = sqlitex.Execute(c, lastAttempt, args)
	}
	if err == nil && c.Changes() != 1 {
		err = fmt.Errorf("damage %q of table %s: there is none", key, table)
	}
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

func (m model) Open(testing.TB) storetest.Store   { return m.disk.Open() }
func (m model) Damage(testing.TB, string, string) {}
func (m model) Close(testing.TB)                  {}

func TestSameAsMemory(t *testing.T) {
	t.Parallel()
	storetest.Compare(t, func(testing.TB) storetest.Reopener { return model{memory.NewDisk()} }, open)
}
