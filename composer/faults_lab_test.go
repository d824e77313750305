package composer_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// The tests of the files faults_*_test.go are named by the faults of upstream's two implementations that they look for here, one each,
// and say how to plant it: each was seen to fail so.

// gives checks the error of a call. Callers compare it by ==: it must not be wrapped.
func (l *lab) gives(call string, got, want error) {
	l.Helper()
	if any(got) != any(want) {
		l.Errorf("%s gives %v, want %v", call, got, want)
	}
}

// is checks in what state a job is, and its result.
func (l *lab) is(id uuid.UUID, want string) {
	l.Helper()
	if s := l.status(id); s.String() != want {
		l.Errorf("job %s is %v, want %s", id, s, want)
	}
}

// What is says of jobs without a result.
const (
	isPending  = `pending, result ""`
	isRunning  = `running, result ""`
	isCanceled = `canceled, result ""`
)

// pick takes a job that must be pending, out of turn and at once.
func (l *lab) pick(id uuid.UUID) (token uuid.UUID) {
	l.Helper()
	token, _, _, _, err := l.DequeueByID(l.Context(), id, uuid.Nil)
	if err != nil {
		l.Fatalf("dequeue %s: %v", id, err)
	}
	return token
}

// refused checks that a job is not to be had.
func (l *lab) refused(id uuid.UUID) {
	l.Helper()
	_, _, _, _, err := l.DequeueByID(l.Context(), id, uuid.Nil)
	l.gives("DequeueByID", err, composer.ErrNotPending)
}

// onlyNext checks that of a type and channel nothing is to be had but what is enqueued now.
func (l *lab) onlyNext(jobType, channel string) {
	l.Helper()
	marker := l.enqueue(jobType, channel)
	if id, _ := l.dequeue(jobType, channel); id != marker {
		l.Errorf("dequeued %s, which is %v; want %s, enqueued last", id, l.status(id), marker)
	}
	l.finish(marker, nil)
}

// always is a time for Heartbeats and Workers by which everything was silent for longer.
const always = -time.Hour

// tokens checks which tokens are good and watched, in no order.
func (l *lab) tokens(want ...uuid.UUID) {
	l.Helper()
	got := l.Heartbeats(always)
	less := func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }
	slices.SortFunc(got, less)
	slices.SortFunc(want, less)
	if !slices.Equal(got, want) {
		l.Errorf("the tokens that are watched are %v, want %v", got, want)
	}
}

// noToken checks that a token is not good any more.
func (l *lab) noToken(token uuid.UUID) {
	l.Helper()
	_, err := l.IdFromToken(token)
	l.gives("IdFromToken", err, composer.ErrNotExist)
}

// until waits for something that must come to be.
func (l *lab) until(what string, f func() bool) {
	l.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(soon); !f(); <-tick.C {
		if time.Now().After(deadline) {
			l.Fatalf("in vain: wait until %s", what)
		}
	}
}

// waiting waits until so many calls of Dequeue wait.
func (l *lab) waiting(n int) {
	l.Helper()
	l.until("all callers of Dequeue wait", func() bool {
		views, err := l.engine.Workers(l.Context())
		if err != nil {
			return false
		}
		waits := 0
		for i := range views {
			waits += views[i].Waits
		}
		return waits == n
	})
}

// given is what Dequeue gave.
type given struct {
	id, token uuid.UUID
	err       error
}

// begin calls Dequeue in the background. What it gives comes for sure, if late.
func (l *lab) begin(jobType, channel string) <-chan given {
	q, ctx := l.JobQueue, l.Context()
	c := make(chan given, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, soon)
		defer cancel()
		var g given
		g.id, g.token, _, _, _, g.err = q.Dequeue(ctx, uuid.Nil, []string{jobType}, []string{channel})
		c <- g
	}()
	return c
}

// get takes what begin was given, which must be this job.
func (l *lab) get(c <-chan given, want uuid.UUID) (token uuid.UUID) {
	l.Helper()
	g := <-c
	if g.err != nil || g.id != want {
		l.Fatalf("Dequeue gives %s, %v; want %s", g.id, g.err, want)
	}
	return g.token
}

