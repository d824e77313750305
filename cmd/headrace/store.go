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
}

// own opens the store for a run, and makes it if there is none.
func (p place) own(ctx context.Context) (engineStore, error) {
	if err := os.MkdirAll(p.logs(), 0o755); err != nil {
		return nil, fmt.Errorf("make the store: %v", err)
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
