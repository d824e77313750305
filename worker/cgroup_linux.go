package worker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Control groups are a second net under the walk through /proc: cgroup.kill takes a whole tree at
// once, whatever it forks meanwhile, and works also when the supervisor is dead. Only version 2 is used:
// version 1 has no such file, and a group that can only be frozen adds nothing to the walk.

// cgroupBase is the folder of this process's own group in version 2's hierarchy; empty if there is none.
var cgroupBase = sync.OnceValue(func() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return findCgroup(string(mounts), string(groups))
})

// findCgroup joins the texts of /proc/self/mountinfo and /proc/self/cgroup (proc(5), cgroups(7)).
func findCgroup(mounts, groups string) string {
	own := ""
	for line := range strings.Lines(groups) {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			own = strings.TrimSuffix(p, "\n")
		}
	}
	if own == "" {
		return ""
	}
	for line := range strings.Lines(mounts) {
		front, back, ok := strings.Cut(line, " - ")
		f := strings.Fields(front)
		if !ok || len(f) < 5 || !strings.HasPrefix(back, "cgroup2 ") {
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

// cgroupPath names the group of the attempt id; empty if there can be none.
func cgroupPath(id string) string {
	base := cgroupBase()
	if base == "" {
		return ""
	}
	return filepath.Join(base, "headrace-"+id)
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
// controller is on for the group.
func (g cgroup) oom() bool {
	if g.path == "" {
		return false
	}
	b, err := os.ReadFile(filepath.Join(g.path, "memory.events"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return strings.TrimSpace(n) != "0"
		}
	}
	return false
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
