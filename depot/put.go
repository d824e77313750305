package depot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/headrace/headrace/job"
)

// putBlock is how many bytes of an upload are read before they are written.
const putBlock = 128 << 10

// checkUpload reports what is wrong with a declaration.
func (f *Folder) checkUpload(u Upload) error {
	if err := CheckName(u.Name); err != nil {
		return err
	}
	if u.Size < 0 {
		return &job.InvalidError{Field: "size", Want: fmt.Sprintf("%d: want no negative number", u.Size)}
	}
	if u.Size > f.limits.File {
		return &LimitError{"bytes of an artifact", f.limits.File}
	}
	return nil
}

// Put implements Artifacts.
//
// The bytes go to a file that the index does not name. When all are there, they are synced and summed up as they are read
// back; then a line in the index makes them visible.
func (f *Folder) Put(ctx context.Context, at Attempt, u Upload, offset int64, r io.Reader) (received int64, err error) {
	err = f.checkUpload(u)
	if err == nil && (offset < 0 || offset > u.Size) {
		err = &job.InvalidError{Field: "offset", Want: fmt.Sprintf("%d: want 0 to the size", offset)}
	}
	if err != nil {
		return 0, f.fail("put an artifact", at, err)
	}
	e, err := f.enterFiles(ctx, at)
	if err != nil {
		return 0, f.fail("put an artifact", at, err)
	}
	defer f.drop(e)
	received, t, err := f.admit(e, u, offset)
	e.unlock()
	if err == nil && t != nil {
		received, err = t.run(ctx, offset, r)
	}
	if err != nil {
		return received, f.fail("put an artifact", at, fmt.Errorf("%q: %w", u.Name, err))
	}
	return received, nil
}

// Received implements Artifacts.
func (f *Folder) Received(ctx context.Context, at Attempt, u Upload) (int64, error) {
	if err := f.checkUpload(u); err != nil {
		return 0, f.fail("look for an upload", at, err)
	}
	e, err := f.enterFiles(ctx, at)
	if err != nil {
		return 0, f.fail("look for an upload", at, err)
	}
	defer f.leave(e)
	e.mu.Lock()
	defer e.mu.Unlock()
	if a, ok := e.files.kept[u.Name]; ok {
		if a.Upload != u {
			return 0, f.fail("look for an upload", at, &TakenError{a})
		}
		return u.Size, nil
	}
	if p := e.files.parts[nameKey(u.Name)]; p != nil && p.Size == u.Size && p.Sum == u.Sum {
		return p.received, nil
	}
	return 0, nil
}

// transfer is one call of Put that has bytes to take.
type transfer struct {
	folder *Folder
	entry  *entry
	files  *fileState // of the entry, when it began
	part   *part
	file   file
}

// admit finds or makes the upload, and gives it to the caller alone. It gives no transfer if the file is kept already. It needs
// the gate.
func (f *Folder) admit(e *entry, u Upload, offset int64) (received int64, _ *transfer, err error) {
	s, key := e.files, nameKey(u.Name)
	if a, ok := s.kept[u.Name]; ok {
		if a.Upload != u {
			return 0, nil, &TakenError{a}
		}
		return u.Size, nil, f.assure(e)
	}
	e.mu.Lock()
	p := s.parts[key]
	busy := p != nil && p.busy
	other := p != nil && (p.Size != u.Size || p.Sum != u.Sum)
	if p != nil && !other {
		received = p.received
	}
	e.mu.Unlock()
	switch {
	case busy:
		return received, nil, ErrBusy
	case offset > received:
		return received, nil, &GapError{offset, received}
	}
	files, size := s.room(key)
	if files >= f.limits.Files {
		return received, nil, &LimitError{"artifacts of an attempt", int64(f.limits.Files)}
	}
	if size > f.limits.Bytes-u.Size {
		return received, nil, &LimitError{"bytes of all artifacts of an attempt", f.limits.Bytes}
	}
	dir := e.at.place(extFiles)
	if other {
		if err := f.discard(e, key, p); err != nil {
			return received, nil, err
		}
	}
	if err := makeDirs(f.disk, dir); err != nil {
		return received, nil, err
	}
	t := &transfer{folder: f, entry: e, files: s}
	if t.file, err = f.disk.OpenFile(dir+"/"+contentName(key, u), os.O_CREATE|os.O_RDWR); err != nil {
		return received, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	t.part = &part{Upload: u, received: received, busy: true}
	s.parts[key] = t.part
	return received, t, nil
}

// discard drops an upload. It needs the gate.
func (f *Folder) discard(e *entry, key string, p *part) error {
	if err := f.disk.RemoveAll(e.at.place(extFiles) + "/" + contentName(key, p.Upload)); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.files.parts, key)
	return nil
}

