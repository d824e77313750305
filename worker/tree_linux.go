package worker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hooked says that the program calls Supervise. Without that, starting it again as a supervisor would run
// it as a whole once more, and that one again.
var hooked atomic.Bool

// event is what the tree of an attempt tells the executor.
type event struct {
	kind  byte // one of the supervisor's frames
	errno syscall.Errno
	ended ended
}

// tree is the executor's hand on an attempt's processes.
type tree struct {
	spec    startSpec
	proc    *os.Process // the supervisor
	control *os.File
	events  chan event // closed when the supervisor is dead or silent for good
	brand   brand
	done    bool
}

// startTree starts the command under a supervisor. The command's output and errors go to out.
func startTree(spec startSpec, useCgroup bool, owner string, out *os.File) (*tree, error) {
	if !hooked.Load() {
		return nil, errors.New("the program's main must call worker.Supervise before anything else")
	}
	id := rand.Text()
	if useCgroup {
		spec.cgroup = cgroupPath(owner, id)
	}
	own := newBrand(owner, id)
	spec.number = own.number
	spec.shortage = shortageFile()
	// The brands of an outer attempt, whose command this program may be, make way.
	spec.env = append(slices.DeleteFunc(spec.env, func(kv string) bool {
		return strings.HasPrefix(kv, markKey+"=") || strings.HasPrefix(kv, ownerKey+"=")
	}), own.entry)
	if owner != "" {
		spec.env = append(spec.env, ownerKey+"="+owner)
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close() // The supervisor has its own copy.
	null, err := os.Open(os.DevNull)
	if err != nil {
		_ = ours.Close() // Nothing was said over it.
		return nil, err
	}
	defer null.Close() // As above.
	env := []string{"GOMAXPROCS=1"}
	for _, key := range []string{"GOCOVERDIR", "GORACE"} { // How the runtimes of instrumented builds are told what to do.
		if v, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+v)
		}
	}
	// Not os.Executable: this also works when the file was replaced by a newer version.
	proc, err := os.StartProcess("/proc/self/exe", []string{supervisorName, superviseArg}, &os.ProcAttr{
		Dir: "/", Env: env, Files: []*os.File{null, out, out, theirs},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_ = ours.Close() // As above.
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	t := &tree{spec: spec, proc: proc, control: ours, brand: own, events: make(chan event, 4)}
	if err := t.send(frameStart, spec.encode()); err != nil {
		_ = proc.Kill() // It may be dead already; Wait tells.
		_, _ = proc.Wait()
		_ = ours.Close() // Nothing runs.
		return nil, fmt.Errorf("tell the supervisor what to run: %w", err)
	}
	return t, nil
}

func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	// Ours waits in the runtime's poller, so that deadlines and Close work.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		_, _ = unix.Close(fds[0]), unix.Close(fds[1]) // Nothing was said over them.
		return nil, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control"), nil
}

// send gives the supervisor an order. An error means that it is dead or does not listen.
func (t *tree) send(kind byte, payload []byte) error {
	if err := t.control.SetWriteDeadline(time.Now().Add(killPatience)); err != nil {
		return err
	}
	return writeFrame(t.control, kind, payload)
}

// listen passes on what the supervisor says, until it falls silent.
func (t *tree) listen() {
	defer close(t.events)
	for {
		kind, payload, err := readFrame(t.control)
		if err != nil {
			return
		}
		e := event{kind: kind}
		switch kind {
		case frameError:
			var n int
			n, err = strconv.Atoi(string(payload))
			e.errno = syscall.Errno(n)
		case frameDone:
			e.ended, err = decodeEnded(payload)
		}
		if err != nil {
			return
		}
		t.events <- e // It has room for all that a supervisor says in its life.
	}
}

// close waits for the supervisor's end. One that has not reported the end of the tree is killed, and then
// the tree as far as it can be found.
func (t *tree) close() {
	if !t.done {
		_ = t.proc.Kill() // It may be dead already; Wait tells.
	}
	_, _ = t.proc.Wait() // Its exit code adds nothing to what it reported.
	_ = t.control.Close()
	for range t.events { // Until listen has ended.
	}
	if t.done {
		return
	}
	// The command itself died with the supervisor; its children are found by group and brand.
	g := cgroup{t.spec.cgroup}
	g.kill()
	s := search{brand: t.brand, spared: above(os.Getpid()), patience: 2 * time.Second}
	s.kill()
	g.removeSoon(time.Second)
	if t.spec.script != "" {
		_ = os.Remove(t.spec.script)
	}
}

// signalName names a signal, as in "SIGKILL".
func signalName(s syscall.Signal) string {
	if n := unix.SignalName(s); n != "" {
		return n
	}
	return fmt.Sprintf("signal %d", int(s))
}
