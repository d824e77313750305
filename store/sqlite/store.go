package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/rows"
)

// Options say how a store is opened; the zero value is right for most.
type Options struct {
	// Readers is how many reads may be under way at once; 0: 4.
	Readers int
}

const defaultReaders = 4

// pageSize counts for new files. Twice SQLite's default costs somewhat less time in large batches, for fewer pages
// are split and found; four times seemed to cost small batches more in writing than it saves.
const pageSize = 8192

// writerCache is how many KiB of pages the writer keeps.
const writerCache = 64 << 10

// Store owns a file. It implements queue.Store and queue.History.
type Store struct {
	*Reader
	lock *lock
	file fs.FileInfo // of the file as it was opened

	mu  sync.Mutex // held by the one who writes
	w   *conn
	tx  rows.Batch
	log logKeeper
	err error // once it is closed
}

var (
	_ queue.Store   = (*Store)(nil)
	_ queue.History = (*Store)(nil)
)

// Open makes the caller the owner of the file at path, which is created if there is none, and brings its
// schema up to date. The folder must exist.
//
// A new file appears at path when it is complete, so that readers find a whole store or none. One without any content,
// as a full disk or a crash of the machine may leave it, is none.
//
// If it has an owner already, in whatever process, the error is a *queue.HeldError. A file that is not a store
// of headrace, or that a newer headrace has written, is refused and not touched.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	s, err := open(ctx, path, opts)
	if err != nil {
		return nil, fmt.Errorf("open: %w", fileError(path, err))
	}
	return s, nil
}

func open(ctx context.Context, path string, opts Options) (_ *Store, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, err = resolve(path)
	if err != nil {
		return nil, err
	}
	l, err := takeLock(path + ".lock")
	if err != nil {
		return nil, err
	}
	s := &Store{lock: l, Reader: &Reader{path: path}, log: logKeeper{limit: logLimit, patience: readPatience}}
	defer func() {
		if err != nil {
			err = errors.Join(reason(err), s.release())
		}
	}()
	if err := create(path); err != nil {
		return nil, err
	}
	if s.file, err = os.Stat(path); err != nil {
		return nil, err
	}
	if s.w, err = dial(path, writing); err != nil {
		return nil, err
	}
	if err := prepare(s.w); err != nil {
		return nil, err
	}
	n := opts.Readers
	if n <= 0 {
		n = defaultReaders
	}
	if err := s.connect(n, reading); err != nil {
		return nil, err
	}
	return s, nil
}

// create makes a store that is complete before it has its name, unless there is one. Others cannot read it, since it will
// hold what jobs are given. The lock must be held. A file that exists is not opened: closing it would take away the
// locks of a reader in this process.
func create(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() > 0 {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	draft := path + ".new"
	// What an earlier attempt left, and the log of a file that is no more: it would be played into the new one.
	if err := errors.Join(discard(draft), discardLogs(path)); err != nil {
		return err
	}
	if err := fill(draft, nil); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// discard removes a draft.
func discard(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, discardLogs(path))
}

// discardLogs removes what the engine keeps beside a file.
func discardLogs(path string) error {
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// fill makes a store, closed and on disk, with what f, if there is one, writes.
func fill(path string, f func(rows.Tables) error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	c, err := dial(path, writing)
	if err != nil {
		return err
	}
	// Closing copies the log into the file and syncs that.
	return errors.Join(reason(prepare(c)), c.fill(f), c.close())
}

// syncDir makes the names in a folder last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// prepare checks that the file is ours and makes it ready for writing.
func prepare(c *conn) error {
	if err := checkFile(c, true); err != nil {
		return err
	}
	for _, pragma := range []string{
		fmt.Sprintf("PRAGMA page_size = %d", pageSize),
		"PRAGMA journal_mode = wal",
		"PRAGMA synchronous = full",
		fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", checkpointPages),
		fmt.Sprintf("PRAGMA cache_size = -%d", writerCache),
		fmt.Sprintf("PRAGMA journal_size_limit = %d", 2*checkpointPages*pageSize),
		"PRAGMA temp_store = memory",
	} {
		if err := c.script(pragma); err != nil {
			return fmt.Errorf("%s: %w", pragma, err)
		}
	}
	return migrate(c)
}

// resolve gives the one name of the file by which the lock beside it is found, whatever links lead to it.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

// Close implements queue.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.err = errClosed
	s.gate.open()
	if err := s.release(); err != nil {
		return s.fail("close", err)
	}
	return nil
}

// release closes the writer last, so that it is the one to copy the log back into the file.
func (s *Store) release() error {
	err := s.Reader.release()
	if s.w != nil {
		err = errors.Join(err, s.w.close())
		s.w = nil
	}
	return errors.Join(err, s.lock.release())
}
