package composer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/sqlite"
)

// serverEnv is the address of a store on which a process of these tests is to serve.
const serverEnv = "HEADRACE_TEST_COMPOSER"

// modestEnv is set where the process is not to put out an owner of the store that seems dead: on a slow machine it may live.
const modestEnv = "HEADRACE_TEST_MODEST"

// serve is what such a process does: it opens the store, and then does as it is told, line by line.
func serve(address string) (err error) {
	ctx := context.Background()
	var s store
	if strings.HasPrefix(address, "postgres:") {
		var o postgres.Options
		if os.Getenv(modestEnv) != "" {
			o.Inherit = func(silent *queue.HeldError) error { return silent }
		}
		s, err = postgres.Open(ctx, address, o)
	} else {
		s, err = sqlite.Open(ctx, address, sqlite.Options{})
	}
	if err != nil {
		return err
	}
	engine, err := queue.Open(queue.Config{Store: s, History: s})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(running) }()
	jobs := composer.New[worker](engine, s, composer.Errors{})
	fmt.Println("serves")

	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "enqueue":
			id, err := jobs.Enqueue("depsolve", nil, nil, "")
			fmt.Println("enqueued", id, err)
		case "dequeue":
			id, _, _, _, _, err := jobs.Dequeue(ctx, uuid.Nil, []string{"depsolve"}, []string{""})
			fmt.Println("dequeued", id, err)
			if err == nil {
				_, err = jobs.RequeueOrFinishJob(id, 0, "done")
			}
			fmt.Println("finished", id, err)
		}
	}
	stop()
	return errors.Join(lines.Err(), <-ended, s.Close())
}

// server is such a process, seen from the test.
type server struct {
	*testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startServer(t *testing.T, address string, env ...string) *server {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), serverEnv+"="+address), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &server{t, cmd, in, bufio.NewScanner(out)}
	t.Cleanup(s.kill)
	return s
}

func (s *server) kill() {
	s.cmd.Process.Kill() //nolint:errcheck // it may be gone
	s.cmd.Wait()         //nolint:errcheck // it was killed, or waited for before
}

func (s *server) tell(line string) {
	s.Helper()
	if _, err := fmt.Fprintln(s.in, line); err != nil {
		s.Fatal(err)
	}
}

// hear gives the next line.
func (s *server) hear() string {
	s.Helper()
	if !s.out.Scan() {
		s.Fatalf("process %d says nothing more: %v", s.cmd.Process.Pid, s.out.Err())
	}
	return s.out.Text()
}

// expect wants the next line to begin so, and gives the rest.
func (s *server) expect(start string) string {
	s.Helper()
	line := s.hear()
	rest, ok := strings.CutPrefix(line, start)
	if !ok {
		s.Fatalf("process %d says %q, want %q...", s.cmd.Process.Pid, line, start)
	}
	return strings.TrimSpace(rest)
}

// inUse takes apart what the second process says.
var inUse = regexp.MustCompile(`the store is in use by process (\d+) on (\S+) since (.+); wait for it, or stop it`)

// Of two processes on one store the second is refused. It says who has the store, which goes on as if nothing had been; and when
// that has died, the next one has all that it had.
func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	places := []struct {
		name string
		make func(t *testing.T) (address string)
	}{
		{"sqlite", func(t *testing.T) string { return filepath.Join(t.TempDir(), "store.db") }},
		{"postgres", func(t *testing.T) string { return newDatabase(t) }},
	}
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			address := p.make(t)
			// SQLite's note about its owner has whole seconds.
			began := time.Now().Truncate(time.Second)
			first := startServer(t, address)
			first.expect("serves")
			first.tell("enqueue")
			id := first.expect("enqueued")

			for range 2 {
				checkRefused(t, startServer(t, address, modestEnv+"=1"), first.cmd.Process.Pid, began)
			}

			first.tell("dequeue")
			if got := first.expect("dequeued"); got != id {
				t.Errorf("the first process dequeued %s, want %s", got, id)
			}
			if got := first.expect("finished"); got != id {
				t.Errorf("the first process finished %s, want %s", got, id)
			}
			first.tell("enqueue")
			id = first.expect("enqueued")
			if !strings.HasSuffix(id, " <nil>") {
				t.Errorf("the first process enqueued %s", id)
			}
			first.kill()

			next := startServer(t, address)
			next.expect("serves")
			next.tell("dequeue")
			if got := next.expect("dequeued"); got != id {
				t.Errorf("the next process dequeued %s, want %s", got, id)
			}
			next.expect("finished " + id)
			if err := next.in.Close(); err != nil {
				t.Fatal(err)
			}
			if err := next.cmd.Wait(); err != nil {
				t.Errorf("the next process ended: %v", err)
			}
		})
	}
}

// checkRefused wants a process to end with a message that names another, and since when that has the store.
func checkRefused(t *testing.T, second *server, pid int, began time.Time) {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	message := second.expect("failed:")
	if err := second.cmd.Wait(); err == nil || second.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the second process ended with %v, want exit code 1", err)
	}
	parts := inUse.FindStringSubmatch(message)
	if parts == nil {
		t.Fatalf("the second process says %q, want it to match %q", message, inUse)
	}
	since, err := time.ParseInLocation(time.DateTime+" MST", parts[3], time.Local)
	if parts[1] != strconv.Itoa(pid) || parts[2] != host || err != nil || since.Before(began) || since.After(time.Now()) {
		t.Errorf("the second process says %q, want process %d on %s since %v or a little later (%v)", message, pid, host, began, err)
	}
}
