package storetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// Clock runs a queue on the store, then another one whose clock has been set back, and one whose clock has been set forward, by an
// hour and more: leases get one whole length, back-offs and quarantines last no longer than they were to, and a limit is not run into
// before its time.
func Clock(t *testing.T, open func(t testing.TB) Reopener) {
	for _, c := range []struct {
		name          string
		before, after time.Duration // since the beginning of all time: what the two clocks show
	}{
		{"Back", 2 * time.Hour, 30 * time.Minute},
		{"Forward", time.Minute, 90 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			place := open(t)
			t.Cleanup(func() { place.Close(t) })
			jobs := &clockJobs{}
			synctest.Test(t, func(t *testing.T) { live(t, place, c.before, jobs.begin) })
			// In each bubble time begins anew.
			synctest.Test(t, func(t *testing.T) {
				live(t, place, c.after, func(t *testing.T, q *queue.Queue, s Store) { jobs.goOn(t, q, s, c.after > c.before) })
			})
		})
	}
}

// live runs a queue on the store once the clock shows the time.
func live(t *testing.T, place Reopener, at time.Duration, do func(*testing.T, *queue.Queue, Store)) {
	<-time.After(at)
	s := place.Open(t)
	q, err := queue.Open(queue.Config{Store: s, History: s})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- q.Run(ctx) }()
	do(t, q, s)
	stop()
	// Closed, and not only dropped: nothing of it may outlive its time.
	if err := errors.Join(<-ran, s.Close()); err != nil {
		t.Error(err)
	}
}

// clockJobs are a job that runs, one that runs and has a limit, one that waits after an abort, and one whose worker is in quarantine.
type clockJobs struct {
	runs, limited, waits queue.Assignment
	aside                job.Worker
}

const clockLimit = 20 * time.Minute

func clockWorker(name, kind string, q *queue.Queue) job.Worker {
	return job.Worker{Name: name, Channels: []string{"main"}, Kinds: []string{kind}, Slots: 1, Session: q.NewID()}
}

// lease makes a worker of its own kind and a job for it, and gives the attempt.
func (c *clockJobs) lease(t *testing.T, q *queue.Queue, name string, limits job.Limits) (queue.Assignment, job.Worker) {
	t.Helper()
	w := clockWorker(name, name, q)
	if err := q.Register(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	wish := job.Spec{Channel: "main", Kind: name, Key: name, Retry: job.Retry{Losses: 1}}
	if _, err := q.Submit(t.Context(), queue.Submission{Jobs: []job.Spec{wish}, Own: job.Own{Limits: limits}}); err != nil {
		t.Fatal(err)
	}
	got, err := q.Lease(t.Context(), w.Name, w.Session, 1, 0)
	if err != nil || len(got) != 1 {
		t.Fatalf("lease of %s: %d attempts, %v", name, len(got), err)
	}
	return got[0], w
}

func (c *clockJobs) begin(t *testing.T, q *queue.Queue, _ Store) {
	c.runs, _ = c.lease(t, q, "runs", job.Limits{})
	c.limited, _ = c.lease(t, q, "limited", job.Limits{Timeout: clockLimit})
	c.waits, _ = c.lease(t, q, "waits", job.Limits{})
	var bad queue.Assignment
	bad, c.aside = c.lease(t, q, "aside", job.Limits{})
	for _, r := range []job.Report{
		{Lease: c.waits.Lease, Outcome: job.Aborted},
		{Lease: bad.Lease, Outcome: job.Aborted, Detail: job.WorkerFault},
	} {
		if err := q.Finish(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// state gives the word for what the store says of a job.
func (c *clockJobs) state(t *testing.T, s Store, id job.ID) string {
	t.Helper()
	synctest.Wait()
	list, err := s.Jobs(t.Context(), queue.JobFilter{IDs: []job.ID{id}})
	if err != nil || len(list) != 1 {
		t.Fatalf("job %s: %d records, %v", id, len(list), err)
	}
	r := &list[0]
	switch {
	case r.End != nil:
		return r.End.Outcome.String()
	case r.Running:
		return "running"
	case r.Ready:
		return "ready"
	}
	return "blocked"
}

func (c *clockJobs) goOn(t *testing.T, q *queue.Queue, s Store, forward bool) {
	// A forward clock cannot be told from a long absence: what was to be over is, but leases.
	waits, limited := "blocked", "running"
	if forward {
		waits, limited = "ready", "timed-out"
	}
	if _, err := q.Workers(t.Context()); err != nil { // it has loaded
		t.Fatal(err)
	}
	c.expect(t, s, "at once", "running", waits, limited)
	beat := func(l job.Lease) error {
		errs, err := q.Heartbeat(t.Context(), queue.Beat{Lease: l})
		return errors.Join(append(errs, err)...)
	}
	<-time.After(job.DefaultTTL - 2*time.Second)
	if err := beat(c.limited.Lease); (err != nil) != forward {
		t.Errorf("heartbeat of the limited job: %v", err)
	}
	c.expect(t, s, "before the leases have run out", "running", "ready", limited)
	<-time.After(3 * time.Second)
	c.expect(t, s, "after a lease has run out", "ready", "ready", limited)
	// The quarantine of 60 s and its jitter are over.
	if err := q.SignOff(t.Context(), c.aside.Name, c.aside.Session); err != nil {
		t.Fatal(err)
	}
	c.aside.Session = q.NewID()
	if err := q.Register(t.Context(), c.aside); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if got, err := q.Lease(ctx, c.aside.Name, c.aside.Session, 1, 0); err != nil || len(got) != 1 {
		t.Errorf("the worker that was set aside gets %d attempts, %v", len(got), err)
	}
}

func (c *clockJobs) expect(t *testing.T, s Store, when, runs, waits, limited string) {
	t.Helper()
	for _, v := range []struct {
		name, want string
		id         job.ID
	}{{"that runs", runs, c.runs.Lease.Job}, {"that waits", waits, c.waits.Lease.Job}, {"with a limit", limited, c.limited.Lease.Job}} {
		if got := c.state(t, s, v.id); got != v.want {
			t.Errorf("%s: the job %s is %s, want %s", when, v.name, got, v.want)
		}
	}
}
