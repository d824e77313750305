package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
	"github.com/headrace/headrace/worker"
)

// told is a display that keeps a word for each event, and the job that it is about.
type told struct{ events []string }

func (d *told) Event(e progress.Event) {
	switch e := e.(type) {
	case progress.JobStarted:
		d.events = append(d.events, "start "+e.Name)
	case progress.JobRetried:
		d.events = append(d.events, "retry "+e.Name)
	case progress.JobEnded:
		d.events = append(d.events, "end "+e.Name)
	case progress.RunStopping:
		d.events = append(d.events, "stop "+e.Why)
	default:
		// The rest is not told here.
	}
}

func (d *told) Line(int, []byte) {}

func (d *told) Run(ctx context.Context) { <-ctx.Done() }

// watched is a monitor of a graph without an engine, whose rounds a test makes up.
type watched struct {
	*monitor
	told told
	ids  []job.ID
}

func watch(t *testing.T, file string) *watched {
	t.Helper()
	g, err := graph.Parse(strings.NewReader(file), "g.yaml", graph.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{}
	relay := progress.NewRelay(&w.told)
	w.monitor = &monitor{
		work: &work{Graph: g}, relay: relay, barrier: newBarrier(relay), index: map[job.ID]int{}, counts: map[string]int{},
		roots: map[int]job.ID{}, refused: map[job.ID]bool{}, onRetry: func(attemptName) {}, lacking: func(int) string { return "" },
	}
	w.onFailure = func(string) { w.barrier.stop(progress.RunStopping{Why: "failure"}) }
	for i := range g.Jobs {
		w.ids = append(w.ids, job.ID{15: byte(i + 1)})
		w.add(i, w.ids[i])
	}
	w.barrier.open()
	return w
}

func (w *watched) started(i int) job.Change {
	return job.JobStarted{Job: w.ids[i], Attempt: job.Attempt{Number: 1}}
}

func (w *watched) ended(i int, o job.Outcome) job.Change {
	return job.JobEnded{Job: w.ids[i], End: job.End{Outcome: o}, Attempt: &job.AttemptEnd{Attempt: job.Attempt{Number: 1}, Outcome: o}}
}

// enters asks what becomes of an attempt, and reports whether its command ran.
func (w *watched) enters(t *testing.T, i int) (ran bool) {
	t.Helper()
	handler := w.barrier.guard(func(context.Context, *worker.Attempt) job.Report {
		ran = true
		return job.Report{Outcome: job.Succeeded}
	}, func(context.Context, job.ID) {})
	report := handler(t.Context(), &worker.Attempt{Assignment: queue.Assignment{Lease: job.Lease{Job: w.ids[i], Attempt: 1}}})
	if !ran && report.Detail != job.HandedBack {
		t.Errorf("what may not begin is reported as %v, %v", report.Outcome, report.Detail)
	}
	return ran
}

// check compares what was told with what should have been.
func (w *watched) check(t *testing.T, want ...string) {
	t.Helper()
	over, stop := context.WithCancel(t.Context())
	stop()
	w.relay.Run(over)
	if !slices.Equal(w.told.events, want) {
		t.Errorf("told: %q, want %q", w.told.events, want)
	}
}

const sideways = `jobs: {bad: {run: a}, other: {run: b}, next: {run: c, needs: {bad: finish}}, last: {run: d}}`

// The engine judges some ends by itself, such as a limit that passed while headrace was stopped: then nobody had it pause.
func TestNothingBeginsThatTheEngineStartedBesideOrAfterAFailure(t *testing.T) {
	t.Parallel()
	w := watch(t, sideways)
	w.see(queue.Round{Number: 1, Changes: []job.Change{w.started(0), w.started(1)}})
	for i := range 2 {
		if !w.enters(t, i) {
			t.Errorf("job %d did not begin", i)
		}
	}
	w.see(queue.Round{Number: 2, Changes: []job.Change{w.ended(0, job.TimedOut), w.started(2)}})
	w.see(queue.Round{Number: 3, Changes: []job.Change{w.started(3), w.ended(1, job.Succeeded)}})
	for i := 2; i < 4; i++ {
		if w.enters(t, i) {
			t.Errorf("job %d began after the failure", i)
		}
	}
	back := job.AttemptEnd{Attempt: job.Attempt{Number: 1}, Outcome: job.Aborted, Detail: job.HandedBack}
	w.see(queue.Round{Number: 4, Changes: []job.Change{job.JobRetried{Job: w.ids[2], Attempt: back}, w.ended(2, job.Cancelled), w.ended(3, job.Cancelled)}})
	w.check(t, "start bad", "start other", "end bad", "stop failure", "end other", "end next", "end last")
}

func TestNothingBeginsAfterAnInterrupt(t *testing.T) {
	t.Parallel()
	w := watch(t, sideways)
	w.see(queue.Round{Number: 1, Changes: []job.Change{w.started(0)}})
	w.barrier.stop(progress.RunStopping{Why: "interrupt"})
	w.see(queue.Round{Number: 2, Changes: []job.Change{w.started(1)}})
	if !w.enters(t, 0) || w.enters(t, 1) {
		t.Error("what was started before the interrupt is to begin, what was started after it is not")
	}
	w.check(t, "start bad", "stop interrupt")
}

// The store agrees with what was told: what did not begin has not failed, though an attempt of it was started.
func TestWhatTheEngineStartedBesideAFailureIsDropped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "g.yaml")
	write(t, dir, "g.yaml", `jobs: {bad: {run: exit 3}, next: {run: "echo >> began", needs: {bad: finish}}}`)
	w, err := newWork(file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var d told
	store := memory.New()
	s := &session{runOptions: runOptions{file: file, slots: 2}, place: placeOf(file, ""), work: w, relay: progress.NewRelay(&d), now: make(chan struct{})}
	s.barrier, s.store = newBarrier(s.relay), kept{store}
	s.ctx, s.stop = context.WithCancelCause(t.Context())
	defer s.stop(nil)
	if s.q, err = queue.Open(queue.Config{Store: store, History: store}); err != nil {
		t.Fatal(err)
	}
	engine, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.q.Run(engine); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer stop()
	if err := errors.Join(s.prepare(), s.submit()); err != nil {
		t.Fatal(err)
	}
	s.brake.stops = func(job.ID) bool { return false }
	if err := s.toil(); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{"failed": 1, "cancelled": 1}
	if !maps.Equal(s.monitor.counts, count) {
		t.Errorf("counts %v, want %v", s.monitor.counts, count)
	}
	recs, err := store.Jobs(t.Context(), queue.JobFilter{Name: "next", Limit: 1})
	if err != nil || len(recs) != 1 {
		t.Fatalf("%d records, error %v", len(recs), err)
	}
	h := teller{place: s.place}
	v := h.view(&recs[0])
	if v.Attempts != 1 || !strings.HasPrefix(v.line(), progress.NotStarted) || !strings.HasSuffix(v.line(), refusedNote) {
		t.Errorf("%d attempts, told as %q", v.Attempts, v.line())
	}
	if _, err := os.Stat(filepath.Join(dir, "began")); err == nil {
		t.Error("it ran")
	}
	stopped, end := context.WithCancel(t.Context())
	end()
	s.relay.Run(stopped)
	if want := []string{"start bad", "end bad", "stop failure", "end next"}; !slices.Equal(d.events, want) {
		t.Errorf("told: %q, want %q", d.events, want)
	}
}

