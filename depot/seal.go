package depot

import (
	"context"
	"errors"
	"os"
)

// Seal implements Logs. A crash leaves the log plain or sealed: what makes it the one or the other is the rename of a file
// that is whole and synced. Until then an append finds the plain file as it was, afterwards that does not count and is removed.
func (f *Folder) Seal(ctx context.Context, at Attempt) error {
	e, err := f.enter(ctx, at)
	if err != nil {
		return f.fail("seal the log", at, err)
	}
	defer f.leave(e)
	if err := f.load(e); err != nil {
		return f.fail("seal the log", at, err)
	}
	if !e.log.sealed {
		if err := f.seal(ctx, e); err != nil {
			return f.fail("seal the log", at, err)
		}
	}
	// Also of a seal that a process before this one, or a call that failed, came by: its rename may not be on disk yet.
	if !e.log.safe {
		if err := syncDirs(f.disk, jobDir(at.Job)); err != nil {
			return f.fail("seal the log", at, err)
		}
		e.log.safe = true
	}
	return nil
}

// seal needs the gate.
func (f *Folder) seal(ctx context.Context, e *entry) error {
	l := e.log
	if !l.there {
		if err := f.openToWrite(e); err != nil {
			return err
		}
	}
	smaller, err := f.compress(ctx, e)
	if err != nil {
		return errors.Join(err, f.disk.RemoveAll(e.at.place(extTmp)))
	}
	e.mu.Lock()
	l.loaded = false // From the rename on, the disk knows.
	e.mu.Unlock()
	if smaller {
		err = f.disk.Rename(e.at.place(extTmp), e.at.place(extZstd))
	} else {
		err = f.keepPlain(e)
	}
	if err != nil {
		return err
	}
	return f.load(e)
}

// compress writes the sealed form beside the log, synced, and reports whether that is smaller than what is there.
func (f *Folder) compress(ctx context.Context, e *entry) (bool, error) {
	l := e.log
	plain := l.size + l.times.cost()
	if plain < 64 {
		return false, nil // It never is; so much is sure.
	}
	file, err := f.disk.OpenFile(e.at.place(extTmp), os.O_CREATE|os.O_RDWR|os.O_TRUNC)
	if err != nil {
		return false, err
	}
	n, err := f.packer.pack(ctx, file, l.src, l.size, l.times.entries)
	if err == nil && n < plain {
		err = file.Sync()
	}
	return n < plain, errors.Join(err, file.Close())
}

// keepPlain seals a log as it is.
func (f *Folder) keepPlain(e *entry) error {
	if err := f.disk.RemoveAll(e.at.place(extTmp)); err != nil {
		return err
	}
	file, err := f.disk.OpenFile(e.at.place(extLog), os.O_RDWR)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	f.saveTimes(e)
	return f.disk.Rename(e.at.place(extLog), e.at.place(extDone))
}
