package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/rows"
	"github.com/headrace/headrace/store/sqlite"
	"github.com/spf13/cobra"
	driver "zombiezen.com/go/sqlite"
)

// address is where a store is, whatever keeps it.
type address struct {
	place // of a store in a folder; file is empty where none was named
	// database is the URL of a PostgreSQL database; "": the store is a file.
	database string
	// path is the file.
	path string
}

// storeUse is how commands that take any store say so.
const storeUse = "the `folder`, file or postgres:// URL of the store; needed where no graph file is named"

// addressOf gives the store of a graph file, or the one that is named.
func addressOf(files []string, store string) (address, error) {
	var a address
	if len(files) == 0 && store == "" {
		return a, usage("name a graph file, or a store with --store")
	}
	if isURL(store) {
		a.database = store
		if len(files) > 0 {
			a.place = placeOf(files[0], "") // of the logs
		}
		return a, nil
	}
	if info, err := os.Stat(store); err == nil && !info.IsDir() && len(files) == 0 {
		a.path = store
		return a, nil
	}
	if len(files) > 0 {
		a.place = placeOf(files[0], store)
	} else {
		a.place = place{folder: store, dir: store}
	}
	a.path = a.place.database()
	return a, nil
}

// String names the store to a person, without the password that a URL may have.
func (a *address) String() string {
	switch {
	case a.database != "":
		return hidden(a.database)
	case a.dir != "":
		return a.dir
	}
	return a.path
}

// hidden gives a URL without its password.
func hidden(database string) string {
	scheme, rest, _ := strings.Cut(database, "://")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		if user, _, ok := strings.Cut(rest[:at], ":"); ok {
			rest = user + rest[at:]
		}
	}
	rest, _, _ = strings.Cut(rest, "?")
	return scheme + "://" + rest
}

// anyReader reads a store.
type anyReader interface {
	queue.History
	Whole(ctx context.Context, f func(rows.Tables) error) error
	Close() error
}

// open opens the store for reading, also while somebody writes it.
func (a *address) open(ctx context.Context) (anyReader, error) {
	if a.database != "" {
		r, err := postgres.OpenReadOnly(ctx, a.database)
		if err != nil {
			return nil, reached(a.String(), fmt.Errorf("%v: %w", a, err))
		}
		return r, nil
	}
	if err := a.checkClaim(); err != nil {
		return nil, err
	}
	r, err := sqlite.OpenReadOnly(ctx, a.path)
	if errors.Is(err, fs.ErrNotExist) {
		if kind := kindOfFile(a.file); kind != "" && !strings.HasPrefix(kind, "a graph") {
			return nil, usage("%s is %s", a.file, kind)
		}
		return nil, usage("there is no store in %s", a)
	}
	var file *sqlite.FileError
	if a.dir == "" && errors.As(err, &file) && file.Fault == sqlite.Damaged { // Its folder may hold anything else.
		if kind := kindOfFile(a.path); kind != "" {
			return nil, usage("%s is %s", a, kind)
		}
		return nil, &exit{exitMachine, fmt.Errorf("the file %s is damaged, or no store of headrace", a)}
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// kindOfFile says what a file is that was taken for something else, and what is to be done with it; "": nobody knows.
func kindOfFile(path string) string {
	if ok, err := isDatabase(path); err == nil && ok {
		return "a database file, as headrace backup writes; use it with --store, or make a store of it: headrace restore --from " + shellWord(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close() // Only read from.
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head) // A short file is one, too.
	if first, _, _ := strings.Cut(string(head[:n]), "\n"); strings.HasPrefix(first, `{"headrace":`) {
		return "a dump; make a store of it: headrace load --from " + shellWord(path)
	}
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json":
		return "a graph file, as its name says; name it without --store or --from"
	}
	return ""
}

// checkClaim refuses a graph file whose store is another's.
func (a *address) checkClaim() error {
	if a.file == "" {
		return nil
	}
	return a.check()
}

// reading lends f the store as it is at one moment.
func (a *address) reading(ctx context.Context, f func(rows.Tables) error) error {
	r, err := a.open(ctx)
	if err != nil {
		return err
	}
	err = r.Whole(ctx, f)
	var file *sqlite.FileError
	if code := driver.ErrCode(err).ToPrimary(); !errors.As(err, &file) && (code == driver.ResultCorrupt || code == driver.ResultNotADB) {
		err = &sqlite.FileError{Path: a.path, Fault: sqlite.Damaged, Err: err} // What f writes is new.
	}
	return errors.Join(err, r.Close())
}

// make makes the store of what f writes. It must not exist, or be empty.
func (a *address) make(ctx context.Context, f func(rows.Tables) error) error {
	err := a.fill(ctx, f)
	var full *rows.NotEmptyError
	if errors.As(err, &full) {
		return usage("%v: %v; nothing was changed", a, full)
	}
	return err
}

func (a *address) fill(ctx context.Context, f func(rows.Tables) error) error {
	if a.database != "" {
		return reached(a.String(), postgres.Make(ctx, a.database, f))
	}
	if a.dir == "" {
		return sqlite.Make(ctx, a.path, f)
	}
	if err := a.checkClaim(); err != nil {
		return err
	}
	if err := a.fillFolder(ctx, f); err != nil {
		return err
	}
	if err := os.MkdirAll(a.logs(), 0o755); err != nil {
		return fmt.Errorf("make the store: %w", err)
	}
	if a.file == "" {
		return nil
	}
	return a.claim()
}

// fillFolder makes the store in its folder. One that is not there yet has its name when the store is complete: of what is refused
// nothing is left, not even the lock.
func (a *address) fillFolder(ctx context.Context, f func(rows.Tables) error) (err error) {
	if _, err := os.Lstat(a.dir); !errors.Is(err, fs.ErrNotExist) {
		return sqlite.Make(ctx, a.path, f)
	}
	dir := filepath.Clean(a.dir)
	parent := filepath.Dir(dir)
	missing := missingFolders(parent)
	draft := filepath.Join(parent, "."+filepath.Base(dir)+".part")
	path := filepath.Join(draft, filepath.Base(a.path)) // with its lock beside it
	if err := os.MkdirAll(draft, 0o755); err != nil {
		return fmt.Errorf("make the store: %w", err)
	}
	defer func() {
		if err == nil {
			return
		}
		// Each is left as it is if it has anything else in it.
		for _, path := range append([]string{path, path + ".lock", draft}, missing...) {
			_ = os.Remove(path)
		}
	}()
	if err := sqlite.Make(ctx, path, f); err != nil {
		return err
	}
	if err := os.Rename(draft, dir); err != nil {
		return fmt.Errorf("make the store: %w", err)
	}
	return syncFolder(parent)
}

// missingFolders lists those of the folder and the ones above it that are not there, the deepest first.
func missingFolders(dir string) (missing []string) {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return missing
		}
		missing = append(missing, dir)
	}
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// interruptible lets a command undo what it has begun when somebody interrupts it.
func interruptible(cmd *cobra.Command, do func(ctx context.Context) error) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		return &exit{exitInterrupted, errors.New("interrupted: nothing was made")}
	}
	return err
}

// writeNew writes a file that nobody else may read, and that has its name when it is complete and on disk. One that is there
// already is not replaced.
func writeNew(path string, write func(io.Writer) error) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return newFile(path, fs.ErrExist)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return newFile(path, err)
	}
	return syncFolder(filepath.Dir(path))
}

// newFile gives the error of a file that was to be made.
func newFile(path string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return usage("there is a file %s already: it is not overwritten", path)
	}
	return fmt.Errorf("write %s: %w", path, err)
}
