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
