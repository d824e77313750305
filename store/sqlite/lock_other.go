//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package sqlite

import (
	"errors"
	"runtime"
)

// lock is what no process can have here.
type lock struct{}

func takeLock(string) (*lock, error) {
	return nil, errors.New("no way to keep a second process off the store is known on " + runtime.GOOS)
}

func unreadable(string) bool { return false }

func (l *lock) release() error { return nil }
