package depot

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
)

const (
	filePerm = 0o640
	dirPerm  = 0o750
)

// disk is all that is asked of a file system. Names are relative, with slashes. Tests put one in its place that fails or
// forgets what was not synced.
type disk interface {
	OpenFile(name string, flag int) (file, error)
	Mkdir(name string) error
	Rename(from, to string) error
	// RemoveAll removes a file or a folder with all in it; nothing there is no error.
	RemoveAll(name string) error
	List(name string) ([]fs.FileInfo, error)
	SyncDir(name string) error
}

type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Stat() (fs.FileInfo, error)
}

// rootDisk is a folder that no name leads out of, whatever it is and whatever links are in the folder.
type rootDisk struct{ root *os.Root }

func (d rootDisk) OpenFile(name string, flag int) (file, error) {
	f, err := d.root.OpenFile(name, flag, filePerm)
	if err != nil {
		return nil, err // Not a nil *os.File in an interface.
	}
	return f, nil
}

func (d rootDisk) Mkdir(name string) error      { return d.root.Mkdir(name, dirPerm) }
func (d rootDisk) Rename(from, to string) error { return d.root.Rename(from, to) }
func (d rootDisk) RemoveAll(name string) error  { return d.root.RemoveAll(name) }

func (d rootDisk) List(name string) ([]fs.FileInfo, error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	infos, err := f.Readdir(-1)
	return infos, errors.Join(err, f.Close())
}

func (d rootDisk) SyncDir(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeDirs makes a folder with those above it.
func makeDirs(d disk, name string) error {
	err := d.Mkdir(name)
	if errors.Is(err, fs.ErrNotExist) && name != "." {
		if err := makeDirs(d, path.Dir(name)); err != nil {
			return err
		}
		err = d.Mkdir(name)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// syncDirs makes the entries of a folder safe, and those that lead to it.
func syncDirs(d disk, name string) error {
	for {
		if err := d.SyncDir(name); err != nil || name == "." {
			return err
		}
		name = path.Dir(name)
	}
}

// readAll gives the content of a file, which must not be larger than the limit.
func readAll(d disk, name string, limit int64) ([]byte, error) {
	f, err := d.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, limit))
	return b, errors.Join(err, f.Close())
}
