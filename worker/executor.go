package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/headrace/headrace/internal/crash"
	"github.com/headrace/headrace/job"
)

// DefaultGrace is the time between SIGTERM and SIGKILL for an Executor that sets none.
const DefaultGrace = 5 * time.Second

// killPatience is how long processes may take to die of SIGKILL. Only ones in the kernel's uninterruptible
// sleep, or of another user, take longer.
const killPatience = 10 * time.Second

// drainPatience is how long output may go on after the whole tree is gone. Then only a process that got
// hold of the pipe without descending from the command, as a daemon may, can still have it open.
const drainPatience = 2 * time.Second

// Executor runs commands on this machine. The zero value is ready. It may be used by many
// goroutines at once.
type Executor struct {
	// Grace is how long a tree that is asked to end may take before it is killed; 0: DefaultGrace.
	Grace time.Duration
	// Now, once closed, kills at once whatever runs, without SIGTERM and grace. Attempts not asked to
	// end before then end as Cancelled. nil: never.
	Now <-chan struct{}
	// Owner names whom the attempts belong to, as a text without NUL that is the same the next time. The processes carry it
	// in the variable HEADRACE_OWNER, by which Reap finds what a killed program and its killed supervisors left; "": nobody.
	Owner string
	// Base is the folder to which the Dir of a command is relative; "": where the executor runs.
	Base string

	noCgroup bool          // Tests: as on a machine where there are none.
	lost     time.Duration // Tests: how long a supervisor may take to kill; 0: lostPatience.
}

// lostPatience is how long a supervisor that was told to kill may take. It gives up by itself before then.
const lostPatience = killPatience + 5*time.Second

// verdict is why an attempt is to end, or how it ended.
type verdict struct {
	outcome job.Outcome
	detail  job.Detail
	message string
}

// Execute runs c as one attempt, and returns when no process of it is left. It does not
// return an error: whatever happens is an outcome.
//
// The output goes into log, which the caller closes, and line by line to onLine, if that is not nil. A line whose
// end does not come soon is also told as Pending, with what there is of it. onLine is never called twice at once
// and must not block, for the command then blocks too.
//
// When ctx is done the attempt ends as Cancelled, with the cause of ctx in the message; but a command that had
// already ended by itself counts as it ended.
//
// Left-over background processes are killed when the command ends. All of the tree also dies when
// this process does, by whatever means.
func (e Executor) Execute(ctx context.Context, c Command, log *LogWriter, onLine func(Line)) Result {
	if e.Base != "" && !filepath.IsAbs(c.Dir) {
		c.Dir = filepath.Join(e.Base, c.Dir)
	}
	if c.LogLimit == 0 {
		c.LogLimit = DefaultLogLimit
	}
	log.SetLimit(c.LogLimit)
	t := newTranscript(log, onLine)
	r := Result{ExitCode: -1, Started: t.begin.UTC().Truncate(time.Microsecond)}
	v := e.attempt(ctx, c, t, &r)
	r.Outcome, r.Detail, r.Message = v.outcome, v.detail, v.message
	if v.message != "" {
		t.note("%v: %s", v.outcome, v.message)
	}
	r.Tail = t.end()
	r.Ended = time.Now().UTC().Truncate(time.Microsecond)
	return r
}

func (e Executor) attempt(ctx context.Context, c Command, t *transcript, r *Result) verdict {
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	spec, err := c.prepare()
	if err != nil {
		return verdict{job.Failed, job.NotStarted, err.Error()}
	}
	if err := spec.spill(c.Shell); err != nil {
		return aborted(err)
	}
	w, err := e.run(ctx, c, spec, t)
	if err != nil {
		return aborted(err)
	}
	v := w.judge(r)
	if v.outcome != job.Succeeded {
		return v
	}
	r.Outputs, err = collect(ctx, spec.dir, c.Outputs)
	var bad *globError
	switch {
	case errors.As(err, &bad):
		return verdict{job.Failed, bad.detail, bad.text}
	case err != nil && ctx.Err() != nil:
		return cancelled(ctx)
	case err != nil:
		return aborted(err)
	}
	return v
}

func cancelled(ctx context.Context) verdict {
	return verdict{job.Cancelled, job.NoDetail, context.Cause(ctx).Error()}
}

