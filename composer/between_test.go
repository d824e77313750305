package composer

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
)

// between stands between a JobQueue and its engine, so that something can happen just before a call of the engine, or just after. What is
// done there is told which call it is, and what that is about; an error is given in place of the engine's answer.
type between struct {
	engine
	before, after func(call, about string) error
}

// across makes a call.
func across[T any](b *between, call, about string, f func() (T, error)) (v T, err error) {
	var none T
	if b.before != nil {
		if err := b.before(call, about); err != nil {
			return none, err
		}
	}
	v, err = f()
	if err == nil && b.after != nil {
		if err := b.after(call, about); err != nil {
			return none, err
		}
	}
	return v, err
}

// crossing makes a call that gives nothing.
func crossing(b *between, call, about string, f func() error) error {
	_, err := across(b, call, about, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

func (b *between) CancelJob(ctx context.Context, id, of job.ID, force bool, why string) error {
	return crossing(b, "CancelJob", id.String(), func() error { return b.engine.CancelJob(ctx, id, of, force, why) })
}

func (b *between) Lease(ctx context.Context, name string, session job.ID, want int, load float64) ([]queue.Assignment, error) {
	return across(b, "Lease", name, func() ([]queue.Assignment, error) { return b.engine.Lease(ctx, name, session, want, load) })
}

func (b *between) Take(ctx context.Context, name string, session, id job.ID) (queue.Assignment, error) {
	return across(b, "Take", id.String(), func() (queue.Assignment, error) { return b.engine.Take(ctx, name, session, id) })
}

func (b *between) LeaseOf(ctx context.Context, id job.ID) (queue.Held, error) {
	return across(b, "LeaseOf", id.String(), func() (queue.Held, error) { return b.engine.LeaseOf(ctx, id) })
}

func (b *between) LeaseBy(ctx context.Context, token job.Token) (queue.Held, error) {
	return across(b, "LeaseBy", "", func() (queue.Held, error) { return b.engine.LeaseBy(ctx, token) })
}

func (b *between) Standing(name string, wake func()) (standing queue.Standing, forget func(), err error) {
	err = crossing(b, "Standing", name, func() (err error) {
		standing, forget, err = b.engine.Standing(name, wake)
		return err
	})
	return standing, forget, err
}

func (b *between) Resume(ctx context.Context, leases ...job.Lease) ([]queue.Assignment, error) {
	return across(b, "Resume", leases[0].Job.String(), func() ([]queue.Assignment, error) { return b.engine.Resume(ctx, leases...) })
}

func (b *between) Finish(ctx context.Context, f job.Report) error {
	return crossing(b, "Finish", f.Lease.Job.String(), func() error { return b.engine.Finish(ctx, f) })
}

func (b *between) Register(ctx context.Context, w job.Worker, running ...job.Lease) error {
	return crossing(b, "Register", w.Name, func() error { return b.engine.Register(ctx, w, running...) })
}

func (b *between) RemoveWorker(ctx context.Context, name string, force bool) error {
	return crossing(b, "RemoveWorker", name, func() error { return b.engine.RemoveWorker(ctx, name, force) })
}

func (b *between) Workers(ctx context.Context) ([]queue.WorkerView, error) {
	return across(b, "Workers", "", func() ([]queue.WorkerView, error) { return b.engine.Workers(ctx) })
}

// stage is a JobQueue on an engine in memory, with something between.
type stage struct {
	testing.TB
	*JobQueue[worker]
	between *between
}

func newStage(t testing.TB) *stage {
	s := memory.New()
	e, err := queue.Open(queue.Config{Store: s, History: s})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the engine ended: %v", err)
		}
	})
	q := New[worker](e, s, Errors{})
	b := &between{engine: q.engine}
	q.engine = engine{b, b, b, b}
	q.handouts.engine, q.roster.engine = q.engine, b
	return &stage{t, q, b}
}

// next gives a function that does something at the next call of that name about that, whatever it is about if that is "".
func next(call, about string, do func() error) func(string, string) error {
	begun := false // by the one goroutine that makes such calls
	return func(c, a string) error {
		if begun || c != call || about != "" && a != about {
			return nil
		}
		begun = true
		return do()
	}
}

// errLostAnswer is what a caller hears of an engine that has done what was asked and stepped down.
var errLostAnswer = &queue.RetryError{Cause: context.DeadlineExceeded}

func (s *stage) enqueue(jobType string) uuid.UUID {
	s.Helper()
	id, err := s.Enqueue(jobType, nil, nil, "")
	if err != nil {
		s.Fatal(err)
	}
	return id
}

// pick takes a job that must be pending.
func (s *stage) pick(id, worker uuid.UUID) (token uuid.UUID) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	token, _, _, _, err := s.DequeueByID(ctx, id, worker)
	if err != nil {
		s.Fatalf("dequeue %s: %v", id, err)
	}
	return token
}

func (s *stage) gives(call string, got, want error) {
	s.Helper()
	if any(got) != any(want) { // as composer compares them
		s.Errorf("%s gives %v, want %v", call, got, want)
	}
}
