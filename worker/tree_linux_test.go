package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/job"
	"golang.org/x/sys/unix"
)

// trees are shell scripts that print ready from each of their processes when the whole of it is up, and last for ever.
var trees = []struct {
	name, script string
	ready        int
	stubborn     bool // it does not end by SIGTERM
}{
	{"one", `echo ready; exec sleep 1000`, 1, false},
	{"child", `sh -c 'echo ready; sleep 1000; :' & wait`, 1, false},
	{"session", `setsid sh -c 'echo ready; exec sleep 1000' & sleep 1000`, 1, false},
	{"double fork", `( ( setsid sh -c 'echo ready; exec sleep 1000' & ) & ); sleep 1000`, 1, false},
	{"nohup", `nohup sh -c 'echo ready; exec sleep 1000' & sleep 1000`, 1, false},
	{"deaf", `trap '' TERM; setsid sh -c 'echo ready; while :; do sleep 1000; done' & while :; do sleep 1000; done`, 1, true},
	{"stopped", `sh -c 'echo ready; kill -STOP $$; sleep 1000' & wait`, 1, false},
	{"stopped and deaf", `trap '' TERM; setsid sh -c 'echo ready; kill -STOP $$' & while :; do sleep 1000; done`, 1, true},
	{"silent orphan", `( ( setsid sh -c 'echo ready; exec >/dev/null 2>&1 </dev/null; exec sleep 1000' & ) & ); sleep 1000`, 1, false},
	{"wide", `for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'sh -c "echo ready; sleep 1000" & wait' & done; wait`, 8, false},
	{"rabbit", `perl -e '$SIG{TERM} = "IGNORE"; $end = time + 60; $| = 1; print "ready\n"; while (1) { $p = fork; exit 0 if $p || time > $end }'; sleep 1000`, 1, true},
}

func eachTree(t *testing.T, f func(t *testing.T, e Executor, script string, ready int, stubborn bool)) {
	for _, net := range nets {
		for _, tree := range trees {
			t.Run(net.name+"/"+tree.name, func(t *testing.T) {
				t.Parallel()
				f(t, Executor{noCgroup: net.noCgroup}, tree.script, tree.ready, tree.stubborn)
			})
		}
	}
}

func TestCancelEndsWholeTree(t *testing.T) {
	t.Parallel()
	eachTree(t, func(t *testing.T, e Executor, script string, ready int, stubborn bool) {
		ctx, cancel := context.WithCancelCause(context.Background())
		e.Grace = time.Minute
		if stubborn {
			e.Grace = 20 * time.Millisecond
		}
		w := newWitness(t)
		r, lines := run(t, ctx, e, Command{Shell: w.hold() + script},
			when("ready", ready, func() { cancel(errors.New("not needed")) }))
		w.gone(t)
		if r.Outcome != job.Cancelled || r.Message != "not needed" {
			t.Errorf("outcome %v, %q; want cancelled, with the cause", r.Outcome, r.Message)
		}
		if killed := strings.Contains(text(lines, Note), "killing"); killed != stubborn {
			t.Errorf("killed: %v; want %v\n%s", killed, stubborn, text(lines, Note))
		}
	})
}

func TestNowKillsWithoutGrace(t *testing.T) {
	t.Parallel()
	eachTree(t, func(t *testing.T, e Executor, script string, ready int, _ bool) {
		now := make(chan struct{})
		e.Now, e.Grace = now, time.Hour
		ctx, cancel := context.WithCancel(context.Background())
		w := newWitness(t)
		r, _ := run(t, ctx, e, Command{Shell: w.hold() + script},
			when("ready", ready, func() { cancel(); close(now) }))
		w.gone(t)
		if r.Outcome != job.Cancelled {
			t.Errorf("outcome %v, %q; want cancelled", r.Outcome, r.Message)
		}
	})
}

// startParent starts a program that executes the script, and waits until that has said so many times that it is ready.
func startParent(t *testing.T, e Executor, script string, ready int) *exec.Cmd {
	t.Helper()
	parent := exec.Command("/proc/self/exe")
	parent.Env = append(os.Environ(), parentEnv+"="+script, "HEADRACE_TEST_OWNER="+e.Owner)
	if e.noCgroup {
		parent.Env = append(parent.Env, "HEADRACE_TEST_CGROUP=no")
	}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(out); ready > 0; {
		if !in.Scan() {
			t.Fatalf("the parent ended early: %v", parent.Wait())
		}
		if in.Text() == "ready" {
			ready--
		}
	}
	return parent
}

func TestKilledParentLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	eachTree(t, func(t *testing.T, e Executor, script string, ready int, _ bool) {
		w := newWitness(t)
		parent := startParent(t, e, w.hold()+script, ready)
		known := descendants(parent.Process.Pid)
		var fds []unix.PollFd
		for _, p := range known {
			fd, err := unix.PidfdOpen(p.pid, 0)
			if err != nil {
				continue // A rabbit.
			}
			defer unix.Close(fd)
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
		if len(fds) < 2 {
			t.Errorf("descendants %v; want the supervisor and the command at least", known)
		}
		if err := parent.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = parent.Wait() // It was killed.
		w.goes(t)
		for i := range fds {
			n, err := unix.Poll(fds[i:i+1], 60_000)
			for errors.Is(err, unix.EINTR) { // the runtime's own signals
				n, err = unix.Poll(fds[i:i+1], 60_000)
			}
			if n != 1 || err != nil {
				t.Errorf("a process of %v is left: poll gives %d, %v", known, n, err)
			}
		}
	})
}