// arguments gives what Job does.
func (l *lab) arguments(id uuid.UUID) (args json.RawMessage, deps []uuid.UUID) {
	l.Helper()
	_, args, deps, _, err := l.Job(id)
	if err != nil {
		l.Fatalf("job %s: %v", id, err)
	}
	return args, deps
}

// lapse gives the leases of a channel the shortest time that there is.
func (l *lab) lapse(channel string) {
	l.Helper()
	c, err := l.engine.Channel(l.Context(), channel)
	if err != nil {
		l.Fatal(err)
	}
	c.TTL = time.Second
	if err := l.engine.SetChannel(l.Context(), composer.Policy(c)); err != nil {
		l.Fatal(err)
	}
}

// tap stands between an engine and its store. Both functions are told the name of the method and may be nil.
type tap struct {
	store
	before func(call string) error // an error is given instead of calling the store
	after  func(call string) error // an error is given although the store was called
}

// through makes a call of a store.
func through[T any](s *tap, call string, f func() (T, error)) (v T, err error) {
	if s.before != nil {
		if err := s.before(call); err != nil {
			return v, err
		}
	}
	v, err = f()
	if err == nil && s.after != nil {
		err = s.after(call)
	}
	return v, err
}

func (s *tap) Load(ctx context.Context, fn func(job.Change) error) (queue.Head, error) {
	return through(s, "Load", func() (queue.Head, error) { return s.store.Load(ctx, fn) })
}

func (s *tap) Commit(ctx context.Context, b *queue.Batch) error {
	_, err := through(s, "Commit", func() (struct{}, error) { return struct{}{}, s.store.Commit(ctx, b) })
	return err
}

func (s *tap) Committed(ctx context.Context, number uint64) (bool, error) {
	return through(s, "Committed", func() (bool, error) { return s.store.Committed(ctx, number) })
}

func (s *tap) Lookup(ctx context.Context, q *queue.Query) (*queue.Found, error) {
	return through(s, "Lookup", func() (*queue.Found, error) { return s.store.Lookup(ctx, q) })
}

func (s *tap) Jobs(ctx context.Context, f queue.JobFilter) ([]job.Record, error) {
	return through(s, "Jobs", func() ([]job.Record, error) { return s.store.Jobs(ctx, f) })
}

func (s *tap) Payload(ctx context.Context, id job.ID) (queue.Payload, error) {
	return through(s, "Payload", func() (queue.Payload, error) { return s.store.Payload(ctx, id) })
}

func (s *tap) Dependents(ctx context.Context, id job.ID) ([]job.ID, error) {
	return through(s, "Dependents", func() ([]job.ID, error) { return s.store.Dependents(ctx, id) })
}

// Owned implements queue.Fenced for all backends: the engine asks at whatever it does without a commit.
func (s *tap) Owned() error {
	_, err := through(s, "Owned", func() (struct{}, error) {
		if f, ok := s.store.(queue.Fenced); ok {
			return struct{}{}, f.Owned()
		}
		return struct{}{}, nil
	})
	return err
}

// Lost implements queue.Fenced.
func (s *tap) Lost() <-chan struct{} {
	if f, ok := s.store.(queue.Fenced); ok {
		return f.Lost()
	}
	return nil
}

// tapped is a place whose stores have a tap.
type tapped struct {
	place
	before, after func(call string) error
}

func (p *tapped) open(t testing.TB) store {
	return &tap{p.place.open(t), p.before, p.after}
}

// tap restarts the lab with a tap before its store. Functions are called by many goroutines.
func (l *lab) tap(before, after func(call string) error) {
	l.Helper()
	l.restart(func() { l.place = &tapped{l.place, before, after} })
}

// errOutage is what a store gives that fails.
var errOutage = errors.New("the store is out of order")

// expires checks how many jobs go, of all that there are.
func (l *lab) expires(want int, dry bool) {
	l.Helper()
	n, err := l.Expire(l.Context(), time.Now().Add(time.Hour), dry)
	if err != nil || n != want {
		l.Errorf("%d jobs expire, %v; want %d", n, err, want)
	}
}
