package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/rows"
	"zombiezen.com/go/sqlite"
)

// Fault is what is wrong with a file, for those who tell a person what to do about it.
type Fault int

const (
	// Unknown: none of the others.
	Unknown Fault = iota
	// Damaged: its contents are not what a store has.
	Damaged
	// Full: there is no space left on its device.
	Full
	// Denied: this user may not read or write it.
	Denied
	// Gone: it was removed or replaced while this process owned it. Such an error is a queue.ErrFenced, too.
	Gone
	// Starved: this process, or the whole machine, has no file descriptor left.
	Starved
)

// FileError is an error whose reason is the state of a store's file. All errors of this package with a known Fault are
// one.
type FileError struct {
	Path  string
	Fault Fault
	Err   error
}

func (e *FileError) Error() string { return fmt.Sprintf("store %q: %v", e.Path, e.Err) }

// Unwrap gives the cause.
func (e *FileError) Unwrap() error { return e.Err }

// errGone ends the ownership: nothing that is written any more can be found by anybody.
var errGone = goneError{}

type goneError struct{}

func (goneError) Error() string { return "the file was removed or replaced while it was in use" }

// Is has the owner step down at once: trying again brings nothing back.
func (goneError) Is(target error) bool { return target == queue.ErrFenced }

// faultOf finds out what an error says about the file at path.
func faultOf(path string, err error) Fault {
	switch {
	case errors.Is(err, errGone):
		return Gone
	case errors.Is(err, fs.ErrPermission):
		return Denied
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return Full
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return Starved
	case errors.Is(err, errForeign), errors.Is(err, rows.ErrHeadless):
		return Damaged
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return Damaged
	case sqlite.ResultFull:
		return Full
	case sqlite.ResultPerm, sqlite.ResultAuth, sqlite.ResultReadOnly:
		return Denied
	case sqlite.ResultCantOpen:
		// The engine does not say why: ask the system.
		if unreadable(path) {
			return Denied
		}
	default:
		// The rest says nothing about the file.
	}
	return Unknown
}

// reason adds to an error of the engine that it could open no file because there is no descriptor left: the engine does not say
// why. It must be asked before anything is closed.
func reason(err error) error {
	if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultCantOpen {
		return err
	}
	f, why := os.Open(os.DevNull)
	if why == nil {
		return errors.Join(err, f.Close())
	}
	var number syscall.Errno
	if errors.As(why, &number) && (number == syscall.EMFILE || number == syscall.ENFILE) {
		return fmt.Errorf("%w: %w", err, number)
	}
	return err
}

// fail puts the operation and the file before an error.
func (r *Reader) fail(what string, err error) error {
	return fmt.Errorf("%s: %w", what, fileError(r.path, err))
}

// fileError puts the file before an error, with what is wrong with it where that is known.
func fileError(path string, err error) error {
	if f := faultOf(path, err); f != Unknown {
		return &FileError{path, f, err}
	}
	return fmt.Errorf("store %q: %w", path, err)
}

// InPlace reports an error, whose Fault is Gone, unless the file that this Store owns can still be found at its path.
func (s *Store) InPlace() error {
	if err := s.inPlace(); err != nil {
		return s.fail("look for the file", err)
	}
	return nil
}

func (s *Store) inPlace() error {
	info, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(info, s.file):
		return errGone
	}
	return err
}
