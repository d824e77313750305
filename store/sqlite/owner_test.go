package sqlite_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
)

// childPath tells the test binary to be a process that owns the store at that path and writes to it until it is
// killed.
const childPath = "HEADRACE_TEST_SQLITE_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		if err := child(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(filesPath); dir != "" {
		if err := starve(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child commits numbered batches, and prints each number once it is acknowledged.
func child(path string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	head, err := s.Load(ctx, func(job.Change) error { return nil })
	if err != nil {
		return err
	}
	for n := head.Number + 1; ; n++ {
		b := &queue.Batch{Number: n, At: 1_800_000_000_000_000, Changes: childBatch(n)}
		b.Answers = []queue.Answer{{Request: childID('r', n), Reply: []byte("reply")}}
		if err := s.Commit(ctx, b); err != nil {
			return err
		}
		if _, err := fmt.Println(n); err != nil {
			return err
		}
	}
}

const jobsPerBatch = 3

func childID(kind byte, n uint64) (id job.ID) {
	id[0] = kind
	binary.BigEndian.PutUint64(id[8:], n)
	return id
}

// childBatch adds some jobs, each needing the last, and ends the first.
func childBatch(n uint64) []job.Change {
	var changes []job.Change
	for i := range uint64(jobsPerBatch) {
		seq := n*jobsPerBatch + i
		r := job.Record{Seq: int64(seq), Spec: job.Spec{ID: childID('j', seq), Channel: "main", Kind: "k", Args: make([]byte, 3000)}}
		r.Spec.Needs = []job.Need{{Job: childID('j', seq-1)}}
		changes = append(changes, job.JobAdded{Record: r})
	}
	first := n * jobsPerBatch
	return append(changes, job.JobEnded{Job: childID('j', first), Seq: int64(first), End: job.End{Outcome: job.Succeeded}})
}

func TestSecondOwnerIsToldWhoHoldsIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "db"), filepath.Join(dir, "link")
	s := mustOpen(t, path)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, link} {
		_, err := sqlite.Open(t.Context(), p, sqlite.Options{})
		var held *queue.HeldError
		if !errors.As(err, &held) {
			t.Fatalf("second open of %q: %v, want a HeldError", p, err)
		}
		if held.PID != os.Getpid() || held.Host != host || time.Since(held.Since) > time.Hour {
			t.Errorf("held by %+v, want this process", held)
		}
		for _, want := range []string{p, strconv.Itoa(os.Getpid()), host} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q does not name %q", err, want)
			}
		}
	}
	if err := s.Commit(t.Context(), &queue.Batch{Number: 1}); err != nil {
		t.Errorf("the owner's commit: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, link)
}

// A damaged or missing note does not matter: the lock is what counts.
func TestLockFileWithoutNote(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path+".lock", []byte(`{"pid":1,`), 0o600); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path)
	if err := os.WriteFile(path+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	var held *queue.HeldError
	if !errors.As(err, &held) || held.PID != 0 {
		t.Errorf("second open: %v, want a HeldError without a process", err)
	}
}

// A process that is killed at any moment loses nothing that it acknowledged, leaves nothing by halves and no
// lock. Meanwhile others read whole batches.
func TestKilledOwner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	const seed = 42
	r := rand.New(rand.NewPCG(seed, 0))
	for life := range 6 {
		acked := killOne(t, path, 1+r.IntN(150))
		s := mustOpen(t, path)
		stored := checkWhole(t, s)
		if stored < acked {
			t.Fatalf("life %d (seed %d): batch %d was acknowledged and %d is the last that is stored", life, seed, acked, stored)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killOne lets a child live until it has acknowledged so many batches, and gives the last number that it said.
func killOne(t *testing.T, path string, lines int) (acked uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	for n := 0; said.Scan(); n++ {
		if acked, err = strconv.ParseUint(said.Text(), 10, 64); err != nil {
			t.Fatal(err)
		}
		if n == lines/2 {
			checkOthers(t, path, cmd.Process.Pid, acked)
		}
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the child was not killed but ended by itself: %v", err)
	}
	return acked
}

// checkOthers checks what another process than the owner can do.
func checkOthers(t *testing.T, path string, pid int, acked uint64) {
	t.Helper()
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	var held *queue.HeldError
	if !errors.As(err, &held) || held.PID != pid {
		t.Errorf("open while process %d owns it: %v", pid, err)
	}
	r, err := sqlite.OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if n := checkWhole(t, r); n < acked {
		t.Errorf("a reader sees batch %d after %d was acknowledged", n, acked)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// wholeReader is what a store and a reader of one have in common.
type wholeReader interface {
	queue.History
	Load(ctx context.Context, fn func(job.Change) error) (queue.Head, error)
	Lookup(ctx context.Context, q *queue.Query) (*queue.Found, error)
	Feed(ctx context.Context, after uint64, limit int) ([]queue.Round, error)
}

// checkWhole checks that the last batch of a child is there whole, and nothing of the next; it gives its number.
// What is before it was checked when it was last.
func checkWhole(t *testing.T, s wholeReader) uint64 {
	t.Helper()
	ctx := t.Context()
	live := 0
	head, err := s.Load(ctx, func(job.Change) error { live++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	n := head.Number
	if want := int(n) * (jobsPerBatch - 1); live != want || len(head.Corrupt) > 0 {
		t.Errorf("%d live jobs after %d batches, want %d", live, n, want)
	}
	if want := int64(n*jobsPerBatch + jobsPerBatch - 1); head.Seq != want {
		t.Errorf("seq %d after %d batches, want %d", head.Seq, n, want)
	}
	rounds, err := s.Feed(ctx, n-1, 1)
	if err != nil || len(rounds) != 1 || len(rounds[0].Changes) != jobsPerBatch+1 {
		t.Errorf("round %d = %+v, %v", n, rounds, err)
	}
	found, err := s.Lookup(ctx, &queue.Query{Requests: []job.ID{childID('r', n)}, Jobs: []job.ID{childID('j', n*jobsPerBatch)}})
	if err != nil || len(found.Answers) != 1 || len(found.Jobs) != 1 {
		t.Errorf("the answer and the ended job of batch %d: %+v, %v", n, found, err)
	}
	ids, err := s.Dependents(ctx, childID('j', n*jobsPerBatch))
	if err != nil || len(ids) != 1 {
		t.Errorf("dependents of batch %d: %v, %v", n, ids, err)
	}
	return n
}

func TestReadingWithoutOwner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	s := mustOpen(t, path)
	if err := s.Commit(t.Context(), &queue.Batch{Number: 1, Changes: childBatch(1)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r, err := sqlite.OpenReadOnly(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		list, err := r.Jobs(t.Context(), queue.JobFilter{})
		if err != nil || len(list) != jobsPerBatch {
			t.Errorf("%d jobs listed (%v), want %d", len(list), err, jobsPerBatch)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Jobs(t.Context(), queue.JobFilter{}); err == nil {
			t.Error("reading after Close: no error")
		}
	}
	// A reader leaves nothing that an owner stumbles over.
	if err := mustOpen(t, path).Commit(t.Context(), &queue.Batch{Number: 2}); err != nil {
		t.Fatal(err)
	}
}
