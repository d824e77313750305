package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker"
)

// session is one `headrace run` from the opening of its store to the end.
type session struct {
	runOptions
	place place
	work  *work
	relay *progress.Relay
	out   *progress.Output

	q       *queue.Queue
	store   engineStore
	monitor *monitor
	brake   *brake
	barrier *barrier
	id      job.ID // of the worker's session
	owner   string // of the processes of its attempts
	reaped  int    // processes that an earlier run left
	bereft  bool   // there were logs without a store
	begun   bool   // what is to be done is known, and told

	// ctx ends when the run is to stop, with the cause; now is closed to kill at once.
	ctx  context.Context
	stop context.CancelCauseFunc
	now  chan struct{}
	// heeded tells whoever saw to signals before that the session does.
	heeded func()
}

// workerName is the name of the worker inside `headrace run`.
const workerName = "local"

// workerHere is that of this run: each machine that shares a database has one of its own, as what another had begun may still be
// under way there until its lease ends.
func (p place) workerHere() string {
	if p.address == "" {
		return workerName
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return workerName + "@" + host
}

// Why a run stops before its jobs have ended.
var errInterrupted = errors.New("interrupted")

// faultError: the machine, not a job, failed.
type faultError struct{ text string }

func (e *faultError) Error() string { return e.text }

// run does it all, and gives the exit code. An error means exitMachine.
func (s *session) run(ctx context.Context) (code int, err error) {
	began := time.Now()
	s.now = make(chan struct{})
	s.ctx, s.stop = context.WithCancelCause(ctx)
	defer s.stop(nil)
	s.barrier = newBarrier(s.relay)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	over := make(chan struct{})
	defer close(over)
	// Before heeded, so that no signal finds the default, which ends the process on the spot.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, interrupts()...)
	s.heeded()
	// A pipe that nobody reads any more is then told as an error.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	helpers.Go(func() {
		defer signal.Stop(signals)
		defer signal.Stop(pipes)
		s.heed(signals, over)
	})
	showing, stopShowing := context.WithCancel(context.WithoutCancel(ctx))
	shown := make(chan struct{})
	helpers.Go(func() {
		defer close(shown)
		s.relay.Run(showing)
	})
	defer stopShowing()

	s.bereft = s.place.bereft()
	s.store, err = s.place.own(s.ctx)
	var refused *exit
	switch {
	case errors.As(err, &refused):
		return refused.code, refused.err
	case err != nil:
		return exitMachine, err
	}
	defer func() {
		if cerr := s.store.Close(); err == nil && cerr != nil {
			code, err = exitMachine, fmt.Errorf("close the store: %v", cerr)
		}
	}()
	if err = s.reap(); err != nil {
		return exitMachine, err
	}
	if s.q, err = queue.Open(queue.Config{Store: s.store, History: s.store, GiveUp: true}); err != nil {
		return exitMachine, err
	}
	engine, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	helpers.Go(func() {
		err := s.q.Run(engine)
		if err != nil {
			s.fail(explain(err))
		}
		ended <- err
	})
	err = s.drive()
	stopEngine()
	if qerr := <-ended; qerr != nil {
		err = qerr
	}
	if err == nil {
		err = s.store.InPlace()
	}
	stopShowing()
	<-shown
	return s.conclude(began, err)
}

// reap kills what a run left that was killed together with those who watched its jobs: else such a job would soon run twice.
// The store's lock says that no other run is at work here.
func (s *session) reap() (err error) {
	if s.owner, err = s.place.owner(); err != nil {
		return err
	}
	s.reaped, err = worker.Reap(s.owner)
	return err
}

// drive prepares, submits, and works until all is done or the run is to stop.
func (s *session) drive() error {
	s.forewarn()
	if err := s.prepare(); err != nil {
		return err
	}
	if err := s.submit(); err != nil {
		return err
	}
	return s.toil()
}

