package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/worker"
)

// outage is a server that fails for a while, with a queue on it.
type outage struct {
	t       *testing.T
	cluster *pgtest.Cluster
	proxy   *pgtest.Proxy
	name    string // of the database
	q       *queue.Queue
	s       *postgres.Store
	asked   []job.ID      // that were acknowledged
	steps   chan struct{} // gets a word when the owner steps down
}

// many is one minute of trying, where a test must not fail for a machine that is slow.
const many = 3000

// newOutage makes a server of its own, and runs a queue on it until the test is over.
func newOutage(t *testing.T) *outage {
	t.Helper()
	c, err := pgtest.Start(t.Context(), pgtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	address, err := c.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := &outage{t: t, cluster: c, proxy: p, name: pgtest.Name(address), steps: make(chan struct{}, 1)}
	if o.s, err = postgres.Open(t.Context(), p.URL(o.name), postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	o.q, err = queue.Open(queue.Config{Store: o.s, History: o.s, Patience: 100 * time.Millisecond, Log: slog.New(o)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- o.q.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ran, o.s.Close(), p.Close(), c.Stop()); err != nil {
			t.Error(err)
		}
	})
	return o
}

// Enabled implements slog.Handler, so that a test hears when the owner steps down.
func (o *outage) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

// Handle implements slog.Handler.
func (o *outage) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "steps down") {
		select {
		case o.steps <- struct{}{}:
		default:
		}
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (o *outage) WithAttrs([]slog.Attr) slog.Handler { return o }

// WithGroup implements slog.Handler.
func (o *outage) WithGroup(string) slog.Handler { return o }

// submit asks for a job with the request id until it is acknowledged, or the given number of times. It reports whether it was.
func (o *outage) submit(id job.ID, args []byte, most int) bool {
	o.t.Helper()
	ctx := queue.WithRequest(o.t.Context(), id)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range most {
		_, err := o.q.Submit(ctx, queue.Submission{Jobs: []job.Spec{{ID: id, Channel: "main", Kind: "test", Args: args}}})
		if err == nil {
			o.asked = append(o.asked, id)
			return true
		}
		var again *queue.RetryError
		if !errors.As(err, &again) {
			o.t.Fatalf("job %s: %v, want an error that says to try again", id, err)
		}
		<-tick.C
	}
	return false
}

func (o *outage) sql(sql string) {
	o.t.Helper()
	run(o.t, o.cluster.URL(o.name), sql)
}

// verify: what was acknowledged is there, once, and nothing else.
func (o *outage) verify(name string) {
	o.t.Helper()
	list, err := o.s.Jobs(o.t.Context(), queue.JobFilter{Limit: 10_000})
	if err != nil {
		o.t.Fatalf("%s: %v", name, err)
	}
	found := map[job.ID]bool{}
	for _, r := range list {
		found[r.Spec.ID] = true
	}
	for _, id := range o.asked {
		if !found[id] {
			o.t.Errorf("%s: job %s was acknowledged and is gone", name, id)
		}
	}
	if len(list) != len(o.asked) {
		o.t.Errorf("%s: there are %d jobs, want %d", name, len(list), len(o.asked))
	}
}

// restart starts the server again, with a limit to the size of files, as a disk that is full would have.
func (o *outage) restart(limit int64) {
	o.t.Helper()
	o.cluster.FileLimit = limit
	if err := errors.Join(o.cluster.Down(), o.cluster.Up(o.t.Context())); err != nil {
		o.t.Fatal(err)
	}
}

// While the server fails, callers are told to try again; when it works again so does the queue, by itself, and what was
// acknowledged is there once.
func TestQueueOutlivesOutages(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	c, p := o.cluster, o.proxy
	large := make([]byte, 20<<20)
	rand.Read(large) //nolint:errcheck // it never fails
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, v := range []struct {
		name       string
		fail, mend func()
		args       []byte
	}{
		{"stopped", func() { must(c.Down()) }, func() { must(c.Up(t.Context())) }, nil},
		{"crashed", func() { must(c.Crash()) }, func() { must(c.Up(t.Context())) }, nil},
		{
			"read-only",
			func() { o.sql("ALTER SYSTEM SET default_transaction_read_only = on"); o.sql("SELECT pg_reload_conf()") },
			func() {
				o.sql("ALTER SYSTEM RESET default_transaction_read_only")
				o.sql("SELECT pg_reload_conf()")
			},
			nil,
		},
		{"disk full", func() { o.restart(17 << 20) }, func() { o.restart(0) }, large[:10<<20]},
		{"silent network", func() { p.Silence(true) }, func() { p.Silence(false) }, nil},
	} {
		id := func(n byte) job.ID { return job.ID{0: 'o', 1: byte(i), 15: n} }
		if !o.submit(id(1), large[:len(v.args)], many) {
			t.Fatalf("%s: the queue does not work to begin with", v.name)
		}
		v.fail()
		began := time.Now()
		// A server is told of a new setting and heeds it when it comes to it: until then it takes what it is given.
		refused := byte(100)
		for ; refused < 200 && o.submit(id(refused), v.args, 1); refused++ {
		}
		if refused == 200 {
			t.Errorf("%s: all jobs were acknowledged", v.name)
		}
		t.Logf("%s: told to try again after %v", v.name, time.Since(began))
		v.mend()
		for _, n := range []byte{refused, 2, 3} {
			if !o.submit(id(n), nil, many) {
				t.Fatalf("%s: the queue does not work again", v.name)
			}
		}
		o.verify(v.name)
	}
}

// A server is gone for longer than the owner is patient, while attempts run, and one of them ends. The owner steps down, and again
// each time that it finds nothing to load; when the server is back it goes on by itself. The attempts count as if nothing had been:
// each job runs once.
func TestServerGoneForLongerThanTheOwnerIsPatient(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	const jobs = 6
	var mu sync.Mutex
	ran := map[job.ID]int{}
	running, goOn := make(chan struct{}, jobs+1), make(chan struct{}, 1)
	w := job.Worker{Name: "w", Channels: []string{"main"}, Slots: 2, Session: o.q.NewID()}
	runtime := worker.Runtime{Source: o.q, Worker: w, Handlers: map[string]worker.Handler{"test": func(_ context.Context, a *worker.Attempt) job.Report {
		mu.Lock()
		ran[a.Spec.ID]++
		mu.Unlock()
		running <- struct{}{}
		<-goOn
		return job.Report{Outcome: job.Succeeded}
	}}}
	drain, enough := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	id := func(n int) job.ID { return job.ID{0: 'g', 15: byte(n)} }
	for n := range jobs {
		if !o.submit(id(n), nil, many) {
			t.Fatal("the queue does not work to begin with")
		}
	}
	go func() { worked <- runtime.Run(t.Context(), drain) }()
	for range w.Slots {
		<-running
	}
	if err := o.cluster.Down(); err != nil {
		t.Fatal(err)
	}
	if o.submit(id(jobs), nil, 1) {
		t.Error("a job was acknowledged")
	}
	// One ends, which cannot be stored; then twice what is stored cannot be loaded.
	goOn <- struct{}{}
	for range 3 {
		select {
		case <-o.steps:
		case <-time.After(time.Minute):
			t.Fatal("the owner does not step down")
		}
	}
	close(goOn)
	if o.submit(id(jobs), nil, 1) {
		t.Error("a job was acknowledged")
	}
	if err := o.cluster.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !o.submit(id(jobs), nil, many) {
		t.Fatal("the queue does not work again")
	}
	for _, id := range o.asked {
		err := again(func() error {
			r, err := o.q.AwaitJob(t.Context(), id)
			if err == nil && r.End.Outcome != job.Succeeded {
				t.Errorf("job %s ended as %v", id, r.End.Outcome)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	enough()
	if err := <-worked; err != nil {
		t.Error(err)
	}
	o.verify("gone")
	for _, id := range o.asked {
		ends, err := o.s.Attempts(t.Context(), id)
		if err != nil || len(ends) != 1 || ran[id] != 1 {
			t.Errorf("job %s ran %d times, and has %d attempts (%v); want one", id, ran[id], len(ends), err)
		}
	}
}
