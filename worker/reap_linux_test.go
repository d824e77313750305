package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/job"
	"golang.org/x/sys/unix"
)

// headlessEnv makes the test binary end its first thread, as the entry in the process table shows, and live on in others.
const headlessEnv = "HEADRACE_TEST_HEADLESS"

func init() {
	if _, ok := os.LookupEnv(headlessEnv); !ok {
		return
	}
	go func() {
		for p, _ := readProcess(os.Getpid()); p.state != 'Z'; p, _ = readProcess(os.Getpid()) {
			runtime.Gosched()
		}
		fmt.Println("ready")
		_, _ = unix.Write(8, []byte("ready\n")) // Where somebody waits for it there.
		select {}
	}()
	runtime.LockOSThread()
	_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0) // It does not return.
}

// killAllAtOnce kills a program and the supervisors of its attempts, so that none of them can do anything about it.
func killAllAtOnce(t *testing.T, parent *exec.Cmd) {
	t.Helper()
	all := []int{parent.Process.Pid}
	for _, p := range descendants(parent.Process.Pid) {
		if p.parent == parent.Process.Pid {
			all = append(all, p.pid)
		}
	}
	if len(all) < 2 {
		t.Error("the program has no supervisor")
	}
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
		for _, pid := range all {
			if err := unix.Kill(pid, sig); err != nil {
				t.Error(err)
			}
		}
	}
	_ = parent.Wait() // It was killed.
}

func TestReapKillsWhatNobodyCouldKill(t *testing.T) {
	t.Parallel()
	for _, tree := range slices.Concat(trees, bare) {
		if tree.name == "rabbit" {
			continue // It is never there when looked at: on a busy machine a search may take as long as it lives.
		}
		t.Run(tree.name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t)
			owner := rand.Text()
			// One of another owner, whose name begins alike.
			ctx, cancel := context.WithCancel(t.Context())
			other := exec.CommandContext(ctx, "sleep", "1000")
			other.Env = []string{ownerKey + "=" + owner + "2", "X=" + ownerKey + "=" + owner}
			if err := other.Start(); err != nil {
				t.Fatal(err)
			}
			killAllAtOnce(t, startParent(t, Executor{Owner: owner, noCgroup: true}, w.hold()+tree.script, tree.ready))
			n, err := Reap(owner)
			if err != nil {
				t.Error(err)
			}
			w.gone(t)
			if again, err := Reap(owner); again != 0 || err != nil {
				t.Errorf("once more: killed %d, %v", again, err)
			}
			if left, ok := readProcess(other.Process.Pid); !ok || left.dead() {
				t.Error("a process of another owner was killed")
			}
			cancel()
			_ = other.Wait() // It was killed.
			if orphans := strings.Contains(tree.script, "setsid"); orphans && n == 0 {
				t.Error("killed none; want the orphan at least")
			}
		})
	}
}

// A command without children dies with its supervisor even when nobody looks for it.
func TestCommandDiesWithItsSupervisor(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	owner := rand.Text()
	t.Cleanup(func() {
		if _, err := Reap(owner); err != nil {
			t.Error(err)
		}
	})
	killAllAtOnce(t, startParent(t, Executor{Owner: owner, noCgroup: true}, w.hold()+"echo ready; exec sleep 1000", 1))
	w.goes(t)
}

// A program may be started by what an earlier attempt left, as in a terminal that outlived it.
func TestReapSparesItselfAndThoseAbove(t *testing.T) {
	t.Parallel()
	owner := rand.Text()
	r, lines := run(t, t.Context(), Executor{Owner: owner}, Command{
		Shell: fmt.Sprintf("sleep 1000 & /proc/%d/exe; echo after", os.Getpid()), Env: []string{reapEnv + "=" + owner},
	}, nil)
	if got := text(lines, Stdout); got != "1 <nil>\nafter\n" || r.Outcome != job.Succeeded {
		t.Errorf("%v %s, output %q; want the sleep killed, and nothing else", r.Outcome, r.Message, got)
	}
}

func TestReapNeedsAnOwner(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "a\x00b"} {
		if _, err := Reap(bad); err == nil {
			t.Errorf("owner %q is taken", bad)
		}
	}
	if n, err := Reap(rand.Text()); n != 0 || err != nil {
		t.Errorf("nothing to reap: killed %d, %v", n, err)
	}
}

// The owner's entry of an outer attempt must not get to the inner one's processes: they are not its to kill.
func TestOwnerIsThatOfTheInnermostAttempt(t *testing.T) {
	t.Parallel()
	for owner, want := range map[string]string{"": "none", "inner": "inner"} {
		r, lines := run(t, t.Context(), Executor{Owner: owner}, Command{
			Shell: "echo ${HEADRACE_OWNER-none}", Env: []string{ownerKey + "=outer"},
		}, nil)
		if got := text(lines, Stdout); got != want+"\n" {
			t.Errorf("owner %q: the command sees %q (%s)", owner, got, r.Message)
		}
	}
}

// What stays after patience is told.
func TestSearchGivesUp(t *testing.T) {
	t.Parallel()
	owner := rand.Text()
	c := exec.Command("sleep", "1000")
	c.Env = []string{ownerKey + "=" + owner}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s := search{brand: ownerBrand(owner), patience: -time.Second}
	left := s.kill()
	if len(s.killed) != 1 || len(left) != 1 || left[0].pid != c.Process.Pid {
		t.Errorf("killed %v, left %v; want one that was still there at the only look", s.killed, left)
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || fmt.Sprint(exit) != "signal: killed" {
		t.Errorf("it ended with %v", err)
	}
}
