package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
)

// place is where the runs of a graph file are kept.
type place struct {
	file string // as the user wrote it
	dir  string // the folder
}

// placeOf gives the place of a file's runs: .headrace/NAME/ beside it, or the folder that the user wants.
func placeOf(file, folder string) place {
	if folder == "" {
		folder = filepath.Join(filepath.Dir(file), ".headrace", filepath.Base(file))
	}
	return place{file, folder}
}

func (p place) database() string { return filepath.Join(p.dir, "store.db") }
func (p place) logs() string     { return filepath.Join(p.dir, "logs") }

// engineStore is what a run needs of a store.
type engineStore interface {
	queue.Store
	queue.History
	// InPlace reports an error unless the store is still where others find it.
	InPlace() error
}

// own opens the store for a run, and makes it if there is none.
func (p place) own(ctx context.Context) (engineStore, error) {
	if err := os.MkdirAll(p.logs(), 0o755); err != nil {
		err = fmt.Errorf("make the store: %w", err)
		if errors.Is(err, fs.ErrPermission) {
			err = &sqlite.FileError{Path: p.database(), Fault: sqlite.Denied, Err: err}
		}
		return nil, err
	}
	return sqlite.Open(ctx, p.database(), sqlite.Options{})
}

// owner names this place to what runs for it: the same text each time, and another one for each place, also if both can be
// seen by one machine under one path, as from a container.
func (p place) owner() (string, error) {
	path, err := filepath.Abs(p.dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("find the store: %v", err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("find the store: %v", err)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		path = fmt.Sprintf("%d:%d:%s", st.Dev, st.Ino, path)
	}
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16]), nil
}

// bereft reports whether there are logs of earlier runs but nothing that knows of them.
func (p place) bereft() bool {
	if info, err := os.Stat(p.database()); err == nil && info.Size() > 0 {
		return false
	}
	logs, err := os.Open(p.logs())
	if err != nil {
		return false
	}
	defer logs.Close() // Only read from.
	names, err := logs.Readdirnames(1)
	return err == nil && len(names) > 0
}

// advise tells a person what to do about a store's file.
func advise(e *sqlite.FileError) string {
	dir := filepath.Dir(e.Path)
	switch e.Fault {
	case sqlite.Damaged:
		return fmt.Sprintf("the store in %s is damaged, or is none of headrace's; move the folder away and run again, with nothing done: mv %s %s",
			dir, shellWord(dir), shellWord(dir+".damaged"))
	case sqlite.Full:
		return fmt.Sprintf("no space left for the store in %s; make room and run again: it goes on", dir)
	case sqlite.Denied:
		return fmt.Sprintf("permission denied: this user may not use the store in %s; use --store with a folder of your own", dir)
	case sqlite.Gone:
		return fmt.Sprintf("the store in %s was removed or replaced while it was in use: what has run is not kept, and the next run begins anew", dir)
	case sqlite.Unknown:
	}
	return e.Error()
}

// errNoRuns: nothing has been run yet.
var errNoRuns = errors.New("no runs yet")

// read opens the store for reading, also while a run writes it. errNoRuns: there is none.
func (p place) read(ctx context.Context) (*sqlite.Reader, error) {
	r, err := sqlite.OpenReadOnly(ctx, p.database())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoRuns
	}
	return r, err
}
