package depot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
)

// Remove implements Keeper. The folder of the job gets another name at once, so that nothing of it is there any more, whatever
// happens then; Sweep takes away what a crash leaves of it.
func (f *Folder) Remove(ctx context.Context, id job.ID) error {
	if err := f.remove(ctx, id); err != nil {
		return fmt.Errorf("remove what is kept of job %s in depot %q: %w", id, f.dir, err)
	}
	return nil
}

func (f *Folder) remove(ctx context.Context, id job.ID) error {
	if err := (Attempt{Job: id}).check(); err != nil {
		return err
	}
	entries, err := f.bar(ctx, id)
	if err != nil {
		return err
	}
	defer f.unbar(id)
	defer func() {
		for _, e := range entries {
			f.drop(e)
		}
	}()
	for i, e := range entries {
		if err := e.lock(ctx); err != nil {
			for _, locked := range entries[:i] {
				locked.unlock()
			}
			return err
		}
	}
	defer func() {
		for _, e := range entries {
			e.unlock()
		}
	}()
	from, to := jobDir(id), jobDir(id)+extGone
	if err := f.disk.RemoveAll(to); err != nil { // Of an earlier time.
		return err
	}
	if err := f.disk.Rename(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	} else if err != nil {
		to = ""
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, e.vanish())
	}
	if to != "" {
		errs = append(errs, f.disk.SyncDir(shelf(id)), f.disk.RemoveAll(to))
	}
	return errors.Join(errs...)
}

// vanish has those who wait for the log or upload artifacts know that the job was removed; whoever comes next begins anew.
func (e *entry) vanish() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log.gone = true
	e.log.tell()
	err := e.log.setSource(nil)
	e.files.gone = true
	e.log, e.files = &logState{}, &fileState{}
	return err
}

// bar keeps everybody from acquiring attempts of the job, and gives those that are in memory, acquired.
func (f *Folder) bar(ctx context.Context, id job.ID) ([]*entry, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f.mu.Lock()
		if f.closed {
			f.mu.Unlock()
			return nil, ErrClosed
		}
		removed := f.removing[id]
		if removed == nil {
			break
		}
		f.mu.Unlock()
		if err := f.wait(ctx, removed); err != nil {
			return nil, err
		}
	}
	defer f.mu.Unlock()
	f.removing[id] = make(chan struct{})
	f.active.Add(1)
	var out []*entry
	for at, e := range f.entries {
		if at.Job != id {
			continue
		}
		if e.idle != nil {
			f.idle.Remove(e.idle)
			e.idle = nil
		}
		e.refs++
		f.active.Add(1)
		out = append(out, e)
	}
	return out, nil
}

func (f *Folder) unbar(id job.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.removing[id])
	delete(f.removing, id)
	f.active.Done()
}

// List implements Keeper.
func (f *Folder) List(ctx context.Context) (held []Holding, total int64, err error) {
	err = f.eachJob(ctx, func(onShelf string, dir fs.FileInfo) error {
		id, ok := parseJob(onShelf, dir.Name())
		if !ok {
			return nil
		}
		h := Holding{Job: id}
		err := f.measure(&h, jobDir(id))
		slices.Sort(h.Open)
		if h.Changed.IsZero() { // Empty folders alone.
			h.Changed = dir.ModTime()
		}
		held = append(held, h)
		total += h.Bytes
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list depot %q: %w", f.dir, err)
	}
	slices.SortFunc(held, func(a, b Holding) int {
		return cmp.Or(a.Changed.Compare(b.Changed), strings.Compare(string(a.Job[:]), string(b.Job[:])))
	})
	return held, total, nil
}

// eachJob looks at all that is on the shelves.
func (f *Folder) eachJob(ctx context.Context, visit func(onShelf string, dir fs.FileInfo) error) error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return ErrClosed
	}
	f.active.Add(1)
	f.mu.Unlock()
	defer f.active.Done()
	shelves, err := f.disk.List(".")
	if err != nil {
		return err
	}
	for _, s := range shelves {
		if !isShelf(s.Name()) {
			continue
		}
		dirs, err := f.list(s.Name())
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := visit(s.Name(), dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// list gives what is in a folder, which may just have been removed.
func (f *Folder) list(name string) ([]fs.FileInfo, error) {
	infos, err := f.disk.List(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return infos, err
}

// measure adds up the files in a folder of a job.
func (f *Folder) measure(h *Holding, dir string) error {
	infos, err := f.list(dir)
	if err != nil {
		return err
	}
	for _, info := range infos {
		if info.IsDir() {
			if err := f.measure(h, dir+"/"+info.Name()); err != nil {
				return err
			}
			continue
		}
		h.Bytes += info.Size()
		if info.ModTime().After(h.Changed) {
			h.Changed = info.ModTime()
		}
		if number, ext, ok := parseEntry(info.Name()); ok && ext == extLog {
			h.Open = append(h.Open, number)
		}
	}
	return nil
}

// Sweep implements Keeper.
func (f *Folder) Sweep(ctx context.Context, before time.Time) (uploads int, err error) {
	err = f.eachJob(ctx, func(onShelf string, dir fs.FileInfo) error {
		if name, gone := strings.CutSuffix(dir.Name(), extGone); gone {
			if id, ok := parseJob(onShelf, name); ok {
				return f.sweepGone(ctx, id)
			}
		}
		id, ok := parseJob(onShelf, dir.Name())
		if !ok {
			return nil
		}
		attempts, err := f.list(jobDir(id))
		for _, info := range attempts {
			if number, ext, ok := parseEntry(info.Name()); ok && ext == extFiles {
				n, err := f.sweepFiles(ctx, Attempt{id, number}, before)
				uploads += n
				if err != nil {
					return err
				}
			}
		}
		return err
	})
	if err != nil {
		return uploads, fmt.Errorf("sweep depot %q: %w", f.dir, err)
	}
	return uploads, nil
}

// sweepGone takes away what a crash left of a job that was removed.
func (f *Folder) sweepGone(ctx context.Context, id job.ID) error {
	entries, err := f.bar(ctx, id) // Nobody is removing it now.
	if err != nil {
		return err
	}
	defer f.unbar(id)
	for _, e := range entries {
		f.drop(e)
	}
	return f.disk.RemoveAll(jobDir(id) + extGone)
}

func (f *Folder) sweepFiles(ctx context.Context, at Attempt, before time.Time) (uploads int, err error) {
	infos, err := f.list(at.place(extFiles))
	var old []string
	for _, info := range infos {
		if key, _, ok := parseContent(info.Name()); ok && info.ModTime().Before(before) {
			old = append(old, key)
		}
	}
	if err != nil || len(old) == 0 {
		return 0, err
	}
	e, err := f.enterFiles(ctx, at)
	if err != nil {
		return 0, err
	}
	defer f.leave(e)
	for _, key := range old {
		e.mu.Lock()
		p := e.files.parts[key]
		idle := p != nil && !p.busy
		e.mu.Unlock()
		if idle {
			if err := f.discard(e, key, p); err != nil {
				return uploads, err
			}
			uploads++
		}
	}
	return uploads, nil
}