func (t *transfer) run(ctx context.Context, offset int64, r io.Reader) (received int64, err error) {
	defer func() {
		err = errors.Join(err, t.file.Close())
		t.entry.mu.Lock()
		t.part.busy = false
		t.entry.mu.Unlock()
	}()
	// received belongs to this call; others only read it.
	if err := t.receive(ctx, t.part.received-offset, r); err != nil {
		return t.part.received, err
	}
	if t.part.received < t.part.Size {
		return t.part.received, nil
	}
	return t.complete(ctx, r)
}

// receive takes bytes until there are enough or r ends. The first of them, of which there are skip, are there already.
func (t *transfer) receive(ctx context.Context, skip int64, r io.Reader) error {
	b := make([]byte, min(putBlock, max(t.part.Size, 512)))
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		select {
		case <-t.folder.done:
			return ErrClosed
		default:
		}
		left := skip + t.part.Size - t.part.received
		if left == 0 {
			return nil
		}
		n, err := r.Read(b[:min(int64(len(b)), left)])
		known := min(int64(n), skip)
		skip -= known
		if werr := t.write(b[known:n]); werr != nil {
			return werr
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the upload at %d: %w", t.part.received, err)
		}
	}
}

func (t *transfer) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := t.file.WriteAt(b, t.part.received)
	t.entry.mu.Lock()
	defer t.entry.mu.Unlock()
	t.part.received += int64(n)
	return err
}

// complete makes the file visible, or drops it if it is not the one that was declared.
func (t *transfer) complete(ctx context.Context, r io.Reader) (received int64, err error) {
	wrong, err := t.verify(r)
	if err != nil {
		return t.part.received, err
	}
	if err := t.entry.lock(ctx); err != nil {
		return t.part.received, err
	}
	defer t.entry.unlock()
	f, e := t.folder, t.entry
	if t.files.gone {
		return 0, fmt.Errorf("the job was removed meanwhile: %w", ErrNotKept)
	}
	key := nameKey(t.part.Name)
	if wrong != nil {
		return 0, errors.Join(wrong, f.discard(e, key, t.part))
	}
	a := Artifact{t.part.Upload, f.now().UTC().Truncate(time.Microsecond)}
	end, err := t.publish(e, a)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.files.loaded = false
		return t.part.received, err
	}
	e.files.kept[a.Name] = a
	e.files.end = end
	delete(e.files.parts, key)
	return a.Size, nil
}

// verify syncs what is there and reads it back. It tells what is wrong with it apart from why it could not look.
func (t *transfer) verify(r io.Reader) (wrong, err error) {
	if err := t.file.Sync(); err != nil {
		return nil, err
	}
	var more [1]byte
	if n, err := io.ReadFull(r, more[:]); n > 0 {
		return &job.InvalidError{Field: "size", Want: fmt.Sprintf("%d: more bytes than that came", t.part.Size)}, nil
	} else if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the end of the upload: %w", err)
	}
	h := sha256.New()
	n, err := io.CopyBuffer(h, io.NewSectionReader(t.file, 0, math.MaxInt64), make([]byte, putBlock))
	if err != nil {
		return nil, err
	}
	if have := Sum(h.Sum(nil)); n != t.part.Size || have != t.part.Sum {
		return &SumError{t.part.Name, t.part.Sum, have}, nil
	}
	return nil, nil
}

// publish writes a line to the index, synced with all that leads to it and to the content. It needs the gate.
func (t *transfer) publish(e *entry, a Artifact) (end int64, err error) {
	line, err := encodeIndexLine(a)
	if err != nil {
		return 0, err
	}
	begin := e.files.end
	err = t.folder.writeIndex(e, func(index file) error {
		err := index.Truncate(begin) // A torn line.
		if err == nil {
			_, err = index.WriteAt(line, begin)
		}
		return err
	})
	return begin + int64(len(line)), err
}

// assure makes sure that the index is on disk for good, which it may not be if a process before this one, or a call that
// failed, wrote to it last: what is kept must not be acknowledged before. It needs the gate.
func (f *Folder) assure(e *entry) error {
	if e.files.safe {
		return nil
	}
	return f.writeIndex(e, func(file) error { return nil })
}

func (f *Folder) writeIndex(e *entry, change func(file) error) error {
	dir := e.at.place(extFiles)
	index, err := f.disk.OpenFile(dir+"/"+indexName, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	if err = change(index); err == nil {
		err = index.Sync()
	}
	if err == nil {
		err = syncDirs(f.disk, dir)
	}
	if err != nil {
		// What a failed sync was about may never reach the disk, though it can be read: it is taken back.
		err = errors.Join(err, index.Truncate(e.files.end))
	}
	err = errors.Join(err, index.Close())
	e.files.safe = err == nil
	return err
}
