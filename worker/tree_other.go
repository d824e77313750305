//go:build unix && !linux

package worker

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// event is what the tree of an attempt tells the executor.
type event struct {
	kind  byte // frameError or frameDone
	errno syscall.Errno
	ended ended
}

// tree is the executor's hand on an attempt's processes: here its process group.
type tree struct {
	spec   startSpec
	proc   *os.Process // nil: not started
	failed syscall.Errno
	events chan event
	done   bool

	mu    sync.Mutex
	asked bool
	gone  bool // the command is buried; its group's number may be another's
}

// Supervise does nothing on this system; call it all the same, first thing in main.
func Supervise() {}

// Reap does nothing on this system: it has no way to find what a killed program left.
func Reap(string) (killed int, err error) { return 0, nil }

// startTree starts the command as the leader of a session of its own.
func startTree(spec startSpec, _ bool, _ string, out *os.File) (*tree, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close() // The command has its own copy.
	t := &tree{spec: spec, events: make(chan event, 1)}
	path := spec.path
	if spec.argv[0] == path {
		path = inDir(spec.dir, path)
	}
	t.proc, err = os.StartProcess(path, spec.argv, &os.ProcAttr{
		Dir: spec.dir, Env: spec.env, Files: []*os.File{null, out, out},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil && !errors.As(err, &t.failed) {
		return nil, err
	}
	return t, nil
}

// send acts on an order at once.
func (t *tree) send(kind byte, _ []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.proc == nil || t.gone {
		return nil
	}
	t.asked = true
	if kind == frameKill {
		return syscall.Kill(-t.proc.Pid, syscall.SIGKILL)
	}
	return errors.Join(syscall.Kill(-t.proc.Pid, syscall.SIGTERM), syscall.Kill(-t.proc.Pid, syscall.SIGCONT))
}

// listen waits for the end of the command, and kills what is left of its group.
func (t *tree) listen() {
	defer close(t.events)
	if t.proc == nil {
		t.events <- event{kind: frameError, errno: t.failed}
		return
	}
	state, err := t.proc.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = true
	_ = syscall.Kill(-t.proc.Pid, syscall.SIGKILL) // Most often there is nothing left.
	if ws, ok := state.Sys().(syscall.WaitStatus); err == nil && ok {
		t.events <- event{kind: frameDone, ended: ended{wait: uint32(ws), asked: t.asked}}
	}
}

func (t *tree) close() {
	for range t.events { // Until listen has ended.
	}
	if t.spec.script != "" {
		_ = os.Remove(t.spec.script)
	}
}

// signalName names a signal, as in "killed".
func signalName(s syscall.Signal) string { return fmt.Sprint(s) }
