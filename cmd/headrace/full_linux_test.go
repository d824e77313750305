package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// small is a place for a store in which there is room for the beginning of a run.
type small struct {
	shell string   // what a shell says before the run, to be kept to it
	says  []string // by the run, when there is no room left
	more  func() error
}

// limited gives a place where no file may grow far. Anybody may have that, but the system has another word for it than for a
// full disk.
func limited() *small {
	return &small{
		shell: "ulimit -f 800; ", says: []string{"disk I/O error; see whether the disk is full", "run again: it goes on"},
		more: func() error { return nil },
	}
}

// mounted gives a disk of a megabyte at the folder, where this process may mount one; if not, nil.
func mounted(t *testing.T, dir string) *small {
	t.Helper()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m")
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return &small{
		says: []string{"no space left for the ", "make room and run again: it goes on"},
		more: func() error { return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m") },
	}
}

// TestFullDiskStopsTheRunAndTheNextGoesOn has the shipped program run out of room in the middle of a run: for the store, as one job
// after the other ends, or for the log of one that prints a lot.
func TestFullDiskStopsTheRunAndTheNextGoesOn(t *testing.T) {
	t.Parallel()
	const jobs = 100
	var chain strings.Builder
	chain.WriteString("jobs:\n  j0: {run: echo >> j0}\n")
	for i := 1; i < jobs; i++ {
		fmt.Fprintf(&chain, "  j%d: {run: echo >> j%d, needs: [j%d]}\n", i, i, i-1)
	}
	const loud = `jobs:
  j0: {run: echo >> j0}
  j1: {run: "head -c 3000000 /dev/zero | tr '\\000' x | fold && echo >> j1", needs: [j0]}
  j2: {run: echo >> j2, needs: [j1]}
`
	for name, c := range map[string]struct {
		graph string
		jobs  int
		disk  string // what is full; "": nothing is
	}{
		"disk":  {chain.String(), jobs, "st"},
		"limit": {chain.String(), jobs, ""},
		"log":   {loud, 3, "st/logs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			disk := filepath.Join(dir, c.disk)
			if err := os.MkdirAll(disk, 0o700); err != nil {
				t.Fatal(err)
			}
			var place *small
			if c.disk != "" {
				place = mounted(t, disk)
			}
			if place == nil {
				place, c.graph, c.jobs = limited(), chain.String(), jobs
			}
			write(t, dir, "g.yaml", c.graph)
			run := func(before string) (code int, out, stderr string) {
				p := exec.CommandContext(t.Context(), "sh", "-c", before+`exec "$0" run g.yaml --retry-delay 1h --store "$1"`, binary, filepath.Join(dir, "st"))
				var outs, errs bytes.Buffer
				p.Dir, p.Stdout, p.Stderr = dir, &outs, &errs
				var exit *exec.ExitError
				if err := p.Run(); err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				return p.ProcessState.ExitCode(), outs.String(), errs.String()
			}
			code, out, stderr := run(place.shell)
			for _, want := range append(place.says, filepath.Join(dir, "st")) {
				if code != exitMachine || !strings.Contains(stderr, want) {
					t.Errorf("exit code %d, want %d; told %q, want %q", code, exitMachine, stderr, want)
				}
			}
			if logs := strings.Contains(stderr, "left for the logs in "); logs == strings.Contains(out, "\nwhen the store can be used again, the next run goes on with the ") {
				t.Errorf("the end promises something else:\n%s", out)
			}
			told := func(i int) bool { return strings.Contains(out, fmt.Sprintf("ok     j%d ", i)) }
			if !told(0) || told(c.jobs-1) {
				t.Fatalf("the run did not stop in its middle:\n%s", out)
			}
			if err := place.more(); err != nil {
				t.Fatal(err)
			}
			if code, _, stderr := run(""); code != exitOK {
				t.Errorf("exit code %d with room: %s", code, stderr)
			}
			for i := range c.jobs {
				// What was not told has not ended for anybody: it may have run in vain.
				if n := count(t, filepath.Join(dir, fmt.Sprintf("j%d", i))); n < 1 || told(i) && n > 1 {
					t.Errorf("j%d ran %d times to its end", i, n)
				}
			}
		})
	}
}

// TestFullDiskAtTheFirstRunIsNoHindranceToTheNext has no room for anything when the first run of a file begins.
func TestFullDiskAtTheFirstRunIsNoHindranceToTheNext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk := filepath.Join(dir, "st")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "g.yaml", "jobs: {a: {run: echo >> a}}")
	shell, says := "ulimit -f 0; ", "make the store: "
	if mounted(t, disk) != nil {
		shell, says = "", "headrace: no space left for the store in st; make room and run again"
		if err := os.WriteFile(filepath.Join(disk, "fill"), make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the disk is not full: %v", err)
		}
	}
	run := func(before string) (int, string) {
		p := exec.CommandContext(t.Context(), "sh", "-c", before+`exec "$0" run g.yaml --store st`, binary)
		p.Dir = dir
		out, err := p.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return p.ProcessState.ExitCode(), string(out)
	}
	if code, out := run(shell); code != exitMachine || !strings.Contains(out, says) {
		t.Errorf("exit code %d, want %d; told %q, want %q", code, exitMachine, out, says)
	}
	if err := os.RemoveAll(filepath.Join(disk, "fill")); err != nil {
		t.Fatal(err)
	}
	if code, out := run(""); code != exitOK {
		t.Errorf("exit code %d with room: %s", code, out)
	}
}