func TestEndOfCommandKillsWhatItLeft(t *testing.T) {
	t.Parallel()
	for _, net := range nets {
		t.Run(net.name, func(t *testing.T) {
			t.Parallel()
			w, gate := newWitness(t), newWitness(t)
			up := `sh -c 'echo up >&8; exec sleep 1000'`
			r, lines := run(t, t.Context(), Executor{noCgroup: net.noCgroup}, Command{
				Env:   []string{"GATE=" + gate.path},
				Shell: w.hold() + `exec 8<>$GATE; ` + up + ` & setsid ` + up + ` & ( ( setsid ` + up + ` & ) & ); read x <&8; read x <&8; read x <&8; echo done`,
			}, nil)
			w.gone(t)
			if r.Outcome != job.Succeeded || text(lines, Stdout) != "done\n" {
				t.Errorf("%v, %q, output %q; want success", r.Outcome, r.Message, text(lines, Stdout))
			}
			if note := text(lines, Note); !regexp.MustCompile(`left [3-6] processes running`).MatchString(note) {
				t.Errorf("notes %q; want one about 3 processes, or some more that were about to end", note)
			}
		})
	}
}

func TestKilledSupervisorAbortsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, net := range nets {
		t.Run(net.name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t)
			r, _ := run(t, t.Context(), Executor{noCgroup: net.noCgroup}, Command{Shell: w.hold() +
				`sleep 1000 & ( ( setsid sleep 1000 & ) & ); kill -9 $PPID; sleep 1000`}, nil)
			w.goes(t)
			if r.Outcome != job.Aborted || !strings.Contains(r.Message, "supervisor") {
				t.Errorf("%v, %q; want aborted, with the reason", r.Outcome, r.Message)
			}
		})
	}
}

func TestStoppedSupervisorDoesNotHangCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	w := newWitness(t)
	e := Executor{Grace: time.Millisecond, lost: 50 * time.Millisecond}
	r, _ := run(t, ctx, e, Command{Shell: w.hold() + `kill -STOP $PPID; echo ready; sleep 1000`}, when("ready", 1, cancel))
	w.goes(t)
	if r.Outcome != job.Cancelled || !strings.Contains(r.Message, "supervisor did not answer") {
		t.Errorf("%v, %q; want cancelled, with a word on the supervisor", r.Outcome, r.Message)
	}
}

func TestControlGroupIsRemoved(t *testing.T) {
	t.Parallel()
	if cgroupPath("", "x") == "" {
		t.Log("no control groups of version 2 here: nothing to remove")
		return
	}
	r, lines := run(t, t.Context(), Executor{}, Command{Shell: `cat /proc/self/cgroup; sleep 1000 &`}, nil)
	for line := range strings.Lines(text(lines, Stdout)) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok || !strings.Contains(path, "headrace-") {
			continue
		}
		full := cgroupBase() + path[strings.LastIndex(path, "/"):]
		if _, err := os.Stat(full); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("control group %s: %v; want it gone", full, err)
		}
	}
	if r.Outcome != job.Succeeded {
		t.Errorf("%v, %q", r.Outcome, r.Message)
	}
}

// Attempts run side by side: the end of one must not touch the others.
func TestFiftyAtOnceAreKeptApart(t *testing.T) {
	t.Parallel()
	const n = 50
	type end struct {
		r Result
		w witness
	}
	ends := make(chan end, n)
	hold := newWitness(t)
	all := make(chan struct{}, n)
	for i := range n {
		w := newWitness(t)
		log := NewLogWriter(discard{})
		go func() {
			e := Executor{noCgroup: i%2 == 0}
			script := fmt.Sprintf(`%s ( ( setsid sleep 1000 & ) & ); echo ready; read x <%s; exit %d`, w.hold(), hold.path, i)
			ends <- end{e.Execute(context.Background(), Command{Shell: script}, log,
				when("ready", 1, func() { all <- struct{}{} })), w}
		}()
	}
	for range n {
		<-all
	}
	// Each takes one line when it gets to it, so they end one after the other.
	gate, err := os.OpenFile(hold.path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	if _, err := gate.WriteString(strings.Repeat("\n", n)); err != nil {
		t.Fatal(err)
	}
	codes := map[int]bool{}
	for range n {
		e := <-ends
		e.w.gone(t)
		codes[e.r.ExitCode] = true
		if e.r.Message != "" && e.r.ExitCode < 0 {
			t.Errorf("%v, %q", e.r.Outcome, e.r.Message)
		}
	}
	if len(codes) != n {
		t.Errorf("%d different exit codes; want %d", len(codes), n)
	}
}

func TestSuperviseByHandRefuses(t *testing.T) {
	t.Parallel()
	r, lines := run(t, t.Context(), Executor{}, Command{Argv: []string{fmt.Sprintf("/proc/%d/exe", os.Getpid()), superviseArg}}, nil)
	if r.ExitCode != 2 || !strings.Contains(text(lines, Stdout), "no command for people") {
		t.Errorf("code %d, %q", r.ExitCode, text(lines, Stdout))
	}
}
