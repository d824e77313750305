package worker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Control groups are a second net under the walk through /proc: cgroup.kill takes a whole tree at
// once, whatever it forks meanwhile, and works also when the supervisor is dead. Only version 2 is used:
// version 1 has no such file, and a group that can only be frozen adds nothing to the walk.

// cgroupBase is the folder of this process's own group in version 2's hierarchy; empty if there is none.
var cgroupBase = sync.OnceValue(func() string { return findCgroup(readFile("/proc/self/mountinfo"), readFile("/proc/self/cgroup"), "") })

// readFile gives the text of a file, empty if there is none.
func readFile(path string) string {
	b, _ := os.ReadFile(path) // What is not told is not known.
	return string(b)
}

// findCgroup joins the texts of /proc/self/mountinfo and /proc/self/cgroup (proc(5), cgroups(7)), for version 2 or, if a
// controller is named, for that one of version 1.
func findCgroup(mounts, groups, controller string) string {
	own := ""
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) {
			own = f[2]
		}
	}
	if own == "" {
		return ""
	}
	for line := range strings.Lines(mounts) {
		front, back, ok := strings.Cut(line, " - ")
		f, fs := strings.Fields(front), strings.Fields(back)
		if !ok || len(f) < 5 || len(fs) < 3 {
			continue
		}
		if controller == "" && fs[0] != "cgroup2" ||
			controller != "" && (fs[0] != "cgroup" || !slices.Contains(strings.Split(fs[2], ","), controller)) {
			continue
		}
		// The mount may show a part of the hierarchy only: root is that part's top.
		root, point := f[3], f[4]
		if root == "/" {
			return filepath.Join(point, own)
		}
		if below, ok := strings.CutPrefix(own+"/", root+"/"); ok {
			return filepath.Join(point, below)
		}
	}
	return ""
}

// cgroupPath names the group of the owner's attempt id; empty if there can be none.
func cgroupPath(owner, id string) string {
	base := cgroupBase()
	if base == "" {
		return ""
	}
	return filepath.Join(base, cgroupPrefix(owner)+id)
}

// cgroupPrefix begins the names of an owner's groups.
func cgroupPrefix(owner string) string { return fmt.Sprintf("headrace-%x-", ownerNumber(owner)) }

// reapCgroups kills what is left in the owner's groups, removes them, and gives how many processes there were. It leaves
// a group alone that holds one of the spared.
func reapCgroups(owner string, spared map[int]bool) (killed int) {
	base := cgroupBase()
	if base == "" {
		return 0
	}
	entries, _ := os.ReadDir(base) // What was read before an error is used.
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), cgroupPrefix(owner)) {
			continue
		}
		g := cgroup{filepath.Join(base, e.Name())}
		members := g.members()
		if slices.ContainsFunc(members, func(pid int) bool { return spared[pid] }) {
			continue
		}
		if len(members) > 0 {
			g.kill()
			killed += len(members)
		}
		g.removeSoon(time.Second)
	}
	return killed
}

// members lists the living processes in the group and below.
func (g cgroup) members() []int {
	var list []int
	for n := range strings.FieldsSeq(readFile(filepath.Join(g.path, "cgroup.procs"))) {
		pid, _ := strconv.Atoi(n) // The kernel writes numbers here.
		if p, ok := readProcess(pid); ok && !p.dead() {
			list = append(list, pid)
		}
	}
	entries, _ := os.ReadDir(g.path) // As above.
	for _, e := range entries {
		if e.IsDir() {
			list = append(list, cgroup{filepath.Join(g.path, e.Name())}.members()...)
		}
	}
	return list
}

// cgroup is the group of one attempt. The zero value is none.
type cgroup struct{ path string }

// makeCgroup makes the group and opens its folder for starting a process in it. Without the right to do so
// the zero group comes back, and fd is -1.
func makeCgroup(path string) (g cgroup, fd int) {
	if path == "" || os.Mkdir(path, 0o755) != nil {
		return cgroup{}, -1
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		cgroup{path}.remove()
		return cgroup{}, -1
	}
	return cgroup{path}, fd
}

// kill sends SIGKILL to all in the group and below (Linux 5.14 and later; before, it does nothing).
func (g cgroup) kill() {
	if g.path == "" {
		return
	}
	// Without O_CREATE. A group that is gone or cannot kill leaves the work to the walk.
	f, err := os.OpenFile(filepath.Join(g.path, "cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteString("1")
	_ = f.Close()
}

// oom reports whether the kernel killed in the group for lack of memory. It can know only where the memory
// controller is on for the group: its parent then holds no processes, so that headrace must be in the topmost group.
func (g cgroup) oom() bool {
	return g.path != "" && oomKills(filepath.Join(g.path, "memory.events")) > 0
}

// shortageFile names the file that counts best what the system kills around here for lack of memory: this process's own group,
// with all below, or else the whole system.
var shortageFile = sync.OnceValue(func() string {
	const all = "/proc/vmstat"
	candidates := []string{all}
	if v1 := findCgroup(readFile("/proc/self/mountinfo"), readFile("/proc/self/cgroup"), "memory"); v1 != "" {
		candidates = append(candidates, filepath.Join(v1, "memory.oom_control"))
	}
	if base := cgroupBase(); base != "" {
		candidates = append(candidates, filepath.Join(base, "memory.events"))
	}
	for _, path := range slices.Backward(candidates) {
		if _, ok := parseOOM(readFile(path)); ok {
			return path
		}
	}
	return ""
})

// oomKills reads a count of what was killed for lack of memory; 0 if it is not told.
func oomKills(path string) uint64 {
	if path == "" {
		return 0
	}
	n, _ := parseOOM(readFile(path)) // As above.
	return n
}

// parseOOM finds the line of that count. It looks the same in memory.events of cgroups' version 2, in memory.oom_control of
// version 1, and in /proc/vmstat.
func parseOOM(text string) (n uint64, ok bool) {
	for line := range strings.Lines(text) {
		if count, found := strings.CutPrefix(line, "oom_kill "); found {
			n, err := strconv.ParseUint(strings.TrimSpace(count), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// removeSoon removes the group, waiting for as long as patience for the kernel to be done with the dead.
func (g cgroup) removeSoon(patience time.Duration) {
	for until := time.Now().Add(patience); !g.remove() && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
}

// remove removes the group and those that the command made below it. It reports whether it is gone.
func (g cgroup) remove() bool {
	if g.path == "" {
		return true
	}
	err := unix.Rmdir(g.path)
	if errors.Is(err, unix.EBUSY) {
		entries, _ := os.ReadDir(g.path) // Then the second try fails too.
		for _, e := range entries {
			if e.IsDir() {
				cgroup{filepath.Join(g.path, e.Name())}.remove()
			}
		}
		err = unix.Rmdir(g.path)
	}
	return err == nil || errors.Is(err, unix.ENOENT)
}
