package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/depot"
	"github.com/headrace/headrace/internal/apitest"
	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/server"
	"github.com/headrace/headrace/store/memory"
)

// farm is a server on an engine in memory, behind a network that can fail.
type farm struct {
	t       *testing.T
	store   *memory.Store
	queue   *queue.Queue
	handler atomic.Pointer[http.Handler]
	depot   *depot.Folder
	stop    func()
	closing func()      // no call is held any more
	wanted  string      // version
	deaf    atomic.Bool // it answers no call about a log
}

func newFarm(t *testing.T) *farm {
	t.Helper()
	f := &farm{t: t, store: memory.New()}
	var err error
	if f.depot, err = depot.Open(filepath.Join(t.TempDir(), "depot"), depot.Options{}); err != nil {
		t.Fatal(err)
	}
	f.start()
	t.Cleanup(func() {
		f.stop()
		if err := f.depot.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// start has a new owner and a new server take over.
func (f *farm) start() {
	f.t.Helper()
	q, err := queue.Open(queue.Config{Store: f.store, History: f.store})
	if err != nil {
		f.t.Fatal(err)
	}
	s, err := server.New(server.Config{Queue: q, History: f.store, Failures: f.store, Depot: f.depot, Open: true, WorkerVersion: f.wanted})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		if err := q.Run(ctx); err != nil {
			f.t.Errorf("run: %v", err)
		}
	})
	run.Go(func() {
		if err := s.Run(ctx); err != nil {
			f.t.Errorf("run the server: %v", err)
		}
	})
	h := s.Handler()
	f.handler.Store(&h)
	f.queue, f.closing = q, s.Close
	f.stop = func() {
		s.Close()
		cancel()
		run.Wait()
	}
	if _, err := q.Workers(ctx); err != nil { // It answers once it has loaded.
		f.t.Fatal(err)
	}
}

// ServeHTTP implements http.Handler.
func (f *farm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.deaf.Load() && strings.HasSuffix(r.URL.Path, "/log") && r.Method == http.MethodPost {
		_, _ = io.Copy(io.Discard, r.Body) // Whatever comes.
		<-r.Context().Done()
		return
	}
	(*f.handler.Load()).ServeHTTP(w, r)
}

// network serves the farm at a socket, with a network before it that can fail.
func (f *farm) network() *pgtest.Proxy {
	f.t.Helper()
	dir, err := os.MkdirTemp("", "hrfarm") // a short path, as sockets want
	if err != nil {
		f.t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := new(net.ListenConfig).Listen(f.t.Context(), "unix", path)
	if err != nil {
		f.t.Fatal(err)
	}
	web := &http.Server{Handler: apitest.Checked(f, func(err error) { f.t.Error(err) })}
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(l) }) // It ends when it is closed.
	p, err := pgtest.Before(path)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := errors.Join(p.Close(), web.Close(), os.RemoveAll(dir)); err != nil {
			f.t.Error(err)
		}
		serving.Wait()
	})
	return p
}

// log reads the log of an attempt; "": there is none.
func (f *farm) log(id job.ID, attempt int) string {
	f.t.Helper()
	w := httptest.NewRecorder()
	path := fmt.Sprintf("/api/v1/jobs/%s/attempts/%d/log", id, attempt)
	f.ServeHTTP(w, httptest.NewRequestWithContext(f.t.Context(), http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		return ""
	}
	return w.Body.String()
}

// hand is a worker of a farm.
type hand struct {
	Outpost
	t     *testing.T
	drain context.CancelFunc // takes nothing new
	stop  context.CancelFunc // hands back what runs
	leave func()             // ends it as a process would
	ended chan error
	lines chan string // what its jobs write
	log   lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// hire starts a worker that calls through a client; change may alter it first. It ends with the test at the latest.
func hire(t *testing.T, client *api.Client, dir, name string, slots int32, change func(*hand)) *hand {
	t.Helper()
	home, err := OpenHome(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	h := &hand{t: t, ended: make(chan error, 1), lines: make(chan string, 10_000)}
	h.Outpost = Outpost{
		Client: client, Home: home, Version: "1", Log: slog.New(slog.NewTextHandler(&h.log, nil)), Executor: Executor{Grace: time.Second},
		Worker: job.Worker{Name: name, Channels: []string{api.DefaultChannel, ""}, Slots: slots, Session: freshID()},
		Line: func(_ *Attempt, l Line) {
			select {
			case h.lines <- string(l.Text):
			default:
			}
		},
	}
	if change != nil {
		change(h)
	}
	var work, draining context.Context
	work, h.stop = context.WithCancel(context.Background())
	draining, h.drain = context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { h.ended <- h.Run(work, draining) })
	h.leave = sync.OnceFunc(func() {
		h.stop()
		h.drain()
		all.Wait()
		client.HTTP.CloseIdleConnections()
		if err := home.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("worker %s:\n%s", name, &h.log)
		}
	})
	t.Cleanup(h.leave)
	return h
}

// end waits until the worker has ended, and gives its error.
func (h *hand) end() error {
	h.t.Helper()
	err := <-h.ended
	h.ended <- err
	return err
}

// says waits until a job of the worker has written a line.
func (h *hand) says(line string) {
	h.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case l := <-h.lines:
			if l == line {
				return
			}
		case <-deadline:
			h.t.Fatalf("no job wrote %q:\n%s", line, &h.log)
		}
	}
}

