package queue

import (
	"context"
	"errors"
	"sync"

	"github.com/headrace/headrace/job"
)

// Held is an attempt that has its lease.
type Held struct {
	Lease  job.Lease
	Worker string
	// Stopping: the job has ended, as cancelled or over a limit, and the worker has not confirmed that the attempt is over.
	Stopping bool
}

// leases are the attempts that have their lease, as of the last commit: for those who know a job alone, or a token. The owner
// writes, whoever asks reads.
type leases struct {
	mu      sync.RWMutex
	byJob   map[job.ID]Held // nil: nobody owns the store
	byToken map[job.Token]job.ID
}

// errNoOwner: the state is being loaded, or the queue has not been run yet.
var errNoOwner = errors.New("nobody owns the store at this moment")

// LeaseOf gives the lease of a job's attempt: for callers that know the job alone, such as a door whose users name jobs where others
// show tokens. ErrNotFound: the job has no attempt that runs or is being stopped; *RetryError: the owner has just stepped down.
func (q *Queue) LeaseOf(_ context.Context, id job.ID) (Held, error) {
	return q.held(func(l *leases) job.ID { return id })
}

// LeaseBy gives the lease that a token gives the right to, with the errors of LeaseOf.
func (q *Queue) LeaseBy(_ context.Context, token job.Token) (Held, error) {
	return q.held(func(l *leases) job.ID { return l.byToken[token] })
}

func (q *Queue) held(job func(*leases) job.ID) (Held, error) {
	select {
	case <-q.done:
		return Held{}, q.end
	default:
	}
	// It must be true of the store, not only of what this process remembers of it.
	if err := q.owned(); err != nil {
		return Held{}, err
	}
	l := &q.leases
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.byJob == nil {
		return Held{}, &RetryError{Cause: errNoOwner}
	}
	h, ok := l.byJob[job(l)]
	if !ok {
		return Held{}, ErrNotFound
	}
	return h, nil
}

// reset begins anew with what the machine has; nil: with nothing, until there is an owner.
func (l *leases) reset(m *job.Machine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byJob, l.byToken = nil, nil
	if m == nil {
		return
	}
	l.byJob, l.byToken = map[job.ID]Held{}, map[job.Token]job.ID{}
	for _, n := range m.Workers() {
		m.Leases(n, func(j *job.Job) { l.put(j.ID(), j.Attempt(), j.Held()) })
	}
}

// follow takes up what a round has changed, once it is stored.
func (l *leases) follow(changes []job.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		switch c := c.(type) {
		case job.JobStarted:
			l.put(c.Job, &c.Attempt, false)
		case job.JobRetried:
			l.drop(c.Job)
		case job.JobEnded:
			if h, ok := l.byJob[c.Job]; ok && c.Held {
				h.Stopping = true
				l.byJob[c.Job] = h
			} else {
				l.drop(c.Job)
			}
		case job.JobFreed:
			l.drop(c.Job)
		default:
			// The others give and take no lease.
		}
	}
}

func (l *leases) put(id job.ID, a *job.Attempt, stopping bool) {
	l.byJob[id] = Held{Lease: job.Lease{Job: id, Attempt: a.Number, Token: a.Token}, Worker: a.Worker, Stopping: stopping}
	l.byToken[a.Token] = id
}

func (l *leases) drop(id job.ID) {
	delete(l.byToken, l.byJob[id].Lease.Token)
	delete(l.byJob, id)
}
