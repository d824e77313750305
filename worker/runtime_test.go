package worker

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
	"golang.org/x/sys/unix"
)

// engine runs a queue on a store in memory until the test ends.
func engine(t *testing.T) *queue.Queue {
	t.Helper()
	s := memory.New()
	q, err := queue.Open(queue.Config{Store: s, History: s})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var owner sync.WaitGroup
	owner.Go(func() {
		if err := q.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); owner.Wait() })
	return q
}

// shiftOf runs a Runtime with command jobs until the test ends, stop is called, or drain is called and nothing runs.
func shiftOf(t *testing.T, q *queue.Queue, slots int32, logs string, onLine func(*Attempt, Line)) (stop, drain func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	draining, endDrain := context.WithCancel(context.Background())
	r := Runtime{
		Source:   q,
		Worker:   job.Worker{Name: "here", Channels: []string{""}, Slots: slots, Session: q.NewID()},
		Handlers: map[string]Handler{CommandKind: Commands(Executor{Grace: time.Second}, logs, onLine)},
	}
	var run sync.WaitGroup
	run.Go(func() {
		if err := r.Run(ctx, draining); err != nil {
			t.Error(err)
		}
	})
	once := sync.OnceFunc(func() { cancel(); run.Wait(); endDrain() })
	t.Cleanup(once)
	return once, func() { endDrain(); run.Wait() }
}

func command(t *testing.T, shell string) job.Spec {
	t.Helper()
	args, err := json.Marshal(CommandArgs{Shell: shell})
	if err != nil {
		t.Fatal(err)
	}
	return job.Spec{Kind: CommandKind, Name: "c", Args: args}
}

func submit(t *testing.T, q *queue.Queue, s job.Spec, l job.Limits) job.ID {
	t.Helper()
	r, err := q.Submit(t.Context(), queue.Submission{Jobs: []job.Spec{s}, Own: job.Own{Limits: l}})
	if err != nil {
		t.Fatal(err)
	}
	return r.Jobs[0].ID
}

