package queue

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/sched"
)

// Config is what a Queue is made of.
type Config struct {
	Store   Store
	History History
	// Log gets one line a transition; nil: none.
	Log *slog.Logger
	// Random makes jitter; nil: seeded from the system.
	Random mathrand.Source
	// NewID makes the ids of what comes without one; nil: UUIDv7.
	NewID func() job.ID
	// NewToken makes the secrets of leases; nil: UUIDs of version 4, of which 122 bits are from the system's randomness.
	NewToken func() job.Token
	// GiveUp has Run return the error where else it would step down and load the state anew: for a program whose
	// user waits, and would rather be told.
	GiveUp bool
	// Patience is how long a commit that fails is tried again before Run steps down. 0: 10 s.
	Patience time.Duration
	// StageSize is how many jobs one round takes; a build of more is staged, see Submit. 0: 2000.
	StageSize int
	// RoundBudget is how many changes the commands that one round takes should make, and how many more the machine may
	// draw as consequences; what is left goes on in the next rounds, among other commands. 0: 4096; at most 65,536.
	RoundBudget int
}

// Queue is the engine. Its methods may be called from any goroutine while Run runs; they block until what they ask
// for is stored, ctx ends, or the queue closes. Those that change something are done once however often they are
// repeated under one request id: see WithRequest. They keep nothing of what they are given, so that the caller may change
// it once they have returned, and what they give is the caller's alone.
type Queue struct {
	Config
	calls chan *call
	done  chan struct{} // closed when Run has returned
	end   error         // what callers are told from then on

	// news is replaced at each round: closing the old one wakes whoever watches.
	news atomic.Pointer[chan struct{}]
	// glance is what was last read of the feed.
	glance atomic.Pointer[glance]
	round  atomic.Uint64 // number of the last stored batch

	specs    *specCache
	leases   leases
	settings settings

	// The rest belongs to Run's goroutine.
	start   time.Time
	machine *job.Machine
	sched   *sched.Scheduler
	waiters map[string][]*waiter
	stops   map[job.ID]*stopper
	number  uint64 // of the last batch that was given to the store
	behind  bool   // the last round left leases to the next
	open    *round // that takes commands; nil: none does
	aloft   *round // that is being stored; nil: none is
	stored  chan error
	awaited awaited
	mu      sync.Mutex // guards running
	running bool
}

// Open makes a queue on a store. Run must be called before anything is answered.
func Open(cfg Config) (*Queue, error) {
	if cfg.Store == nil || cfg.History == nil {
		return nil, errors.New("open queue: Store and History must be set")
	}
	if cfg.StageSize <= 0 {
		cfg.StageSize = stageSize
	}
	if cfg.RoundBudget <= 0 {
		cfg.RoundBudget = roundBudget
	}
	cfg.RoundBudget = min(cfg.RoundBudget, maxRoundBudget)
	if cfg.Patience <= 0 {
		cfg.Patience = patience
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Random == nil {
		var seed [16]byte
		if _, err := rand.Read(seed[:]); err != nil {
			return nil, fmt.Errorf("open queue: seed: %v", err)
		}
		cfg.Random = mathrand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:]))
	}
	if cfg.NewID == nil {
		cfg.NewID = func() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }
	}
	if cfg.NewToken == nil {
		cfg.NewToken = func() job.Token { return job.Token(uuid.New()) }
	}
	q := &Queue{
		Config: cfg, calls: make(chan *call, maxCalls), done: make(chan struct{}), specs: newSpecCache(specBytes),
		start: time.Now(), stored: make(chan error, 1),
	}
	first := make(chan struct{})
	q.news.Store(&first)
	return q, nil
}

// Limits of a round.
const (
	maxCalls  = 1024 // commands in one
	maxLeases = 4096 // in one; the next comes at once
	// roundBudget is Config.RoundBudget where that does not say; with more than maxRoundBudget all others would wait too long.
	roundBudget, maxRoundBudget = 4096, 1 << 16
	patience                    = 10 * time.Second
	// answerIn is how long a store may take for one commit or one lookup; then it is asked anew.
	answerIn  = 10 * time.Second
	specBytes = 32 << 20
)

// Run owns the engine until ctx ends: it loads the unfinished state, then works in rounds. It returns nil after
// ctx has ended, ErrFenced if a newer owner has the store, else the error that made going on impossible. It
// may be called once.
func (q *Queue) Run(ctx context.Context) error {
	q.mu.Lock()
	if q.running {
		q.mu.Unlock()
		return errors.New("run queue: already run")
	}
	q.running = true
	q.mu.Unlock()
	defer close(q.done)
	err := q.own(ctx)
	q.end = ErrClosed
	if errors.Is(err, ErrFenced) {
		q.end = &RetryError{Cause: fmt.Errorf("%w: %w", ErrClosed, err)} // at the new owner
	}
	q.refuseAll(q.end)
	return err
}

