package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// children lists the processes that a process has started.
func children(t *testing.T, pid int) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, f := range files {
		b, _ := os.ReadFile(f) // A thread that has ended has none.
		for _, n := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(n); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// TestNextRunKillsWhatAllAtOnceLeft kills the program and all that watches over its jobs, so that nobody can clean up. The
// next run must do so before it starts the job again.
func TestNextRunKillsWhatAllAtOnceLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	started := newGate(t, filepath.Join(dir, "started"))
	write(t, dir, "g.yaml", `jobs: {a: {run: "[ -e pid ] && exit; ( ( setsid sh -c 'echo $$ > pid; echo > started; exec sleep 1000' & ) & ); sleep 1000"}}`)
	p := start(t, dir, "run", "g.yaml")
	started.meet(t, p)
	all := append(children(t, p.Process.Pid), p.Process.Pid)
	if len(all) < 2 {
		t.Errorf("processes %v; want a supervisor and the program", all)
	}
	// Stopped first: none may see another's death.
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range all {
			if err := syscall.Kill(pid, sig); err != nil {
				t.Error(err)
			}
		}
	}
	_ = p.text(t)
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	// One that is dead, buried or not, has no command line.
	cmdline := func() string {
		b, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/cmdline")
		return string(b)
	}
	// Some of what was left may be gone already: of a stopped group that loses its parent the kernel ends what it can. What worker's
	// own tests of Reap leave behind is surely there.
	next := start(t, dir, "run", "g.yaml")
	if code := next.end(t); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if left := cmdline(); left != "" {
		t.Errorf("%q still runs", left)
	}
}
