package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/sched"
)

// Register makes a worker known, or takes it back after a restart; see job.Machine.Register.
func (q *Queue) Register(ctx context.Context, w job.Worker, running ...job.Lease) error {
	w, running = ownWorker(w), slices.Clone(running)
	return change(ctx, q, command{name: "register a worker"}, func(r *round) ([]job.Change, error) {
		// The machine hears that a session is alive once it is stored; until then the round knows.
		if other := r.session(w.Name); !other.IsZero() && other != w.Session {
			return nil, job.ErrWorkerLive
		}
		changes, err := q.machine.Register(r.at, w, running)
		if err != nil {
			return nil, err
		}
		r.signed(w.Name, w.Session)
		r.after = append(r.after, func(failed error) {
			if failed == nil {
				q.machine.SignOn(w.Name, w.Session, r.at.Now)
			}
		})
		return changes, nil
	})
}

// session gives the one that registered last under the name in a round that is not stored yet, and did not sign off since;
// zero: none.
func (r *round) session(name string) job.ID {
	session, ok := r.sessions[name]
	if !ok && r.q.aloft != nil {
		session = r.q.aloft.sessions[name]
	}
	return session
}

// signed notes which session has the name from now on; zero: none.
func (r *round) signed(name string, session job.ID) {
	if r.sessions == nil {
		r.sessions = map[string]job.ID{}
	}
	r.sessions[name] = session
}

// ownWorker gives a worker that shares no memory with the one given. What comes from a caller is copied before the owner sees
// it, and what goes to one before he does: neither may change, or wait for, what the other reads.
func ownWorker(w job.Worker) job.Worker {
	for _, list := range []*[]string{&w.Channels, &w.Kinds, &w.Systems, &w.Features, &w.Mandatory} {
		*list = slices.Clone(*list)
	}
	return w
}

// ownChannel does the same for a channel's policy.
func ownChannel(c job.Channel) job.Channel {
	c.GroupShares, c.PausedKinds = maps.Clone(c.GroupShares), slices.Clone(c.PausedKinds)
	return c
}

// SignOff says that a session of the worker is over: the next may register at once, and this one is given nothing any more. A
// Lease call of it that waits ends with job.ErrSignedOff; what it was given before is ended when the worker comes back, or
// when the leases run out. Not only the session itself may say so, but whoever knows that its process is dead.
func (q *Queue) SignOff(ctx context.Context, name string, session job.ID) error {
	return change(ctx, q, command{name: "sign a worker off"}, func(r *round) ([]job.Change, error) {
		changes := q.machine.SignOff(name, session)
		if len(changes) > 0 {
			r.signed(name, job.ID{})
			r.evict(name, func(s job.ID) bool { return s == session }, job.ErrSignedOff)
		}
		return changes, nil
	})
}

// RemoveWorker makes a worker unknown; job.ErrBusy while it has attempts, unless forced.
func (q *Queue) RemoveWorker(ctx context.Context, name string, force bool) error {
	return change(ctx, q, command{name: "remove a worker"}, func(r *round) ([]job.Change, error) {
		return q.machine.RemoveWorker(r.at, name, force)
	})
}

// Drain sets or lifts the drain of a worker: drained, it gets nothing new.
func (q *Queue) Drain(ctx context.Context, name string, drained bool) error {
	return change(ctx, q, command{name: "drain a worker"}, func(*round) ([]job.Change, error) { return q.machine.Drain(name, drained) })
}

// Pardon ends a worker's quarantine.
func (q *Queue) Pardon(ctx context.Context, name string) error {
	return change(ctx, q, command{name: "pardon a worker"}, func(*round) ([]job.Change, error) { return q.machine.Pardon(name) })
}

// SetChannel sets a channel's policy.
func (q *Queue) SetChannel(ctx context.Context, c job.Channel) error {
	c = ownChannel(c)
	return change(ctx, q, command{name: "set a channel"}, func(*round) ([]job.Change, error) { return q.machine.SetChannel(c) })
}

// Channels gives the policies that somebody has set, by name; all others are those of job.DefaultChannel.
func (q *Queue) Channels(ctx context.Context) ([]job.Channel, error) {
	return ask(ctx, q, func(*round) ([]job.Channel, error) {
		list := q.machine.Channels()
		for i := range list {
			list[i] = ownChannel(list[i])
		}
		return list, nil
	})
}

// Channel gives a channel's policy.
func (q *Queue) Channel(ctx context.Context, name string) (job.Channel, error) {
	return ask(ctx, q, func(r *round) (job.Channel, error) { return ownChannel(q.machine.Channel(name)), nil })
}

// Pause stops, or lets go on, the starting of new jobs in a channel; kind limits it to one kind, "" means all.
func (q *Queue) Pause(ctx context.Context, channel, kind string, paused bool) error {
	return change(ctx, q, command{name: "pause a channel"}, func(*round) ([]job.Change, error) {
		c := q.machine.Channel(channel)
		if kind == "" {
			c.Paused = paused
		} else {
			c.PausedKinds = slices.DeleteFunc(slices.Clone(c.PausedKinds), func(k string) bool { return k == kind })
			if paused {
				c.PausedKinds = append(c.PausedKinds, kind)
			}
		}
		return q.machine.SetChannel(c)
	})
}

