//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/headrace/headrace/queue"
)

// lock is the right to own a file. The operating system holds it: it ends with the process, however that ends.
// The lock file's content only tells others who it is, and the file is never removed, since a newcomer might
// have it open.
type lock struct{ file *os.File }

// holder is the content of the lock file.
type holder struct {
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// maxHolder bounds what is read of a lock file.
const maxHolder = 4096

func takeLock(path string) (_ *lock, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	l := &lock{f}
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
		held := heldBy(f)
		if !isDead(held) || time.Now().After(until) {
			return nil, held
		}
		<-time.After(2 * time.Millisecond)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %q: %v", path, err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	note, err := json.Marshal(holder{host, os.Getpid(), time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(0); err != nil {
		return nil, fmt.Errorf("write %q: %v", path, err)
	}
	if _, err := f.WriteAt(append(note, '\n'), 0); err != nil {
		return nil, fmt.Errorf("write %q: %v", path, err)
	}
	return l, nil
}

// deadPatience is how long a lock may outlive its owner: one that is killed while it starts another program has given
// that a copy, which lasts until the program begins.
const deadPatience = 2 * time.Second

// isDead reports whether the owner is known to be gone.
func isDead(held *queue.HeldError) bool {
	host, err := os.Hostname()
	return err == nil && host == held.Host && held.PID > 0 && errors.Is(syscall.Kill(held.PID, 0), syscall.ESRCH)
}

// heldBy reads who it is; a note that is being written, or is no note, leaves it open.
func heldBy(f *os.File) *queue.HeldError {
	var h holder
	if err := json.NewDecoder(io.NewSectionReader(f, 0, maxHolder)).Decode(&h); err != nil {
		return &queue.HeldError{}
	}
	return &queue.HeldError{Host: h.Host, PID: h.PID, Since: h.Since}
}

// Holder tells who owned the file at path last, by the note beside it; nil if nobody ever did. Whether that process
// still lives the note cannot tell: Open can.
func Holder(path string) (*queue.HeldError, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path + ".lock")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // Only read from.
	return heldBy(f), nil
}

// unreadable reports whether this user may not read the file. It does not open it: closing would take away the locks of a
// connection in this process.
func unreadable(path string) bool {
	const read = 4
	return errors.Is(syscall.Access(path, read), syscall.EACCES)
}

// release gives the right up, also where a program that this process is just starting has a copy of the open file.
func (l *lock) release() error {
	err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	return errors.Join(err, l.file.Close())
}
