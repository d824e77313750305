package queue

import (
	"context"
	"errors"
	"fmt"
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

// leases are the attempts that have their lease, as of the last commit: for those who know a job alone, a token, or a worker. The
// owner writes, whoever asks reads.
type leases struct {
	mu       sync.RWMutex
	byJob    map[job.ID]Held // nil: nobody owns the store
	byToken  map[job.Token]job.ID
	byWorker map[string]*holder
}

// holder is a worker with what it holds, and who is to be told when that changes.
type holder struct {
	worker job.Worker
	known  bool // it is registered
	jobs   map[job.ID]struct{}
	calls  map[*func()]struct{}
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

// Standing is where a worker stands.
type Standing struct {
	// Worker is as it is registered; its Session is zero if it has signed off.
	Worker job.Worker
	// Held are the attempts that have their lease, in no order.
	Held []Held
}

// Standing tells where a worker stands, as of the last commit, without asking the owner: for callers that hold the worker's side, as a
// server does whose workers state what they run. wake, if not nil, is called once, as soon as the worker may have to be told something:
// an attempt of its is to be stopped or is over, or it was itself changed, or the owner steps down. It must not block, nor
// call the Queue. forget says that nobody waits any more; it must be called if there is no error. ErrNotFound: no worker has that name;
// *RetryError: the owner has just stepped down.
func (q *Queue) Standing(name string, wake func()) (standing Standing, forget func(), err error) {
	if err := q.answering(); err != nil {
		return Standing{}, nil, err
	}
	l := &q.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byJob == nil {
		return Standing{}, nil, &RetryError{Cause: errNoOwner}
	}
	h := l.byWorker[name]
	if h == nil || !h.known {
		return Standing{}, nil, fmt.Errorf("worker %q: %w", name, ErrNotFound)
	}
	standing.Worker = ownWorker(h.worker)
	for id := range h.jobs {
		standing.Held = append(standing.Held, l.byJob[id])
	}
	if wake == nil {
		return standing, func() {}, nil
	}
	h.calls[&wake] = struct{}{}
	return standing, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(h.calls, &wake)
	}, nil
}

// answering reports nil while what the index holds is true of the store, not only of what this process remembers of it.
func (q *Queue) answering() error {
	select {
	case <-q.done:
		return q.end
	default:
	}
	return q.owned()
}

func (q *Queue) held(job func(*leases) job.ID) (Held, error) {
	if err := q.answering(); err != nil {
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
	for name := range l.byWorker {
		l.wake(name)
	}
	l.byJob, l.byToken, l.byWorker = nil, nil, nil
	if m == nil {
		return
	}
	l.byJob, l.byToken, l.byWorker = map[job.ID]Held{}, map[job.Token]job.ID{}, map[string]*holder{}
	for _, n := range m.Workers() {
		h := l.holder(n)
		h.worker, h.known = m.Worker(n)
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
				l.wake(h.Worker)
			} else {
				l.drop(c.Job)
			}
		case job.JobFreed:
			l.drop(c.Job)
		case job.WorkerPut:
			h := l.holder(c.Worker.Name)
			h.worker, h.known = c.Worker, true
			l.wake(c.Worker.Name)
		case job.WorkerRemoved:
			l.holder(c.Name).known = false
			l.wake(c.Name)
		default:
			// The others give and take no lease.
		}
	}
}

func (l *leases) put(id job.ID, a *job.Attempt, stopping bool) {
	l.byJob[id] = Held{Lease: job.Lease{Job: id, Attempt: a.Number, Token: a.Token}, Worker: a.Worker, Stopping: stopping}
	l.byToken[a.Token] = id
	l.holder(a.Worker).jobs[id] = struct{}{}
}

func (l *leases) drop(id job.ID) {
	h, ok := l.byJob[id]
	if !ok {
		return
	}
	delete(l.byToken, h.Lease.Token)
	delete(l.byJob, id)
	delete(l.holder(h.Worker).jobs, id)
	l.wake(h.Worker)
}

func (l *leases) holder(name string) *holder {
	h := l.byWorker[name]
	if h == nil {
		h = &holder{jobs: map[job.ID]struct{}{}, calls: map[*func()]struct{}{}}
		l.byWorker[name] = h
	}
	return h
}

// wake calls whoever waits for news of a worker, and forgets one that is not known any more.
func (l *leases) wake(name string) {
	h := l.byWorker[name]
	if h == nil {
		return
	}
	for call := range h.calls {
		(*call)()
	}
	clear(h.calls)
	if !h.known && len(h.jobs) == 0 {
		delete(l.byWorker, name)
	}
}
