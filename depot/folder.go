package depot

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/headrace/headrace/job"
)

// maxIdle is how many attempts that nobody uses are remembered, with their files open.
const maxIdle = 256

// Options are what a folder may be told. The zero value does.
type Options struct {
	Limits Limits
	Now    func() time.Time // the clock of the server; nil: time.Now
}

// Folder is a depot in a folder of this machine: it implements Logs, Artifacts and Keeper. Open makes one.
type Folder struct {
	disk   disk
	dir    string // as it was opened, for messages
	limits Limits
	now    func() time.Time
	packer *packer

	done   chan struct{}  // closed by Close
	active sync.WaitGroup // calls that touch the disk
	mu     sync.Mutex
	closed bool
	// entries are the attempts that somebody uses, and some that nobody does.
	entries  map[Attempt]*entry
	idle     *list.List // of *entry, the one used last in front
	removing map[job.ID]chan struct{}
	late     error // the first error of closing a file that no call was using any more; Close tells it

	release func() error // gives up the folder
}

var (
	_ Logs      = (*Folder)(nil)
	_ Artifacts = (*Folder)(nil)
	_ Keeper    = (*Folder)(nil)
)

// entry is what memory has of an attempt.
type entry struct {
	at   Attempt
	gate chan struct{} // has room for the one that may change what is on disk, and what mu guards

	refs int           // of calls and of logs that are being read; guarded by Folder.mu
	idle *list.Element // guarded by Folder.mu

	mu    sync.Mutex // guards what log and files have, for those who only look
	log   *logState  // another one when the job is removed
	files *fileState // likewise
}

// Open makes a depot of the folder dir, which is made if it is not there (the folder above must be). One process at a time can
// have it, which is held to by a lock on the file "lock" in it that ends with the process. Errors: ErrInUse; a cause such
// as fs.ErrPermission is wrapped.
func Open(dir string, o Options) (*Folder, error) {
	if err := os.Mkdir(dir, dirPerm); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("open depot %q: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open depot %q: %w", dir, err)
	}
	l, err := takeLock(root)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open depot %q: %w", dir, err), root.Close())
	}
	f, err := newFolder(rootDisk{root}, dir, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open depot %q: %w", dir, err), l.release(), root.Close())
	}
	f.release = func() error { return errors.Join(l.release(), root.Close()) }
	return f, nil
}

func newFolder(d disk, dir string, o Options) (*Folder, error) {
	p, err := newPacker()
	if err != nil {
		return nil, err
	}
	f := &Folder{
		disk: d, dir: dir, limits: o.Limits.orDefault(), now: o.Now, packer: p,
		done: make(chan struct{}), entries: map[Attempt]*entry{}, idle: list.New(), removing: map[job.ID]chan struct{}{},
		release: func() error { return nil },
	}
	if f.now == nil {
		f.now = time.Now
	}
	return f, nil
}

// Close gives the folder up. It waits for calls under way, of which those that wait for something end with ErrClosed, as all
// later ones do. Logs and artifacts that are open can be read on, and must still be closed.
func (f *Folder) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	close(f.done)
	f.mu.Unlock()
	f.active.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.idle.Len() > 0 {
		f.forget(f.idle.Back().Value.(*entry))
	}
	return errors.Join(f.late, f.release())
}

// acquire gives the entry of an attempt, which the caller releases.
func (f *Folder) acquire(ctx context.Context, at Attempt) (*entry, error) {
	if err := at.check(); err != nil {
		return nil, err
	}
	for {
		f.mu.Lock()
		if f.closed {
			f.mu.Unlock()
			return nil, ErrClosed
		}
		removed := f.removing[at.Job]
		if removed == nil {
			break
		}
		f.mu.Unlock()
		if err := f.wait(ctx, removed); err != nil {
			return nil, err
		}
	}
	defer f.mu.Unlock()
	e := f.entries[at]
	if e == nil {
		e = &entry{at: at, gate: make(chan struct{}, 1), log: &logState{}, files: &fileState{}}
		f.entries[at] = e
	}
	if e.idle != nil {
		f.idle.Remove(e.idle)
		e.idle = nil
	}
	e.refs++
	f.active.Add(1)
	return e, nil
}

// wait waits for a channel to close.
func (f *Folder) wait(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-f.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keep turns the call that acquired the entry into a log that is being read, for which Close does not wait.
func (f *Folder) keep() { f.active.Done() }

func (f *Folder) drop(e *entry) {
	f.dropKept(e)
	f.active.Done()
}

// dropKept releases what was kept.
func (f *Folder) dropKept(e *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.refs--
	switch {
	case e.refs > 0:
	case f.closed:
		f.forget(e)
	default:
		e.idle = f.idle.PushFront(e)
		if f.idle.Len() > maxIdle {
			f.forget(f.idle.Back().Value.(*entry))
		}
	}
}

// forget takes an entry that nobody uses out of memory. It needs Folder.mu.
func (f *Folder) forget(e *entry) {
	if e.idle != nil {
		f.idle.Remove(e.idle)
		e.idle = nil
	}
	delete(f.entries, e.at)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.log.setSource(nil); err != nil && f.late == nil {
		f.late = fmt.Errorf("close the log of attempt %s in depot %q: %w", e.at, f.dir, err)
	}
}

// enter gives the entry of an attempt to the one that may change it. The caller leaves.
func (f *Folder) enter(ctx context.Context, at Attempt) (*entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e, err := f.acquire(ctx, at)
	if err != nil {
		return nil, err
	}
	if err := e.lock(ctx); err != nil {
		f.drop(e)
		return nil, err
	}
	return e, nil
}

func (f *Folder) leave(e *entry) {
	e.unlock()
	f.drop(e)
}

func (e *entry) lock(ctx context.Context) error {
	select {
	case e.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *entry) unlock() { <-e.gate }

// fail says what was done to what, and where.
func (f *Folder) fail(what string, at Attempt, err error) error {
	return fmt.Errorf("%s of attempt %s in depot %q: %w", what, at, f.dir, err)
}

// source is the content of a log, which is closed when the last of those who read it lets go.
type source struct {
	io.ReaderAt
	file file
	refs int // guarded by the mu of the entry
}

func (s *source) let() error {
	s.refs--
	if s.refs > 0 {
		return nil
	}
	return s.file.Close()
}
