package main

import (
	"context"
	"sync"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker"
)

// brake is the queue as the worker sees it. It keeps the engine from starting anything between the end of an attempt at
// which the run is going to stop and the decision on what follows from that: the pause is stored before the end is.
type brake struct {
	*queue.Queue
	// stops says of which jobs' ends the run does not go on if they are bad.
	stops func(id job.ID) bool
	mu    sync.Mutex
	held  map[attemptName]bool
}

// attemptName names an attempt.
type attemptName struct {
	job    job.ID
	number int32
}

func nameOfLease(l job.Lease) attemptName { return attemptName{l.Job, l.Attempt} }

// Finish implements worker.Source.
func (b *brake) Finish(ctx context.Context, r job.Report) error {
	if r.Outcome == job.Succeeded || r.Detail == job.HandedBack || !b.stops(r.Lease.Job) {
		return b.Queue.Finish(ctx, r)
	}
	b.hold(ctx, nameOfLease(r.Lease))
	err := b.Queue.Finish(ctx, r)
	if err != nil {
		// It did not count, so nothing follows from it; or the queue has given up, and the run with it.
		b.release(ctx, nameOfLease(r.Lease))
	}
	return err
}

func (b *brake) hold(ctx context.Context, a attemptName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held[a] = true; len(b.held) == 1 {
		// If it cannot be stored, neither can the end of the attempt.
		_ = b.Pause(ctx, localChannel, "", true)
	}
}

// release goes on after an attempt whose end stops nothing, as another is to follow.
func (b *brake) release(ctx context.Context, a attemptName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.held[a] {
		return
	}
	if delete(b.held, a); len(b.held) == 0 {
		_ = b.Pause(ctx, localChannel, "", false)
	}
}

// barrier lets attempts begin, and is shut once for all when the run stops. The engine may have started an attempt in the very
// round in which it judged another one by itself, or when the user interrupts: it is handed back before it has begun.
//
// What is told of it is in the order of what is done: each attempt that begins is told before it does, and none after
// it has been told that nothing more is started.
type barrier struct {
	relay   *progress.Relay
	mu      sync.Mutex
	started bool // the run has been told of
	shut    bool
	failure bool                      // at a failure: what has not begun is not for the next run
	answers map[attemptName]chan bool // whether it may begin; there from the first who asks or answers
}

// refusedNote is the message of an attempt that was handed back before it had begun.
const refusedNote = "not begun: the run had stopped"

func newBarrier(relay *progress.Relay) *barrier {
	return &barrier{relay: relay, answers: map[attemptName]chan bool{}}
}

// open says that the run has been told of.
func (b *barrier) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started = true
}

// stop shuts the barrier, and tells why if the run has been told of.
func (b *barrier) stop(e progress.RunStopping) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.started {
		b.relay.Event(e)
	}
	b.shut, b.failure = true, b.failure || e.Why == "failure"
}

// admit answers for an attempt that the engine has stored as started. If it may begin, that is told first.
func (b *barrier) admit(a attemptName, e progress.Event) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.shut && e != nil {
		b.relay.Event(e)
	}
	b.answer(a) <- !b.shut
	return !b.shut
}

// answer gives the channel of an attempt, under the lock.
func (b *barrier) answer(a attemptName) chan bool {
	c := b.answers[a]
	if c == nil {
		c = make(chan bool, 1)
		b.answers[a] = c
	}
	return c
}

// enter waits until the attempt may begin, and reports whether it may.
func (b *barrier) enter(ctx context.Context, a attemptName) bool {
	b.mu.Lock()
	c := b.answer(a)
	b.mu.Unlock()
	open := false
	select {
	case open = <-c:
	case <-ctx.Done():
	}
	b.mu.Lock()
	delete(b.answers, a)
	b.mu.Unlock()
	return open
}

// guard makes a handler that works on what the barrier lets through. What it does not, is dropped if the run stops at a
// failure, and otherwise left for the next run.
func (b *barrier) guard(run worker.Handler, drop func(context.Context, job.ID)) worker.Handler {
	return func(ctx context.Context, a *worker.Attempt) job.Report {
		if b.enter(ctx, nameOfLease(a.Lease)) {
			return run(ctx, a)
		}
		b.mu.Lock()
		failure := b.failure
		b.mu.Unlock()
		if failure {
			drop(context.WithoutCancel(ctx), a.Lease.Job)
		}
		return job.Report{Outcome: job.Aborted, Detail: job.HandedBack, Message: refusedNote}
	}
}
