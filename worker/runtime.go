package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/headrace/headrace/internal/crash"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// Source is where a Runtime gets its work: a queue.Queue in this program, or a client of a server. What is said here
// of a method is what the Runtime relies on; queue.Queue says the rest.
type Source interface {
	// Register makes the worker known; job.ErrWorkerLive if another process works under its name.
	Register(ctx context.Context, w job.Worker, running ...job.Lease) error
	// Lease waits until there is work, and gives up to want attempts. Once ctx has ended nothing more is wanted.
	Lease(ctx context.Context, name string, session job.ID, want int, load float64) ([]queue.Assignment, error)
	// Heartbeat renews leases, with an error for each that is lost; its own error says that it cannot be reached.
	Heartbeat(ctx context.Context, beats ...queue.Beat) ([]error, error)
	// Finish ends an attempt; job.ErrLeaseLost if it no longer counted. It may be repeated.
	Finish(ctx context.Context, f job.Report) error
	// SignOff says that the session is over.
	SignOff(ctx context.Context, name string, session job.ID) error
}

// Attempt is what a Handler works on.
type Attempt struct {
	queue.Assignment
	mu     sync.Mutex
	output time.Time
}

// Spoke notes a sign of output: the server judges silence by it, too.
func (a *Attempt) Spoke() {
	a.mu.Lock()
	a.output = time.Now()
	a.mu.Unlock()
}

func (a *Attempt) spoke() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.output
}

// Handler does the work of one kind of job, and says how it ended; the Lease in its report is filled in by the
// Runtime. When ctx ends it must stop and return soon; context.Cause tells why.
type Handler func(ctx context.Context, a *Attempt) job.Report

// Reasons for which an attempt's context ends.
var (
	// ErrStopped: the queue wants the attempt to stop: cancelled, over a limit, or its lease is lost.
	ErrStopped = errors.New("stopped by the queue")
	// ErrInterrupted: the worker itself is stopping.
	ErrInterrupted = errors.New("interrupted")
)

// Runtime leases jobs and has its handlers work on them.
type Runtime struct {
	Source Source
	// Worker says who this is and what it can; Kinds is filled from Handlers, Session must be set.
	Worker   job.Worker
	Handlers map[string]Handler
	// Log gets one line a transition; nil: none.
	Log *slog.Logger
	// Grace is how long, after its lease ran out unrenewed, an attempt may go on while the source cannot be reached; 0:
	// as long as the lease.
	Grace time.Duration
	// Most is after how many attempts it drains by itself; 0: never.
	Most int
	// Farewell is how long, once it is told to stop, it tries to tell the end of an attempt; 0: as long as that takes.
	Farewell time.Duration
}

