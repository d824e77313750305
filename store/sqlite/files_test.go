//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
)

// filesPath tells the test binary to be a process that runs out of file descriptors, with stores in that folder.
const filesPath = "HEADRACE_TEST_SQLITE_FILES"

// starve is what that process does. It prints what went wrong.
func starve(dir string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, filepath.Join(dir, "own"), sqlite.Options{})
	if err != nil {
		return err
	}
	q, err := queue.Open(queue.Config{Store: s, History: s})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- q.Run(running) }()
	submit := func() error {
		_, err := q.Submit(ctx, queue.Submission{Jobs: []job.Spec{{Channel: "main", Kind: "test", Args: make([]byte, 100_000)}}})
		return err
	}
	if err := submit(); err != nil {
		return err
	}
	taken, err := takeAll()
	if err != nil {
		return err
	}
	// What is open already goes on: rounds are stored, and looked up.
	for range 300 { // some of them copy the log back
		if err := submit(); err != nil {
			fmt.Println("submit without a descriptor:", err)
		}
	}
	if list, err := s.Jobs(ctx, queue.JobFilter{Limit: 1000}); err != nil || len(list) != 301 {
		fmt.Printf("list without a descriptor: %d jobs, %v\n", len(list), err)
	}
	for _, f := range taken {
		if err := f.Close(); err != nil {
			return err
		}
	}
	err = errors.Join(
		grant(filepath.Join(dir, "new"), func(p string) (io.Closer, error) { return sqlite.Open(ctx, p, sqlite.Options{}) }),
		grant(filepath.Join(dir, "own"), func(p string) (io.Closer, error) { return sqlite.OpenReadOnly(ctx, p) }),
	)
	stop()
	return errors.Join(err, <-ended, s.Close())
}

// grant opens a store with no descriptor, then with one, and so on, until it can be opened.
func grant(path string, open func(string) (io.Closer, error)) error {
	taken, err := takeAll()
	if err != nil {
		return err
	}
	for free := 0; ; free++ {
		o, err := open(path)
		if err == nil {
			if free < 4 {
				fmt.Printf("%s could be opened with %d descriptors\n", path, free)
			}
			for _, f := range taken {
				err = errors.Join(err, f.Close())
			}
			return errors.Join(err, o.Close())
		}
		var at *sqlite.FileError
		if !errors.As(err, &at) || at.Fault != sqlite.Starved || at.Path != path || !strings.Contains(err.Error(), "too many open files") {
			fmt.Printf("open with %d descriptors: %v\n", free, err)
		}
		if len(taken) == 0 {
			return fmt.Errorf("open %s with all descriptors: %v", path, err)
		}
		if err := taken[0].Close(); err != nil {
			return err
		}
		taken = taken[1:]
	}
}

// takeAll lowers the limit and opens files until no more can be opened.
func takeAll() (taken []*os.File, err error) {
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil, err
	}
	limit.Cur = 128
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil, err
	}
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, syscall.EMFILE) {
			return taken, nil
		}
		if err != nil {
			return nil, err
		}
		taken = append(taken, f)
	}
}

// A process that has run out of file descriptors goes on with what it has open, and is told so when it opens a store; as soon as there
// are some it can.
func TestOutOfFileDescriptors(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), filesPath+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v:\n%s", err, out)
	}
}
