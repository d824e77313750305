package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A worker is killed together with all that watches over its jobs. The next one of its folder kills what is left before it takes anything,
// and hands it back.
func TestNextWorkerKillsWhatTheLastOneLeft(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	started := newGate(t, filepath.Join(y.dir, "started"))
	id := y.ask(`[ -e pid ] && exit; echo hello; ( ( setsid sh -c 'echo $$ > pid; echo > started; exec sleep 1000' & ) & ); exec sleep 1000`)[0]
	p := start(t, y.dir, y.worker()...)
	started.meet(t, p)
	pid := noted(t, filepath.Join(y.dir, "pid"))
	cmdline := func() string {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline") // One that is dead, buried or not, has none.
		return strings.ReplaceAll(string(b), "\x00", " ")
	}
	await(t, "what is to be left runs", func() bool { return cmdline() == "sleep 1000 " })
	all := append(children(t, p.Process.Pid), p.Process.Pid)
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
	if got := cmdline(); got != "sleep 1000 " {
		t.Fatalf("%q is left", got)
	}
	next := start(t, y.dir, y.worker("--once")...)
	if n := y.succeeds(id); n != 2 {
		t.Errorf("%d attempts, want 2", n)
	}
	if code := next.end(t); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, &next.out)
	}
	if got := cmdline(); got != "" {
		t.Errorf("%q still runs", got)
	}
	if !strings.Contains(next.out.String(), `msg="killed what an earlier process left" processes=1`) {
		t.Errorf("it says nothing of it:\n%s", &next.out)
	}
	a, err := y.Attempts(t.Context(), id)
	if err != nil || len(a) != 2 || a[0].Detail != "handed-back" || a[0].Message != "the worker was killed while it ran" {
		t.Errorf("attempts %+v, %v", a, err)
	}
	if text := y.log(id, 1); text != "hello\n" {
		t.Errorf("the log of the killed attempt: %q", text)
	}
}
