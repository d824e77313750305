package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headrace/headrace/store/sqlite"
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
