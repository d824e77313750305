//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sqlite

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A program that is just being started has copies of this process's files until it begins.
func TestLockIsGivenUpThoughAChildHasACopy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	l, err := takeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := syscall.Dup(int(l.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(copied)
	if err := l.release(); err != nil {
		t.Fatal(err)
	}
	if l, err = takeLock(path); err != nil {
		t.Fatalf("after it was given up: %v", err)
	}
	if err := l.release(); err != nil {
		t.Fatal(err)
	}
}
