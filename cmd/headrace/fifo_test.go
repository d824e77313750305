//go:build unix

package main

import (
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// makeFIFOs makes FIFOs, at which a job and its script meet: fifo NAME...
func makeFIFOs(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		ts.Check(syscall.Mkfifo(ts.MkAbs(name), 0o600))
	}
	if neg {
		ts.Fatalf("usage: fifo name...")
	}
}