func caller(t *testing.T, server string) *api.Client {
	t.Helper()
	c, err := api.NewClient(server, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func through(t *testing.T, p *pgtest.Proxy) *api.Client { return caller(t, "unix://"+p.Socket()) }

// succeeds waits for a job, which must succeed with so many attempts.
func (f *farm) succeeds(id job.ID, attempts int32) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	rec, err := f.queue.AwaitJob(ctx, id)
	if err != nil {
		f.t.Fatal(err)
	}
	if rec.End.Outcome != job.Succeeded || rec.Tally.Attempts != attempts {
		f.t.Fatalf("job ended %v/%v %q after %d attempts; want a success after %d", rec.End.Outcome, rec.End.Detail, rec.End.Message, rec.Tally.Attempts, attempts)
	}
}

// journal lists what the folder of a worker still has of attempts.
func journal(t *testing.T, h *Home) (names []string) {
	t.Helper()
	for _, pattern := range []string{"attempts/*", "logs/*/*"} {
		found, err := filepath.Glob(filepath.Join(h.Dir(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

func TestRemoteRunsJobsAndShipsTheirLogs(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	h := hire(t, through(t, f.network()), t.TempDir(), "w", 2, nil)
	marker := filepath.Join(t.TempDir(), "ran")
	var ids []job.ID
	for range 20 {
		ids = append(ids, submit(t, f.queue, command(t, `echo "$HEADRACE_JOB $HEADRACE_ATTEMPT"; printf end; echo >> `+marker), job.Limits{}))
	}
	bad := submit(t, f.queue, command(t, "echo bad; exit 3"), job.Limits{})
	for _, id := range ids {
		f.succeeds(id, 1)
		if got := f.log(id, 1); got != "c 1\nend" {
			t.Errorf("log %q", got)
		}
	}
	rec, err := f.queue.AwaitJob(t.Context(), bad)
	if err != nil || rec.End.Outcome != job.Failed {
		t.Errorf("%v, %v", rec.End, err)
	}
	if got := f.log(bad, 1); got != "bad\nheadrace: failed: exit code 3\n" {
		t.Errorf("log %q", got)
	}
	if n := lineCount(t, marker); n != 20 {
		t.Errorf("the command ran %d times, want 20", n)
	}
	h.drain()
	if err := h.end(); err != nil {
		t.Error(err)
	}
	if left := journal(t, h.Home); len(left) > 0 {
		t.Errorf("left in its folder: %v", left)
	}
	if s := h.Home.sessions(); len(s) > 0 {
		t.Errorf("sessions %v are not over", s)
	}
}

func lineCount(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// Wherever the connection is cut, before a request, in it, after it, or in the answer, each job runs once, and its end is recorded.
func TestRemoteHealsCutConnections(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]pgtest.Direction{"to the server": pgtest.ToServer, "to the worker": pgtest.ToClient} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFarm(t)
			p := f.network()
			hire(t, through(t, p), t.TempDir(), "w", 1, nil)
			marker := filepath.Join(t.TempDir(), "ran")
			runs := 0
			for n := int64(1); n < 2500; n += 83 {
				p.CutAfter(d, n)
				id := submit(t, f.queue, command(t, "echo here; echo >> "+marker), job.Limits{})
				f.succeeds(id, 1)
				runs++
				if got := f.log(id, 1); got != "here\n" {
					t.Errorf("cut after %d: log %q", n, got)
				}
			}
			if n := lineCount(t, marker); n != runs {
				t.Errorf("%d jobs ran %d times", runs, n)
			}
		})
	}
}

func TestRemoteOutlivesItsServer(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	p := f.network()
	h := hire(t, through(t, p), t.TempDir(), "w", 2, nil)
	marker := filepath.Join(t.TempDir(), "ran")
	gate := newGate(t)
	id := submit(t, f.queue, command(t, "echo up; echo >> "+marker+"; read x <"+gate.path+"; echo down"), job.Limits{})
	h.says("up")
	for range 3 {
		f.stop()
		f.start()
		p.Cut()
	}
	gate.open(t)
	f.succeeds(id, 1)
	f.succeeds(submit(t, f.queue, command(t, "echo >> "+marker), job.Limits{}), 1)
	if n := lineCount(t, marker); n != 2 {
		t.Errorf("2 jobs ran %d times", n)
	}
	if got := f.log(id, 1); got != "up\ndown\n" {
		t.Errorf("log %q", got)
	}
}

// An end that comes while the server is away is told when it is back.
func TestRemoteTellsAnEndWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	h := hire(t, through(t, f.network()), t.TempDir(), "w", 1, nil)
	gate := newGate(t)
	id := submit(t, f.queue, command(t, "echo up; read x <"+gate.path+"; echo down"), job.Limits{})
	h.says("up")
	f.stop()
	gate.open(t)
	h.says("down")
	f.start()
	f.succeeds(id, 1)
}

func TestRemoteStopsWhatIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	h := hire(t, through(t, f.network()), t.TempDir(), "w", 1, nil)
	w := newWitness(t)
	id := submit(t, f.queue, command(t, w.hold()+"(setsid sleep 1000 &); echo up; exec sleep 1000"), job.Limits{})
	h.says("up")
	if err := f.queue.CancelJob(t.Context(), id, job.ID{}, false, "enough"); err != nil {
		t.Fatal(err)
	}
	w.goes(t)
	// The only slot is free again once the worker has confirmed.
	f.succeeds(submit(t, f.queue, command(t, "true"), job.Limits{}), 1)
}

func TestRemoteRefusesTwins(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	p := f.network()
	dir := t.TempDir()
	h := hire(t, through(t, p), dir, "w", 1, nil)
	f.succeeds(submit(t, f.queue, command(t, "true"), job.Limits{}), 1)
	var held *HomeHeldError
	if _, err := OpenHome(dir, "w"); !errors.As(err, &held) || held.PID != os.Getpid() {
		t.Errorf("its folder can be had twice: %v", err)
	}
	twin := hire(t, through(t, p), t.TempDir(), "w", 1, nil)
	if err := twin.end(); !errors.Is(err, job.ErrWorkerLive) {
		t.Errorf("the twin is told %v", err)
	}
	f.succeeds(submit(t, f.queue, command(t, "true"), job.Limits{}), 1)
	h.drain()
	if err := h.end(); err != nil {
		t.Error(err)
	}
}

// A worker that is stopped hands back what runs; one of the same folder may then begin at once, and the job loses no attempt.
func TestRemoteHandsBackWhatItInterrupts(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	p, dir := f.network(), t.TempDir()
	h := hire(t, through(t, p), dir, "w", 1, nil)
	flag := filepath.Join(t.TempDir(), "flag")
	id := submit(t, f.queue, command(t, "echo up; test -e "+flag+" || exec sleep 1000"), job.Limits{})
	h.says("up")
	h.leave()
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hire(t, through(t, p), dir, "w", 1, nil)
	f.succeeds(id, 2)
	rec, err := f.queue.AwaitJob(t.Context(), id)
	if err != nil || rec.Tally.Aborts+rec.Tally.Crashes+rec.Tally.Losses != 0 {
		t.Errorf("tally %+v, %v", rec.Tally, err)
	}
}

func TestRemoteTakesSoManyAndNoMore(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	first := submit(t, f.queue, command(t, "true"), job.Limits{})
	second := submit(t, f.queue, command(t, "true"), job.Limits{})
	p := f.network()
	h := hire(t, through(t, p), t.TempDir(), "w", 2, func(h *hand) { h.Most = 1 })
	if err := h.end(); err != nil {
		t.Error(err)
	}
	f.succeeds(first, 1)
	recs, err := f.store.Jobs(t.Context(), queue.JobFilter{State: job.Ready{}.String(), Limit: 10})
	if err != nil || len(recs) != 1 || recs[0].Spec.ID != second || recs[0].Tally.Attempts != 0 {
		t.Errorf("the second job: %+v, %v", recs, err)
	}
}

func TestRemoteHearsWhichVersionIsWanted(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	p := f.network()
	wanted := make(chan string, 1)
	h := hire(t, through(t, p), t.TempDir(), "w", 1, func(h *hand) {
		h.Outdated = func(v string) { wanted <- v; h.drain() }
	})
	gate := newGate(t)
	id := submit(t, f.queue, command(t, "echo up; read x <"+gate.path), job.Limits{})
	h.says("up")
	f.stop()
	f.wanted = "2"
	f.start()
	if got := <-wanted; got != "2" {
		t.Errorf("wanted %q", got)
	}
	gate.open(t)
	f.succeeds(id, 1) // It is not interrupted.
	if err := h.end(); err != nil {
		t.Error(err)
	}
}

// A log that the server takes late is shipped late; it does not hold up the end for long.
func TestEndDoesNotWaitLongForTheLog(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.deaf.Store(true)
	p := f.network()
	h := hire(t, through(t, p), t.TempDir(), "w", 1, nil)
	id := submit(t, f.queue, command(t, "echo here"), job.Limits{})
	f.succeeds(id, 1)
	if got := f.log(id, 1); got != "" {
		t.Errorf("log %q", got)
	}
	if len(journal(t, h.Home)) == 0 {
		t.Error("the log that was not shipped is gone")
	}
	f.deaf.Store(false)
	p.Cut()
	for start := time.Now(); f.log(id, 1) == "" || len(journal(t, h.Home)) > 0; {
		if time.Since(start) > 30*time.Second {
			t.Fatalf("log %q, left %v", f.log(id, 1), journal(t, h.Home))
		}
		<-time.After(10 * time.Millisecond)
	}
}

func freshID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }
