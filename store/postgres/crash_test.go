package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/crash"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/worker"
)

// lifeEnv is the folder in which a process of these tests, which owns a database, notes what it ran; crashEnv is where it is to
// die, as POINT:N.
const (
	lifeEnv  = "HEADRACE_TEST_LIFE"
	crashEnv = "HEADRACE_TEST_CRASH"
)

// lifeNeeds are the jobs of a life, by number, with what they need: chains, diamonds, and one that everything meets in. The
// fifth fails once.
var lifeNeeds = [][]byte{0: {}, 1: {0}, 2: {1}, 3: {}, 4: {3}, 5: {0}, 6: {4, 5}, 7: {5}, 8: {2, 6}, 9: {3}, 10: {9}, 11: {7, 8, 10}}

const lifeFails = 5

// live is what such a process does: it takes the store over, asks for the jobs, and works until they have ended.
func live(address, dir string) error {
	if point, pass, ok := strings.Cut(os.Getenv(crashEnv), ":"); ok {
		n, err := strconv.ParseInt(pass, 10, 64)
		if err != nil {
			return err
		}
		var passed atomic.Int64
		crash.On(func(p crash.Point) {
			if p == crash.Point(point) && passed.Add(1) == n {
				syscall.Kill(os.Getpid(), syscall.SIGKILL) //nolint:errcheck // there is nobody left to tell
			}
		})
	}
	ctx := context.Background()
	s, err := postgres.Open(ctx, address, postgres.Options{})
	if err != nil {
		return err
	}
	q, err := queue.Open(queue.Config{Store: s, History: s})
	if err != nil {
		return err
	}
	engine, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- q.Run(engine) }()
	err = lead(ctx, q, s, dir)
	stop()
	err = errors.Join(err, <-ended)
	return errors.Join(err, s.Close())
}

// again repeats f while it says that it may be tried again.
func again(f func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		var retry *queue.RetryError
		if !errors.As(err, &retry) {
			return err
		}
		<-tick.C
	}
}

func lead(ctx context.Context, q *queue.Queue, s *postgres.Store, dir string) error {
	w := job.Worker{Name: "w", Channels: []string{"main"}, Kinds: []string{"test"}, Slots: 3, Session: q.NewID()}
	if err := again(func() error { return takeBack(ctx, q, s, w) }); err != nil {
		return err
	}
	// The ids and the request are those of the life before: what it had asked for is not asked for again.
	b := job.Build{ID: job.ID{0: 'b'}}
	asked := queue.Submission{Build: &b}
	for i, needs := range lifeNeeds {
		spec := job.Spec{ID: lifeID(i), Channel: "main", Kind: "test", Retry: job.Retry{Failures: 1}, Args: []byte{byte(i)}}
		for _, n := range needs {
			spec.Needs = append(spec.Needs, job.Need{Job: lifeID(int(n))})
		}
		asked.Jobs, asked.Refs = append(asked.Jobs, spec), append(asked.Refs, job.Ref{Job: spec.ID})
	}
	err := again(func() error {
		_, err := q.Submit(queue.WithRequest(ctx, job.ID{0: 'r'}), asked)
		return err
	})
	if err != nil {
		return err
	}
	runtime := worker.Runtime{Source: q, Worker: w, Handlers: map[string]worker.Handler{"test": func(_ context.Context, a *worker.Attempt) job.Report {
		return note(dir, a)
	}}}
	drain, enough := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- runtime.Run(ctx, drain) }()
	err = again(func() error {
		_, err := q.AwaitBuild(ctx, b.ID)
		return err
	})
	enough()
	return errors.Join(err, <-worked)
}

// takeBack hands back the attempts of the life before.
func takeBack(ctx context.Context, q *queue.Queue, s *postgres.Store, w job.Worker) error {
	known, err := q.Workers(ctx)
	if err != nil {
		return err
	}
	for _, k := range known {
		if err := q.SignOff(ctx, k.Name, k.Session); err != nil {
			return err
		}
	}
	running, err := s.Jobs(ctx, queue.JobFilter{State: job.Running{}.String()})
	if err != nil {
		return err
	}
	var leases []job.Lease
	for i := range running {
		leases = append(leases, job.Lease{Job: running[i].Spec.ID, Attempt: running[i].Last.Number, Token: running[i].Last.Token})
	}
	if err := q.Register(ctx, w, leases...); err != nil {
		return err
	}
	for _, l := range leases {
		if err := q.Finish(ctx, job.Report{Lease: l, Outcome: job.Aborted, Detail: job.HandedBack}); err != nil {
			return err
		}
	}
	return nil
}

// note is the work of a job: to write down that it ran.
func note(dir string, a *worker.Attempt) job.Report {
	i := int(a.Spec.Args[0])
	path := filepath.Join(dir, strconv.Itoa(i))
	before, _ := os.ReadFile(path) // The first attempt finds none.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, a.Lease.Attempt)
		err = errors.Join(err, f.Close())
	}
	switch {
	case err != nil:
		return job.Report{Outcome: job.Aborted, Message: err.Error()}
	case i == lifeFails && len(before) == 0:
		return job.Report{Outcome: job.Failed}
	}
	return job.Report{Outcome: job.Succeeded}
}

func lifeID(i int) job.ID { return job.ID{0: 'j', 15: byte(i + 1)} }

// lives are such processes, one after the other on one database.
type lives struct {
	t            *testing.T
	wish         string // where the first is to die
	address, dir string
	cmd          *exec.Cmd
	said         bytes.Buffer
}

// start lets one live.
func (l *lives) start(wish string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Minute)
	l.t.Cleanup(cancel)
	l.said.Reset()
	l.cmd = exec.CommandContext(ctx, os.Args[0])
	l.cmd.Env = append(os.Environ(), ownerEnv+"="+l.address, lifeEnv+"="+l.dir, crashEnv+"="+wish)
	l.cmd.Stdout, l.cmd.Stderr = &l.said, &l.said
	if err := l.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
}

// end waits for its end, and wants this exit code; -1: that it was killed.
func (l *lives) end(want int) {
	l.t.Helper()
	var exit *exec.ExitError
	if err := l.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		l.t.Fatal(err)
	}
	if code := l.cmd.ProcessState.ExitCode(); code != want {
		l.t.Fatalf("%s: exit code %d, want %d:\n%s", l.wish, code, want, &l.said)
	}
}

// noted gives what a job has written down.
func (l *lives) noted(i int) string {
	l.t.Helper()
	b, err := os.ReadFile(filepath.Join(l.dir, strconv.Itoa(i)))
	if err != nil && !os.IsNotExist(err) {
		l.t.Fatal(err)
	}
	return string(b)
}

// ended gives what the jobs have written down that ended well.
func (l *lives) ended(r *postgres.Reader) map[int]string {
	l.t.Helper()
	list, err := r.Jobs(l.t.Context(), queue.JobFilter{Outcome: job.Succeeded, Limit: 100})
	if err != nil {
		l.t.Fatal(err)
	}
	ran := map[int]string{}
	for i := range list {
		n := int(list[i].Spec.ID[15]) - 1
		ran[n] = l.noted(n)
	}
	return ran
}

// verify compares what is stored with what the jobs have written down.
func (l *lives) verify(r *postgres.Reader) {
	l.t.Helper()
	list, err := r.Jobs(l.t.Context(), queue.JobFilter{Limit: 100})
	if err != nil || len(list) != len(lifeNeeds) {
		l.t.Errorf("%d jobs are stored (%v), want %d", len(list), err, len(lifeNeeds))
	}
	for i := range list {
		n := int(list[i].Spec.ID[15]) - 1
		ends, err := r.Attempts(l.t.Context(), list[i].Spec.ID)
		if err != nil {
			l.t.Fatal(err)
		}
		noted := strings.Fields(l.noted(n))
		if unique := slices.Compact(slices.Clone(noted)); len(unique) != len(noted) {
			l.t.Errorf("%s: job %d: an attempt ran twice: %v", l.wish, n, noted)
		}
		good := 0
		for _, a := range ends {
			ran := slices.Contains(noted, strconv.Itoa(int(a.Number)))
			switch {
			case a.Outcome == job.Succeeded && ran:
				good++
			case a.Outcome == job.Failed && ran && n == lifeFails:
			case a.Outcome == job.Aborted && a.Detail == job.HandedBack:
			default:
				l.t.Errorf("%s: job %d: attempt %d ended as %v %v, ran: %t", l.wish, n, a.Number, a.Outcome, a.Detail, ran)
			}
		}
		if good != 1 || list[i].End == nil || list[i].End.Outcome != job.Succeeded {
			l.t.Errorf("job %d ended well %d times: %+v", n, good, list[i].End)
		}
		if last := len(ends); last > 0 && len(noted) > 0 && noted[len(noted)-1] != strconv.Itoa(int(ends[last-1].Number)) {
			l.t.Errorf("%s: job %d: attempts %v ran, and attempt %d is the last that is stored", l.wish, n, noted, ends[last-1].Number)
		}
	}
}

// The owner is killed at each point, at the first time that it comes there and at later ones. The next one goes on where it was:
// each job succeeds once, and nothing that was stored as ended runs again.
func TestOwnerKilledBetweenAnyTwoStepsIsFollowed(t *testing.T) {
	t.Parallel()
	for _, point := range crash.Points() {
		switch point {
		case crash.AttemptBegun, crash.CommitWritten:
			continue // These jobs are no programs, and here all rows are written by what also commits them.
		default:
		}
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			killAndFollow(t, point, 1, 2, 3, 7)
		})
	}
}

// killAndFollow kills owners of a database each when they come to the point for the so-manieth time. They live at the same time, as
// whoever follows one that was killed mostly waits.
func killAndFollow(t *testing.T, point crash.Point, passes ...int) {
	var all []*lives
	for _, pass := range passes {
		l := &lives{t: t, wish: fmt.Sprintf("%s:%d", point, pass), address: database(t), dir: t.TempDir()}
		all = append(all, l)
		l.start(l.wish)
	}
	readers := make([]*postgres.Reader, len(all))
	before := make([]map[int]string, len(all))
	for i, l := range all {
		l.end(-1)
		r, err := postgres.OpenReadOnly(t.Context(), l.address)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		readers[i], before[i] = r, l.ended(r)
		l.start("")
	}
	for i, l := range all {
		l.end(0)
		for n, ran := range before[i] {
			if now := l.noted(n); now != ran {
				t.Errorf("%s: job %d had ended, and ran again: %q, then %q", l.wish, n, ran, now)
			}
		}
		l.verify(readers[i])
	}
}