// CancelBuild ends a live build as cancelled. Its running jobs that nobody else needs are stopped or, with spare, go on
// and are recorded. ErrNotFound: no such live build.
func (q *Queue) CancelBuild(ctx context.Context, id job.ID, spare bool) error {
	return change(ctx, q, command{name: "cancel a build"}, func(r *round) ([]job.Change, error) {
		return q.machine.CancelBuild(r.at.Now, id, spare)
	})
}

// CancelJob ends a job as cancelled; see job.Machine.CancelJob. of is the build on whose behalf it is asked, or zero.
func (q *Queue) CancelJob(ctx context.Context, id, of job.ID, force bool, why string) error {
	return q.endJob(ctx, "cancel a job", id, func(r *round) ([]job.Change, error) {
		return q.machine.CancelJob(r.at.Now, id, of, force, why)
	})
}

// endJob decides about an unfinished job; job.ErrEnded if the store knows it as one that has ended.
func (q *Queue) endJob(ctx context.Context, name string, id job.ID, decide func(*round) ([]job.Change, error)) error {
	query := func(m *job.Machine, query *Query) {
		if _, ok := m.Job(id); !ok {
			query.Jobs = append(query.Jobs, id)
		}
	}
	return change(ctx, q, command{name: name, query: query}, func(r *round) ([]job.Change, error) {
		if _, ok := q.machine.Job(id); !ok && r.found.Jobs[id] != nil {
			return nil, job.ErrEnded
		}
		return decide(r)
	})
}

// FailJob ends a job that does not run with the caller's verdict and result. job.ErrBusy: it runs; job.ErrEnded: it has
// ended; ErrNotFound: there is no such job.
func (q *Queue) FailJob(ctx context.Context, id job.ID, why string, result []byte) error {
	result = bytes.Clone(result)
	return q.endJob(ctx, "fail a job", id, func(r *round) ([]job.Change, error) {
		return q.machine.FailJob(r.at.Now, id, why, result)
	})
}

// Bump gives a live build a new priority.
func (q *Queue) Bump(ctx context.Context, id job.ID, priority int32) error {
	return change(ctx, q, command{name: "bump a build"}, func(*round) ([]job.Change, error) { return q.machine.Bump(id, priority) })
}

// DeleteJob takes a job out of the history; an unfinished one is cancelled first, whoever needs it. It waits until the
// worker of a running one has confirmed. job.ErrBusy: an unfinished dependent can still read it, or could once it has ended;
// nothing was changed.
func (q *Queue) DeleteJob(ctx context.Context, id job.ID) error {
	for {
		news := *q.news.Load()
		err := q.deleteEnded(ctx, id)
		if !errors.Is(err, errInMemory) {
			return err
		}
		err = change(context.WithValue(ctx, requestKey{}, nil), q, command{name: "cancel a job"}, func(r *round) ([]job.Change, error) {
			// Cancelled before: only its worker is waited for, and the owner need not read for that at each round.
			if j, ok := q.machine.Job(id); !ok {
				return nil, ErrNotFound
			} else if _, done := j.State().(job.Done); done {
				return nil, job.ErrEnded
			}
			dependents, err := r.dependents(ctx, id)
			if err != nil {
				return nil, err
			}
			return q.machine.CancelToDelete(r.at.Now, id, dependents)
		})
		if err != nil && !errors.Is(err, job.ErrEnded) && !errors.Is(err, ErrNotFound) {
			return err
		}
		if err := wait(ctx, q, news); err != nil {
			return err
		}
	}
}

// DeleteMost is how many jobs DeleteJobs takes: it reads who depends on each in one round, which others wait for.
const DeleteMost = 100

// DeleteJobs takes up to DeleteMost jobs out of the history, all or none, each after its dependents. What has not ended is cancelled, and
// an attempt that runs is over at once. A job that is unknown is passed over. job.ErrBusy: another job depends on one of them, also
// if it has ended; nothing was changed.
func (q *Queue) DeleteJobs(ctx context.Context, ids ...job.ID) error {
	return q.DeleteUnder(ctx, nil, ids...)
}

// DeleteUnder is DeleteJobs for a portion of what is too much for one, beginning at the bottom: those above, which go later, may depend on
// the jobs. They must have ended before, else it is job.ErrBusy: they would be released.
func (q *Queue) DeleteUnder(ctx context.Context, above []job.ID, ids ...job.ID) error {
	if len(ids) > DeleteMost {
		return &job.InvalidError{Field: "ids", Want: fmt.Sprintf("at most %d", DeleteMost)}
	}
	ids = slices.Clone(ids)
	later := make(map[job.ID]bool, len(above))
	for _, id := range above {
		later[id] = true
	}
	query := func(_ *job.Machine, query *Query) { query.Jobs = append(query.Jobs, ids...) }
	return change(ctx, q, command{name: "delete jobs", weight: len(ids), query: query}, func(r *round) ([]job.Change, error) {
		dependents := make([][]job.ID, len(ids))
		for i, id := range ids {
			list, err := r.dependents(ctx, id)
			if err != nil {
				return nil, err
			}
			dependents[i] = slices.DeleteFunc(list, func(d job.ID) bool { return later[d] && q.over(d) })
		}
		return q.machine.DeleteJobs(r.at.Now, ids, dependents, &r.found.Facts)
	})
}

