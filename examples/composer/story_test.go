package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/store/memory"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/sqlite"
)

// firstEnv is the address of a store on which a process of these tests is to live the first life of the server, until it is killed.
const firstEnv = "HEADRACE_TEST_FIRST_LIFE"

func TestMain(m *testing.M) {
	if address := os.Getenv(firstEnv); address != "" {
		if err := liveFirst(address); err != nil {
			fmt.Println("failed:", err)
		}
		os.Exit(1)
	}
	os.Exit(pgtest.Main(m))
}

// opener gives a function that opens the store at an address.
func opener(address string) func() (store, error) {
	return func() (store, error) {
		if strings.HasPrefix(address, "postgres:") {
			return postgres.Open(context.Background(), address, postgres.Options{})
		}
		return sqlite.Open(context.Background(), address, sqlite.Options{})
	}
}

// liveFirst ends by being killed, or when the test does.
func liveFirst(address string) error {
	return during(opener(address), os.Stdout, func(ctx context.Context, s *server) error {
		left, err := firstLife(ctx, s)
		if err != nil {
			return err
		}
		b, err := json.Marshal(left)
		if err != nil {
			return err
		}
		fmt.Printf("%s%s\n", remainsMark, b)
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	})
}

const remainsMark = "remains: "

const (
	first = `server: org-1 asks for ami, qcow2, vhd, iso
server: org-2 asks for container
anna: packages: found 212
anna: manifest: of 212 packages
anna: ami: built of 212 packages
anna: qcow2: dies
server: nobody was heard of who builds qcow2; requeued: true
carl: packages: begins
server: the compose of org-2 is cancelled
carl: packages was cancelled; free for the next
bert: vhd: no space left
bert: iso: half of it is built
server: ends
`
	second = `server: is there again
server: iso is at 50 %
server: the compose of org-1: pending
server: the compose of org-2: failure, as it was cancelled
bert: iso: the other half is built, too
bert: qcow2: built of 212 packages
bert: upload: ami
bert: upload: qcow2
bert: upload: an image is missing: no space left for vhd
bert: upload: iso
server: the compose of org-1: failure, 3 of 4 images are uploaded: no space left for vhd
`
)

func TestProgramTellsTheStory(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first+second, out.String()); diff != "" {
		t.Errorf("the story is another (- want, + got):\n%s", diff)
	}
}

// addresses are where the store of a test can be.
var addresses = []struct {
	name string
	make func(t *testing.T) string
}{
	{"sqlite", func(t *testing.T) string { return filepath.Join(t.TempDir(), "store.db") }},
	{"postgres", func(t *testing.T) string {
		address, err := pgtest.Shared(t).Create(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return address
	}},
}

// The server is stopped, and another one goes on.
func TestStoryGoesOnAfterAStop(t *testing.T) {
	t.Parallel()
	story := func(t *testing.T, open func() (store, error)) {
		t.Parallel()
		var out bytes.Buffer
		var left remains
		err := during(open, &out, func(ctx context.Context, s *server) (err error) {
			left, err = firstLife(ctx, s)
			return err
		})
		if err != nil || out.String() != first {
			t.Fatalf("the first life: %v; it differs (- want, + got):\n%s", err, cmp.Diff(first, out.String()))
		}
		goOn(t, open, left)
	}
	t.Run("memory", func(t *testing.T) {
		disk := memory.NewDisk()
		story(t, func() (store, error) { return disk.Open(), nil })
	})
	for _, a := range addresses {
		t.Run(a.name, func(t *testing.T) { story(t, opener(a.make(t))) })
	}
}

// The server's process is killed, which tells nobody and closes nothing, and another one goes on.
func TestStoryGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	for _, a := range addresses {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			address := a.make(t)
			told, left := killedFirst(t, address)
			if diff := cmp.Diff(first, told); diff != "" {
				t.Fatalf("the first life is another (- want, + got):\n%s", diff)
			}
			goOn(t, opener(address), left)
		})
	}
}

