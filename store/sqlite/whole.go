package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/headrace/headrace/store/rows"
)

// Whole lends f all tables as they are at one moment, to be read only. While it lasts the owner's log cannot begin anew.
func (r *Reader) Whole(ctx context.Context, f func(rows.Tables) error) error {
	var refused error // by f: given back as it is
	err := r.long(ctx, func(c *conn) error {
		refused = f(c)
		return refused
	})
	if err != nil && refused == nil {
		return r.fail("read", err)
	}
	return err
}

// Make makes a store of what f writes. The folder must exist. If there is a store at path already it must be empty, else the
// error is a *rows.NotEmptyError; if that has an owner, a *queue.HeldError. The store appears at path when all of it is on
// disk; whatever goes wrong before, nothing has changed there.
func Make(ctx context.Context, path string, f func(rows.Tables) error) error {
	var refused error // by f: given back as it is
	err := makeAll(ctx, path, func(t rows.Tables) error {
		refused = f(t)
		return refused
	})
	switch {
	case err == nil:
		return nil
	case refused != nil && ctx.Err() == nil:
		return refused
	}
	return fmt.Errorf("make: %w", fileError(path, err))
}

func makeAll(ctx context.Context, path string, f func(rows.Tables) error) (err error) {
	path, err = resolve(path)
	if err != nil {
		return err
	}
	l, err := takeLock(path + ".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.release()) }()
	if err := vacant(ctx, path); err != nil {
		return err
	}
	draft := path + ".new"
	if err := discard(draft); err != nil {
		return err
	}
	if err := fill(draft, f); err != nil {
		return errors.Join(err, discard(draft))
	}
	if err := ctx.Err(); err != nil {
		return errors.Join(err, discard(draft))
	}
	// The log of what was there, which was empty, would be played into the new one.
	if err := discardLogs(path); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// vacant reports a *rows.NotEmptyError if there is a store at path that has anything in it. The lock must be held.
func vacant(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := openReader(ctx, path)
	if err != nil {
		return err
	}
	err = r.with(ctx, func(c *conn) error {
		_, err := rows.Fill(c)
		return err
	})
	return errors.Join(err, r.release())
}

// Backup writes all of the store into a new file, which is complete and on disk when it appears at path. It sees one moment
// of the store, also while an owner writes; while it lasts the owner's log cannot begin anew. fs.ErrExist: there is such a
// file.
func (r *Reader) Backup(ctx context.Context, path string) error {
	err := r.gate.pass(ctx)
	if err == nil {
		err = r.backup(ctx, path)
	}
	if err != nil {
		return fmt.Errorf("back up store %q to %q: %w", r.path, path, cause(ctx, err))
	}
	return nil
}

func (r *Reader) backup(ctx context.Context, path string) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return fs.ErrExist
	}
	// A name of its own: two that make one backup at once must not write into one draft.
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	draft := f.Name()
	defer func() {
		if rerr := os.Remove(draft); err == nil {
			err = rerr
		}
	}()
	if err := f.Close(); err != nil {
		return err
	}
	err = r.lend(ctx, func(c *conn) error {
		if ctx.Done() != nil {
			c.watch(ctx)
			defer c.unwatch()
		}
		return c.copyInto(draft)
	})
	if err != nil {
		return err
	}
	if err := syncFile(draft); err != nil {
		return err
	}
	// Unlike a renaming, this replaces nothing.
	if err := os.Link(draft, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Integrity gives what the engine itself finds wrong with the file: nothing if all is well.
func (r *Reader) Integrity(ctx context.Context) (found []string, err error) {
	err = r.long(ctx, func(c *conn) (err error) {
		found, err = c.integrity()
		return err
	})
	if err != nil {
		return nil, r.fail("check the file", err)
	}
	return found, nil
}
