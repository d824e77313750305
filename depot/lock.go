//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package depot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lock is the right to a folder. The operating system holds it: it ends with the process, however that ends. The file
// tells the process's number, and is never removed, since a newcomer might have it open.
type lock struct{ file *os.File }

// deadPatience is how long a lock may outlive its owner: one that is killed while it starts another program has given
// that a copy, which lasts until the program begins.
const deadPatience = 2 * time.Second

func takeLock(root *os.Root) (_ *lock, err error) {
	f, err := root.OpenFile(lockName, os.O_CREATE|os.O_RDWR, filePerm)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	// flock belongs to the open file, so it also tells two owners in one process apart.
	for until := time.Now().Add(deadPatience); ; {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		pid := heldBy(f)
		if dead := pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH); !dead || time.Now().After(until) {
			return nil, fmt.Errorf("process %d: %w", pid, ErrInUse)
		}
		<-time.After(2 * time.Millisecond)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %q: %v", f.Name(), err)
	}
	// A number that could not be written down costs others a hint only, but here it tells that the folder cannot be written to.
	if err := f.Truncate(0); err != nil {
		return nil, err
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return nil, err
	}
	return &lock{f}, nil
}

// heldBy reads whose it is; 0: unknown.
func heldBy(f *os.File) int {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

// release gives the right up, also where a program that this process is just starting has a copy of the open file.
func (l *lock) release() error {
	err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	return errors.Join(err, l.file.Close())
}
