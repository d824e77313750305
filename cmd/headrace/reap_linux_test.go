package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// states gives a letter for what each thread of a process is at, as proc(5) tells; nothing: there is no such process.
func states(pid int) (letters string) {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat") // The pattern is sound.
	for _, f := range files {
		b, _ := os.ReadFile(f) // A thread that has ended has none.
		if _, rest, ok := strings.Cut(string(b), ") "); ok {
			letters += rest[:1]
		}
	}
	return letters
}

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// noted gives the process id that a job has written into a file.
func noted(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// A killed run has its number until its parent asks for it; that is no run that goes on.
func TestKilledRunThatNobodyBuriedIsOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	started := newGate(t, filepath.Join(dir, "started"))
	write(t, dir, "g.yaml", `jobs: {a: {run: "echo > started; exec sleep 1000"}, b: {run: "true", needs: a}}`)
	p := start(t, dir, "run", "g.yaml")
	started.meet(t, p)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, p.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"why", "g.yaml", "a"}, exitOK, "when its run was killed"},
		{[]string{"history", "g.yaml"}, exitOK, "interrupted"},
		{[]string{"logs", "g.yaml", "a", "--follow"}, exitOK, "killed while it ran"},
		{[]string{"logs", "g.yaml", "b", "--follow"}, exitUsage, "b"},
	} {
		reader := start(t, dir, tt.args...)
		if code, text := reader.end(t), reader.out.String(); code != tt.code || !strings.Contains(text, tt.want) {
			t.Errorf("%v: code %d, %s", tt.args, code, text)
		}
	}
	_ = p.Wait() // It was killed.
}

// TestNextRunKillsWhatAllAtOnceLeft kills the program and all that watches over its jobs, so that nobody can clean up. The
// next run must do so before it starts the job again.
func TestNextRunKillsWhatAllAtOnceLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	started := newGate(t, filepath.Join(dir, "started"))
	write(t, dir, "g.yaml", `jobs: {a: {run: "[ -e pid ] && exit; echo $$ > command; ( ( setsid sh -c 'echo $$ > pid; echo > started; exec sleep 1000' & ) & ); exec sleep 1000"}}`)
	p := start(t, dir, "run", "g.yaml")
	started.meet(t, p)
	pid, command := noted(t, filepath.Join(dir, "pid")), noted(t, filepath.Join(dir, "command"))
	cmdline := func() string {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline") // One that is dead, buried or not, has none.
		return strings.ReplaceAll(string(b), "\x00", " ")
	}
	const left = "sleep 1000 "
	await(t, "what is to be left runs", func() bool { return cmdline() == left })
	all := append(children(t, p.Process.Pid), p.Process.Pid)
	if len(all) != 2 {
		t.Errorf("processes %v; want a supervisor and the program", all)
	}
	// Stopped first, down to the last thread: none may see another's death.
	for _, pid := range all {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Error(err)
		}
		await(t, "all threads stand still", func() bool { return strings.Trim(states(pid), "T") == "" })
	}
	for _, pid := range all {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	_ = p.text(t)
	// The kernel takes the command along with its supervisor, and nothing else.
	await(t, "the command is dead", func() bool { return strings.Trim(states(command), "ZX") == "" })
	if got := cmdline(); got != left {
		t.Fatalf("%q is left, want %q", got, left)
	}
	next := start(t, dir, "run", "g.yaml")
	if code := next.end(t); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if got := cmdline(); got != "" {
		t.Errorf("%q still runs", got)
	}
	if !strings.Contains(next.out.String(), "note   killed 1 process that an earlier run left\n") {
		t.Errorf("the run says nothing of it:\n%s", &next.out)
	}
}
