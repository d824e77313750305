package worker

import (
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/headrace/headrace/job"
)

func TestFindCgroup(t *testing.T) {
	t.Parallel()
	const (
		v2     = "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
		pids   = "34 24 0:29 / /sys/fs/cgroup/pids rw - cgroup pids rw\n"
		memory = "36 24 0:31 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
	)
	for _, tc := range []struct{ name, mounts, groups, controller, want string }{
		{"version 2", v2, "0::/user.slice/x\n", "", "/sys/fs/cgroup/user.slice/x"},
		{"both", pids + v2, "3:pids:/p\n0::/\n", "", "/sys/fs/cgroup"},
		{"version 1", pids, "3:pids:/p\n", "", ""},
		{"part of the hierarchy", "35 24 0:30 /docker/1 /cg rw - cgroup2 x rw\n", "0::/docker/1/a\n", "", "/cg/a"},
		{"another part", "35 24 0:30 /docker/1 /cg rw - cgroup2 x rw\n", "0::/docker/12\n", "", ""},
		{"nonsense", " - cgroup2 \n", "0::/\n", "", ""},
		{"colons", v2, "0::/a:b\n", "", "/sys/fs/cgroup/a:b"},
		{"a controller", pids + memory + v2, "4:memory:/m\n3:pids:/p\n0::/\n", "memory", "/sys/fs/cgroup/memory/m"},
		{"a controller of several", memory + v2, "4:cpu,memory:/m\n0::/\n", "memory", "/sys/fs/cgroup/memory/m"},
		{"a controller that is in version 2", v2, "0::/\n", "memory", ""},
		{"a controller that is not mounted", pids + v2, "4:memory:/m\n0::/\n", "memory", ""},
	} {
		if got := findCgroup(tc.mounts, tc.groups, tc.controller); got != tc.want {
			t.Errorf("%s: %q; want %q", tc.name, got, tc.want)
		}
	}
}

// The files are as kernels of these versions write them.
func TestParseOOM(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]uint64{"v2.events": 3, "v1.oom_control": 2, "vmstat": 11, "v2.events.4.12": math.MaxUint64} {
		b, err := os.ReadFile(filepath.Join("testdata", "shortage", file))
		if err != nil {
			t.Fatal(err)
		}
		n, ok := parseOOM(string(b))
		if !ok {
			n = math.MaxUint64 // It has no such line.
		}
		if n != want {
			t.Errorf("%s: %d; want %d", file, n, want)
		}
	}
	for _, bad := range []string{"", "oom_kill", "oom_kill x\n", "oom_kill -1\n"} {
		if n, ok := parseOOM(bad); ok {
			t.Errorf("%q is read as %d", bad, n)
		}
	}
}

// Whatever this machine has, something counts, and it can be read.
func TestShortageIsCountedHere(t *testing.T) {
	t.Parallel()
	path := shortageFile()
	if _, ok := parseOOM(readFile(path)); !ok {
		t.Errorf("%q tells no count", path)
	}
}

func TestLackOfMemoryIsTold(t *testing.T) {
	t.Parallel()
	const killed = 9 // as a wait status
	for _, tc := range []struct {
		name string
		end  ended
		want string
	}{
		{"killed", ended{wait: killed}, "killed by SIGKILL"},
		{"killed here", ended{wait: killed, oom: true, short: true}, "killed by SIGKILL, by the system: out of memory"},
		{"killed somewhere", ended{wait: killed, short: true}, "killed by SIGKILL; meanwhile the system killed for lack of memory, here or elsewhere"},
		{"by another signal", ended{wait: 11, oom: true, short: true}, "killed by SIGSEGV"},
		{"a child of a shell", ended{wait: 137 << 8, short: true}, "exit code 137; meanwhile the system killed for lack of memory, here or elsewhere"},
		{"a child of a shell, here", ended{wait: 137 << 8, oom: true}, "exit code 137, by the system: out of memory"},
		{"an exit code", ended{wait: 1 << 8, short: true}, "exit code 1"},
		{"a success all the same", ended{oom: true, short: true}, ""},
	} {
		w := &watch{tree: &tree{}, transcript: newTranscript(NewLogWriter(discard{}), nil), ended: &tc.end}
		r := Result{ExitCode: -1}
		v := w.judge(&r)
		w.transcript.end()
		if v.message != tc.want || (v.outcome == job.Succeeded) != (tc.want == "") {
			t.Errorf("%s: %v, %q; want %q", tc.name, v.outcome, v.message, tc.want)
		}
	}
}

// What a program and its supervisor leave when both are killed is not only processes.
func TestReapRemovesControlGroups(t *testing.T) {
	t.Parallel()
	owner := rand.Text()
	path := cgroupPath(owner, "x")
	if g, fd := makeCgroup(path); fd < 0 {
		t.Logf("no control group %q can be made here: none can be left", path)
		return
	} else if err := os.NewFile(uintptr(fd), path).Close(); err != nil || !g.remove() {
		t.Fatal(err)
	}
	w := newWitness(t)
	parent := startParent(t, Executor{Owner: owner}, w.hold()+`exec </dev/null; ( ( setsid env -i sh -c 'echo ready; exec sleep 1000' & ) & ); sleep 1000`, 1)
	groups := func() []string {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(cgroupBase(), cgroupPrefix(owner)+"*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	// One more below it, as a command that knows of groups may make.
	below := groups()
	if len(below) != 1 {
		t.Fatalf("groups %v; want one", below)
	}
	if err := os.Mkdir(filepath.Join(below[0], "inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	other := cgroupPath(owner+"2", "x")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	defer cgroup{other}.remove()
	killAllAtOnce(t, parent)
	if n, err := Reap(owner); n == 0 || err != nil {
		t.Errorf("reaped %d, %v", n, err)
	}
	w.gone(t)
	if left := groups(); len(left) > 0 {
		t.Errorf("groups %v are left", left)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("the group of another owner: %v", err)
	}
}

// A process that lost every brand is still in its group.
func TestReapKillsWhatOnlyItsGroupTells(t *testing.T) {
	t.Parallel()
	owner := rand.Text()
	g, fd := makeCgroup(cgroupPath(owner, "x"))
	if fd < 0 {
		t.Log("no control group can be made here")
		return
	}
	defer g.remove()
	folder := os.NewFile(uintptr(fd), g.path)
	defer folder.Close()
	c := sleeper(fd)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if members := g.members(); !slices.Equal(members, []int{c.Process.Pid}) {
		t.Errorf("members %v; want %d", members, c.Process.Pid)
	}
	// A program that was started from there must not kill itself.
	if n := reapCgroups(owner, map[int]bool{c.Process.Pid: true}); n != 0 {
		t.Errorf("killed %d in the group of a spared process", n)
	}
	waited := make(chan error, 1)
	go func() { waited <- c.Wait() }()
	if n, err := Reap(owner); n != 1 || err != nil {
		t.Errorf("reaped %d, %v", n, err)
	}
	if err := <-waited; !strings.Contains(fmt.Sprint(err), "killed") {
		t.Errorf("it ended with %v", err)
	}
}

// sleeper is a command that starts in the group.
func sleeper(group int) *exec.Cmd {
	c := exec.Command("sleep", "1000")
	c.Env = []string{}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: group}
	return c
}
