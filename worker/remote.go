package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// RemoteConfig is what a Remote is made of.
type RemoteConfig struct {
	Client *api.Client
	// Home is where it keeps what must outlive this process.
	Home *Home
	// Version is that of this program; Outdated is called, once, if the server would have another one; nil: it does not matter.
	Version  string
	Outdated func(wanted string)
	// Log gets one line a transition; nil: none.
	Log *slog.Logger
	// Reach is shared with whoever else speaks with the server; nil: nobody.
	Reach *Reach
}

// Reach tells those who wait until a server can be reached again that somebody has reached it. The zero value is ready.
type Reach struct {
	mu    sync.Mutex
	works chan struct{}
}

// next gives what is closed when the server answers somebody.
func (r *Reach) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.works == nil {
		r.works = make(chan struct{})
	}
	return r.works
}

// answered says that the server does.
func (r *Reach) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.works != nil {
		close(r.works)
		r.works = nil
	}
}

// Remote is the Source of a worker whose queue is in a server elsewhere. All that the Runtime says becomes a part of one statement, which
// Run sends by api.Client.Sync: who the worker is, what it runs, what has ended, how much it wants. What the server answers is
// handed to whoever waits for it. So nothing that is lost on the way matters: the next statement heals it.
//
// Between statements one call is held by the server, so that it can start and stop at once. When there is news here, the next
// statement goes over a second connection, and the server lets go of the first.
type Remote struct {
	RemoteConfig
	machine gauge

	mu       sync.Mutex
	worker   job.Worker // Session zero: it is not registered yet
	attempts map[job.Lease]*stated
	parked   []*stated // started, and not taken by the Runtime yet
	leasing  bool      // the Runtime takes work
	unhook   func() bool
	room     int // how many attempts it has room for in all, while leasing

	news    uint64 // counts what is to be told
	said    uint64 // the news that an answered statement told
	poke    chan struct{}
	change  chan struct{} // closed, and made anew, when something below has changed, or what is parked
	number  uint64        // of the last call
	heeded  uint64        // of the newest call whose answer was heeded
	known   bool          // the server has answered since the last trouble: it need not be told who this is
	trouble error         // of the last call; nil: it was answered
	since   time.Time     // of the first trouble
	drained bool
	quit    chan struct{} // closed by SignOff: no call is made any more
	end     error         // why it is over; nil: it is not
	over    chan struct{}
}

// stated is an attempt as the server is told of it.
type stated struct {
	queue.Assignment
	stop     chan struct{}
	stopping bool
	output   time.Time
	report   *job.Report   // nil: it has not ended
	done     chan struct{} // closed when the end is acknowledged, or will never be
	lost     bool          // it counted for nothing
}

// NewRemote makes one.
func NewRemote(cfg RemoteConfig) *Remote {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Reach == nil {
		cfg.Reach = &Reach{}
	}
	r := &Remote{
		RemoteConfig: cfg, attempts: map[job.Lease]*stated{},
		poke: make(chan struct{}, 1), change: make(chan struct{}), quit: make(chan struct{}), over: make(chan struct{}),
	}
	r.machine.disk = cfg.Home.Dir()
	return r
}

// tellLocked notes news, and wakes the loop.
func (r *Remote) tellLocked() uint64 {
	r.news++
	select {
	case r.poke <- struct{}{}:
	default:
	}
	return r.news
}

// changedLocked wakes all who wait for a change.
func (r *Remote) changedLocked() {
	close(r.change)
	r.change = make(chan struct{})
}

