package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/store/rows"
	"github.com/headrace/headrace/store/sqlite"
	driver "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Whatever lies around it, an error of the store's file is told as what the person can do about it.
func TestFaultOfTheStoreIsToldWithoutInternals(t *testing.T) {
	t.Parallel()
	for fault, want := range map[sqlite.Fault]string{
		sqlite.Damaged: "mv 'my runs' 'my runs.damaged'",
		sqlite.Full:    "no space left for the store in my runs; make room",
		sqlite.Denied:  "permission denied: ",
		sqlite.Gone:    "was removed or replaced",
		sqlite.Starved: "too many open files",
	} {
		file := &sqlite.FileError{Path: "my runs/store.db", Fault: fault, Err: errors.New("sqlite: step: code 13")}
		var out bytes.Buffer
		complain(&out, fmt.Errorf("commit 6: commit batch 6: %w", file))
		if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, "commit") || strings.Contains(got, "sqlite") {
			t.Errorf("fault %d: %q, want %q in it and nothing of the inside", fault, got, want)
		}
	}
}

// Whoever copies a store or writes it out is told which file it is that is damaged.
func TestDamageThatIsFoundInReadingNamesTheFile(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"copy.db": "copy.db is damaged", databaseName: ".damaged"} {
		path := filepath.Join(t.TempDir(), name)
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		a := address{path: path}
		err = a.reading(t.Context(), func(rows.Tables) error { return fmt.Errorf("table job: %w", driver.ResultCorrupt.ToError()) })
		var out bytes.Buffer
		complain(&out, err)
		if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, "table job") {
			t.Errorf("%q, want %q in it and nothing of the inside", got, want)
		}
	}
}

// To a store arguments and results are opaque; check knows what those of a command are.
func TestCheckReadsWhatCommandsKeep(t *testing.T) {
	t.Parallel()
	for damage, want := range map[string]string{
		"UPDATE job SET args = x'ff00ff'":   "args cannot be read",
		"UPDATE job SET args = NULL":        "args cannot be read",
		"UPDATE result SET job = x'ff00ff'": "job cannot be read",
		"DELETE FROM result":                "the result of a job that succeeded",
	} {
		dir := t.TempDir()
		write(t, dir, "g.yaml", `jobs: {a: {run: "true"}}`)
		if p := start(t, dir, "run", "g.yaml"); p.end(t) != exitOK {
			t.Fatal(p.out.String())
		}
		if p := start(t, dir, "check", "g.yaml"); p.end(t) != exitOK {
			t.Fatal(p.out.String())
		}
		c, err := driver.OpenConn(filepath.Join(dir, ".headrace", "g.yaml", databaseName), driver.OpenReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(sqlitex.ExecuteTransient(c, damage, nil), c.Close()); err != nil {
			t.Fatal(err)
		}
		p := start(t, dir, "check", "g.yaml")
		if code, text := p.end(t), p.out.String(); code != exitFailed || !strings.Contains(text, want) {
			t.Errorf("%s: code %d, %s", damage, code, text)
		}
	}
}