// toil works on what is submitted.
func (s *session) toil() error {
	whole := context.WithoutCancel(s.ctx)
	// Whatever ended as it was submitted is known before the first job starts.
	if err := s.monitor.catchUp(whole); err != nil {
		return err
	}
	watching, stopWatching := context.WithCancel(whole)
	drain, stopLeasing := context.WithCancel(whole)
	seen, worked := make(chan error, 1), make(chan error, 1)
	var parts sync.WaitGroup
	parts.Go(func() { seen <- s.monitor.watch(watching) })
	parts.Go(func() { worked <- s.runtime().Run(s.ctx, drain) })
	var err error
	select {
	case err = <-seen:
		stopLeasing()
		if !errors.Is(err, errDone) {
			s.fail(explain(err))
		}
		err = <-worked
	case err = <-worked:
		// It was told to stop, or the queue does not want it.
		if err != nil {
			s.fail(explain(err))
		}
		stopWatching()
		<-seen
	}
	stopWatching()
	stopLeasing()
	parts.Wait()
	if err != nil {
		return err
	}
	if err := s.monitor.catchUp(whole); err != nil {
		return err
	}
	if s.monitor.left == 0 {
		_, err = s.q.AwaitBuild(whole, s.monitor.build)
	}
	return err
}

// prepare makes the machine known to the engine.
func (s *session) prepare() error {
	c := job.DefaultChannel(localChannel)
	c.Grace = 0
	c.Retry.Delay = s.retryDelay
	if err := s.q.SetChannel(s.ctx, c); err != nil {
		return err
	}
	s.id = s.q.NewID()
	// Attempts that an earlier run did not finish end here. Its process is dead, or the store would be locked.
	known, err := s.q.Workers(s.ctx)
	if err != nil {
		return err
	}
	for _, w := range known {
		if w.Name == s.place.workerHere() {
			if err := s.q.SignOff(s.ctx, w.Name, w.Session); err != nil {
				return err
			}
		}
	}
	leases, err := s.cutOff()
	if err != nil {
		return err
	}
	if err := s.q.Register(s.ctx, s.machine(), leases...); err != nil {
		return err
	}
	for _, l := range leases {
		// Worker and engine are one process here: it was headrace that died, so the job is not blamed for a crash,
		// however often that happens.
		err := s.q.Finish(s.ctx, job.Report{Lease: l, Outcome: job.Aborted, Detail: job.HandedBack, Message: killedNote})
		if err != nil && !errors.Is(err, job.ErrLeaseLost) {
			return err
		}
	}
	return s.q.Pardon(s.ctx, s.place.workerHere())
}

// killedNote is the message of an attempt that did not survive its headrace.
const killedNote = "headrace was killed while it ran"

// cutOff lists the attempts that an earlier run did not finish.
func (s *session) cutOff() ([]job.Lease, error) {
	recs, err := s.store.Jobs(s.ctx, queue.JobFilter{State: job.Running{}.String(), Limit: 10_000})
	if err != nil {
		return nil, err
	}
	var leases []job.Lease
	for i := range recs {
		r := &recs[i]
		if r.Last.Worker != s.place.workerHere() {
			continue
		}
		leases = append(leases, job.Lease{Job: r.Spec.ID, Attempt: r.Last.Number, Token: r.Last.Token})
	}
	return leases, nil
}

// machine describes this machine as a worker.
func (s *session) machine() job.Worker {
	w := s.here()
	w.Name, w.Session = s.place.workerHere(), s.id
	return w
}

// lacking says what this machine would need to run the i-th job.
func (s *session) lacking(i int) string {
	return "this machine lacks " + s.lacks(s.work, i)
}

// system names what this machine runs, as in x86_64-linux.
func system() string {
	arch := runtime.GOARCH
	if known, ok := map[string]string{"amd64": "x86_64", "arm64": "aarch64", "386": "i686", "arm": "armv7l"}[arch]; ok {
		arch = known
	}
	return arch + "-" + runtime.GOOS
}