// await waits until is, which is called under the lock, reports true. It gives ctx's error if that ends first, or why the Remote is over.
func (r *Remote) await(ctx context.Context, is func() bool) error {
	for {
		r.mu.Lock()
		ok, change := is(), r.change
		r.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-change:
		case <-r.over:
			return r.end
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Register makes the worker known, and waits as long as that takes. job.ErrWorkerLive: another process works under its name.
func (r *Remote) Register(ctx context.Context, w job.Worker, running ...job.Lease) error {
	if len(running) > 0 {
		return errors.New("register a remote worker: what it runs is known from its folder")
	}
	if err := r.Home.begin(w.Session); err != nil {
		return err
	}
	r.mu.Lock()
	r.worker = w
	at := r.tellLocked()
	r.mu.Unlock()
	return r.await(ctx, func() bool { return r.said >= at })
}

// Lease implements Source. When ctx ends, also after it has returned, what was started and is not taken is handed back.
func (r *Remote) Lease(ctx context.Context, _ string, _ job.ID, want int, _ float64) ([]queue.Assignment, error) {
	r.mu.Lock()
	if r.unhook != nil {
		r.unhook()
	}
	busy := 0
	for _, a := range r.attempts {
		if a.report == nil {
			busy++
		}
	}
	if room := want + busy - len(r.parked); !r.leasing || room != r.room {
		r.leasing, r.room = true, room
		r.tellLocked()
	}
	r.unhook = context.AfterFunc(ctx, r.closed)
	r.mu.Unlock()
	var got []*stated
	err := r.await(ctx, func() bool {
		n := min(want, len(r.parked))
		got, r.parked = r.parked[:n:n], r.parked[n:]
		return n > 0
	})
	if err != nil {
		return nil, err
	}
	list := make([]queue.Assignment, 0, len(got))
	for _, a := range got {
		if err := r.Home.took(a.Lease); err != nil {
			// Nobody would know of it after a crash.
			r.Log.Error("the attempt cannot be journaled", "job", a.Lease.Job, "attempt", a.Lease.Attempt, "err", err)
			r.ended(&job.Report{Lease: a.Lease, Outcome: job.Aborted, Detail: job.WorkerFault, Message: err.Error()})
			continue
		}
		list = append(list, a.Assignment)
	}
	return list, nil
}

// closed notes that the Runtime takes nothing any more.
func (r *Remote) closed() {
	r.mu.Lock()
	r.leasing = false
	left := r.parked
	r.parked = nil
	r.tellLocked()
	r.mu.Unlock()
	for _, a := range left {
		r.ended(handedBack(a.Lease))
	}
}

// handedBack is the end of an attempt that never began.
func handedBack(l job.Lease) *job.Report {
	return &job.Report{Lease: l, Outcome: job.Aborted, Detail: job.HandedBack, Message: "the worker takes nothing new"}
}

// beatPatience is how long a renewal waits for its answer.
const beatPatience = 10 * time.Second

// Heartbeat implements Source. While the server cannot be reached it says so at once.
func (r *Remote) Heartbeat(ctx context.Context, beats ...queue.Beat) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, beatPatience)
	defer cancel()
	r.mu.Lock()
	for _, b := range beats {
		if a := r.attempts[b.Lease]; a != nil {
			a.output = b.Output
		}
	}
	at := r.tellLocked()
	r.mu.Unlock()
	errs := make([]error, len(beats))
	var trouble error
	err := r.await(ctx, func() bool {
		for i, b := range beats {
			errs[i] = nil
			if a := r.attempts[b.Lease]; a == nil || a.stopping {
				errs[i] = job.ErrLeaseLost
			}
		}
		trouble = r.trouble
		return r.said >= at || trouble != nil
	})
	if err == nil && trouble != nil {
		err = &queue.RetryError{Cause: trouble}
	}
	return errs, err
}

// Finish implements Source: it waits until the server has the end. An error that is queue.ErrClosed says that it will not be
// told by this process; the next one does, from the journal.
func (r *Remote) Finish(ctx context.Context, f job.Report) error {
	a := r.ended(&f)
	if a == nil {
		return job.ErrLeaseLost
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-r.over:
		select {
		case <-a.done:
		default:
			return fmt.Errorf("the end of the attempt is kept, and not told: %w", queue.ErrClosed)
		}
	}
	if a.lost {
		return job.ErrLeaseLost
	}
	return nil
}

// ended notes the end of an attempt; nil: it is not known any more.
func (r *Remote) ended(f *job.Report) *stated {
	if err := r.Home.ended(f); err != nil {
		// It is told all the same; only a crash before that loses it.
		r.Log.Error("the end of the attempt cannot be journaled", "job", f.Lease.Job, "attempt", f.Lease.Attempt, "err", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.attempts[f.Lease]
	if a != nil && a.report == nil {
		a.report = f
		r.tellLocked()
	}
	return a
}

// signOffPatience is for how long a sign-off is tried at a server that cannot be reached.
const signOffPatience = time.Second

// SignOff implements Source. It waits, but not long, until what has ended is told, and ends Run. It may be called once.
func (r *Remote) SignOff(ctx context.Context, name string, session job.ID) error {
	ctx, cancel := context.WithTimeout(ctx, beatPatience)
	defer cancel()
	r.closed()
	r.mu.Lock()
	closed := r.news
	r.mu.Unlock()
	// What is not told by then the next process tells. What a call that is still held was given is told in the answer to the news.
	var trouble error
	_ = r.await(ctx, func() bool {
		trouble = r.trouble
		return r.said >= closed && len(r.attempts) == 0 || trouble != nil
	})
	close(r.quit)
	<-r.over
	if trouble != nil {
		return &queue.RetryError{Cause: trouble}
	}
	if r.end != nil && !errors.Is(r.end, queue.ErrClosed) {
		return r.end
	}
	// A server that is away does not hold up the end: the next process, or the lease, says the same.
	brief := *r.Client
	brief.Patience = signOffPatience
	if err := brief.SignOff(ctx, name, session); err != nil && !over(err) {
		return err
	}
	return r.Home.over(session)
}

// over reports whether the error says that a session is over already.
func over(err error) bool {
	return errors.Is(err, job.ErrSignedOff) || errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrWorkerLive)
}
