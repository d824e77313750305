package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

const (
	// holdFor is how long the server may hold a call; it may say less.
	holdFor = 55 * time.Second
	// callPatience is how long an answer may take that is not held.
	callPatience = 20 * time.Second
	// letGo is how long a call that was superseded may take to be answered.
	letGo = time.Second
	// firstPause and longestPause bound the pauses between calls while there is trouble.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// Run speaks with the server until ctx ends, SignOff is called, or the server refuses this worker for good, which is its error:
// job.ErrWorkerLive, api.ErrVersion, api.ErrUnauthorized, api.ErrForbidden or what else is wrong with what was said. It is to be called
// once, beside Runtime.Run. What an earlier process left it tells before all else.
func (r *Remote) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var quitting sync.WaitGroup
	quitting.Go(func() {
		select {
		case <-r.quit:
			cancel()
		case <-ctx.Done():
		}
	})
	err := r.run(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	cancel()
	quitting.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end = err; err == nil {
		r.end = queue.ErrClosed
	}
	for _, a := range r.attempts {
		r.stopLocked(a)
	}
	close(r.over)
	return err
}

func (r *Remote) run(ctx context.Context) error {
	if err := r.inherit(ctx); err != nil {
		return err
	}
	var h *hold
	defer func() { h.end() }()
	var pause, idle pauses
	var rested <-chan time.Time // while a server holds nothing, as one that is about to end
	for ctx.Err() == nil {
		switch todo := r.todo(); {
		case todo == toSay:
			if err := r.state(ctx, &pause); err != nil {
				return err
			}
			h = h.superseded(r)
			continue
		case todo == toHold && h == nil && rested == nil:
			h = r.hold(ctx)
		}
		select {
		case <-ctx.Done():
		case <-r.poke:
		case <-rested:
			rested = nil
		case <-h.answered():
			ended := h
			h = nil
			if ended.err != nil {
				if err := r.failed(ctx, ended.err); err != nil {
					return err
				}
				r.again() // at once: only the connection may be gone
				continue
			}
			r.heed(ended.number, &ended.reply)
			if !ended.idle() {
				idle.reset()
			} else if length := idle.grow(); idle.last > firstPause { // once is no habit
				rested = time.After(length)
			}
		}
	}
	return ctx.Err()
}

// What the loop may have to do next.
const (
	toWait = iota // for a registration
	toSay
	toHold
)

func (r *Remote) todo() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.worker.Session.IsZero():
		return toWait
	case r.said < r.news:
		return toSay
	}
	return toHold
}

func (r *Remote) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tellLocked()
}

// hold is the call that the server holds.
type hold struct {
	number uint64
	began  time.Time
	cancel context.CancelFunc
	all    sync.WaitGroup
	done   chan struct{}
	reply  api.SyncReply
	err    error
}

func (r *Remote) hold(ctx context.Context) *hold {
	ctx, cancel := context.WithTimeout(ctx, holdFor+callPatience)
	s, _ := r.statement(holdFor)
	h := &hold{number: s.Number, began: time.Now(), cancel: cancel, done: make(chan struct{})}
	h.all.Go(func() {
		defer close(h.done)
		defer cancel()
		h.reply, h.err = r.Client.Sync(ctx, r.worker.Name, s)
	})
	return h
}

// idle reports whether the server answered at once, with nothing.
func (h *hold) idle() bool {
	return !h.reply.Superseded && len(h.reply.Start)+len(h.reply.Stop)+len(h.reply.Acknowledged) == 0 && time.Since(h.began) < firstPause
}

func (h *hold) answered() <-chan struct{} {
	if h == nil {
		return nil
	}
	return h.done
}

func (h *hold) end() {
	if h != nil {
		h.cancel()
		h.all.Wait()
	}
}

// superseded waits for the answer to a call after which a later one was answered: it is to be disregarded. It gives the call that
// is held now.
func (h *hold) superseded(r *Remote) *hold {
	r.mu.Lock()
	current := h == nil || r.heeded < h.number
	r.mu.Unlock()
	if current {
		return h
	}
	timer := time.NewTimer(letGo)
	defer timer.Stop()
	select {
	case <-h.done:
	case <-timer.C: // Its connection is dead.
	}
	h.end()
	return nil
}

// state makes the statement, once. If it is not answered, it pauses; an error is one for good.
func (r *Remote) state(ctx context.Context, pause *pauses) error {
	s, news := r.statement(0)
	called, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	reply, err := r.Client.Sync(called, r.worker.Name, s)
	if err != nil {
		if err := r.failed(ctx, err); err != nil {
			return err
		}
		pause.next(ctx, r.Reach)
		return nil
	}
	pause.reset()
	r.heed(s.Number, &reply)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !reply.Superseded {
		r.said = max(r.said, news)
		r.changedLocked()
	}
	return nil
}

// failed notes that a call was not answered, and gives the error if that is for good.
func (r *Remote) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if fatal(err, r.heeded > 0) {
		return err
	}
	if r.trouble == nil {
		r.since = time.Now()
		r.Log.Warn("the server cannot be reached; trying again", "server", r.Client.Server, "err", err)
	}
	r.trouble, r.known = err, false
	r.changedLocked()
	return nil
}

