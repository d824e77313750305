package queue_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
	"github.com/headrace/headrace/store/memory"
)

// bench is a store that a test can step into: each function that is set is called before the store is, and its error is given
// instead.
type bench struct {
	*memory.Store
	commit    func(*queue.Batch) error
	committed func(*queue.Batch) error // after a true commit
	ask       func() error             // whether a batch is stored
	lookup    func() error
	jobs      func() error
	fed       func()        // after the feed was read
	gate      chan struct{} // each commit waits for it, if it is set
	reads     int           // calls of Jobs
	query     *queue.Query  // of the last call of Lookup
}

// Commit implements queue.Store.
func (b *bench) Commit(ctx context.Context, batch *queue.Batch) error {
	if b.gate != nil {
		<-b.gate
	}
	if b.commit != nil {
		if err := b.commit(batch); err != nil {
			return err
		}
	}
	err := b.Store.Commit(ctx, batch)
	if err == nil && b.committed != nil {
		err = b.committed(batch)
	}
	return err
}

// Committed implements queue.Store.
func (b *bench) Committed(ctx context.Context, number uint64) (bool, error) {
	if b.ask != nil {
		if err := b.ask(); err != nil {
			return false, err
		}
	}
	return b.Store.Committed(ctx, number)
}

// Lookup implements queue.Store.
func (b *bench) Lookup(ctx context.Context, q *queue.Query) (*queue.Found, error) {
	b.query = q
	if b.lookup != nil {
		if err := b.lookup(); err != nil {
			return nil, err
		}
	}
	return b.Store.Lookup(ctx, q)
}

// Feed implements queue.Store.
func (b *bench) Feed(ctx context.Context, after uint64, limit int) ([]queue.Round, error) {
	rounds, err := b.Store.Feed(ctx, after, limit)
	if b.fed != nil {
		b.fed()
	}
	return rounds, err
}

// Jobs implements queue.History.
func (b *bench) Jobs(ctx context.Context, f queue.JobFilter) ([]job.Record, error) {
	b.reads++
	if b.jobs != nil {
		if err := b.jobs(); err != nil {
			return nil, err
		}
	}
	return b.Store.Jobs(ctx, f)
}

// lab is a running queue on a bench, in virtual time.
type lab struct {
	*queue.Queue
	t *testing.T
	*bench
	cancel context.CancelFunc
	done   chan error
	stage  int // Config.StageSize
	budget int // Config.RoundBudget
	mode
}

// mode is how commands come that come together.
type mode int

const (
	inOne  mode = iota // round, decided in one go
	apart              // in two, of which that of the first is being stored as the other is decided
	inBits             // in one, decided bit by bit
)

// inLab runs a test in virtual time, with a queue that runs until the test returns.
func inLab(t *testing.T, test func(*testing.T, *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, bench: &bench{Store: memory.New()}}
		l.open()
		l.start()
		test(t, l)
		l.stop()
	})
}

// inRounds runs a test three times in a lab: what comes together is decided in one go, or bit by bit while an earlier round is
// being stored, which is that of the first command or another.
func inRounds(t *testing.T, test func(*testing.T, *lab)) {
	t.Helper()
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		inLab(t, test)
	})
	for _, m := range []struct {
		name string
		mode
	}{{"two", apart}, {"bits", inBits}} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &lab{t: t, bench: &bench{Store: memory.New()}, budget: eager, mode: m.mode}
				l.open()
				l.start()
				test(t, l)
				l.stop()
			})
		})
	}
}

// eager is the RoundBudget of a queue that decides each command as it comes, whatever is being stored.
const eager = 64

// open makes a queue that does not run yet.
func (l *lab) open() {
	q, err := queue.Open(queue.Config{Store: l.bench, History: l.bench, StageSize: l.stage, RoundBudget: l.budget})
	l.must(err)
	l.Queue = q
}

func (l *lab) start() {
	ctx, cancel := context.WithCancel(l.t.Context())
	l.cancel, l.done = cancel, make(chan error, 1)
	go func() { l.done <- l.Run(ctx) }()
}

func (l *lab) stop() {
	l.cancel()
	l.check(<-l.done)
}

// restart has a new owner load what is stored.
func (l *lab) restart() {
	l.stop()
	l.open()
	l.start()
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// worker registers one.
func (l *lab) worker(name string, slots int32) job.Worker {
	l.t.Helper()
	w := job.Worker{Name: name, Channels: []string{""}, Kinds: []string{"k"}, Slots: slots, Session: l.NewID()}
	l.must(l.Register(l.t.Context(), w))
	return w
}

// submit asks for one job without a build.
func (l *lab) submit(spec job.Spec) job.Submitted {
	l.t.Helper()
	spec.Kind = "k"
	r, err := l.Submit(l.t.Context(), queue.Submission{Jobs: []job.Spec{spec}})
	l.must(err)
	return r.Jobs[0]
}

// lease takes one job, which must be there.
func (l *lab) lease(w job.Worker) queue.Assignment {
	l.t.Helper()
	got, err := l.Lease(l.t.Context(), w.Name, w.Session, 1, 0)
	l.must(err)
	return got[0]
}

func (l *lab) succeed(a job.Lease) error {
	return l.Finish(l.t.Context(), job.Report{Lease: a, Outcome: job.Succeeded})
}

// record gives what is stored of a job.
func (l *lab) record(id job.ID) job.Record {
	l.t.Helper()
	recs, err := l.Store.Jobs(l.t.Context(), queue.JobFilter{IDs: []job.ID{id}})
	l.must(err)
	if len(recs) != 1 {
		l.t.Fatalf("job %s: %d records", id, len(recs))
	}
	return recs[0]
}

// together has the commands come in this order, as the lab's mode says.
func (l *lab) together(commands ...func()) {
	l.t.Helper()
	switch l.mode {
	case apart:
		l.overlapped(commands...)
		return
	case inBits:
		l.overlapped(append([]func(){func() { l.worker(l.NewID().String(), 1) }}, commands...)...)
		return
	case inOne:
	}
	in, out := make(chan struct{}), make(chan struct{})
	go func() {
		l.check(l.Inspect(context.WithoutCancel(l.t.Context()), func(*job.Machine, *sched.Scheduler) { close(in); <-out }))
	}()
	<-in
	all := l.inOrder(commands)
	close(out)
	all.Wait()
}

// overlapped has the commands decided, in this order, while the round of the first is being stored.
func (l *lab) overlapped(commands ...func()) {
	l.t.Helper()
	l.gate = make(chan struct{})
	all := l.inOrder(commands)
	close(l.gate)
	all.Wait()
	synctest.Wait()
	l.gate = nil
}

// inOrder begins the commands one after the other, each once the one before has come as far as it comes.
func (l *lab) inOrder(commands []func()) *sync.WaitGroup {
	var all sync.WaitGroup
	for _, c := range commands {
		all.Go(c)
		synctest.Wait()
	}
	return &all
}

// check is must for goroutines, which may not end the test.
func (l *lab) check(err error) {
	if err != nil {
		l.t.Error(err)
	}
}