// over reports whether a job has ended, or is unknown.
func (q *Queue) over(id job.ID) bool {
	j, ok := q.machine.Job(id)
	if !ok {
		return true
	}
	_, done := j.State().(job.Done)
	return done
}

// errInMemory says that a job has not ended, or has still something to tell or to free.
var errInMemory = errors.New("in memory")

// deleteEnded takes a job that has left memory out of the history.
func (q *Queue) deleteEnded(ctx context.Context, id job.ID) error {
	query := func(_ *job.Machine, query *Query) { query.Jobs = append(query.Jobs, id) }
	return change(ctx, q, command{name: "delete a job", query: query}, func(r *round) ([]job.Change, error) {
		if _, ok := q.machine.Job(id); ok {
			return nil, errInMemory
		}
		dependents, err := r.dependents(ctx, id)
		if err != nil {
			return nil, err
		}
		return q.machine.DeleteJob(id, dependents, &r.found.Facts)
	})
}

// dependents gives the jobs that name the job as a dependency, those that are not stored yet included. It reads the history in the
// owner's round, so that none can come between; a deletion is rare enough for all others to wait for that, but not for ever: a
// history that did not answer is not asked again in the round.
func (r *round) dependents(ctx context.Context, id job.ID) ([]job.ID, error) {
	if r.unread != nil {
		return nil, &RetryError{Cause: r.unread}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerIn, errNoAnswer)
	defer cancel()
	list, err := r.q.History.Dependents(ctx, id)
	if err != nil {
		if errors.Is(context.Cause(ctx), errNoAnswer) {
			r.unread = err
		}
		return nil, &RetryError{Cause: err}
	}
	add := func(changes []job.Change) {
		for _, c := range changes {
			if a, ok := c.(job.JobAdded); ok && slices.ContainsFunc(a.Spec.Needs, func(n job.Need) bool { return n.Job == id }) {
				list = append(list, a.Spec.ID)
			}
		}
	}
	if r.q.aloft != nil {
		add(r.q.aloft.batch.Changes)
	}
	add(r.batch.Changes)
	return list, nil
}

// errNoAnswer is why a read is given up that took too long.
var errNoAnswer = errors.New("no answer")

// DeleteBuild takes an ended build out of the history, but not its jobs; job.ErrBusy while it is live.
func (q *Queue) DeleteBuild(ctx context.Context, id job.ID) error {
	return change(ctx, q, command{name: "delete a build", query: func(_ *job.Machine, query *Query) { query.Builds = append(query.Builds, id) }},
		func(r *round) ([]job.Change, error) { return q.machine.DeleteBuild(id, &r.found.Facts) })
}

// ClearFailures forgets the cached failures of these identities.
func (q *Queue) ClearFailures(ctx context.Context, failures ...job.Identity) error {
	failures = slices.Clone(failures)
	return change(ctx, q, command{name: "clear failures"}, func(*round) ([]job.Change, error) { return q.machine.ClearFailures(failures), nil })
}

// Why explains why a job is not running; ErrNotFound if it is not in memory: it has ended, or never was.
func (q *Queue) Why(ctx context.Context, id job.ID) (sched.Explanation, error) {
	return q.WhyTo(ctx, func(...string) bool { return true }, id)
}

// WhyTo is Why for one who may not know of all channels.
func (q *Queue) WhyTo(ctx context.Context, sees sched.Sight, id job.ID) (sched.Explanation, error) {
	return ask(ctx, q, func(r *round) (sched.Explanation, error) {
		j, ok := q.machine.Job(id)
		if !ok {
			return sched.Explanation{}, ErrNotFound
		}
		return q.sched.WhyTo(sees, j, r.at.Now), nil
	})
}

// WorkerView is a worker with what it does now.
type WorkerView struct {
	job.Worker
	// Leases are the attempts that it has, those being stopped included.
	Leases []job.ID
	// Waits for so many jobs.
	Waits int
}

// Workers lists the known workers by name.
func (q *Queue) Workers(ctx context.Context) ([]WorkerView, error) {
	return ask(ctx, q, func(*round) ([]WorkerView, error) {
		var list []WorkerView
		for _, n := range q.machine.Workers() {
			w, _ := q.machine.Worker(n)
			v := WorkerView{Worker: ownWorker(w), Waits: q.sched.Wants(n)}
			q.machine.Leases(n, func(j *job.Job) { v.Leases = append(v.Leases, j.ID()) })
			list = append(list, v)
		}
		return list, nil
	})
}
