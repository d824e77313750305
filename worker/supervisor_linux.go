package worker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// One supervisor process watches one attempt. It is a subreaper: whatever the command starts, also
// by double fork or in a session of its own, stays its descendant, and nothing else ever is. So the tree of
// an attempt is exactly what is below its supervisor. It lives in a session of its own, so that
// no terminal and no signal to headrace's group reaches it, and it learns of the executor's death, however
// sudden, by the end of the socket. The other way round, the command dies with its supervisor (PDEATHSIG).

const (
	superviseArg = "_supervise"
	// supervisorName is another than headrace's, so that neither "killall -9 headrace" nor "pkill -9 -f headrace" takes
	// with it who is to clean up.
	supervisorName = "hr-supervise"
	controlFD      = 3
)

// Supervise must be the first call in main, and in TestMain, of a program that executes commands. In a process that
// was started to supervise an attempt it does that and never returns; else it returns at once.
func Supervise() {
	if len(os.Args) != 2 || os.Args[1] != superviseArg {
		hooked.Store(true)
		return
	}
	// PDEATHSIG follows the thread that forked: the main one, which lives as long as the process.
	runtime.LockOSThread()
	if err := supervise(); err != nil {
		fmt.Fprintf(os.Stderr, "headrace: supervisor: %v\n", err)
		os.Exit(2)
	}
	os.Exit(0)
}

// supervisor has one goroutine besides its own, which reads the control socket.
type supervisor struct {
	control *os.File
	orders  <-chan byte      // closed when the executor is dead
	child   <-chan os.Signal // SIGCHLD
	group   cgroup
	command int // process id
	exited  bool
	termed  bool
	ended   ended
}

func supervise() error {
	if _, err := unix.GetsockoptInt(controlFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return errors.New("headrace starts this by itself, with a socket to talk over; it is no command for people")
	}
	closeOnExec(controlFD)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %v", err)
	}
	_ = os.WriteFile("/proc/self/comm", []byte(supervisorName), 0) // Without it all still works.
	// If headrace runs in an attempt itself, who kills that one is not to kill this supervisor: it cleans up as soon as
	// it is alone, and what it watches has other brands.
	setNumber(0)
	// Caught, not ignored: an ignored signal would stay ignored in the command.
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	child := make(chan os.Signal, 1)
	signal.Notify(child, unix.SIGCHLD)

	control := os.NewFile(controlFD, "control")
	in := bufio.NewReader(control)
	kind, payload, err := readFrame(in)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil || kind != frameStart {
		return fmt.Errorf("first frame %q: %v", kind, err)
	}
	spec, err := decodeStart(payload)
	if err != nil {
		return err
	}
	orders := make(chan byte)
	// It ends with the process, which ends when run has returned.
	go func() {
		defer close(orders)
		for {
			kind, _, err := readFrame(in)
			if err != nil {
				return
			}
			orders <- kind
		}
	}()
	s := &supervisor{control: control, orders: orders, child: child}
	return s.run(spec)
}

// closeOnExec keeps the descriptors from first on from the command: the socket, and what this program itself
// got from a caller that left files open.
func closeOnExec(first int) {
	if unix.CloseRange(uint(first), math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	open, _ := os.ReadDir("/proc/self/fd") // Linux before 5.11. What was read before an error is used.
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
			unix.CloseOnExec(fd)
		}
	}
}

func (s *supervisor) run(spec startSpec) error {
	if spec.script != "" {
		defer os.Remove(spec.script)
	}
	group, fd := makeCgroup(spec.cgroup)
	s.group = group
	patience := 100 * time.Millisecond
	defer func() { group.removeSoon(patience) }()
	short := oomKills(spec.shortage)
	setNumber(spec.number)
	pid, err := s.start(spec, fd)
	setNumber(0)
	if err != nil {
		return writeFrame(s.control, frameError, fmt.Append(nil, errnoOf(err)))
	}
	s.command = pid
	orphaned := s.watch()
	left := s.killAll()
	if s.exited && !s.termed {
		s.ended.extra = len(left)
		if s.ended.stuck == 0 {
			s.ended.names = sample(left)
		}
	}
	if orphaned {
		patience = killPatience // Nobody waits for this process, or would remove the group instead.
		return nil
	}
	s.ended.oom = s.group.oom()
	s.ended.short = oomKills(spec.shortage) > short
	return writeFrame(s.control, frameDone, s.ended.encode())
}

func (s *supervisor) start(spec startSpec, group int) (int, error) {
	attr := &syscall.ProcAttr{
		Dir: spec.dir, Env: spec.env, Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL},
	}
	if group >= 0 {
		defer unix.Close(group)
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, group
		pid, err := syscall.ForkExec(spec.path, spec.argv, attr)
		if err == nil {
			return pid, nil
		}
		// Old kernels and sandboxes refuse the group in many ways. If it was the command, it fails again.
		attr.Sys.UseCgroupFD = false
	}
	return syscall.ForkExec(spec.path, spec.argv, attr)
}

// errnoOf gives the number by which the executor judges why a command did not start.
func errnoOf(err error) int {
	var e syscall.Errno
	if errors.As(err, &e) {
		return int(e)
	}
	return int(syscall.EIO)
}

// watch returns when the tree is to be killed or gone, and reports whether the executor is dead.
func (s *supervisor) watch() (orphaned bool) {
	repeated := false
	for {
		alive := s.reap()
		// After a term all may use the grace to clean up; else the end of the command ends the attempt.
		if !alive || s.exited && !s.termed {
			return false
		}
		// A shell with a trap loses a signal that comes between its fork and exec: the child has it
		// noted, and forgets. So what outlives the command is asked a second time.
		if s.exited && !repeated {
			repeated = true
			askToEnd()
		}
		select {
		case <-s.child:
		case order, ok := <-s.orders:
			s.ended.asked = s.ended.asked || !s.exited
			s.termed = true
			if !ok || order == frameKill {
				return !ok
			}
			askToEnd()
		}
	}
}

// askToEnd sends SIGTERM to the whole tree.
func askToEnd() {
	tree := descendants(os.Getpid())
	signalTree(tree, unix.SIGTERM)
	signalTree(tree, unix.SIGCONT) // A stopped process could not act on it.
}

// reap buries the dead and reports whether there is a child left, dead or alive.
func (s *supervisor) reap() bool {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false
		case pid == 0:
			return true
		case pid == s.command:
			s.exited, s.ended.wait = true, uint32(ws)
		}
	}
}

// killAll kills the tree until nothing of it is left, and returns what was there at first.
func (s *supervisor) killAll() (first []process) {
	give := time.NewTimer(killPatience)
	defer give.Stop()
	for round := 0; s.reap(); round++ {
		tree := descendants(os.Getpid())
		if round == 0 {
			first = living(tree)
		}
		s.group.kill()
		signalTree(tree, unix.SIGKILL)
		again := time.NewTimer(5 * time.Millisecond)
		select {
		case <-s.child:
		case <-again.C:
		case <-give.C:
			left := living(descendants(os.Getpid()))
			s.ended.stuck, s.ended.names = len(left), sample(left)
			return first
		}
		again.Stop()
	}
	return first
}

func living(tree []process) []process {
	var out []process
	for _, p := range tree {
		if !p.dead() {
			out = append(out, p)
		}
	}
	return out
}

// sample gives a few names for a message.
func sample(tree []process) string {
	var names []string
	for _, p := range tree {
		if len(names) == 5 {
			return strings.Join(names, ", ") + ", ..."
		}
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}