// killedFirst has another process live the first life of the server, kills it, and gives what it told.
func killedFirst(t *testing.T, address string) (told string, left remains) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), firstEnv+"="+address)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // it is killed before
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()         //nolint:errcheck // it was killed
	defer cmd.Process.Kill() //nolint:errcheck // it may be gone
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if b, ok := strings.CutPrefix(lines.Text(), remainsMark); ok {
			if err := json.Unmarshal([]byte(b), &left); err != nil {
				t.Fatal(err)
			}
			return told, left
		}
		told += lines.Text() + "\n"
	}
	t.Fatalf("the process ended; it told:\n%s", told)
	return "", left
}

// goOn has the second life happen, and checks what is stored in the end, as a third server finds it.
func goOn(t *testing.T, open func() (store, error), left remains) {
	t.Helper()
	var out bytes.Buffer
	err := during(open, &out, func(ctx context.Context, s *server) error { return secondLife(ctx, s, left) })
	if err != nil || out.String() != second {
		t.Fatalf("the second life: %v; it differs (- want, + got):\n%s", err, cmp.Diff(second, out.String()))
	}
	err = during(open, io.Discard, func(ctx context.Context, s *server) error {
		jobs := s.composes.(*composer.JobQueue[registered])
		checkEnds(t, s, left)
		if tokens := jobs.Heartbeats(0); len(tokens) > 0 {
			t.Errorf("tokens %v are still watched", tokens)
		}
		const all = 7 + 4
		if n, err := jobs.Expire(ctx, time.Now().Add(time.Hour), false); n != all || err != nil {
			t.Errorf("%d jobs are gone after their time, %v; want %d", n, err, all)
		}
		roots, err := jobs.AllRootJobIDs(ctx)
		if len(roots) > 0 {
			t.Errorf("jobs %v are left", roots)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkEnds checks how each job of the two composes has ended.
func checkEnds(t *testing.T, s *server, left remains) {
	t.Helper()
	want := map[string]string{
		"packages": `finished {"packages":212}`,
		"manifest": `finished {"manifest":"212 packages"}`,
		"ami":      `finished {"image":"ami"}`,
		"qcow2":    `finished {"image":"qcow2"}`,
		"vhd":      `finished {"job_error":{"id":10,"reason":"no space left for vhd"}}`,
		"iso":      `finished {"image":"iso"}`,
		"upload": `finished {"job_error":{"id":9,"reason":"no space left for vhd"},"uploaded":["ami","qcow2","iso"],` +
			`"missing":["no space left for vhd"]}`,
	}
	if diff := cmp.Diff(want, ends(t, s, left.First)); diff != "" {
		t.Errorf("the first compose ended otherwise (- want, + got):\n%s", diff)
	}
	want = map[string]string{
		"packages":  "canceled while it ran ",
		"manifest":  "canceled ",
		"container": "canceled ",
		"upload":    "canceled ",
	}
	if diff := cmp.Diff(want, ends(t, s, left.Second)); diff != "" {
		t.Errorf("the second compose ended otherwise (- want, + got):\n%s", diff)
	}
}

// ends tells of a job, and of all below it, by name, how it ended and with what result.
func ends(t *testing.T, s *server, last uuid.UUID) map[string]string {
	t.Helper()
	told := map[string]string{}
	group := uuid.Nil
	for todo := []uuid.UUID{last}; len(todo) > 0; todo = todo[1:] {
		_, _, r, queued, started, finished, canceled, deps, _, err := s.composes.JobStatus(todo[0])
		if err != nil {
			t.Fatal(err)
		}
		state := "unfinished"
		switch {
		case canceled && !finished.IsZero():
			state = "canceled and finished"
		case canceled && !started.IsZero():
			state = "canceled while it ran"
		case canceled:
			state = "canceled"
		case !started.Before(queued) && !finished.Before(started):
			state = "finished"
		}
		told[s.name(todo[0])] = state + " " + string(r)
		todo = append(todo, deps...)
		g, err := s.composes.(*composer.JobQueue[registered]).GroupID(todo[0])
		if err != nil || g == uuid.Nil || group != uuid.Nil && g != group {
			t.Errorf("%s is of group %s, %v; want that of the others, %s", s.name(todo[0]), g, err, group)
		}
		group = g
	}
	return told
}