func aborted(err error) verdict { return verdict{job.Aborted, job.NoDetail, err.Error()} }

// run has the command run, and returns when it is gone and all of its output is read.
func (e Executor) run(ctx context.Context, c Command, spec startSpec, t *transcript) (*watch, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %v", err)
	}
	defer r.Close() // Only read from.
	tree, err := startTree(spec, !e.noCgroup, e.Owner, w)
	_ = w.Close() // The tree has its own copy.
	if err != nil {
		_ = os.Remove(spec.script) // It may not exist, or be "".
		return nil, err
	}
	crash.Here(crash.AttemptBegun)
	var work sync.WaitGroup
	whole := false
	work.Go(tree.listen)
	work.Go(func() { whole = t.pump(r) })
	seen := &watch{Executor: e, command: c, tree: tree, transcript: t}
	seen.until(ctx)
	tree.close()
	_ = r.SetReadDeadline(time.Now().Add(drainPatience)) // Pipes have deadlines.
	work.Wait()
	if !whole {
		t.note("a process outside of the attempt still holds its output open; what it writes is not kept")
	}
	return seen, nil
}

// watch is the executor's side of a running attempt.
type watch struct {
	Executor
	command    Command
	tree       *tree
	transcript *transcript

	why     *verdict      // why the tree was asked to end; nil: it was not
	failed  syscall.Errno // why it did not start
	ended   *ended        // nil: the supervisor was lost, or it did not start
	grace   <-chan time.Time
	overdue <-chan time.Time // when the supervisor counts as lost
}

// until follows the attempt up to the end of its tree, and judges the time limits.
func (w *watch) until(ctx context.Context) {
	total, silence := after(w.command.Timeout), after(w.command.Silence)
	done, now, failed := ctx.Done(), w.Now, w.transcript.failed
	for {
		select {
		case ev, ok := <-w.tree.events:
			if !ok || w.hear(ev) {
				return
			}
		case <-done:
			done = nil
			w.stop(cancelled(ctx))
		case <-now:
			now = nil
			w.kill(verdict{job.Cancelled, job.NoDetail, "told to end at once"})
		case <-failed:
			failed = nil
			w.kill(w.logVerdict())
		case <-total:
			w.stop(verdict{job.TimedOut, job.TotalTimeout, fmt.Sprintf("still running after %v", w.command.Timeout)})
		case <-silence:
			silence = nil
			if left := w.command.Silence - w.transcript.silentFor(); left > 0 {
				silence = after(left)
				continue
			}
			w.stop(verdict{job.TimedOut, job.SilentTimeout, fmt.Sprintf("no output for %v", w.command.Silence)})
		case <-w.grace:
			w.transcript.note("still running %v after SIGTERM", w.graceOr())
			w.kill(*w.why)
		case <-w.overdue:
			return
		}
	}
}

// after is time.After, but never for a duration of 0.
func after(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}

// hear takes what the supervisor says, and reports whether that was the last.
func (w *watch) hear(ev event) (last bool) {
	switch ev.kind {
	case frameError:
		w.tree.done, w.failed = true, ev.errno
	case frameDone:
		w.tree.done, w.ended = true, &ev.ended
	}
	return w.tree.done
}

// stop asks the tree to end, and has it killed after the grace. The first reason counts.
func (w *watch) stop(why verdict) {
	if w.why != nil {
		return
	}
	w.why = &why
	w.transcript.note("%s: sending SIGTERM to all its processes", why.message)
	w.order(frameTerm)
	w.grace = after(w.graceOr())
}

// kill has the tree killed at once. The first reason counts.
func (w *watch) kill(why verdict) {
	if w.why == nil {
		w.why = &why
	}
	w.grace = nil
	if w.overdue != nil {
		return
	}
	w.transcript.note("%s: killing all its processes", why.message)
	w.order(frameKill)
	if w.overdue = after(w.lost); w.lost == 0 {
		w.overdue = after(lostPatience)
	}
}

// order tells the supervisor. If it is dead, the end of its events says so too.
func (w *watch) order(kind byte) { _ = w.tree.send(kind, nil) }

func (w *watch) graceOr() time.Duration {
	if w.Grace == 0 {
		return DefaultGrace
	}
	return w.Grace
}