// fatal reports whether an error will not go away by itself. Something between here and a server that was there before may say
// anything for a while.
func fatal(err error, known bool) bool {
	var retry *queue.RetryError
	var p *api.Problem
	switch {
	case errors.Is(err, job.ErrWorkerLive), errors.Is(err, api.ErrVersion), errors.Is(err, api.ErrUnauthorized), errors.Is(err, api.ErrForbidden):
		return true
	case errors.As(err, &retry), errors.Is(err, context.DeadlineExceeded), errors.Is(err, job.ErrSignedOff), errors.Is(err, job.ErrNotFound):
		return false
	case errors.As(err, &p):
		return !known && p.Status < http.StatusInternalServerError
	}
	return true
}

// pauses are those between calls while there is trouble: growing, and no two workers alike.
type pauses struct{ last time.Duration }

func (p *pauses) reset() { p.last = 0 }

// grow gives the length of the next one.
func (p *pauses) grow() time.Duration {
	p.last = min(max(2*p.last, firstPause), longestPause)
	return p.last/2 + rand.N(p.last/2)
}

// next makes one, which ends at once when somebody reaches the server.
func (p *pauses) next(ctx context.Context, reach *Reach) {
	timer := time.NewTimer(p.grow())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-reach.next():
	case <-ctx.Done():
	}
}

// statedAtOnce bounds the results, in bytes, of one statement; what is over goes with the next.
const statedAtOnce = 32 << 20

// statement says all there is to say, and which news that is.
func (r *Remote) statement(wait time.Duration) (*api.Sync, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	s := &api.Sync{
		Version: api.ProtocolVersion, Session: r.worker.Session, Number: r.number, Drained: r.drained, WaitSeconds: wait.Seconds(),
	}
	if !r.known {
		// Not each time: a call that is under way as the worker signs off would register it once more.
		s.Worker = wireWorker(&r.worker, r.Version)
	}
	busy, more := 0, false
	for _, a := range r.attempts {
		if a.report == nil {
			busy++
		}
	}
	s.Finished, more = r.finishedLocked()
	s.Machine = r.machine.read(busy)
	if r.leasing {
		s.Want = max(r.room-busy, 0)
	}
	now := time.Now()
	for l, a := range r.attempts {
		if a.report != nil || r.newerLocked(l) {
			continue
		}
		run := api.Running{Lease: wireLease(l), Stopping: a.stopping}
		if !a.output.IsZero() {
			silent := max(now.Sub(a.output), 0).Seconds()
			run.Silent = &silent
		}
		s.Running = append(s.Running, run)
	}
	news := r.news
	if more {
		news-- // Not all of it was said.
	}
	return s, news
}

// newerLocked reports whether another attempt of the job has begun here, too: a statement names a job once, and the older one has
// lost its lease and is about to end.
func (r *Remote) newerLocked(l job.Lease) bool {
	for other, a := range r.attempts {
		if other.Job == l.Job && other.Attempt > l.Attempt && a.report == nil {
			return true
		}
	}
	return false
}

// finishedLocked gives the ends to state: of each job one, and only so many that a call can carry them.
func (r *Remote) finishedLocked() (list []api.Finished, more bool) {
	first := map[job.ID]*stated{}
	for l, a := range r.attempts {
		if a.report == nil {
			continue
		}
		have := first[l.Job]
		if have != nil {
			more = true
		}
		if have == nil || l.Attempt < have.Lease.Attempt {
			first[l.Job] = a
		}
	}
	size := 0
	for _, a := range first {
		f := wireReport(a.report)
		if size += len(f.Result) + len(f.Message); size > statedAtOnce && len(list) > 0 {
			return list, true
		}
		list = append(list, f)
	}
	return list, more
}

// heed does as the server says, unless it has heeded an answer to a later call.
func (r *Remote) heed(number uint64, reply *api.SyncReply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trouble != nil {
		r.Log.Info("the server is reached again", "server", r.Client.Server, "dur", time.Since(r.since).Round(time.Millisecond))
		r.trouble = nil
	}
	r.Reach.answered()
	if reply.Superseded || number <= r.heeded {
		return
	}
	r.heeded, r.known = number, true
	for i := range reply.Acknowledged {
		r.acknowledgedLocked(&reply.Acknowledged[i])
	}
	for _, s := range reply.Stop {
		for l, a := range r.attempts {
			if l.Job == s.Job && l.Attempt == s.Attempt {
				r.stopLocked(a)
			}
		}
	}
	for i := range reply.Start {
		r.startLocked(&reply.Start[i])
	}
	if reply.Drained != r.drained {
		r.drained = reply.Drained
		r.Log.Info("the server has set whether the worker is drained", "worker", r.worker.Name, "drained", r.drained)
	}
	if reply.Wanted != "" && reply.Wanted != r.Version && r.Outdated != nil {
		r.Log.Info("the server wants another version of the worker", "wanted", reply.Wanted, "version", r.Version)
		r.Outdated(reply.Wanted)
		r.Outdated = nil
	}
	r.changedLocked()
}

