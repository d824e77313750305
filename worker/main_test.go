package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// parentEnv makes the test binary run its value as a shell command, print the lines, and exit.
const parentEnv = "HEADRACE_TEST_PARENT"

// reapEnv makes the test binary reap what its value owns, print how much that was, and exit.
const reapEnv = "HEADRACE_TEST_REAP"

func TestMain(m *testing.M) {
	Supervise()
	if owner, ok := os.LookupEnv(reapEnv); ok {
		fmt.Println(Reap(owner))
		os.Exit(0)
	}
	if script, ok := os.LookupEnv(parentEnv); ok {
		e := Executor{noCgroup: os.Getenv("HEADRACE_TEST_CGROUP") == "no", Owner: os.Getenv("HEADRACE_TEST_OWNER")}
		r := e.Execute(context.Background(), Command{Shell: script}, NewLogWriter(discard{}), func(l Line) {
			fmt.Printf("%s\n", l.Text)
		})
		fmt.Println(r.Outcome, r.Message)
		os.Exit(0)
	}
	// With the race detector each supervisor would sleep for a second as it exits, in case of late reports: it has one
	// thread of work by then. As most tests start one, that would be most of the time that they take.
	if _, ok := os.LookupEnv("GORACE"); !ok {
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		var ws syscall.WaitStatus
		if pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
			fmt.Fprintf(os.Stderr, "a child process is left: wait4 gives %d, %v\n", pid, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// nets are the two ways to catch a tree, where there are two.
var nets = []struct {
	name     string
	noCgroup bool
}{{"cgroup", false}, {"proc", true}}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

// run executes c with a log in a temporary folder, and gives what the log holds as well.
func run(t *testing.T, ctx context.Context, e Executor, c Command, onLine func(Line)) (Result, []Line) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	w, err := CreateLog(path)
	if err != nil {
		t.Fatal(err)
	}
	r := e.Execute(ctx, c, w, onLine)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return r, readAll(t, path)
}

func readAll(t *testing.T, path string) []Line {
	t.Helper()
	lr, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer lr.Close()
	var out []Line
	for {
		l, err := lr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	if !lr.Ended() {
		t.Errorf("log %s has no end marker", path)
	}
	return out
}

// text gives the lines of one stream as the command wrote them.
func text(lines []Line, s Stream) string {
	var b strings.Builder
	for _, l := range lines {
		if l.Stream == s {
			b.Write(l.Text)
			if !l.Partial {
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

// witness is a FIFO that each process of a tree holds open for writing: its end says that all are gone.
type witness struct {
	path string
	f    *os.File
}

// newWitness makes one; a script that begins with w.hold() makes its whole tree hold it.
func newWitness(t *testing.T) witness {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return witness{path, f}
}

func (w witness) hold() string { return "exec 9>" + w.path + "; echo held >&9; " }

// gone fails the test unless the tree did run and no process of it is left.
func (w witness) gone(t *testing.T) {
	t.Helper()
	conn, err := w.f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	cerr := conn.Read(func(fd uintptr) bool {
		buf := make([]byte, 64)
		for n := 1; n > 0; got = append(got, buf[:max(n, 0)]...) {
			n, err = unix.Read(int(fd), buf) // EAGAIN means that somebody holds it.
		}
		return true
	})
	w.check(t, got, errors.Join(err, cerr))
}

// goes is gone, but waits for it.
func (w witness) goes(t *testing.T) {
	t.Helper()
	if err := w.f.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(w.f)
	w.check(t, got, err)
}

func (w witness) check(t *testing.T, got []byte, err error) {
	t.Helper()
	if !strings.HasPrefix(string(got), "held\n") {
		t.Errorf("the tree wrote %q to its witness; want held", got)
	}
	if err != nil {
		t.Errorf("processes of the tree are left: %v", err)
	}
}

// when gives a listener that calls f once the line has come n times.
func when(line string, n int, f func()) func(Line) {
	return func(l Line) {
		if string(l.Text) == line {
			if n--; n == 0 {
				f()
			}
		}
	}
}
