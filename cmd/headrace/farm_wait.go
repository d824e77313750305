package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/farm"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/spf13/cobra"
)

// farmRun is a build of a farm that somebody waits for, from its submission to its end.
type farmRun struct {
	farm *farm.Farm
	work *work
	// command says how to call a command of headrace for the same server.
	command    func(verb, what string) string
	submission *api.Submission
	json       bool
	quiet      bool
	colour     string
	// keepGoing: a failure does not stop what has not started.
	keepGoing bool
	// owned: who stops waiting stops the build, too.
	owned bool

	relay       *progress.Relay
	stop        context.CancelFunc // the waiting
	build       job.ID             // guarded by mu: zero until it is made
	interrupted bool               // guarded by mu
	cancelled   bool               // guarded by mu: we cancelled the build, at an interrupt
	mu          sync.Mutex
}

// runAway runs a graph on a farm, as it would be run here.
func (o *runOptions) runAway(cmd *cobra.Command, s *serverFlags) error {
	for _, flag := range []string{"jobs", "dry-run", "graph", "store", "log-limit", "feature", "retry-delay"} {
		if cmd.Flags().Changed(flag) {
			return usage("--%s is for jobs that run here, not for those of --server", flag)
		}
	}
	s.json = o.json
	f, err := s.farm(cmd)
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	if o.json {
		stderr = nil
	}
	w, err := newWork(o.file, o.targets, stderr)
	if err != nil {
		return err
	}
	submission, err := w.farmSubmission(o.fresh)
	if err != nil {
		return err
	}
	r := farmRun{
		farm: f, work: w, command: s.commandOn(cmd), submission: submission, json: o.json, quiet: o.quiet, colour: o.colour, keepGoing: o.keepGoing, owned: true,
	}
	return advised(r.run(cmd), f.Client, roleSubmit)
}

// run submits and waits; its errors are not yet those of a user.
func (r *farmRun) run(cmd *cobra.Command) error {
	out := progress.NewOutput(cmd.OutOrStdout())
	r.relay = progress.NewRelay(r.display(out, cmd.OutOrStdout()))
	whole := context.WithoutCancel(cmd.Context())
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	r.stop = stop
	var helpers sync.WaitGroup
	defer helpers.Wait()
	over := make(chan struct{})
	defer close(over)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, interrupts()...)
	helpers.Go(func() {
		defer signal.Stop(signals)
		r.heed(whole, signals, out.Failed(), over)
	})
	began := time.Now()
	receipt, err := submitTo(ctx, r.farm.Client, r.submission)
	if ctx.Err() != nil {
		return &exit{exitInterrupted, &uncertainError{errors.New("interrupted"), r.submission.Name}}
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.build = receipt.Build
	late := r.interrupted && r.owned // while it was being made
	r.mu.Unlock()
	if late {
		r.cancel(whole)
	}
	showing, stopShowing := context.WithCancel(whole)
	shown := make(chan struct{})
	helpers.Go(func() {
		defer close(shown)
		r.relay.Run(showing)
	})
	defer stopShowing()
	r.relay.Event(progress.RunStarted{
		Build: receipt.Build, Name: r.submission.Name, File: "", Jobs: len(r.work.Jobs), Reused: reusedIn(&receipt), Server: r.farm.Server,
	})
	follow := farm.Follow{
		Client: r.farm.Client, Build: receipt.Build, Members: r.work.members(), Receipt: receipt.Jobs, Round: receipt.Round, Tell: r.relay.Event,
	}
	follow.See = func(id job.ID) string { return r.command("logs", id.String()) }
	follow.OnFailure = func(name string) { r.onFailure(whole, &follow, name) }
	build, counts, err := follow.Run(ctx)
	stopShowing()
	<-shown
	return r.conclude(&build, &counts, began, err, out)
}

// onFailure stops what has not started, at the first failure.
func (r *farmRun) onFailure(ctx context.Context, follow *farm.Follow, name string) {
	if r.keepGoing {
		return
	}
	follow.Linger = true
	err := r.farm.CancelBuild(ctx, follow.Build, true)
	switch {
	case err == nil:
		r.relay.Event(progress.RunStopping{Why: "failure", Text: name + " did not succeed: nothing more is started (--keep-going would go on)"})
	case !errors.Is(err, job.ErrEnded):
		r.relay.Event(progress.Notice{Text: fmt.Sprintf("%s did not succeed, and the build could not be stopped: %v", name, err)})
	}
}

// heed obeys signals: the first one stops the build, if it is ours to stop, or else the waiting.
func (r *farmRun) heed(ctx context.Context, signals <-chan os.Signal, broken, over <-chan struct{}) {
	times := 0
	for {
		select {
		case <-over:
			return
		case <-broken:
			broken = nil
			r.stop()
		case <-signals:
			r.mu.Lock()
			r.interrupted = true
			r.mu.Unlock()
			times++
			switch {
			case times > 1:
				os.Exit(exitInterrupted)
			case !r.owned:
				r.stop()
			default:
				r.cancel(ctx)
			}
		}
	}
}

// cancel stops the build at an interrupt.
func (r *farmRun) cancel(ctx context.Context) {
	r.relay.Event(progress.RunStopping{Why: "interrupt", Text: "interrupted: the build is cancelled; once more to leave at once"})
	r.mu.Lock()
	build := r.build
	r.mu.Unlock()
	if build.IsZero() {
		return // It is cancelled once it is made.
	}
	err := r.farm.CancelBuild(ctx, build, false)
	switch {
	case err == nil, errors.Is(err, job.ErrEnded):
		r.mu.Lock()
		r.cancelled = true
		r.mu.Unlock()
	default:
		r.relay.Event(progress.Notice{Text: fmt.Sprintf("the build could not be cancelled: %v", err)})
		r.stop()
	}
}

// conclude tells the end.
func (r *farmRun) conclude(b *api.Build, counts *farm.Counts, began time.Time, err error, out *progress.Output) error {
	e := progress.RunEnded{
		Outcome: b.Outcome, Took: progress.Seconds(time.Since(began)), Counts: counts.Ends, Reused: counts.Reused, Unfinished: &counts.Left,
	}
	r.mu.Lock()
	interrupted, cancelled, build := r.interrupted, r.cancelled, r.build
	r.mu.Unlock()
	var why error
	switch {
	case out.Err() != nil:
		return &exit{exitMachine, fmt.Errorf("write the progress: %v; the build goes on, see: headrace show %s", out.Err(), build)}
	case interrupted && (cancelled || err != nil || r.owned && b.Outcome == job.Cancelled.String()):
		e.Outcome, e.Code = "interrupted", exitInterrupted
		if !cancelled {
			r.relay.Event(progress.Notice{Text: "the build goes on; see: " + r.command("show", build.String())})
		}
	case err != nil:
		e.Outcome, e.Code = "aborted", exitMachine
		why = advised(err, r.farm.Client, roleRead)
		why = &exit{exitMachine, fmt.Errorf("%v; the build goes on, see: headrace show %s", why, build)}
	case counts.Failed:
		e.Outcome, e.Code = job.Failed.String(), exitFailed
	case b.Outcome != job.Succeeded.String():
		e.Code = exitFailed
	}
	r.relay.Event(e)
	if why != nil || e.Code == exitOK {
		return why
	}
	return &exit{e.Code, nil}
}