func (r *Remote) acknowledgedLocked(ack *api.Acknowledged) {
	for l, a := range r.attempts {
		if l.Job != ack.Job || l.Attempt != ack.Attempt || a.report == nil {
			continue
		}
		a.lost = ack.Problem != nil
		delete(r.attempts, l)
		if err := r.Home.tell(l); err != nil {
			r.Log.Warn("what remains of an attempt cannot be removed", "job", l.Job, "attempt", l.Attempt, "err", err)
		}
		close(a.done)
	}
}

func (r *Remote) stopLocked(a *stated) {
	if !a.stopping {
		a.stopping = true
		close(a.stop)
	}
}

// startLocked takes up an attempt, unless it is known already: it may be given again.
func (r *Remote) startLocked(s *api.Start) {
	stop := make(chan struct{})
	assignment, err := assignmentOf(s, stop)
	if err != nil {
		r.Log.Error("what the server starts cannot be read", "job", s.Job, "attempt", s.Attempt, "err", err)
		return
	}
	if r.attempts[assignment.Lease] != nil {
		return
	}
	for l, older := range r.attempts {
		if l.Job == assignment.Lease.Job && l.Attempt < assignment.Lease.Attempt && older.report == nil {
			r.stopLocked(older) // It has lost its lease.
		}
	}
	a := &stated{Assignment: assignment, stop: stop, done: make(chan struct{})}
	r.attempts[assignment.Lease] = a
	if r.leasing {
		r.parked = append(r.parked, a)
		return
	}
	a.report = handedBack(a.Lease)
	r.tellLocked()
}

// inherit takes over what an earlier process left: it is dead, as this one has its folder. Its attempts are told to have been handed
// back, or how they ended, and its sessions signed off.
func (r *Remote) inherit(ctx context.Context) error {
	left, notes, err := r.Home.left()
	if err != nil {
		return err
	}
	for _, n := range notes {
		r.Log.Error("a file of the journal of attempts cannot be read, and is set aside", "file", n)
	}
	for i := range left {
		r.bequeath(&left[i])
	}
	for r.todo() == toWait {
		select {
		case <-r.poke:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, s := range r.Home.sessions() {
		if s == r.worker.Session {
			continue
		}
		var pause pauses
		for {
			err := r.conclude(ctx, s)
			if err == nil || over(err) {
				break
			}
			if err := r.failed(ctx, err); err != nil {
				return err
			}
			pause.next(ctx, r.Reach)
		}
		if err := r.Home.over(s); err != nil {
			return err
		}
	}
	return nil
}

// killedNote is the message of an attempt that did not survive its worker.
const killedNote = "the worker was killed while it ran"

// bequeath takes up an attempt of an earlier process.
func (r *Remote) bequeath(f *api.Finished) {
	if f.Outcome == "" {
		f.Outcome, f.Detail, f.Message = job.Aborted.String(), job.HandedBack.String(), killedNote
	}
	report, err := reportOf(f)
	if err != nil {
		r.Log.Error("the end of an attempt cannot be read", "job", f.Job, "attempt", f.Attempt, "err", err)
		return
	}
	r.Log.Info("an earlier process left an attempt", "job", f.Job, "attempt", f.Attempt, "outcome", f.Outcome)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts[report.Lease] = &stated{
		Assignment: queue.Assignment{Lease: report.Lease}, stop: make(chan struct{}), stopping: true, report: &report, done: make(chan struct{}),
	}
}

// lastNumber is above the number of any call that a process made of its own: so what it sent before it was killed, and comes late, counts
// for nothing.
const lastNumber = 1 << 52

// conclude ends a session of an earlier process, once its attempts have ended: also those of which that process had not heard yet.
func (r *Remote) conclude(ctx context.Context, session job.ID) error {
	// Later ones go higher.
	for number := lastNumber + uint64(time.Now().UnixMicro()); ; number++ {
		r.mu.Lock()
		finished, _ := r.finishedLocked()
		r.mu.Unlock()
		called, cancel := context.WithTimeout(ctx, callPatience)
		reply, err := r.Client.Sync(called, r.worker.Name, &api.Sync{Version: api.ProtocolVersion, Session: session, Number: number, Finished: finished})
		cancel()
		if err != nil {
			return err
		}
		if reply.Superseded {
			number += lastNumber // The clock was set back since somebody tried before.
			continue
		}
		r.mu.Lock()
		for i := range reply.Acknowledged {
			r.acknowledgedLocked(&reply.Acknowledged[i])
		}
		for i := range reply.Start {
			r.startLocked(&reply.Start[i]) // Nobody leases yet: it is handed back.
		}
		left := len(r.attempts)
		r.mu.Unlock()
		if left == 0 {
			return r.Client.SignOff(ctx, r.worker.Name, session)
		}
		if len(reply.Acknowledged)+len(reply.Start) == 0 {
			return fmt.Errorf("end the worker's last session: %w", &queue.RetryError{Cause: errors.New("the server acknowledges nothing")})
		}
	}
}
