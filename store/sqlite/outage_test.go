package sqlite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// outage is a queue on a file that cannot be written for a while.
type outage struct {
	t    *testing.T
	s    *Store
	q    *queue.Queue
	stop func() error
}

func (o *outage) start(path string) {
	o.t.Helper()
	s, err := Open(o.t.Context(), path, Options{})
	if err != nil {
		o.t.Fatal(err)
	}
	q, err := queue.Open(queue.Config{Store: s, History: s, Patience: 20 * time.Millisecond})
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- q.Run(ctx) }()
	o.s, o.q = s, q
	o.stop = func() error {
		cancel()
		return errors.Join(<-ran, s.Close())
	}
}

// script does something to the connection that writes, between two commits.
func (o *outage) script(sql string) {
	o.t.Helper()
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	if err := o.s.w.script(sql); err != nil {
		o.t.Fatal(err)
	}
}

// submit asks for a job with the request id, so many times at most. It reports whether it was acknowledged.
func (o *outage) submit(n byte, most int) bool {
	o.t.Helper()
	id := job.ID{0: 'o', 15: n}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range most {
		wish := job.Spec{ID: id, Channel: "main", Kind: "test", Args: make([]byte, 200_000)}
		_, err := o.q.Submit(queue.WithRequest(o.t.Context(), id), queue.Submission{Jobs: []job.Spec{wish}})
		if err == nil {
			return true
		}
		var again *queue.RetryError
		if !errors.As(err, &again) {
			o.t.Fatalf("job %d: %v, want an error that says to try again", n, err)
		}
		<-tick.C
	}
	return false
}

// reads checks that all that can be read still is.
func (o *outage) reads(want int) {
	o.t.Helper()
	ctx, id := o.t.Context(), job.ID{0: 'o', 15: 1}
	if n := count(o.t, o.s); n != want {
		o.t.Errorf("%d jobs are loaded, want %d", n, want)
	}
	found, err := o.s.Lookup(ctx, &queue.Query{Requests: []job.ID{id}})
	if err != nil || len(found.Answers) != 1 {
		o.t.Errorf("lookup: %+v, %v", found, err)
	}
	if rounds, err := o.s.Feed(ctx, 0, 100); err != nil || len(rounds) != want {
		o.t.Errorf("feed: %d rounds, %v; want %d", len(rounds), err, want)
	}
	if p, err := o.s.Payload(ctx, id); err != nil || len(p.Args) != 200_000 {
		o.t.Errorf("payload: %d bytes, %v", len(p.Args), err)
	}
}

// While the file cannot be written callers are told to try again, all that is stored can be read, and the owner can go away; once it can be
// written again the queue goes on by itself, and nothing is there twice.
func TestQueueOutlivesFileThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	const many = 6000 // half a minute, where a test must not fail for a machine that is slow
	for name, c := range map[string]struct{ fault, repair string }{
		"disk full": {"PRAGMA max_page_count = 1", "PRAGMA max_page_count = 1000000"},
		"read-only": {"PRAGMA query_only = 1", "PRAGMA query_only = 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, path := openFile(t)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			o := &outage{t: t}
			o.start(path)
			if !o.submit(1, many) {
				t.Fatal("the queue does not work to begin with")
			}
			o.script(c.fault)
			if o.submit(2, 3) {
				t.Error("a job was acknowledged")
			}
			o.reads(1)
			o.script(c.repair)
			if !o.submit(2, many) {
				t.Fatal("the queue does not work again")
			}
			o.reads(2)
			o.script(c.fault)
			if o.submit(3, 3) {
				t.Error("a job was acknowledged")
			}
			if err := o.stop(); err != nil {
				t.Errorf("the owner cannot go away: %v", err)
			}
			o.start(path)
			o.reads(2)
			if !o.submit(3, many) {
				t.Fatal("the next owner does not work")
			}
			o.reads(3)
			if err := o.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
