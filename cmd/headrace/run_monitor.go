package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker"
)

// monitor follows a build by what the engine stored, lets its attempts begin, and tells of it. It belongs to one goroutine
// at a time.
type monitor struct {
	q       *queue.Queue
	work    *work
	relay   *progress.Relay
	barrier *barrier
	logs    string // folder
	build   job.ID

	after  uint64         // the last round that was seen
	index  map[job.ID]int // of the jobs of the build
	counts map[string]int // ended jobs by outcome
	reused int
	roots  map[int]job.ID // of the jobs that did not run because of another
	left   int            // jobs that are not Done
	// refused has the jobs whose last attempt did not pass the barrier.
	refused map[job.ID]bool
	// failed: a job that counts did not succeed.
	failed bool
	// onFailure is called at the first such job, onRetry when an attempt is to be followed by another; onFault
	// when the worker failed on its own account.
	onFailure func(name string)
	onRetry   func(a attemptName)
	onFault   func(message string)
	// lacking says what this machine would need to run the i-th job.
	lacking func(i int) string
}

// errDone ends a watch: there is nothing left to wait for.
var errDone = errors.New("done")

// add notes which job stands for the i-th of the graph.
func (m *monitor) add(i int, id job.ID) {
	m.index[id] = i
	m.left++
}

// watch sees rounds until all jobs are Done (errDone) or ctx ends.
func (m *monitor) watch(ctx context.Context) error {
	if m.left == 0 {
		return errDone
	}
	return m.q.Watch(ctx, m.after, func(r queue.Round) error {
		m.see(r)
		if m.left == 0 {
			return errDone
		}
		return nil
	})
}

// catchUp sees all that is stored up to now.
func (m *monitor) catchUp(ctx context.Context) error {
	target := m.q.Round()
	if m.after >= target {
		return nil
	}
	err := m.q.Watch(ctx, m.after, func(r queue.Round) error {
		m.see(r)
		if r.Number >= target {
			return errDone
		}
		return nil
	})
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

func (m *monitor) see(r queue.Round) {
	m.relay.Room()
	m.after = r.Number
	for _, c := range r.Changes {
		switch c := c.(type) {
		case job.JobStarted:
			m.started(&c)
		case job.JobRetried:
			if i, ok := m.index[c.Job]; ok {
				m.retried(i, &c)
			}
		case job.JobEnded:
			if i, ok := m.index[c.Job]; ok {
				m.ended(i, &c)
			}
		default:
			// The others are nothing that a watcher of the run is shown.
		}
	}
}

// reuse tells that a job of an earlier run serves for the i-th.
func (m *monitor) reuse(i int, id job.ID) {
	m.reused++
	m.counts[job.Succeeded.String()]++
	m.relay.Event(progress.JobReused{Job: m.work.named(i, id)})
}

func (m *monitor) log(id job.ID, attempt int32) string {
	return filepath.Join(m.logs, worker.LogPath(id, attempt))
}

func (m *monitor) started(c *job.JobStarted) {
	a := attemptName{c.Job, c.Attempt.Number}
	i, ok := m.index[c.Job]
	if !ok {
		m.barrier.admit(a, nil)
		return
	}
	m.refused[c.Job] = !m.barrier.admit(a, progress.JobStarted{
		Job: m.work.named(i, c.Job), Attempt: c.Attempt.Number, Start: c.Attempt.Start.Std(), Log: m.log(c.Job, c.Attempt.Number),
	})
}

func (m *monitor) retried(i int, c *job.JobRetried) {
	a := &c.Attempt
	if m.refused[c.Job] {
		return // Nobody was told that it had started.
	}
	e := progress.JobRetried{
		Job: m.work.named(i, c.Job), Attempt: a.Number, Outcome: a.Outcome.String(), Detail: a.Detail.String(), Message: a.Message,
		Took: progress.Seconds(a.At.Sub(a.Start)), Wait: progress.Seconds(c.Delay), Log: m.log(c.Job, a.Number),
		HandedBack: a.Detail == job.HandedBack,
	}
	if c.Delay > 0 {
		until := c.Wake.Std()
		e.Until = &until
	}
	m.relay.Event(e)
	if a.Detail == job.WorkerFault {
		m.onFault(a.Message)
	}
	m.onRetry(attemptName{c.Job, a.Number})
}

func (m *monitor) ended(i int, c *job.JobEnded) {
	m.left--
	m.counts[c.End.Outcome.String()]++
	e := progress.JobEnded{
		Job: m.work.named(i, c.Job), Outcome: c.End.Outcome, Word: c.End.Outcome.String(), Detail: c.End.Detail.String(),
		Message: c.End.Message, Optional: m.work.Jobs[i].Optional,
	}
	if root, ok := m.index[c.End.Root]; ok && !c.End.Root.IsZero() {
		e.Root, e.RootOutcome = m.work.Jobs[root].Name, c.End.RootOutcome.String()
		e.Through = m.through(i, root, c.End.Root)
	}
	if e.Outcome == job.Unsupported {
		e.Message = m.lacking(i)
	}
	if c.End.Detail == job.LogLimit {
		e.Message += " (--log-limit raises it)"
	}
	if a := c.Attempt; a != nil && !m.refused[c.Job] {
		e.Attempts, e.Took = a.Number, progress.Seconds(a.At.Sub(a.Start))
		e.Log = m.log(c.Job, a.Number)
		if e.Interrupted = cutOff(&c.End); c.End.Outcome != job.Succeeded && !e.Interrupted {
			e.Tail = tail(e.Log, tailLines)
		}
	}
	m.relay.Event(e)
	if c.End.Outcome != job.Succeeded && c.End.Outcome != job.Cancelled && !cutOff(&c.End) && !e.Optional {
		if !m.failed {
			m.failed = true
			m.onFailure(e.Name)
		}
	}
}

// through names the need of the i-th job that did not run because of the root, if the root is no need itself.
func (m *monitor) through(i, root int, id job.ID) string {
	m.roots[i] = id
	name := ""
	for _, n := range m.work.Jobs[i].Needs {
		if n.Policy != job.Success {
			continue
		}
		if n.Job == root {
			return ""
		}
		if name == "" && m.roots[n.Job] == id {
			name = m.work.Jobs[n.Job].Name
		}
	}
	return name
}

// tailLines is how much of its log is shown when a job fails.
const tailLines = 20

// tail gives the last lines of a log, each cut to what a person can read; none if it cannot be read, as that is no reason to fail.
func tail(path string, lines int) []string {
	r, err := worker.OpenLog(path)
	if err != nil {
		return nil
	}
	defer r.Close() // Only read from.
	// The executor's own notes are left out: the reason is told anyway.
	last, err := r.Excerpt(lines)
	var out []string
	for _, l := range last {
		out = append(out, string(l.Text))
	}
	if err != nil {
		out = append(out, "the rest of the log cannot be read: "+err.Error())
	}
	return out
}
