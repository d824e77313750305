package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Only what may be headrace and goes on is in the way of the next run.
func TestProcessThatLives(t *testing.T) {
	t.Parallel()
	if !lives(os.Getpid()) {
		t.Error("this process does not live")
	}
	other := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if lives(other.Process.Pid) {
		t.Error("another program is taken for headrace")
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // It was killed.
	if lives(other.Process.Pid) {
		t.Error("what is gone lives")
	}
	name, _, ok := readStat("self")
	program, err := exec.LookPath("true")
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	link := filepath.Join(t.TempDir(), name) // A process is named after what it was started by.
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	dead := exec.CommandContext(t.Context(), link)
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, dead.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if lives(dead.Process.Pid) {
		t.Error("what is dead lives until its parent asks for it")
	}
	if err := dead.Wait(); err != nil {
		t.Fatal(err)
	}
}
