package sqlite_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
)

func mustOpen(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // a test may have closed it
	return s
}

func oldID(kind, n byte) (id job.ID) {
	id[0], id[15] = kind, n
	return id
}

// The files were written by the code of those schema versions: three jobs of which one has ended and one runs, a build
// that wants two of them, a worker, a channel, four rounds. That of version 3 has a fifth round, with a staged build and its
// job, and answers; that of version 4 a sixth besides, with a job of another channel.
func TestOldFileIsUpgraded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version int
		head    queue.Head
		loaded  []string
		keys    []string
	}{
		{1, queue.Head{Number: 4, Seq: 4}, []string{"main", "w", "build", "job 2", "job 3"}, []string{"key", "key"}},
		{3, queue.Head{Number: 5, Seq: 7}, []string{"main", "w", "build", "staged", "job 2", "job 3", "job 7"}, []string{"key 2", "key 3", ""}},
		{4, queue.Head{Number: 6, Seq: 8}, []string{"main", "w", "build", "staged", "job 2", "job 3", "job 7", "job 8"}, []string{"key 2", "key 3", "", "key 8"}},
	} {
		t.Run(fmt.Sprint("version ", c.version), func(t *testing.T) {
			t.Parallel()
			path := copyOld(t, c.version)
			_, err := sqlite.OpenReadOnly(t.Context(), path)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint("version ", c.version)) {
				t.Errorf("reading an old file: %v, want an error that names its version", err)
			}
			for range 2 {
				s := mustOpen(t, path)
				head, loaded, keys := loadOld(t, s)
				if d := cmp.Diff(c.head, head); d != "" {
					t.Errorf("head (-want +got):\n%s", d)
				}
				if d := cmp.Diff(c.loaded, loaded); d != "" {
					t.Errorf("loaded (-want +got):\n%s", d)
				}
				if d := cmp.Diff(c.keys, keys); d != "" {
					t.Errorf("keys (-want +got):\n%s", d)
				}
				attempts, err := s.Attempts(t.Context(), oldID('j', 1))
				if err != nil || len(attempts) != 1 || string(attempts[0].Result) != "result" {
					t.Errorf("attempts = %+v, %v", attempts, err)
				}
				if list, err := s.Jobs(t.Context(), queue.JobFilter{Worker: attempts[0].Worker}); err != nil || len(list) != 1 || list[0].Spec.ID != oldID('j', 1) {
					t.Errorf("by worker %q: %+v, %v; want job 1", attempts[0].Worker, list, err)
				}
				rounds, err := s.Feed(t.Context(), 0, 10)
				if err != nil || len(rounds) != int(head.Number) {
					t.Errorf("%d rounds, %v; want %d", len(rounds), err, head.Number)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			fresh := filepath.Join(t.TempDir(), "db")
			mustOpen(t, fresh)
			if d := cmp.Diff(schema(t, fresh), schema(t, path)); d != "" {
				t.Errorf("the upgraded schema is not that of a new file (-new +upgraded):\n%s", d)
			}
		})
	}
}

// copyOld gives the path of a copy of a file that is kept.
func copyOld(t *testing.T, version int) string {
	t.Helper()
	old, err := os.ReadFile(fmt.Sprintf("testdata/version%d.db", version))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// loadOld names what is loaded of a file that is kept, and the keys of its jobs.
func loadOld(t *testing.T, s *sqlite.Store) (head queue.Head, loaded, keys []string) {
	t.Helper()
	head, err := s.Load(t.Context(), func(c job.Change) error {
		switch c := c.(type) {
		case job.JobAdded:
			loaded = append(loaded, "job "+c.Spec.ID.String()[35:])
			keys = append(keys, c.Spec.Key)
			if c.Running != (c.Spec.ID == oldID('j', 2)) || c.Staging.IsZero() == (c.Spec.ID == oldID('j', 7)) {
				t.Errorf("job loaded as %+v", c)
			}
		case job.BuildReferred:
			want := []job.Ref{{Job: oldID('j', 3)}, {Job: oldID('j', 1), Optional: true, Ended: job.Succeeded}}
			if c.Build == oldID('b', 6) {
				want = []job.Ref{{Job: oldID('j', 7)}}
			}
			if d := cmp.Diff(want, c.Refs); d != "" {
				t.Errorf("references (-want +got):\n%s", d)
			}
		case job.BuildAdded:
			loaded = append(loaded, c.Build.Name)
		case job.WorkerPut:
			loaded = append(loaded, c.Worker.Name)
		case job.ChannelPut:
			loaded = append(loaded, c.Channel.Name)
		default:
			// Not what this test is about.
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return head, loaded, keys
}

// schema gives what a file's tables and indexes are made of, by name.
func schema(t *testing.T, path string) map[string]string {
	t.Helper()
	c, err := zombie.OpenConn(path, zombie.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	made := map[string]string{}
	err = sqlitex.Execute(c, "SELECT name, sql FROM sqlite_schema", &sqlitex.ExecOptions{ResultFunc: func(s *zombie.Stmt) error {
		made[s.ColumnText(0)] = s.ColumnText(1)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// What is not a store of this or an earlier headrace is refused and stays as it was.
func TestForeignFileIsRefused(t *testing.T) {
	t.Parallel()
	sql := func(script string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			c, err := zombie.OpenConn(path, zombie.OpenReadWrite|zombie.OpenCreate)
			if err == nil {
				err = errors.Join(sqlitex.ExecuteScript(c, script, nil), c.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name, want string
		make       func(t *testing.T, path string)
	}{
		{"text", "not a database", func(t *testing.T, path string) {
			if err := os.WriteFile(path, bytes.Repeat([]byte("no database\n"), 1000), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"other tables", "not a store of headrace", sql("CREATE TABLE t (a)")},
		{"other application", "not a store of headrace", sql("PRAGMA application_id = 7")},
		{"other version", "not a store of headrace", sql("PRAGMA user_version = 1")},
		{"newer", "use a newer headrace", func(t *testing.T, path string) {
			if err := mustOpen(t, path).Close(); err != nil {
				t.Fatal(err)
			}
			sql("PRAGMA user_version = 99")(t, path)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "db")
			c.make(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, write := sqlite.Open(t.Context(), path, sqlite.Options{})
			_, read := sqlite.OpenReadOnly(t.Context(), path)
			for _, err := range []error{write, read} {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
					t.Errorf("open: %v; want an error that names the file and says %q", err, c.want)
				}
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

func TestMissingFolderAndFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := sqlite.Open(t.Context(), filepath.Join(dir, "no", "db"), sqlite.Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open in a missing folder: %v, want fs.ErrNotExist", err)
	}
	if _, err := sqlite.OpenReadOnly(t.Context(), filepath.Join(dir, "db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read a missing file: %v, want fs.ErrNotExist", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%d files were made (%v)", len(entries), err)
	}
}

// Jobs may be given secrets, so nobody else may read the file or its log.
func TestFileIsPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	mustOpen(t, path)
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(path + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%q has mode %v (%v), want 0600", "db"+suffix, info.Mode(), err)
		}
	}
}
