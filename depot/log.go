package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"sync"

	"github.com/headrace/headrace/job"
)

// logState is what memory knows of a log. Who holds the gate of the entry writes it, under the entry's mu; others read it
// under that.
type logState struct {
	loaded bool // false: the disk knows better, as something failed
	there  bool
	sealed bool
	safe   bool // this process has synced the seal
	gone   bool // the job was removed
	write  bool // the source can be written to
	size   int64
	times  ledger
	src    *source
	wake   chan struct{} // closed when there is something new; nil: nobody waits
}

// setSource has the log read from s, or from nothing, from now on.
func (l *logState) setSource(s *source) error {
	old := l.src
	l.src = s
	if s != nil {
		s.refs++
	}
	if old == nil {
		return nil
	}
	return old.let()
}

func (l *logState) tell() {
	if l.wake != nil {
		close(l.wake)
		l.wake = nil
	}
}

// load finds out what the disk has of the log. It needs the gate.
func (f *Folder) load(e *entry) error {
	if e.log.loaded {
		return nil
	}
	found, err := f.look(e.at)
	if err != nil {
		return err
	}
	next := logState{loaded: true}
	switch {
	case found[extZstd]:
		next.there, next.sealed = true, true
		next.src, err = f.openFile(e.at.place(extZstd), func(file file, length int64) (io.ReaderAt, error) {
			s, times, err := f.packer.openSeekable(file, length)
			if err == nil {
				next.size, next.times = s.size, times
			}
			return s, err
		})
		if err == nil {
			f.tidy(e.at, found, extLog, extTimes, extTmp)
		}
	case found[extDone], found[extLog]:
		ext := extLog
		if found[extDone] {
			ext = extDone
		}
		next.there, next.sealed = true, found[extDone]
		next.src, err = f.openFile(e.at.place(ext), func(file file, length int64) (io.ReaderAt, error) {
			next.size = length
			return file, nil
		})
		if err == nil && found[extTimes] {
			next.times, err = f.loadTimes(e.at, next.size)
		}
		f.tidy(e.at, found, extTmp)
	default:
		f.tidy(e.at, found, extTimes, extTmp)
	}
	if err != nil {
		return errors.Join(err, next.setSource(nil))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.log
	err = l.setSource(next.src)
	next.src, next.wake = l.src, l.wake
	news := next.size > l.size || next.sealed != l.sealed
	*l = next
	if news {
		l.tell()
	}
	return err
}

// look lists the files of an attempt by their extensions.
func (f *Folder) look(at Attempt) (map[string]bool, error) {
	infos, err := f.disk.List(jobDir(at.Job))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	found := map[string]bool{}
	for _, info := range infos {
		if number, ext, ok := parseEntry(info.Name()); ok && number == at.Number {
			found[ext] = true
		}
	}
	return found, nil
}

func (f *Folder) openFile(name string, open func(file, int64) (io.ReaderAt, error)) (*source, error) {
	file, err := f.disk.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	r, err := open(file, info.Size())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%q: %w", name, err), file.Close())
	}
	return &source{ReaderAt: r, file: file}, nil
}

func (f *Folder) loadTimes(at Attempt, size int64) (ledger, error) {
	b, err := readAll(f.disk, at.place(extTimes), int64(len(timesMagic)+arrivalSize*maxArrivals)+1)
	return decodeTimes(b, size), err
}

// tidy removes what an interrupted step left. What cannot be removed now, such as from a disk that was made read-only, does no
// harm, and is tried again the next time: so its errors are dropped.
func (f *Folder) tidy(at Attempt, found map[string]bool, exts ...string) {
	for i, ext := range exts {
		if !found[ext] {
			continue
		}
		// The plain form goes only when the sealed one is there for good.
		if i == 0 && ext == extLog && f.disk.SyncDir(jobDir(at.Job)) != nil {
			return
		}
		if f.disk.RemoveAll(at.place(ext)) != nil {
			return
		}
	}
}

// Append implements Logs.
func (f *Folder) Append(ctx context.Context, at Attempt, offset int64, chunk []byte, limit int64) (size int64, err error) {
	if offset < 0 || offset > math.MaxInt64-int64(len(chunk)) {
		return 0, &job.InvalidError{Field: "offset", Want: fmt.Sprintf("%d: want 0 to the size of the log", offset)}
	}
	e, err := f.enter(ctx, at)
	if err != nil {
		return 0, f.fail("append to the log", at, err)
	}
	defer f.leave(e)
	if err := f.load(e); err != nil {
		return e.log.size, f.fail("append to the log", at, err)
	}
	if limit <= 0 || limit > f.limits.Log {
		limit = f.limits.Log
	}
	if err := f.append(e, offset, chunk, limit); err != nil {
		return e.log.size, f.fail("append to the log", at, err)
	}
	return e.log.size, nil
}

// append needs the gate.
func (f *Folder) append(e *entry, offset int64, chunk []byte, limit int64) error {
	l := e.log
	end := offset + int64(len(chunk))
	switch {
	case offset > l.size:
		return &GapError{offset, l.size}
	case l.there && end <= l.size:
		return nil
	case l.sealed:
		return ErrSealed
	}
	rest := chunk[l.size-offset:]
	over := end > limit
	if over {
		rest = rest[:max(0, limit-l.size)]
	}
	if err := f.write(e, rest); err != nil {
		return err
	}
	if over {
		return &LimitError{"bytes of the log", limit}
	}
	return nil
}

