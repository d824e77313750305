package depot

import (
	"errors"
	"fmt"
	"io/fs"
)

var (
	// ErrNotKept: there is no such log or artifact. It is an fs.ErrNotExist.
	ErrNotKept = fmt.Errorf("nothing is kept: %w", fs.ErrNotExist)
	// ErrSealed: the log is sealed, and what was to be appended is not in it.
	ErrSealed = errors.New("the log is sealed")
	// ErrBusy: another call puts this artifact just now; ask Received later.
	ErrBusy = errors.New("another upload of this artifact is under way")
	// ErrDamaged: what is kept cannot be read as what it was.
	ErrDamaged = errors.New("what is kept is damaged")
	// ErrClosed: the depot was closed.
	ErrClosed = errors.New("the depot is closed")
	// ErrInUse: another depot has this folder, in this process or another.
	ErrInUse = errors.New("another process has the depot open")
)

// GapError reports an offset beyond what is there: the bytes between would be missing.
type GapError struct {
	Offset int64
	Have   int64 // bytes that are there; go on from here
}

func (e *GapError) Error() string {
	return fmt.Sprintf("offset %d: %d bytes are there; go on from there", e.Offset, e.Have)
}

// LimitError reports that something would grow beyond its limit.
type LimitError struct {
	What  string // such as "bytes of the log"
	Limit int64
}

func (e *LimitError) Error() string { return fmt.Sprintf("%s: at most %d", e.What, e.Limit) }

// SumError reports that an upload had not the sum that was declared; all of it was dropped.
type SumError struct {
	Name       string
	Want, Have Sum
}

func (e *SumError) Error() string {
	return fmt.Sprintf("artifact %q: declared with SHA-256 %x, received %x; send it anew", e.Name, e.Want, e.Have)
}

// TakenError reports that the name stands for another file, which stays.
type TakenError struct{ Kept Artifact }

func (e *TakenError) Error() string {
	return fmt.Sprintf("artifact %q: another one of this name is kept, of %d bytes with SHA-256 %x", e.Kept.Name, e.Kept.Size, e.Kept.Sum)
}
