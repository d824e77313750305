package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/store/postgres"
)

// A store goes from a folder into PostgreSQL and back, by move as well as by backup and restore, and is the same each time.
func TestStoreGoesToPostgreSQLAndBack(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start(t.Context(), pgtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	farm, err := server.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	// headrace runs the program, which must end with the code, and gives what it printed.
	headrace := func(code int, args ...string) string {
		t.Helper()
		cmd := exec.Command(binary, args...)
		var out, problems bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &problems
		err := cmd.Run()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
			t.Fatalf("headrace %s: %v, want exit code %d\n%s%s", strings.Join(args, " "), err, code, out.String(), problems.String())
		}
		return out.String() + problems.String()
	}
	if err := os.WriteFile(at("g.yaml"), []byte("jobs: {a: {run: echo a; exit 1}, b: {run: echo b, needs: [a]}, c: {run: echo c}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	headrace(1, "run", at("g.yaml"), "--store", at("old"))
	want, _, _ := strings.Cut(headrace(0, "dump", "--store", at("old")), "the dump holds all that ")
	if out := headrace(3, "dump", "--store", farm); !strings.Contains(out, "has no store of headrace") {
		t.Errorf("dump of a database without a store: %s", out)
	}

	// Not while somebody has it.
	s, err := postgres.Open(t.Context(), farm, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if out := headrace(3, "move", "--from", at("old"), "--to", farm); !strings.Contains(out, "in use by process") {
		t.Errorf("move into a store that is in use: %s", out)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	out := headrace(0, "move", "--from", at("old"), "--to", farm)
	if !strings.Contains(out, "holds all that") {
		t.Errorf("move says %q", out)
	}
	same := func(store string) {
		t.Helper()
		if got, _, _ := strings.Cut(headrace(0, "dump", "--store", store), "the dump holds all that "); got != want {
			t.Errorf("the store in %s is another:\n%s\nwant\n%s", store, got, want)
		}
		if out := headrace(0, "check", "--store", store); !strings.Contains(out, "all is well") {
			t.Errorf("check: %s", out)
		}
	}
	same(farm)
	if out := headrace(2, "move", "--from", at("old"), "--to", farm); !strings.Contains(out, "there is something in the store already") {
		t.Errorf("move again: %s", out)
	}
	headrace(0, "backup", "--store", farm, "--to", at("backup"))
	if info, err := os.Stat(at("backup")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup has mode %v, %v", info.Mode(), err)
	}
	headrace(2, "backup", "--store", farm, "--to", at("backup"))
	headrace(0, "restore", "--store", at("restored"), "--from", at("backup"))
	same(at("restored"))
	headrace(0, "move", "--from", farm, "--to", at("back"))
	same(at("back"))
	headrace(0, "backup", "--store", at("old"), "--to", at("backup.db"))
	second, err := server.Create(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	headrace(0, "restore", "--store", second, "--from", at("backup.db"))
	same(second)
	if out := headrace(0, "prune", "--store", second, "--keep", "0", "--all"); !strings.HasPrefix(out, "forgot 1 run and 3 jobs,") {
		t.Errorf("prune: %s", out)
	}
	if out := headrace(0, "check", "--store", second); !strings.Contains(out, ": 0 jobs, 0 builds, ") || !strings.Contains(out, "all is well") {
		t.Errorf("check after prune: %s", out)
	}
	if _, err := os.Stat(at("old/store.db")); errors.Is(err, fs.ErrNotExist) {
		t.Error("move removed the old store")
	}
}

func TestPasswordOfURLIsHidden(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://localhost/farm":                   "postgres://localhost/farm",
		"postgres://me@localhost/farm":                "postgres://me@localhost/farm",
		"postgresql://me:s3:cr@et@host:5432/farm?a=b": "postgresql://me@host:5432/farm",
		"postgres:///farm?password=secret":            "postgres:///farm",
	} {
		if got := hidden(url); got != want {
			t.Errorf("hidden(%q) = %q, want %q", url, got, want)
		}
	}
}