func TestRuntimeRunsCommandsAndKeepsTheirLogs(t *testing.T) {
	q, logs := engine(t), t.TempDir()
	shiftOf(t, q, 2, logs, nil)
	id := submit(t, q, command(t, `echo "$HEADRACE_JOB $HEADRACE_ATTEMPT"; exit 3`), job.Limits{})
	rec, err := q.AwaitJob(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if rec.End.Outcome != job.Failed {
		t.Errorf("outcome %v, want failed", rec.End.Outcome)
	}
	p, err := q.History.Payload(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var result CommandResult
	if err := json.Unmarshal(p.Result, &result); err != nil {
		t.Fatal(err)
	}
	if result.ExitCode != 3 {
		t.Errorf("exit code %d, want 3", result.ExitCode)
	}
	if got := text(readAll(t, filepath.Join(logs, result.Log)), Stdout); got != "c 1\n" {
		t.Errorf("log %q", got)
	}
}

// The engine judges limits, too, but the worker of a command that has to be killed is to tell of it, with what it knows.
func TestWorkerTellsALimitBeforeTheEngineJudgesIt(t *testing.T) {
	t.Parallel()
	if longest := DefaultGrace + lostPatience; longest >= job.JudgeSlack {
		t.Errorf("an end may take %v; the engine waits for %v only", longest, job.JudgeSlack)
	}
	q := engine(t)
	shiftOf(t, q, 2, t.TempDir(), nil)
	const deaf = "trap '' TERM; while :; do sleep 1000; done"
	tests := []struct {
		limits  job.Limits
		detail  job.Detail
		message string
	}{
		{job.Limits{Timeout: time.Second}, job.TotalTimeout, "still running after 1s"},
		{job.Limits{Silence: time.Second}, job.SilentTimeout, "no output for 1s"},
	}
	var ids []job.ID
	for _, tc := range tests {
		ids = append(ids, submit(t, q, command(t, deaf), tc.limits))
	}
	for i, tc := range tests {
		rec, err := q.AwaitJob(t.Context(), ids[i])
		if err != nil {
			t.Fatal(err)
		}
		if e := rec.End; e.Outcome != job.TimedOut || e.Detail != tc.detail || e.Message != tc.message {
			t.Errorf("%v/%v %q; want timed-out/%v %q", e.Outcome, e.Detail, e.Message, tc.detail, tc.message)
		}
	}
}

func TestRuntimeStopsACancelledCommandAndFreesItsSlot(t *testing.T) {
	q := engine(t)
	up := make(chan struct{})
	shiftOf(t, q, 1, t.TempDir(), func(_ *Attempt, l Line) {
		if string(l.Text) == "up" {
			close(up)
		}
	})
	id := submit(t, q, command(t, "echo up; exec sleep 1000"), job.Limits{})
	<-up
	if err := q.CancelJob(t.Context(), id, job.ID{}, false, "enough"); err != nil {
		t.Fatal(err)
	}
	// The only slot is free again only once the worker has confirmed.
	next := submit(t, q, command(t, "true"), job.Limits{})
	rec, err := q.AwaitJob(t.Context(), next)
	if err != nil || rec.End.Outcome != job.Succeeded {
		t.Errorf("the next job: %v, %v", rec.End, err)
	}
	if rec, err = q.AwaitJob(t.Context(), id); err != nil || rec.End.Outcome != job.Cancelled {
		t.Errorf("the cancelled job: %v, %v", rec.End, err)
	}
}

func TestRuntimeHandsBackWhatItInterrupts(t *testing.T) {
	q := engine(t)
	up := make(chan struct{}, 2)
	speak := func(_ *Attempt, l Line) {
		if string(l.Text) == "up" {
			up <- struct{}{}
		}
	}
	stop, _ := shiftOf(t, q, 1, t.TempDir(), speak)
	flag := filepath.Join(t.TempDir(), "flag")
	id := submit(t, q, command(t, "echo up; test -e "+flag+" || exec sleep 1000"), job.Limits{})
	<-up
	stop()
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	shiftOf(t, q, 1, t.TempDir(), speak)
	rec, err := q.AwaitJob(t.Context(), id)
	if err != nil || rec.End.Outcome != job.Succeeded || rec.Tally.Attempts != 2 || rec.Tally.Aborts != 0 {
		t.Errorf("after the interruption: %+v, tally %+v, %v", rec.End, rec.Tally, err)
	}
}

func TestRuntimeDrainsWithoutInterrupting(t *testing.T) {
	q := engine(t)
	up := make(chan struct{})
	gate := newGate(t)
	_, drain := shiftOf(t, q, 2, t.TempDir(), func(*Attempt, Line) { close(up) })
	first := submit(t, q, command(t, "echo up; read x <"+gate.path), job.Limits{})
	<-up
	drained := make(chan struct{})
	go func() { drain(); close(drained) }()
	gate.open(t)
	<-drained
	rec, err := q.AwaitJob(t.Context(), first)
	if err != nil || rec.End.Outcome != job.Succeeded || rec.Tally.Attempts != 1 {
		t.Errorf("drained: %+v, %v", rec.End, err)
	}
}

func TestRuntimeSurvivesAHandlerThatPanics(t *testing.T) {
	q := engine(t)
	if err := q.SetChannel(t.Context(), crashOnce()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := Runtime{
		Source:   q,
		Worker:   job.Worker{Name: "w", Channels: []string{""}, Slots: 1, Session: q.NewID()},
		Handlers: map[string]Handler{"bad": func(context.Context, *Attempt) job.Report { panic("no") }},
	}
	var run sync.WaitGroup
	run.Go(func() { _ = r.Run(ctx, t.Context()) })
	id := submit(t, q, job.Spec{Kind: "bad"}, job.Limits{})
	rec, err := q.AwaitJob(t.Context(), id)
	if err != nil || rec.End.Outcome != job.Aborted || rec.End.Detail != job.WorkerCrashed || rec.Tally.Attempts != 2 {
		t.Errorf("%+v, tally %+v, %v", rec.End, rec.Tally, err)
	}
	cancel()
	run.Wait()
}

// crashOnce is a channel in which a job may take its worker down once.
func crashOnce() job.Channel {
	c := job.DefaultChannel("")
	c.Retry.Crashes = 1
	return c
}

func TestRuntimeIsRefusedUnderALiveName(t *testing.T) {
	q := engine(t)
	w := job.Worker{Name: "w", Channels: []string{""}, Kinds: []string{"k"}, Slots: 1, Session: q.NewID()}
	if err := q.Register(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	w.Session = q.NewID()
	r := Runtime{Source: q, Worker: w, Handlers: map[string]Handler{"k": nil}}
	if err := r.Run(t.Context(), t.Context()); !errors.Is(err, job.ErrWorkerLive) {
		t.Errorf("got %v, want %v", err, job.ErrWorkerLive)
	}
}

// cut is a source whose heartbeats do not get through while it is down.
type cut struct {
	Source
	down atomic.Bool
}

func (c *cut) Heartbeat(ctx context.Context, beats ...queue.Beat) ([]error, error) {
	if c.down.Load() {
		return nil, errors.New("no route")
	}
	return c.Source.Heartbeat(ctx, beats...)
}

// An attempt whose lease was lost may still be dying when the same worker gets the next one: that one is renewed
// all the same.
func TestRuntimeRenewsAnAttemptWhoseForerunnerIsStillDying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := engine(t)
		source := &cut{Source: q}
		source.down.Store(true)
		work := func(ctx context.Context, a *Attempt) job.Report {
			if a.Lease.Attempt == 1 {
				<-ctx.Done()
				time.Sleep(3 * time.Second) // its tree dies slowly
				return job.Report{Outcome: job.Cancelled}
			}
			source.down.Store(false)
			select {
			case <-time.After(10 * time.Minute):
				return job.Report{Outcome: job.Succeeded}
			case <-ctx.Done():
				return job.Report{Outcome: job.Cancelled}
			}
		}
		r := Runtime{
			Source: source, Handlers: map[string]Handler{"k": work},
			Worker: job.Worker{Name: "w", Channels: []string{""}, Slots: 2, Session: q.NewID()},
		}
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = r.Run(ctx, ctx) })
		rec, err := q.AwaitJob(t.Context(), submit(t, q, job.Spec{Kind: "k"}, job.Limits{}))
		if err != nil || rec.End.Outcome != job.Succeeded || rec.Tally.Attempts != 2 {
			t.Errorf("%+v, tally %+v, %v; want a success of the second attempt", rec.End, rec.Tally, err)
		}
		stop()
		run.Wait()
	})
}

