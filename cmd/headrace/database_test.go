package main

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/headrace/headrace/internal/pgtest"
)

// newDatabase gives the address of an empty database.
func newDatabase(t *testing.T) string {
	t.Helper()
	address, err := pgtest.Shared(t).Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// tell runs the program to its end and gives what it printed.
func tell(t *testing.T, dir string, want int, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput() // The exit code says it.
	if code := cmd.ProcessState.ExitCode(); code != want {
		t.Fatalf("headrace %s: exit code %d, want %d\n%s", strings.Join(args, " "), code, want, out)
	}
	return string(out)
}

func TestStoreInADatabase(t *testing.T) {
	t.Parallel()
	dir, address := t.TempDir(), newDatabase(t)
	write(t, dir, "g.yaml", "jobs: {a: {run: echo one}, b: {run: 'echo two; exit 3', needs: [a]}, c: {run: echo, needs: [b]}}")
	if out := tell(t, dir, exitFailed, "run", "g.yaml", "--store", address); !strings.Contains(out, "two") {
		t.Errorf("the run says\n%s", out)
	}
	write(t, dir, "g.yaml", "jobs: {a: {run: echo one}, b: {run: echo two, needs: [a]}, c: {run: echo, needs: [b]}}")
	if out := tell(t, dir, exitOK, "run", "g.yaml", "--store", address); strings.Contains(out, "start  a") || !strings.Contains(out, "start  b") {
		t.Errorf("what ended well is not run again, and what is new is; the run says\n%s", out)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"succeeded", []string{"history", "g.yaml"}},
		{"succeeded", []string{"why", "g.yaml", "b"}},
		{"two", []string{"logs", "g.yaml", "b"}},
	} {
		if out := tell(t, dir, exitOK, append(c.args, "--store", address)...); !strings.Contains(out, c.want) {
			t.Errorf("headrace %v says\n%s\nwant %q in it", c.args, out, c.want)
		}
	}
	write(t, dir, "other.yaml", "jobs: {a: {run: echo}}")
	for _, command := range [][]string{{"run", "other.yaml"}, {"history", "other.yaml"}} {
		out := tell(t, dir, exitUsage, append(command, "--store", address)...)
		if !strings.Contains(out, `keeps the runs of "g.yaml", not of "other.yaml"`) {
			t.Errorf("headrace %v of another file says\n%s", command, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".headrace", "other.yaml")); err == nil {
		t.Error("the run that was refused left its folder")
	}
}

func TestDatabaseThatIsNotThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "g.yaml", "jobs: {a: {run: echo}}")
	out := tell(t, dir, exitMachine, "run", "g.yaml", "--store", "postgres://me:secret@/none?host="+dir)
	if strings.Contains(out, "secret") || !strings.Contains(out, "connect") {
		t.Errorf("the run says\n%s", out)
	}
	there, err := url.Parse(newDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	there.Path = "/nowhere"
	out = tell(t, dir, exitMachine, "run", "g.yaml", "--store", there.String())
	if strings.Contains(out, "cannot be reached") || !strings.Contains(out, `there is no database "nowhere"; make it: createdb nowhere`) {
		t.Errorf("the run says\n%s", out)
	}
	query := there.Query()
	query.Set("user", "nobody-known")
	query.Set("password", "secret")
	there.RawQuery = query.Encode()
	out = tell(t, dir, exitMachine, "run", "g.yaml", "--store", there.String())
	if strings.Contains(out, "secret") || !strings.Contains(out, "name the user in the URL: postgres://USER@HOST/NAME") {
		t.Errorf("the run says\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, ".headrace")); err == nil {
		t.Error("the run that was refused left its folder")
	}
	out = tell(t, dir, exitUsage, "why", "g.yaml", "a", "--store", newDatabase(t)+"&password=secret")
	if strings.Contains(out, "secret") || !strings.Contains(out, "there is no store in postgres://") {
		t.Errorf("why says\n%s", out)
	}
}

func TestPruneOfADatabaseTellsOfItsLogs(t *testing.T) {
	t.Parallel()
	dir, address := t.TempDir(), newDatabase(t)
	write(t, dir, "g.yaml", "jobs: {a: {run: echo one}}")
	tell(t, dir, exitOK, "run", "g.yaml", "--store", address)
	tell(t, dir, exitOK, "run", "g.yaml", "--fresh", "--store", address)
	if out := tell(t, dir, exitOK, "prune", "--keep", "1", "--store", address); !strings.Contains(out, "to have those here go, too, name FILE") {
		t.Errorf("prune without the file says\n%s", out)
	}
	tell(t, dir, exitOK, "run", "g.yaml", "--fresh", "--store", address)
	if out := tell(t, dir, exitOK, "prune", "g.yaml", "--keep", "1", "--store", address); !strings.Contains(out, "with 1 log of") || strings.Contains(out, "name FILE") {
		t.Errorf("prune with the file says\n%s", out)
	}
}

// Of two runs on one database the second is told who has it; when the first is stopped it loses the database, and once it is
// gone the next run goes on with what it left.
func TestRunsOnOneDatabase(t *testing.T) {
	t.Parallel()
	dir, address := t.TempDir(), newDatabase(t)
	started := newGate(t, filepath.Join(dir, "started"))
	write(t, dir, "g.yaml", "jobs: {a: {run: '[ -e pid ] && exit; echo > pid; echo > started; sleep 1000'}}")
	p := start(t, dir, "run", "g.yaml", "--store", address)
	started.meet(t, p)
	if out := tell(t, dir, exitMachine, "run", "g.yaml", "--store", address); !regexp.MustCompile(`in use by process \d+ on`).MatchString(out) {
		t.Errorf("the second run says\n%s", out)
	}
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if out := tell(t, dir, exitMachine, "run", "g.yaml", "--store", address); !strings.Contains(out, "does not answer, but lives; end it first") {
			t.Errorf("the run beside one that is stopped says\n%s", out)
		}
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.end(t)
	if out := tell(t, dir, exitOK, "run", "g.yaml", "--store", address); !strings.Contains(out, "start  a (attempt 2)") {
		t.Errorf("the next run says\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, ".headrace", "g.yaml", "store.db")); err == nil {
		t.Error("there is a store in the folder, too")
	}
}