// kept is a store in memory that is always in its place.
type kept struct{ *memory.Store }

func (kept) InPlace() error { return nil }

// A queue that stops working on what runs must not leave those waiting that have not been told whether they may begin.
func TestAttemptThatIsStoppedDoesNotWaitToBegin(t *testing.T) {
	t.Parallel()
	w := watch(t, sideways)
	over, stop := context.WithCancel(t.Context())
	stop()
	if w.barrier.enter(over, attemptName{w.ids[0], 1}) {
		t.Error("it began")
	}
}

func TestRunStopsAtOptionalJobsWhoseSuccessIsNeeded(t *testing.T) {
	t.Parallel()
	w := watch(t, `jobs:
  counts: {run: a}
  free: {run: a, optional: true}
  tried: {run: a, optional: true}
  between: {run: a, optional: true, needs: [tried]}
  needs: {run: a, needs: [between]}
  waited: {run: a, optional: true}
  waits: {run: a, needs: {waited: finish}}
  first: {run: a, optional: true}
  later: {run: a, needs: {first: order}}
`)
	var names []string
	for i, stops := range w.work.stopping() {
		if stops {
			names = append(names, w.work.Jobs[i].Name)
		}
	}
	slices.Sort(names)
	if want := []string{"between", "counts", "later", "needs", "tried", "waits"}; !slices.Equal(names, want) {
		t.Errorf("the run stops at %v, want %v", names, want)
	}
}