// submit asks for the jobs, and gives up what an earlier run left that this one does not want.
func (s *session) submit() error {
	live, err := s.liveBuilds()
	if err != nil {
		return err
	}
	past, err := recall(s.ctx, s.store, s.work, s.fresh)
	if err != nil {
		return err
	}
	for _, id := range slices.Backward(past.stale) { // dependents first: else they end as what they waited for has, and so does their run
		if err := s.q.CancelJob(s.ctx, id, job.ID{}, true, "what it waited for is run again"); err != nil && !errors.Is(err, job.ErrEnded) {
			return err
		}
	}
	reuse := make([]bool, len(s.work.Jobs))
	for i := range reuse {
		reuse[i] = !past.kept[i].IsZero()
	}
	took, err := durations(s.ctx, s.store, s.work)
	if err != nil {
		return err
	}
	submission, err := s.work.submission(s.q.NewID, reuse, took, s.logLimit)
	if err != nil {
		return err
	}
	submission.Build.Labels = map[string]string{graphLabel: s.place.graph()}
	if s.keepGoing {
		submission.Build.Labels[keepGoingLabel] = "yes"
	}
	after := s.q.Round()
	receipt, err := s.q.Submit(s.ctx, submission)
	if err != nil {
		return err
	}
	s.observe(after, &receipt)
	for _, b := range live {
		if err := s.q.CancelBuild(s.ctx, b, false); err != nil && !errors.Is(err, queue.ErrNotFound) {
			return err
		}
	}
	s.announce(past, &receipt, took)
	return nil
}

func (s *session) liveBuilds() ([]job.ID, error) {
	recs, err := s.store.Builds(s.ctx, queue.BuildFilter{Live: true, Limit: 10_000})
	if err != nil {
		return nil, err
	}
	var ids []job.ID
	for i := range recs {
		ids = append(ids, recs[i].Build.ID)
	}
	return ids, nil
}

// observe makes the monitor that follows the submitted build.
func (s *session) observe(after uint64, receipt *queue.Receipt) {
	s.monitor = &monitor{
		q: s.q, work: s.work, relay: s.relay, barrier: s.barrier, logs: s.place.logs(), build: receipt.Build, after: after,
		index: make(map[job.ID]int, len(receipt.Jobs)), counts: map[string]int{}, roots: map[int]job.ID{},
		refused: map[job.ID]bool{}, onFailure: s.onFailure, onRetry: s.onRetry, onFault: s.fail,
		lacking: s.lacking,
	}
	for i, j := range receipt.Jobs {
		if j.How != job.Reused {
			s.monitor.add(i, j.ID)
		}
	}
	stopping := s.work.stopping()
	s.brake = &brake{Queue: s.q, held: map[attemptName]bool{}, stops: func(id job.ID) bool {
		i, ok := s.monitor.index[id]
		return ok && !s.keepGoing && stopping[i]
	}}
}

// stopping says at the bad end of which jobs a run stops: of those that count, and of optional ones whose success such a
// one needs.
func (w *work) stopping() []bool {
	stops := make([]bool, len(w.Jobs))
	for i := len(w.Jobs) - 1; i >= 0; i-- { // What a job needs comes before it.
		stops[i] = stops[i] || !w.Jobs[i].Optional
		for _, n := range w.Jobs[i].Needs {
			if n.Policy == job.Success && stops[i] {
				stops[n.Job] = true
			}
		}
	}
	return stops
}

// runtime makes the worker.
func (s *session) runtime() *worker.Runtime {
	run := worker.Commands(worker.Executor{Now: s.now, Owner: s.owner, Base: s.work.base}, s.place.logs(), func(a *worker.Attempt, l worker.Line) {
		s.relay.Line(s.monitor.index[a.Lease.Job], l.Text)
	})
	handler := func(ctx context.Context, a *worker.Attempt) job.Report {
		report := run(ctx, a)
		if report.Outcome == job.Aborted && s.place.full() {
			// Its log has no room: neither have those of others, however often they are tried.
			report.Detail, report.Message = job.WorkerFault, noRoom("logs", s.place.dir)
		}
		return report
	}
	return &worker.Runtime{
		Source: s.brake, Worker: s.machine(), Handlers: map[string]worker.Handler{worker.CommandKind: s.barrier.guard(handler, s.drop)},
	}
}

// drop ends a job that had been started, but had not begun when a failure stopped the run.
func (s *session) drop(ctx context.Context, id job.ID) {
	// If it cannot be stored, the hand-back cannot either.
	_ = s.q.CancelJob(ctx, id, job.ID{}, true, refusedNote)
}
