package sim

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
	"github.com/headrace/headrace/store/codec"
	"github.com/headrace/headrace/store/memory"
)

// fault is what goes wrong in the store, once.
type fault int

const (
	noFault        fault = iota
	failsOnce            // the next commit fails, and has not happened
	ambiguous            // it happens, and reports an error
	blindAmbiguous       // the same, and so does the look whether it happened
	down                 // commits fail until the owner steps down and loads anew
	diesBefore           // the owner dies before the commit
	diesAfter            // it dies after the commit, before anybody is told
	lookupFails          // the next lookup fails
	faults
)

func (f fault) String() string {
	return [...]string{
		"none", "fails-once", "ambiguous", "blind-ambiguous", "down", "dies-before", "dies-after", "lookup-fails",
	}[f]
}

var errInjected = errors.New("injected fault")

// store is a memory.Store in which things go wrong. It notes each batch that is stored. The owner calls it, and the
// world looks at it while the owner is quiet.
type store struct {
	*memory.Store
	turns        atomic.Int64 // the world's: what it wrote and read before is the owner's to see
	mu           sync.Mutex   // a commit and a lookup may be under way at the same time; guards what follows, to at
	armed, fired fault
	spare        int           // commits, or lookups, that the fault lets pass
	at           job.Time      // of the batch that met the fault
	loaded       job.Time      // last
	slow         bool          // the next call ends in a whole second
	blind        bool          // the next look fails
	batches      []batch       // stored by this owner
	gate         chan struct{} // if it is set, each commit waits for it
	held         atomic.Bool   // one does
	gone         atomic.Bool   // the owner died: what it decided for the round after is void
	round
}

// round is what the world is told of the round that the owner decides, and of that which it stores meanwhile.
type round struct {
	machine *job.Machine // the owner's, as far as the world has seen it
	sched   *sched.Scheduler
	marks   []mark // commands that were decided
	told    int    // how many changes that tell something the owner has logged
	wrong   error  // what a check of a round over its budget found
	aloft   struct {
		marks  []mark
		behind bool
	}
}

// launched: what was decided until now is about to be stored. The owner says so before it goes on.
func (s *store) launched() {
	s.turns.Load()
	behind := s.machine == nil || s.machine.Behind()
	if behind && s.machine != nil && s.wrong == nil {
		s.wrong = errors.Join(s.machine.Check(job.At(time.Now())), s.sched.Check())
	}
	s.aloft.marks, s.aloft.behind = s.marks, behind
	s.marks, s.told = nil, 0
}

// pending are the commands that were decided for the round after the one that is being stored. Of an owner that died there are none.
func (s *store) pending() []mark {
	if s.gone.Load() {
		s.marks = nil
	}
	return s.marks
}

// mark says where among the changes of a round a command was decided.
type mark struct {
	*command
	at     int // how many changes that tell something come before it
	when   job.Time
	behind bool // the machine had not drawn all consequences
	ahead  bool // the round before was still being stored
}

// batch is what was stored.
type batch struct {
	number  uint64
	at      job.Time
	changes []job.Change
	feed    []byte // as the change feed must show them
	marks   []mark
	behind  bool // the round left consequences to the next, or nobody can say
}

// spared reports whether a commit, or a lookup, passes in any case.
func (s *store) spared(lookup bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spare == 0 || (s.armed == lookupFails) != lookup {
		return false
	}
	s.spare--
	return true
}

// fire reports whether the fault is armed, and disarms it.
func (s *store) fire(f fault, at job.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.armed != f || s.spare > 0 {
		return false
	}
	s.fired, s.at = f, at
	if f != down {
		s.armed = noFault
	}
	return true
}

// pause waits for the next whole second after a fault: then all moments stay whole, and equal times happen.
func (s *store) pause() {
	if s.slow {
		s.slow = false
		now := time.Now()
		<-time.After(now.Truncate(time.Second).Add(time.Second).Sub(now))
	}
}

// Load implements queue.Store; it ends the fault down.
func (s *store) Load(ctx context.Context, fn func(job.Change) error) (queue.Head, error) {
	s.turns.Load()
	s.mu.Lock()
	if s.armed == down && s.fired == down {
		s.armed = noFault
	}
	s.mu.Unlock()
	s.pause()
	s.round = round{wrong: s.wrong}
	s.gone.Store(false)
	s.loaded = job.At(time.Now())
	return s.Store.Load(ctx, fn)
}

// Commit implements queue.Store.
func (s *store) Commit(ctx context.Context, b *queue.Batch) error {
	s.turns.Load()
	if s.gate != nil {
		s.held.Store(true)
		<-s.gate
		s.held.Store(false)
	}
	s.pause()
	spared := s.spared(false)
	switch {
	case spared:
	case s.fire(failsOnce, b.At), s.fire(down, b.At):
		s.slow = true
		return errInjected
	case s.fire(diesBefore, b.At):
		s.gone.Store(true)
		return queue.ErrFenced
	}
	if err := s.Store.Commit(ctx, b); err != nil {
		return err
	}
	feed, err := codec.AppendChanges(nil, b.Changes)
	if err != nil {
		return err
	}
	s.batches = append(s.batches, batch{b.Number, b.At, b.Changes, feed, s.aloft.marks, s.aloft.behind})
	switch {
	case spared:
	case s.fire(ambiguous, b.At):
		return errInjected
	case s.fire(blindAmbiguous, b.At):
		s.blind, s.slow = true, true
		return errInjected
	case s.fire(diesAfter, b.At):
		s.gone.Store(true)
		return queue.ErrFenced
	}
	return nil
}

// Committed implements queue.Store.
func (s *store) Committed(ctx context.Context, number uint64) (bool, error) {
	s.turns.Load()
	if s.blind {
		s.blind = false
		return false, errInjected
	}
	return s.Store.Committed(ctx, number)
}

// Lookup implements queue.Store.
func (s *store) Lookup(ctx context.Context, q *queue.Query) (*queue.Found, error) {
	s.turns.Load()
	if !s.spared(true) && s.fire(lookupFails, job.At(time.Now())) {
		return nil, errInjected
	}
	return s.Store.Lookup(ctx, q)
}
