package worker

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// process is what /proc says of a process. Its pid alone may be another's by now; with start it is not.
type process struct {
	pid, parent, group, session int
	threads                     int
	start                       uint64 // clock ticks since boot
	flags                       uint64 // PF_ of the kernel's sched.h
	environment                 uint64 // where its environment ends in its memory; 0: nowhere, or it is not told
	state                       byte
	name                        string
}

// dead reports whether only the entry in the process table is left. If only the first thread has ended, more is.
func (p process) dead() bool { return p.state == 'X' || p.state == 'Z' && p.threads <= 1 }

// The kernel's flags (include/linux/sched.h) of a process that is ending, and of a thread of its own.
const (
	flagExiting = 0x4
	flagKernel  = 0x200000
)

// readProcess reads /proc/PID/stat; ok is false if the process is gone.
func readProcess(pid int) (p process, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// The name stands in parentheses and may hold any byte, also parentheses and spaces.
	open, shut := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || shut < open {
		return process{}, false
	}
	f := bytes.Fields(b[shut+1:])
	if len(f) < 20 {
		return process{}, false
	}
	num := func(i int) uint64 {
		if i >= len(f) {
			return 0 // Linux before 3.5 has fewer.
		}
		n, _ := strconv.ParseUint(string(f[i]), 10, 64) // The kernel writes numbers here.
		return n
	}
	return process{
		pid: pid, parent: int(num(1)), group: int(num(2)), session: int(num(3)), threads: int(num(17)),
		start: num(19), flags: num(6), environment: num(48), state: f[0][0], name: string(b[open+1 : shut]),
	}, true
}

// carries reports whether the process has the brand. It is unsure of one that has no number and is in the middle of an exec,
// when for a moment there is no environment. The caller must have read p just now.
func (p process) carries(b brand) (yes, unsure bool) {
	if n, ok := p.number(); ok && isNumber(n) {
		return n&b.mask == b.number, false
	}
	if p.flags&(flagKernel|flagExiting) != 0 {
		return false, false
	}
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
	if err != nil {
		return false, false // It is gone, or another user's.
	}
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if string(kv) == b.entry {
			return true, false
		}
	}
	return false, len(environ) == 0 && p.perhapsExecs()
}

// perhapsExecs reports whether a process whose environment read as empty may have one. It has none if it had a place for it
// before and has the same now: an exec makes room for it anew.
func (p process) perhapsExecs() bool {
	now, ok := readProcess(p.pid)
	return ok && now.start == p.start && now.flags&flagExiting == 0 &&
		(p.environment == 0 || now.environment != p.environment)
}

// pids lists the processes that /proc shows. It is no snapshot: callers look again until nothing is left.
func pids() []int {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()                // Only read from.
	names, _ := d.Readdirnames(-1) // What was read before an error is used.
	var out []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// descendants lists the processes below pid, parents first.
func descendants(pid int) []process {
	children := map[int][]process{}
	for _, n := range pids() {
		if p, ok := readProcess(n); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	out := children[pid]
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i].pid]...)
	}
	return out
}

// signal sends sig to exactly this process: never to another one that has got its pid since.
func (p process) signal(sig unix.Signal) { _ = p.send(sig, 0) } // Gone or not ours to signal: callers look again.

// signalGroup sends sig to the process group that this process is in, at once: no fork slips through.
// It reports false where the kernel cannot do that exactly (Linux before 6.9).
func (p process) signalGroup(sig unix.Signal) bool {
	return !errors.Is(p.send(sig, unix.PIDFD_SIGNAL_PROCESS_GROUP), unix.EINVAL)
}

func (p process) send(sig unix.Signal, flags int) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, unix.ENOSYS) { // Linux before 5.3.
		if flags != 0 {
			return unix.EINVAL
		}
		if now, ok := readProcess(p.pid); ok && now.start == p.start {
			return unix.Kill(p.pid, sig)
		}
		return unix.ESRCH
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// The descriptor holds one process; if that began when p did, it is p.
	if now, ok := readProcess(p.pid); !ok || now.start != p.start {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, flags)
}

// signalTree sends sig once to each of the tree, which is what is below this process. Groups get it as one,
// for else a process that forks just now could have a child that nobody sees. A group's number is surely
// ours while a child of ours in it is not buried, dead or alive: the caller must not have reaped
// since it looked.
func signalTree(tree []process, sig unix.Signal) {
	self := os.Getpid()
	done := map[int]bool{}
	for _, p := range tree {
		switch {
		case done[p.group] || p.group <= 1 || p.group == self:
		case p.parent == self:
			done[p.group] = unix.Kill(-p.group, sig) == nil
		case !p.dead():
			done[p.group] = p.signalGroup(sig)
		}
	}
	for _, p := range tree {
		if !p.dead() && !done[p.group] {
			p.signal(sig)
		}
	}
}
