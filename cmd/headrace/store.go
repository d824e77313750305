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
	"strings"
	"syscall"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/sqlite"
	"golang.org/x/sys/unix"
)

// place is where the runs of a graph file are kept.
type place struct {
	file   string // as the user wrote it
	folder string // that the user wants, or the database; "": the usual one
	dir    string // the folder of the store, or of the logs alone
	// address of the database that has the store; "": the folder has it.
	address string
}

// placeOf gives the place of a file's runs: .headrace/NAME/ beside it, or the folder that the user wants.
func placeOf(file, folder string) place {
	file = lasting(file)
	p := place{file: file, folder: folder, dir: folder}
	if isStream(file) {
		p.file = stream
	}
	if isURL(folder) {
		p.address = folder
	}
	if folder == "" || p.address != "" {
		p.dir = filepath.Join(folderOf(file), ".headrace", filepath.Base(target(p.file)))
		if p.file == stream {
			p.dir = filepath.Join(".headrace", stream, "stdin") // A file may have the name -, too.
		}
	}
	return p
}

// name is what people are told of the store's place. It has no password.
func (p place) name() string {
	if p.address != "" {
		return postgres.Redacted(p.address)
	}
	return p.dir
}

// folderOf gives the folder in which the jobs of a graph file run.
func folderOf(file string) string {
	if isStream(file) {
		return "."
	}
	return filepath.Dir(target(file))
}

// target gives the file to which symbolic links lead: whatever leads to it, it is one graph, with one store and one folder
// in which its jobs run.
func target(file string) string {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		return real
	}
	return file // There is none: whoever opens it says so.
}

func (p place) label() string { return filepath.Join(p.dir, "graph") }

// claim keeps the store to one graph file: jobs are known by their names, which mean something else in another. The file is
// noted as a path from the store's folder, so that both may be moved together. The caller has seen to it that no other has it (check).
func (p place) claim() error {
	path, err := p.relative()
	if err != nil {
		return err
	}
	if _, claimed := p.claimed(); claimed {
		return nil
	}
	return os.WriteFile(p.label(), []byte(path+"\n"), 0o644)
}

// claimed gives the file that has claimed the store. A note without its newline is none: whoever wrote it was killed, or the disk
// was full, so that no run has begun.
func (p place) claimed() (owner string, ok bool) {
	note, err := os.ReadFile(p.label())
	if err != nil {
		return "", false
	}
	return strings.CutSuffix(string(note), "\n")
}

// check refuses a store that another graph file has claimed, and what is no folder.
func (p place) check() error {
	if info, err := os.Stat(p.dir); err == nil && !info.IsDir() {
		return usage("%s is a file, where the folder of the store should be", p.dir)
	}
	owner, claimed := p.claimed()
	if !claimed {
		return nil
	}
	path, err := p.relative()
	if err != nil {
		return err
	}
	if owner == path {
		return nil
	}
	if !filepath.IsAbs(owner) {
		owner = filepath.Join(p.dir, owner)
	}
	if owner == stream {
		owner = "./" + owner
	}
	if info, err := os.Stat(owner); err == nil && info.IsDir() {
		owner = "standard input in " + owner
	}
	return usage("the store in %s keeps the runs of %s, not of %s: give each file a folder of its own (if it is the same file, moved or renamed, remove %s)",
		p.dir, owner, p.spoken(), p.label())
}

// spoken is how messages call the graph file.
func (p place) spoken() string {
	if p.file == stream {
		return "standard input"
	}
	return p.file
}

// relative gives the way from the store's folder to the file; if there is none, to the current folder, where no file can be.
func (p place) relative() (string, error) {
	file := target(p.file)
	if p.file == stream {
		file = "."
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	dir, err := filepath.Abs(target(p.dir))
	if err != nil {
		return "", err
	}
	if path, err := filepath.Rel(dir, file); err == nil {
		return path, nil
	}
	return file, nil
}

// databaseName is that of the file in the folder of a store.
const databaseName = "store.db"

func (p place) database() string { return filepath.Join(p.dir, databaseName) }
func (p place) logs() string     { return filepath.Join(p.dir, "logs") }

// engineStore is what a run needs of a store.
type engineStore interface {
	queue.Store
	queue.History
	// InPlace reports an error unless the store is still where others find it.
	InPlace() error
}

// own opens the store for a run, and makes it if there is none. Where that is refused, nothing is made.
func (p place) own(ctx context.Context) (engineStore, error) {
	if p.address == "" {
		if err := p.makeFolder(); err != nil {
			return nil, err
		}
		return sqlite.Open(ctx, p.database(), sqlite.Options{})
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	s, err := p.ownDatabase(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.makeFolder(); err != nil { // of the logs
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// makeFolder makes the folder of the store, or of the logs alone, for this graph file.
func (p place) makeFolder() error {
	if err := p.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(p.logs(), 0o755); err != nil {
		return p.unmade(err)
	}
	if err := p.claim(); err != nil {
		return p.unmade(err)
	}
	return nil
}

// unmade tells why the folder of the store cannot be made, as it would be told of the store.
func (p place) unmade(err error) error {
	err = fmt.Errorf("make the store: %w", err)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &sqlite.FileError{Path: p.database(), Fault: sqlite.Denied, Err: err}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &sqlite.FileError{Path: p.database(), Fault: sqlite.Full, Err: err}
	}
	return err
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
	if p.address != "" {
		return false
	}
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
		if filepath.Base(e.Path) != databaseName { // Its folder may hold anything else.
			return fmt.Sprintf("the file %s is damaged, or no store of headrace", e.Path)
		}
		return fmt.Sprintf("the store in %s is damaged, or is none of headrace's; move the folder away and run again, with nothing done: mv %s %s",
			dir, shellWord(dir), shellWord(dir+".damaged"))
	case sqlite.Full:
		return noRoom("store", dir)
	case sqlite.Denied:
		return fmt.Sprintf("permission denied: this user may not use the store in %s; use --store with a folder of your own", dir)
	case sqlite.Gone:
		return fmt.Sprintf("the store in %s was removed or replaced while it was in use: what has run is not kept, and the next run begins anew", dir)
	case sqlite.Starved:
		return fmt.Sprintf("too many open files: none is left for the store in %s; raise the limit (ulimit -n) or run fewer jobs at once, and run again: it goes on", dir)
	case sqlite.Unknown:
	}
	return e.Error()
}

// noRoom says what to do when the disk of a store is full.
func noRoom(what, dir string) string {
	return fmt.Sprintf("no space left for the %s in %s; make room and run again: it goes on", what, dir)
}

// full reports whether there is next to no room left beside the logs.
func (p place) full() bool {
	const little = 64 << 10
	var disk unix.Statfs_t
	return unix.Statfs(p.logs(), &disk) == nil && uint64(disk.Bavail)*uint64(disk.Bsize) < little
}

// errNoRuns: nothing has been run yet.
var errNoRuns = errors.New("no runs yet")

// storeReader is what tells of runs.
type storeReader interface {
	lookup
	Load(ctx context.Context, fn func(job.Change) error) (queue.Head, error)
	Close() error
}

// read opens the store for reading, also while a run writes it. errNoRuns: there is none.
func (p place) read(ctx context.Context) (storeReader, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.address != "" {
		return p.readDatabase(ctx)
	}
	r, err := sqlite.OpenReadOnly(ctx, p.database())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoRuns
	}
	return r, err
}