// Run registers the worker and works until ctx or drain ends. After drain has ended nothing new is leased, and
// Run returns once what runs has ended. After ctx has ended what runs is interrupted and handed back, which costs the
// jobs no attempt. It returns nil then, or the error for which the source refuses this worker.
func (r *Runtime) Run(ctx, drain context.Context) error {
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	w := r.Worker
	w.Kinds = nil
	for kind := range r.Handlers {
		w.Kinds = append(w.Kinds, kind)
	}
	if err := r.again(ctx, func() error { return r.Source.Register(ctx, w) }); err != nil {
		return onPurpose(ctx, fmt.Errorf("register worker %q: %w", w.Name, err))
	}
	shift := &shift{r: r, attempts: map[*running]struct{}{}, freed: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
	leasing, stop := context.WithCancel(ctx)
	defer stop()
	detach := context.AfterFunc(drain, stop)
	defer detach()

	beats, stopBeats := context.WithCancel(context.WithoutCancel(ctx))
	var pulse sync.WaitGroup
	pulse.Go(func() { shift.beat(beats) })
	err := onPurpose(leasing, shift.lease(leasing, ctx))
	stop() // so that the source knows
	shift.done.Wait()
	stopBeats()
	pulse.Wait()
	// A source that is gone already needs no goodbye.
	_ = r.Source.SignOff(context.WithoutCancel(ctx), w.Name, w.Session)
	return err
}

// onPurpose turns the error of a context that was ended on purpose into none.
func onPurpose(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// again repeats f, with growing pauses, while it says that it may be tried again, and not of a queue that has closed: that one
// never answers again.
func (r *Runtime) again(ctx context.Context, f func() error) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		err := f()
		var retry *queue.RetryError
		if err == nil || !errors.As(err, &retry) || errors.Is(err, queue.ErrClosed) {
			return err
		}
		r.Log.Warn("the queue cannot be reached; trying again", "worker", r.Worker.Name, "err", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// shift is one Run: what runs now.
type shift struct {
	r        *Runtime
	done     sync.WaitGroup
	freed    chan struct{} // a slot became free
	hurry    chan struct{} // a lease is shorter than all before it
	mu       sync.Mutex
	attempts map[*running]struct{} // by attempt: a job may come back before its last one is quite over
	soonest  time.Duration         // shortest TTL seen
}

// running is an attempt with the means to stop it.
type running struct {
	*Attempt
	stop    context.CancelCauseFunc
	renewed time.Time
}

// lease takes work while there are free slots, until ctx ends or it has taken the most that it may. Attempts live under whole.
func (s *shift) lease(ctx, whole context.Context) error {
	for taken := 0; s.r.Most == 0 || taken < s.r.Most; {
		free, err := s.free(ctx)
		if err != nil {
			return err
		}
		if s.r.Most > 0 {
			free = min(free, s.r.Most-taken)
		}
		var got []queue.Assignment
		err = s.r.again(ctx, func() error {
			got, err = s.r.Source.Lease(ctx, s.r.Worker.Name, s.r.Worker.Session, free, 0)
			return err
		})
		if err != nil {
			return fmt.Errorf("lease: %w", err)
		}
		for _, a := range got {
			crash.Here(crash.LeaseTaken)
			s.begin(whole, a)
		}
		taken += len(got)
	}
	return nil
}

// free waits for a free slot and gives how many there are.
func (s *shift) free(ctx context.Context) (int, error) {
	for {
		s.mu.Lock()
		n := int(s.r.Worker.Slots) - len(s.attempts)
		s.mu.Unlock()
		if n > 0 {
			return n, ctx.Err()
		}
		select {
		case <-s.freed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// begin starts an attempt.
func (s *shift) begin(whole context.Context, a queue.Assignment) {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(whole))
	run := &running{Attempt: &Attempt{Assignment: a}, stop: stop, renewed: time.Now()}
	s.mu.Lock()
	s.attempts[run] = struct{}{}
	if s.soonest == 0 || a.TTL < s.soonest {
		s.soonest = a.TTL
		select {
		case s.hurry <- struct{}{}:
		default:
		}
	}
	s.mu.Unlock()
	s.done.Go(func() {
		defer stop(nil)
		over := make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() {
			select {
			case <-a.Stop:
				stop(ErrStopped)
			case <-whole.Done():
				stop(ErrInterrupted)
			case <-over:
			}
		})
		s.work(ctx, whole, run)
		close(over)
		watch.Wait()
		s.mu.Lock()
		delete(s.attempts, run)
		s.mu.Unlock()
		select {
		case s.freed <- struct{}{}:
		default:
		}
	})
}

// work has the handler do the attempt, and tells the source how it ended.
func (s *shift) work(ctx, whole context.Context, run *running) {
	began := time.Now()
	s.r.Log.Info("attempt begins", "job", run.Lease.Job, "attempt", run.Lease.Attempt, "name", run.Spec.Name)
	handler := s.r.Handlers[run.Spec.Kind]
	report := job.Report{Outcome: job.Aborted, Detail: job.WorkerFault, Message: fmt.Sprintf("no handler for kind %q", run.Spec.Kind)}
	if handler != nil {
		report = guard(ctx, handler, run.Attempt)
	}
	crash.Here(crash.AttemptEnded)
	report.Lease = run.Lease
	if errors.Is(context.Cause(ctx), ErrInterrupted) && report.Outcome != job.Succeeded && report.Outcome != job.Failed {
		report.Outcome, report.Detail = job.Aborted, job.HandedBack
	}
	s.r.Log.Info("attempt ends", "job", run.Lease.Job, "attempt", run.Lease.Attempt, "name", run.Spec.Name,
		"outcome", report.Outcome, "detail", report.Detail, "dur", time.Since(began).Round(time.Millisecond))
	// What was done is told even while this worker stops; only the end of the source takes that away.
	tell, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	if s.r.Farewell > 0 {
		defer context.AfterFunc(whole, func() { time.AfterFunc(s.r.Farewell, giveUp) })()
	}
	err := s.r.again(tell, func() error { return s.r.Source.Finish(tell, report) })
	crash.Here(crash.FinishTold)
	switch {
	case errors.Is(err, job.ErrLeaseLost):
		s.r.Log.Info("the attempt no longer counted", "job", run.Lease.Job, "attempt", run.Lease.Attempt, "outcome", report.Outcome)
	case err != nil:
		s.r.Log.Warn("the end of the attempt could not be told", "job", run.Lease.Job, "attempt", run.Lease.Attempt,
			"outcome", report.Outcome, "err", err)
	}
}

// guard turns a handler's panic into the end of its attempt: one bad job must not take the others along.
func guard(ctx context.Context, h Handler, a *Attempt) (report job.Report) {
	defer func() {
		if p := recover(); p != nil {
			report = job.Report{Outcome: job.Aborted, Detail: job.WorkerCrashed, Message: fmt.Sprintf("the handler panicked: %v", p)}
		}
	}()
	return h(ctx, a)
}

// beat renews the leases at a third of their length, in one call for all.
func (s *shift) beat(ctx context.Context) {
	const idle = time.Minute // nothing runs yet
	for {
		s.mu.Lock()
		every := s.soonest / 3
		s.mu.Unlock()
		if every <= 0 {
			every = idle
		}
		timer := time.NewTimer(every)
		select {
		case <-timer.C:
			s.renew(ctx)
		case <-s.hurry:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func (s *shift) renew(ctx context.Context) {
	s.mu.Lock()
	beats := make([]queue.Beat, 0, len(s.attempts))
	runs := make([]*running, 0, len(s.attempts))
	for run := range s.attempts {
		beats = append(beats, queue.Beat{Lease: run.Lease, Output: run.spoke()})
		runs = append(runs, run)
	}
	s.mu.Unlock()
	if len(beats) == 0 {
		return
	}
	errs, err := s.r.Source.Heartbeat(ctx, beats...)
	now := time.Now()
	for i, run := range runs {
		switch {
		case err == nil && i < len(errs) && errs[i] == nil:
			run.renewed = now
		case err == nil:
			run.stop(ErrStopped)
		default:
			// Unreachable: the server may be back before the lease and the grace are over.
			grace := s.r.Grace
			if grace == 0 {
				grace = run.TTL
			}
			if now.Sub(run.renewed) > run.TTL+grace {
				run.stop(ErrStopped)
			}
		}
	}
}
