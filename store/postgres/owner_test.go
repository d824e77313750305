package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/internal/crash"
	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
)

// ownerEnv names the database that a process of these tests is to own.
const ownerEnv = "HEADRACE_TEST_OWNER"

func TestMain(m *testing.M) {
	if address := os.Getenv(ownerEnv); address != "" {
		act := own
		if dir := os.Getenv(lifeEnv); dir != "" {
			act = func(address string) error { return live(address, dir) }
		}
		if err := act(address); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Main(m))
}

// own is what the other process does: it owns the store with a queue, and does as it is told, line by line.
func own(address string) error {
	ctx := context.Background()
	s, err := postgres.Open(ctx, address, postgres.Options{})
	if err != nil {
		return err
	}
	q, err := queue.Open(queue.Config{Store: s, History: s})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	fmt.Println("owner")
	var last job.ID
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "submit":
			spec := job.Spec{ID: q.NewID(), Channel: "main", Kind: "test"}
			receipt, err := q.Submit(ctx, queue.Submission{Build: &job.Build{Name: "b"}, Jobs: []job.Spec{spec}, Refs: []job.Ref{{Job: spec.ID}}})
			if err == nil {
				last = receipt.Build
			}
			fmt.Println("submitted", last, err)
		case "stop in a commit":
			// The end of a build has to read its row first, so that the process stops with its transaction open.
			crash.On(func(p crash.Point) {
				if p == crash.CommitBegun {
					crash.On(nil)
					syscall.Kill(os.Getpid(), syscall.SIGSTOP) //nolint:errcheck // then the test waits in vain, and says so
				}
			})
			fmt.Println("cancelled", q.CancelBuild(ctx, last, false))
		case "no files", "files":
			// Each file that a process opens gets a number under this limit, and 0 to 2 are open.
			now := limit
			if lines.Text() == "no files" {
				now.Cur = 3
			}
			fmt.Println("limited", syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now))
		case "beat":
			_, err := q.Heartbeat(ctx)
			fmt.Println("beat", err)
		case "run":
			err := <-ended
			fmt.Println("run", errors.Is(err, queue.ErrFenced), err)
		}
	}
	return lines.Err()
}

// owner is that process, seen from the test.
type owner struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func startOwner(t *testing.T, address string) *owner {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ownerEnv+"="+address)
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
	o := &owner{t, cmd, in, bufio.NewScanner(out)}
	t.Cleanup(o.kill)
	o.expect("owner")
	return o
}

func (o *owner) kill() {
	o.cmd.Process.Kill() //nolint:errcheck // it may be gone
	o.cmd.Wait()         //nolint:errcheck // it was killed
}

func (o *owner) tell(line string) {
	o.t.Helper()
	if _, err := fmt.Fprintln(o.in, line); err != nil {
		o.t.Fatal(err)
	}
}

// expect gives the next line, which must begin so.
func (o *owner) expect(start string) string {
	o.t.Helper()
	if !o.out.Scan() || !strings.HasPrefix(o.out.Text(), start) {
		o.t.Fatalf("the other process says %q (%v), want %q...", o.out.Text(), o.out.Err(), start)
	}
	return o.out.Text()
}

// until asks the database again and again until it says yes.
func until(t *testing.T, address, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for yes := false; !yes; {
		select {
		case <-t.Context().Done():
			t.Fatalf("never: %s", sql)
		case <-tick.C:
		}
		if err := c.QueryRow(t.Context(), sql).Scan(&yes); err != nil {
			t.Fatal(err)
		}
	}
}

