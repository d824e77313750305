package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/headrace/headrace/queue"
)

// Readers look all the while that an owner makes the file: they find a whole store or none.
func TestReaderSeesNoUnfinishedFile(t *testing.T) {
	t.Parallel()
	for range 10 {
		path := filepath.Join(t.TempDir(), "db")
		made := make(chan struct{})
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				for last := false; !last; {
					select {
					case <-made:
						last = true
					default:
					}
					r, err := OpenReadOnly(t.Context(), path)
					if err == nil {
						err = r.Close()
					}
					if err != nil && (last || !errors.Is(err, fs.ErrNotExist)) {
						t.Errorf("a reader beside the maker: %v", err)
						return
					}
				}
			})
		}
		s, err := Open(t.Context(), path, Options{})
		close(made)
		readers.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What a killed maker left, and the log of a file that is gone, have no say in the new file; an empty file is none.
func TestNewFileOwesNothingToLeftovers(t *testing.T) {
	t.Parallel()
	old, path := openFile(t)
	if err := old.Commit(t.Context(), &queue.Batch{Number: 1, Changes: bulk(1, 3)}); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil || len(log) == 0 {
		t.Fatalf("the log: %d bytes, %v", len(log), err)
	}
	next := filepath.Join(t.TempDir(), "db")
	for name, content := range map[string][]byte{next: nil, next + "-wal": log, next + ".new": []byte("half"), next + ".new-wal": log} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), next, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() // Only read from.
	if n := count(t, s); n != 0 {
		t.Errorf("%d jobs in a new store", n)
	}
	if left, err := filepath.Glob(next + ".new*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestFileThatIsTakenAwayFencesItsOwner(t *testing.T) {
	t.Parallel()
	for _, replaced := range []bool{false, true} {
		s, path := openFile(t)
		if err := s.Commit(t.Context(), &queue.Batch{Number: 1}); err != nil {
			t.Fatal(err)
		}
		if err := s.InPlace(); err != nil {
			t.Errorf("before: %v", err)
		}
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		if replaced {
			if err := os.WriteFile(path, []byte("another"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := s.Commit(t.Context(), &queue.Batch{Number: 2})
		var at *FileError
		if !errors.Is(err, queue.ErrFenced) || !errors.As(err, &at) || at.Fault != Gone || at.Path != path {
			t.Errorf("commit: %v, want one that fences", err)
		}
		if err := s.InPlace(); !errors.Is(err, queue.ErrFenced) {
			t.Errorf("after: %v", err)
		}
	}
}

func TestErrorsSayWhatIsWrongWithTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	foreign, damaged := filepath.Join(dir, "foreign"), filepath.Join(dir, "damaged")
	if err := os.WriteFile(foreign, []byte(strings.Repeat("this is no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, whole := openFile(t)
	if err := s.Commit(t.Context(), &queue.Batch{Number: 1, Changes: bulk(1, 50)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	bytes, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for i := 100; i < len(bytes); i++ {
		bytes[i] = 0xff
	}
	if err := os.WriteFile(damaged, bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{foreign, damaged} {
		_, owner := Open(t.Context(), path, Options{})
		_, reader := OpenReadOnly(t.Context(), path)
		for _, err := range []error{owner, reader} {
			var at *FileError
			if !errors.As(err, &at) || at.Fault != Damaged || at.Path != path {
				t.Errorf("%s: %v, want one that says that it is damaged", path, err)
			}
		}
	}
	for err, want := range map[error]Fault{
		&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}:  Denied,
		&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}: Full,
		errors.New("something else"):                               Unknown,
	} {
		if got := faultOf("x", err); got != want {
			t.Errorf("fault of %v: %d, want %d", err, got, want)
		}
	}
}
