package depot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"
)

// memDisk is a disk in memory that knows what a machine which dies would forget, and that fails when it is told to.
type memDisk struct {
	mu   sync.Mutex
	root *memNode
	// before is asked before each step that changes something; with an error a write is done by half, all else not at all.
	before func(op, name string) error
	room   int64 // bytes that may still be written; -1: any number
}

type memNode struct {
	dir     map[string]*memNode // nil for a file
	safeDir map[string]*memNode
	data    []byte
	safe    []byte // what is synced
	mod     time.Time
}

func newMemNode(isDir bool) *memNode {
	n := &memNode{mod: time.Now()}
	if isDir {
		n.dir, n.safeDir = map[string]*memNode{}, map[string]*memNode{}
	}
	return n
}

func newMemDisk() *memDisk { return &memDisk{root: newMemNode(true), room: -1} }

// loss is what a death takes with it.
type loss int

const (
	process loss = iota // nothing that was written
	machine             // what was not synced: contents and names
	content             // contents that were not synced; names stay
	losses
)

func (l loss) String() string { return [...]string{"process", "machine", "content"}[l] }

// die gives what is there after a death. That of a process changes nothing, and what is not synced is not synced by it.
func (d *memDisk) die(l loss) *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l == process {
		return &memDisk{root: d.root, room: -1}
	}
	var survive func(n *memNode) *memNode
	survive = func(n *memNode) *memNode {
		out := newMemNode(n.dir != nil)
		out.data, out.safe = bytes.Clone(n.safe), bytes.Clone(n.safe)
		names := n.dir
		if l == machine {
			names = n.safeDir
		}
		for name, child := range names {
			out.dir[name] = survive(child)
			out.safeDir[name] = out.dir[name]
		}
		return out
	}
	return &memDisk{root: survive(d.root), room: -1}
}

func (d *memDisk) find(name string) (*memNode, error) {
	n := d.root
	if name == "." {
		return n, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if n = n.dir[part]; n == nil {
			return nil, &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
		}
	}
	return n, nil
}

func (d *memDisk) step(op, name string) error {
	if d.before == nil {
		return nil
	}
	if err := d.before(op, name); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

func (d *memDisk) OpenFile(name string, flag int) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	up, err := d.find(path.Dir(name))
	if err != nil {
		return nil, err
	}
	n := up.dir[path.Base(name)]
	if n == nil || flag&os.O_TRUNC != 0 {
		if flag&os.O_CREATE == 0 {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		if err := d.step("create", name); err != nil {
			return nil, err
		}
		n = newMemNode(false)
		up.dir[path.Base(name)] = n
	} else if flag&os.O_RDWR != 0 {
		if err := d.step("open to write", name); err != nil {
			return nil, err
		}
	}
	return &memFile{d, n, name}, nil
}

func (d *memDisk) Mkdir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	up, err := d.find(path.Dir(name))
	if err != nil {
		return err
	}
	if up.dir[path.Base(name)] != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
	}
	if err := d.step("mkdir", name); err != nil {
		return err
	}
	up.dir[path.Base(name)] = newMemNode(true)
	return nil
}

func (d *memDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(from)
	if err != nil {
		return err
	}
	if err := d.step("rename", from); err != nil {
		return err
	}
	a, _ := d.find(path.Dir(from)) // It was found through it.
	b, err := d.find(path.Dir(to))
	if err != nil {
		return err
	}
	delete(a.dir, path.Base(from))
	b.dir[path.Base(to)] = n
	return nil
}

func (d *memDisk) RemoveAll(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	up, err := d.find(path.Dir(name))
	if err != nil || up.dir[path.Base(name)] == nil {
		return nil
	}
	if err := d.step("remove", name); err != nil {
		return err
	}
	delete(up.dir, path.Base(name))
	return nil
}

func (d *memDisk) List(name string) ([]fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(name)
	if err != nil {
		return nil, err
	}
	var out []fs.FileInfo
	for name, child := range n.dir {
		out = append(out, memInfo{name, child.dir != nil, int64(len(child.data)), child.mod})
	}
	return out, nil
}

func (d *memDisk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(name)
	if err != nil {
		return err
	}
	if err := d.step("sync folder", name); err != nil {
		return err
	}
	clear(n.safeDir)
	for name, child := range n.dir {
		n.safeDir[name] = child
	}
	return nil
}

type memFile struct {
	disk *memDisk
	node *memNode
	name string
}

func (f *memFile) ReadAt(p []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if at >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.disk.step("write", f.name)
	if err != nil {
		p = p[:len(p)/2]
	}
	if f.disk.room >= 0 && int64(len(p)) > f.disk.room {
		p = p[:f.disk.room]
		err = &fs.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
	}
	if f.disk.room >= 0 {
		f.disk.room -= int64(len(p))
	}
	if gap := at + int64(len(p)) - int64(len(f.node.data)); gap > 0 {
		f.node.data = append(f.node.data, make([]byte, gap)...)
	}
	f.node.mod = time.Now()
	return copy(f.node.data[at:], p), err
}

func (f *memFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.step("truncate", f.name); err != nil {
		return err
	}
	f.node.data = append([]byte(nil), f.node.data[:min(size, int64(len(f.node.data)))]...)
	return nil
}

func (f *memFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.step("sync", f.name); err != nil {
		return err
	}
	f.node.safe = append([]byte(nil), f.node.data...)
	return nil
}

func (f *memFile) Close() error { return nil }

func (f *memFile) Stat() (fs.FileInfo, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return memInfo{path.Base(f.name), false, int64(len(f.node.data)), f.node.mod}, nil
}

type memInfo struct {
	name string
	dir  bool
	size int64
	mod  time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return filePerm }
func (i memInfo) ModTime() time.Time { return i.mod }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }

var errDied = errors.New("the process has died")

// dieAt has the disk die at the n-th step that changes something.
func (d *memDisk) dieAt(n int) {
	d.before = func(op, name string) error {
		n--
		if n < 0 {
			return errDied
		}
		if n == 0 {
			return fmt.Errorf("%w at %s of %s", errDied, op, name)
		}
		return nil
	}
}