// fill adds waiting jobs to a store that nobody owns.
func fill(t *testing.T, address string, jobs int) {
	t.Helper()
	s, err := postgres.Open(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seq := int64(0)
	for n := uint64(1); int(seq) < jobs; n++ {
		b := queue.Batch{Number: n, At: job.At(time.Now())}
		for range 2000 {
			seq++
			r := job.Record{Seq: seq, At: b.At, Spec: job.Spec{Channel: "main", Kind: "test"}, Own: &job.Own{}}
			r.Spec.ID[0], r.Spec.ID[13], r.Spec.ID[14], r.Spec.ID[15] = 'f', byte(seq>>16), byte(seq>>8), byte(seq)
			b.Changes = append(b.Changes, job.JobAdded{Record: r})
		}
		if err := s.Commit(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// An owner that was stopped in the middle of a commit loses its store, and when it wakes it commits nothing and says so.
func TestStoppedOwnerIsFenced(t *testing.T) {
	t.Parallel()
	const jobs = 100_000
	address := database(t)
	fill(t, address, jobs)
	o := startOwner(t, address)
	o.tell("submit")
	o.expect("submitted")
	o.tell("stop in a commit")
	until(t, address, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity a, headrace.owner o WHERE a.pid = o.backend AND a.state = 'idle in transaction')`)
	began := time.Now()
	s, err := postgres.Open(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatalf("take over: %v", err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // its database goes away
	q, err := queue.Open(queue.Config{Store: s, History: s})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- q.Run(ctx) }()
	if _, err := q.Submit(t.Context(), queue.Submission{Jobs: []job.Spec{{Channel: "main", Kind: "test"}}}); err != nil {
		t.Fatalf("the new owner: %v", err)
	}
	t.Logf("taken over with %d unfinished jobs after %v", jobs, time.Since(began))
	if err := o.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if said := o.expect("cancelled"); !strings.Contains(said, "try again") {
		t.Errorf("the caller of the old owner was told %q, want that it should try again", said)
	}
	o.tell("run")
	if said := o.expect("run"); !strings.HasPrefix(said, "run true") {
		t.Errorf("the old owner's Run says %q, want that it is fenced", said)
	}
	list, err := s.Jobs(t.Context(), queue.JobFilter{State: "Done"})
	if err != nil || len(list) != 0 {
		t.Errorf("%d jobs were cancelled (%v): the old owner committed", len(list), err)
	}
	stop()
	if err := <-ran; err != nil {
		t.Errorf("the new owner's Run: %v", err)
	}
}

// Whoever is stopped between commits answers nothing from memory once it wakes.
func TestIdleOwnerThatWasStoppedAnswersNothing(t *testing.T) {
	t.Parallel()
	address := database(t)
	o := startOwner(t, address)
	o.tell("beat")
	if said := o.expect("beat"); said != "beat <nil>" {
		t.Errorf("the owner says %q, want a heartbeat", said)
	}
	if err := o.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // its database goes away
	o.tell("beat")
	if err := o.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if said := o.expect("beat"); said == "beat <nil>" {
		t.Error("the old owner answers a heartbeat")
	}
	o.tell("run")
	if said := o.expect("run"); !strings.HasPrefix(said, "run true") {
		t.Errorf("the old owner's Run says %q, want that it is fenced", said)
	}
}

func TestSecondOwnerIsToldWhoHasTheStore(t *testing.T) {
	t.Parallel()
	address := database(t)
	o := startOwner(t, address)
	var held *queue.HeldError
	s, err := postgres.Open(t.Context(), address, postgres.Options{})
	if !errors.As(err, &held) {
		t.Fatalf("Open: %v, %v; want a HeldError", s, err)
	}
	if host, _ := os.Hostname(); held.PID != o.cmd.Process.Pid || held.Host != host || time.Since(held.Since).Abs() > time.Hour {
		t.Errorf("it is held by %+v, want process %d on %s", held, o.cmd.Process.Pid, host)
	}
	o.tell("submit")
	o.expect("submitted")
	r, err := postgres.OpenReadOnly(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if list, err := r.Jobs(t.Context(), queue.JobFilter{}); err != nil || len(list) != 1 {
		t.Errorf("a reader sees %d jobs (%v), want 1", len(list), err)
	}
}

func TestKilledOwnerIsFollowed(t *testing.T) {
	t.Parallel()
	address := database(t)
	o := startOwner(t, address)
	o.tell("submit")
	o.expect("submitted")
	o.kill()
	s, err := postgres.Open(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	opened := time.Now()
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // its database goes away
	// What it waited for the dead one is not its own silence. A machine that stands still here tells nothing.
	if err := s.Owned(); err != nil && time.Since(opened) < postgres.Lapse/4 {
		t.Errorf("the new owner is not sure that it is: %v", err)
	}
	if list, err := s.Jobs(t.Context(), queue.JobFilter{}); err != nil || len(list) != 1 {
		t.Errorf("%d jobs (%v), want the one that was acknowledged", len(list), err)
	}
}

// An owner that has lost its connections and may open no file for new ones tells callers why, and to try again. Once it may, it goes on by
// itself, and what it had acknowledged is there once.
func TestOwnerWithoutFileDescriptorsHeals(t *testing.T) {
	t.Parallel()
	address := database(t)
	o := startOwner(t, address)
	submit := func() string {
		o.tell("submit")
		return o.expect("submitted")
	}
	acknowledged := func(said string) bool { return strings.HasSuffix(said, " <nil>") }
	if said := submit(); !acknowledged(said) {
		t.Fatalf("to begin with: %s", said)
	}
	o.tell("no files")
	o.expect("limited <nil>")
	if said := submit(); !acknowledged(said) {
		t.Errorf("with the connections that it has: %s", said)
	}
	const cut = `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'headrace' AND pid <> pg_backend_pid()`
	if n := run(t, address, cut); n == 0 {
		t.Error("the owner has no connections")
	}
	// The first may find only that its connection is gone.
	submit()
	if said := submit(); !strings.Contains(said, "try again: ") || !strings.Contains(said, "too many open files") {
		t.Errorf("without file descriptors: %s; want the reason, and that it may be tried again", said)
	}
	o.tell("files")
	o.expect("limited <nil>")
	for try := 0; !acknowledged(submit()); try++ {
		if try == many {
			t.Fatal("the queue does not work again")
		}
	}
	r, err := postgres.OpenReadOnly(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if list, err := r.Jobs(t.Context(), queue.JobFilter{}); err != nil || len(list) != 3 {
		t.Errorf("there are %d jobs (%v), want the 3 that were acknowledged", len(list), err)
	}
}