// write appends to the file of a log, which it makes if there is none. It needs the gate.
func (f *Folder) write(e *entry, b []byte) error {
	l := e.log
	if !l.write {
		if err := f.openToWrite(e); err != nil {
			return err
		}
	}
	n, err := l.src.file.WriteAt(b, l.size)
	e.mu.Lock()
	before := l.size
	l.size += int64(n) // Also with an error: so much is there.
	if n > 0 {
		l.times.note(before, f.now())
		l.tell()
	}
	l.loaded = err == nil
	l.write = err == nil
	e.mu.Unlock()
	if err == nil {
		f.saveTimes(e)
	}
	return err
}

func (f *Folder) openToWrite(e *entry) error {
	if err := makeDirs(f.disk, jobDir(e.at.Job)); err != nil {
		return err
	}
	file, err := f.disk.OpenFile(e.at.place(extLog), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log.there, e.log.write = true, true
	return e.log.setSource(&source{ReaderAt: file, file: file})
}

// saveTimes writes what is new in the ledger. When it cannot, nothing is lost but after the end of the process, and the next call
// writes all anew: an append does not fail for that.
func (f *Folder) saveTimes(e *entry) {
	t := &e.log.times
	if t.stored == len(t.entries) {
		return
	}
	err := f.writeTimes(e.at, t)
	t.stored = len(t.entries)
	if err != nil {
		t.stored = -1
	}
}

func (f *Folder) writeTimes(at Attempt, t *ledger) error {
	name, from, b := at.place(extTimes), int64(0), []byte(nil)
	if t.stored <= 0 {
		name, b = at.place(extTmp), encodeTimes(t.entries)
	} else {
		from = int64(len(timesMagic) + arrivalSize*t.stored)
		for _, a := range t.entries[t.stored:] {
			b = appendArrival(b, a)
		}
	}
	file, err := f.disk.OpenFile(name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	if t.stored <= 0 {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt(b, from)
	}
	if err = errors.Join(err, file.Close()); err != nil || t.stored > 0 {
		return err
	}
	return f.disk.Rename(name, at.place(extTimes))
}

// peek gives an entry whose log is known. The caller drops it.
func (f *Folder) peek(ctx context.Context, at Attempt) (*entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e, err := f.acquire(ctx, at)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	known := e.log.loaded
	e.mu.Unlock()
	if !known {
		if err = e.lock(ctx); err == nil {
			err = f.load(e)
			e.unlock()
		}
	}
	if err != nil {
		f.drop(e)
		return nil, err
	}
	return e, nil
}

// Wait implements Logs.
func (f *Folder) Wait(ctx context.Context, at Attempt, offset int64) (size int64, sealed bool, err error) {
	e, err := f.peek(ctx, at)
	if err != nil {
		return 0, false, f.fail("wait for the log", at, err)
	}
	// For a call that only waits, Close does not wait.
	f.keep()
	defer f.dropKept(e)
	e.mu.Lock()
	l := e.log
	for {
		switch {
		case l.gone, !l.there && offset > 0:
			e.mu.Unlock()
			return 0, false, f.fail("wait for the log", at, ErrNotKept)
		case l.size > offset, l.sealed:
			size, sealed = l.size, l.sealed
			e.mu.Unlock()
			return size, sealed, nil
		}
		if l.wake == nil {
			l.wake = make(chan struct{})
		}
		wake := l.wake
		size = l.size
		e.mu.Unlock()
		if err := f.wait(ctx, wake); err != nil {
			return size, false, f.fail("wait for the log", at, err)
		}
		e.mu.Lock()
	}
}

// OpenLog implements Logs.
func (f *Folder) OpenLog(ctx context.Context, at Attempt) (Log, error) {
	e, err := f.peek(ctx, at)
	if err != nil {
		return nil, f.fail("open the log", at, err)
	}
	e.mu.Lock()
	l := e.log
	var src *source
	if l.there && l.src != nil {
		src = l.src
		src.refs++
	}
	e.mu.Unlock()
	if src == nil {
		f.drop(e)
		return nil, f.fail("open the log", at, ErrNotKept)
	}
	f.keep()
	return &openLog{folder: f, entry: e, state: l, src: src}, nil
}

// openLog is a Log. What it reads from stays the same when the log is sealed: the content does, too.
type openLog struct {
	folder *Folder
	entry  *entry
	state  *logState
	src    *source
	close  sync.Once
}

func (o *openLog) Size() int64 {
	o.entry.mu.Lock()
	defer o.entry.mu.Unlock()
	return o.state.size
}

func (o *openLog) Sealed() bool {
	o.entry.mu.Lock()
	defer o.entry.mu.Unlock()
	return o.state.sealed
}

func (o *openLog) Arrivals() []Arrival {
	o.entry.mu.Lock()
	defer o.entry.mu.Unlock()
	return o.state.times.list()
}

func (o *openLog) ReadAt(p []byte, at int64) (int, error) {
	size := o.Size()
	if at >= size {
		return 0, io.EOF
	}
	short := int64(len(p)) > size-at
	if short {
		p = p[:size-at]
	}
	n, err := o.src.ReadAt(p, at)
	switch {
	case n < len(p) && (err == nil || errors.Is(err, io.EOF)):
		return n, o.folder.fail("read the log", o.entry.at, fmt.Errorf("it ends at %d of %d: %w", at+int64(n), size, ErrDamaged))
	case n < len(p):
		return n, o.folder.fail("read the log", o.entry.at, err)
	case short:
		return n, io.EOF
	}
	return n, nil
}

func (o *openLog) Close() (err error) {
	o.close.Do(func() {
		o.entry.mu.Lock()
		err = o.src.let()
		o.entry.mu.Unlock()
		o.folder.dropKept(o.entry)
	})
	return err
}
