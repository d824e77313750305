//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/depot"
	"github.com/headrace/headrace/internal/apitest"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/server"
	"github.com/headrace/headrace/store/memory"
	"github.com/headrace/headrace/worker"
)

// yard is a server in this process, for workers that are processes of their own.
type yard struct {
	*api.Client
	t     *testing.T
	queue *queue.Queue
	dir   string // where its workers start
}

func newYard(t *testing.T) *yard {
	t.Helper()
	store := memory.New()
	kept, err := depot.Open(filepath.Join(t.TempDir(), "depot"), depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q, err := queue.Open(queue.Config{Store: store, History: store})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{Queue: q, History: store, Failures: store, Depot: kept, Open: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		if err := q.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	run.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("run the server: %v", err)
		}
	})
	web := httptest.NewServer(apitest.Checked(s.Handler(), func(err error) { t.Error(err) }))
	t.Cleanup(func() {
		s.Close()
		web.Close()
		cancel()
		run.Wait()
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
	})
	y := &yard{t: t, queue: q, dir: t.TempDir()}
	if y.Client, err = api.NewClient(web.URL, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Workers(ctx); err != nil { // It answers once it has loaded.
		t.Fatal(err)
	}
	return y
}

// worker is a command that works for the yard.
func (y *yard) worker(args ...string) []string {
	return append([]string{"worker", "--server", y.Server, "--name", "w", "--system", system(), "--slots", "2"}, args...)
}

// ask submits jobs that run these scripts.
func (y *yard) ask(scripts ...string) []job.ID {
	y.t.Helper()
	var jobs []api.JobSpec
	for _, s := range scripts {
		args, err := json.Marshal(worker.CommandArgs{Shell: s})
		if err != nil {
			y.t.Fatal(err)
		}
		jobs = append(jobs, api.JobSpec{Name: "j", Args: args})
	}
	r, err := y.Submit(y.t.Context(), &api.Submission{BuildSpec: api.BuildSpec{Name: "b"}, Jobs: jobs})
	if err != nil {
		y.t.Fatal(err)
	}
	var ids []job.ID
	for _, j := range r.Jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// succeeds waits for a job, which must succeed without having cost more than what was handed back.
func (y *yard) succeeds(id job.ID) (attempts int32) {
	y.t.Helper()
	ctx, cancel := context.WithTimeout(y.t.Context(), time.Minute)
	defer cancel()
	rec, err := y.queue.AwaitJob(ctx, id)
	if err != nil {
		y.t.Fatal(err)
	}
	tally := rec.Tally
	if rec.End.Outcome != job.Succeeded || tally.Aborts+tally.Crashes+tally.Losses+tally.Failures != 0 {
		y.t.Errorf("job ended %v/%v %q, tally %+v; want a success that cost no attempt", rec.End.Outcome, rec.End.Detail, rec.End.Message, tally)
	}
	return tally.Attempts
}

// TestKilledWorkerGoesOn kills a worker at seeded moments, again and again. No attempt runs twice, what was recorded does not
// run again, and what was interrupted costs no attempt.
func TestKilledWorkerGoesOn(t *testing.T) {
	t.Parallel()
	const jobs, kills = 40, 10
	for seed := range uint64(2) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 11))
			y := newYard(t)
			scripts := make([]string, jobs)
			for i := range scripts {
				scripts[i] = `echo "$HEADRACE_JOB_ID $HEADRACE_ATTEMPT" >> began; echo "$HEADRACE_JOB_ID" >> ended; echo hello`
			}
			ids := y.ask(scripts...)
			for range kills {
				p := exec.Command(binary, y.worker()...)
				var stderr bytes.Buffer
				p.Dir, p.Stderr = y.dir, &stderr
				if err := p.Start(); err != nil {
					t.Fatal(err)
				}
				timer := time.AfterFunc(time.Duration(50+rnd.IntN(250))*time.Millisecond, func() { _ = p.Process.Kill() })
				_ = p.Wait() // It was killed.
				timer.Stop()
				if code := p.ProcessState.ExitCode(); code != -1 {
					t.Fatalf("a worker that was not killed ended with code %d:\n%s", code, &stderr)
				}
			}
			last := start(t, y.dir, y.worker()...)
			attempts := int32(0)
			for _, id := range ids {
				attempts += y.succeeds(id)
			}
			if err := last.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if code := last.end(t); code != exitOK {
				t.Errorf("exit code %d of the last worker:\n%s", code, &last.out)
			}
			began := map[string]int{}
			text, err := os.ReadFile(filepath.Join(y.dir, "began"))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if began[line]++; began[line] > 1 {
					t.Errorf("an attempt ran twice: %s", line)
				}
			}
			if int32(len(began)) > attempts {
				t.Errorf("%d attempts ran, the engine knows of %d", len(began), attempts)
			}
			for _, id := range ids {
				rec, err := y.queue.AwaitJob(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				if began[fmt.Sprintf("%s %d\n", id, rec.Tally.Attempts)] != 1 {
					t.Errorf("job %s: its last attempt, %d, did not run", id, rec.Tally.Attempts)
				}
			}
		})
	}
}