// own loads and serves, again after each time that it had to step down.
func (q *Queue) own(ctx context.Context) error {
	pause := 10 * time.Millisecond
	for {
		err := q.load(ctx)
		if err == nil {
			pause = 10 * time.Millisecond
			err = q.serve(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, ErrFenced) {
			q.Log.Error("another process has become the owner; this one steps down", "err", err)
			return err
		}
		if q.GiveUp {
			return err
		}
		q.Log.Error("the owner steps down; the state is loaded anew", "err", err)
		q.refuseAll(&RetryError{Cause: err})
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
			pause = min(2*pause, 5*time.Second)
		}
	}
}

// now is the owner's clock: monotonic from when the queue was opened, so that a clock that steps changes nothing.
func (q *Queue) now() job.Time { return q.shows(time.Now()) }

// shows gives what the owner's clock shows at t. A t from this process may have been read off a clock that was set meanwhile.
func (q *Queue) shows(t time.Time) job.Time {
	if t.IsZero() {
		return 0
	}
	return job.At(q.start.Add(t.Sub(q.start)))
}

func (q *Queue) moment() job.Moment { return job.Moment{Now: q.now(), Random: q.Random} }

// load makes machine and scheduler from what is stored.
func (q *Queue) load(ctx context.Context) error {
	began := q.now()
	m := job.New(began)
	head, err := q.Store.Load(ctx, m.Apply)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	for _, c := range head.Corrupt {
		q.Log.Error("a record cannot be read and is set aside", "table", c.Table, "key", c.Key, "err", c.Err)
	}
	m.Restore(head.Seq)
	lost := q.adopt(m, &head)
	m.Loaded(q.now())
	q.machine, q.sched = m, sched.New(m)
	q.waiters, q.stops, q.behind = map[string][]*waiter{}, map[job.ID]*stopper{}, false
	q.number = head.Number
	q.round.Store(head.Number)
	q.Log.Info("loaded", "jobs", m.Len(), "dur", q.now().Sub(began))
	q.open, q.aloft = q.newRound(), nil
	r := q.open
	r.apply(lost)
	for _, b := range m.Builds() {
		if b.Staged {
			// Spared: what runs is of other builds, which may have ended.
			changes, err := m.CancelBuild(r.at.Now, b.Build.ID, true)
			r.run(changes, err)
		}
	}
	r.advance()
	q.leases.reset(m)
	q.settings.reset(m)
	if err := q.finishAll(ctx); err != nil {
		return err
	}
	q.tell() // the last owner may have gone between a commit and telling those who watch
	return nil
}

// adopt ends the jobs and builds whose record is corrupt, for which Load gave a stand-in: nobody waits for them for ever.
// A staged build is given up as any other is.
func (q *Queue) adopt(m *job.Machine, head *Head) (ends []job.Change) {
	for _, c := range head.Corrupt {
		if _, ok := m.Job(c.Job); ok {
			end := job.End{At: q.now(), Outcome: job.Aborted, Message: "the stored record cannot be read"}
			ends = append(ends, job.JobEnded{Job: c.Job, Seq: c.Seq, End: end, Open: true})
		}
		if b, ok := m.Build(c.Build); ok && !b.Staged {
			ends = append(ends, job.BuildEnded{Build: c.Build, At: q.now(), Outcome: job.Aborted, Spare: true})
		}
	}
	return ends
}

// refuseAll answers all who wait for the engine with an error.
func (q *Queue) refuseAll(err error) {
	q.leases.reset(nil)
	q.settings.reset(nil)
	for _, list := range q.waiters {
		for _, w := range list {
			w.settle(nil, err)
		}
	}
	q.waiters = nil
	for _, s := range q.stops {
		// The lease may well live on: the worker learns at its next heartbeat.
		s.drop()
	}
	q.stops = nil
	// Last, so that those who wait for an end ask the next owner, if there is one, and are not refused by chance.
	defer q.awaited.wakeAll()
	for {
		select {
		case c := <-q.calls:
			c.answer(nil, err)
		default:
			return
		}
	}
}

// owned gives a *RetryError unless this is surely the owner of the store.
func (q *Queue) owned() error {
	if f, ok := q.Store.(Fenced); ok {
		if err := f.Owned(); err != nil {
			return &RetryError{Cause: err}
		}
	}
	return nil
}