// The first lease may be shorter than the pause between two heartbeats of a worker that has nothing to do.
func TestRuntimeRenewsAShortLeaseInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := engine(t)
		c := job.DefaultChannel("")
		c.TTL = time.Second
		if err := q.SetChannel(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		r := Runtime{
			Source: q, Worker: job.Worker{Name: "w", Channels: []string{""}, Slots: 1, Session: q.NewID()},
			Handlers: map[string]Handler{"k": func(ctx context.Context, _ *Attempt) job.Report {
				select {
				case <-time.After(time.Hour):
					return job.Report{Outcome: job.Succeeded}
				case <-ctx.Done():
					return job.Report{Outcome: job.Cancelled}
				}
			}},
		}
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = r.Run(ctx, ctx) })
		synctest.Wait() // the worker has nothing to do yet
		rec, err := q.AwaitJob(t.Context(), submit(t, q, job.Spec{Kind: "k"}, job.Limits{}))
		if err != nil || rec.End.Outcome != job.Succeeded || rec.Tally.Attempts != 1 {
			t.Errorf("%+v, tally %+v, %v; want a success at once", rec.End, rec.Tally, err)
		}
		stop()
		run.Wait()
	})
}

// gate is a FIFO at which a command waits until the test opens it. Neither end opens before the other is there.
type gate struct{ path string }

func newGate(t *testing.T) gate {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return gate{path}
}

func (g gate) open(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(g.path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