// Told twice, it hands back what runs at once; told by --grace, after that.
func TestWorkerHandsBackWhatItDoesNotFinish(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args    []string
		signals []syscall.Signal
	}{
		"told twice": {nil, []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}},
		"grace":      {[]string{"--grace", "100ms"}, []syscall.Signal{syscall.SIGTERM}},
		"quit":       {nil, []syscall.Signal{syscall.SIGQUIT}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			started := newGate(t, filepath.Join(y.dir, "started"))
			id := y.ask(`echo $$ > pid; echo > started; [ -e again ] || exec sleep 1000`)[0]
			p := start(t, y.dir, y.worker(tt.args...)...)
			started.meet(t, p)
			for _, sig := range tt.signals {
				if err := p.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				if sig == syscall.SIGTERM && len(tt.signals) > 1 {
					await(t, "it heeds the first signal", func() bool {
						w, err := y.Worker(t.Context(), "w")
						return err == nil && w.Waits == 0
					})
				}
			}
			if code := p.end(t); code != exitOK {
				t.Errorf("exit code %d:\n%s", code, &p.out)
			}
			a, err := y.Attempts(t.Context(), id)
			if err != nil || len(a) != 1 || a[0].Detail != job.HandedBack.String() {
				t.Errorf("attempts %+v, %v", a, err)
			}
			write(t, y.dir, "again", "")
			next := start(t, y.dir, y.worker("--once")...)
			started.meet(t, next)
			if n := y.succeeds(id); n != 2 {
				t.Errorf("%d attempts, want 2", n)
			}
			if code := next.end(t); code != exitOK {
				t.Errorf("exit code %d of the next worker:\n%s", code, &next.out)
			}
		})
	}
}

// log reads the log of an attempt.
func (y *yard) log(id job.ID, attempt int32) string {
	y.t.Helper()
	r, _, err := y.Log(y.t.Context(), id, api.LogOptions{Attempt: attempt})
	if err != nil {
		y.t.Fatal(err)
	}
	defer r.Close() // Only read from.
	text, err := io.ReadAll(r)
	if err != nil {
		y.t.Fatal(err)
	}
	return string(text)
}

// The example speaks the protocol: jobs, a log that grows, a failure, a cancel.
func TestCurlWorker(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	script, err := filepath.Abs("../../examples/curl-worker.sh")
	if err != nil {
		t.Fatal(err)
	}
	started := newGate(t, filepath.Join(y.dir, "started"))
	where := t.TempDir()
	args, err := json.Marshal(worker.CommandArgs{Argv: []string{"sh", "-c", `echo "$V $HEADRACE_JOB $HEADRACE_ATTEMPT $1"; pwd; printf end`, "sh", "a b"}, Env: []string{"V=x  y"}, Dir: where})
	if err != nil {
		t.Fatal(err)
	}
	first, err := y.Submit(t.Context(), &api.Submission{BuildSpec: api.BuildSpec{Name: "b"}, Jobs: []api.JobSpec{{Name: "first one", Args: args}}})
	if err != nil {
		t.Fatal(err)
	}
	ids := append([]job.ID{first.Jobs[0].ID}, y.ask("echo > started; (trap '' TERM; exec tail -f /dev/null) & exec tail -f /dev/null", "echo no; exit 3")...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := &process{Cmd: exec.CommandContext(ctx, "bash", script, "cu/rl 1", system(), "3")}
	p.Dir, p.Stdout, p.Stderr = y.dir, &p.out, &p.out
	p.Env = append(os.Environ(), "HEADRACE_SERVER="+y.Server)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	y.succeeds(ids[0])
	started.meet(t, p)
	if err := y.CancelJob(ctx, ids[1], job.ID{}, true, ""); err != nil {
		t.Fatal(err)
	}
	if rec, err := y.queue.AwaitJob(ctx, ids[2]); err != nil || rec.End.Outcome != job.Failed {
		t.Errorf("the third job: %+v, %v", rec.End, err)
	}
	if code := p.end(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, &p.out)
	}
	for i, want := range map[int]string{0: "x  y first one 1 a b\n" + where + "\nend", 2: "no\n"} {
		if got := y.log(ids[i], 1); got != want {
			t.Errorf("log of job %d: %q, want %q", i, got, want)
		}
	}
	w, err := y.Worker(t.Context(), "cu/rl 1")
	if err != nil || w.Online || len(w.Running) > 0 {
		t.Errorf("afterwards: %+v, %v", w, err)
	}
}
