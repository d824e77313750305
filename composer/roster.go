package composer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// A composer worker asks for other types at each call, while a worker of the engine is registered with what it takes. So each set of
// types and channels that somebody asks for is a worker of the engine, in the name of the one who asks: it stays registered, and what
// it was given is its own, also after a restart. A worker that was inserted is one more, which takes nothing: it is stored so that it
// outlives this process.
//
//	composer/WORKER         a worker that was inserted; its channel and its architecture
//	composer/WORKER/REACH   what it asks for; WORKER is "anybody" for callers that say no worker, or none that is known

const (
	prefix  = "composer/"
	anybody = "anybody"
)

// reach is what a caller asks for, and in whose name.
type reach struct {
	worker          uuid.UUID
	types, channels []string
}

// name gives that of the engine's worker.
func (r *reach) name(known bool) string {
	who := anybody
	if known {
		who = r.worker.String()
	}
	b := make([]byte, 0, 512) // most lists fit
	b = appendSet(appendSet(b, r.types), r.channels)
	sum := sha256.Sum256(b)
	return prefix + who + "/" + hex.EncodeToString(sum[:8])
}

// appendSet writes a list, whatever its order, as fmt does by %q. Names are stored: it must not change.
func appendSet(b []byte, list []string) []byte {
	if len(list) > 1 {
		list = slices.Compact(slices.Sorted(slices.Values(list)))
	}
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendQuote(b, s)
	}
	return append(b, "]\n"...)
}

// sessionOf gives the session of a worker of the engine. It is always the same: whoever speaks for it goes on where the last one was.
func sessionOf(name string) job.ID {
	sum := sha256.Sum256([]byte(name))
	return job.ID(sum[:16])
}

// roster is who may be given jobs.
type roster struct {
	engine   registrar
	handouts *handouts

	mu      sync.Mutex
	loaded  bool
	loading chan struct{} // closed when whoever loads it has ended; nil: nobody does
	workers map[uuid.UUID]*member
	strays  map[string]*stray // by name
}

// stray is a worker of the engine in whose name anybody may ask. There are as many as there are sets of types and channels, so that
// those for which nobody has asked for longest are removed.
type stray struct {
	calls int // under way
	last  time.Time
}

// straysMost is how many are kept.
const straysMost = 1000

// worker is what composer's Worker is made of.
type worker = struct {
	ID      uuid.UUID
	Channel string
	Arch    string
}

// member is a worker that was inserted.
type member struct {
	channel, arch string
	seen          time.Time
	leaving       chan struct{} // it is being deleted, and asks as anybody; closed when that has ended. nil: it is not
}

func newRoster(e registrar, h *handouts) roster {
	return roster{engine: e, handouts: h, workers: map[uuid.UUID]*member{}, strays: map[string]*stray{}}
}

// load reads the workers that are stored, when they are first asked for; each was heard of just now, as far as anybody knows. It waits
// no longer than ctx, or Patience.
func (r *roster) load(ctx context.Context) error {
	patient, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for {
		r.mu.Lock()
		loaded, other := r.loaded, r.loading
		mine := make(chan struct{})
		if !loaded && other == nil {
			r.loading = mine
		}
		r.mu.Unlock()
		switch {
		case loaded:
			return nil
		case other == nil:
			err := r.fetch(patient)
			r.mu.Lock()
			r.loading = nil
			r.mu.Unlock()
			close(mine)
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				return &queue.RetryError{Cause: errPatience}
			}
			return err
		}
		select {
		case <-other:
		case <-patient.Done():
			if ctx.Err() == nil {
				return &queue.RetryError{Cause: errPatience}
			}
			return ctx.Err()
		}
	}
}

func (r *roster) fetch(ctx context.Context) error {
	var views []queue.WorkerView
	err := untilDone(ctx, func(ctx context.Context) (err error) {
		views, err = r.engine.Workers(ctx)
		// Nobody was given anything by this process yet.
		for i := 0; err == nil && i < len(views); i++ {
			if strings.HasPrefix(views[i].Name, prefix) {
				err = r.handouts.inherit(views[i].Name)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for i := range views {
		if id, reach := parse(views[i].Name); id != uuid.Nil && reach == "" {
			r.workers[id] = &member{channel: unescape(first(views[i].Channels)), arch: unescape(first(views[i].Systems)), seen: now}
		}
	}
	for i := range views {
		id, reach := parse(views[i].Name)
		if reach != "" && r.workers[id] == nil {
			r.strays[views[i].Name] = &stray{}
		}
	}
	r.loaded = true
	return nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// parse takes a name apart; uuid.Nil: nobody's.
func parse(name string) (worker uuid.UUID, reach string) {
	rest, ours := strings.CutPrefix(name, prefix)
	if !ours {
		return uuid.Nil, ""
	}
	who, reach, _ := strings.Cut(rest, "/")
	worker, err := uuid.Parse(who)
	if err != nil {
		return uuid.Nil, reach
	}
	return worker, reach
}

// as calls f in the name of an engine's worker that has the reach, and registers that if the engine does not know it.
func (r *roster) as(ctx context.Context, want reach, f func(name string, session job.ID) error) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	for {
		name, done := r.begin(&want)
		err := f(name, sessionOf(name))
		r.trim(ctx, done())
		if !errors.Is(err, queue.ErrNotFound) {
			return err
		}
		if r.name(&want) != name {
			continue // it was deleted meanwhile: it must not come back
		}
		err = r.enter(ctx, name, &want)
		if r.name(&want) != name {
			r.trim(ctx, name) // it was deleted since, and may have come back by this, whatever the error
		}
		if err != nil {
			return err
		}
	}
}

// name gives in whose name the reach is asked for at this moment.
func (r *roster) name(want *reach) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return want.name(r.known(want))
}

// known reports whether who asks is a worker that was inserted. The caller holds the lock.
func (r *roster) known(want *reach) bool {
	m := r.workers[want.worker]
	return m != nil && m.leaving == nil
}

// begin notes that somebody asks. done is called when he does so no more, and gives the name of a stray that is one too many; "": none.
func (r *roster) begin(want *reach) (name string, done func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.known(want)
	name = want.name(known)
	if known {
		return name, func() string { return "" }
	}
	s := r.strays[name]
	if s == nil {
		s = &stray{}
		r.strays[name] = s
	}
	s.calls++
	return name, func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		s.calls--
		s.last = time.Now()
		if len(r.strays) <= straysMost {
			return ""
		}
		oldest := ""
		for n, x := range r.strays {
			if x.calls == 0 && (oldest == "" || x.last.Before(r.strays[oldest].last)) {
				oldest = n
			}
		}
		delete(r.strays, oldest)
		return oldest
	}
}

// trim removes a stray. One that still has a job, or that cannot be removed, is looked at again later.
func (r *roster) trim(ctx context.Context, name string) {
	if name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := r.engine.RemoveWorker(ctx, name, false); err == nil || errors.Is(err, queue.ErrNotFound) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.strays[name] == nil {
		r.strays[name] = &stray{last: time.Now()}
	}
}

// enter registers an engine's worker. That others do so at the same time is no harm: it is the same session, and the same reach.
func (r *roster) enter(ctx context.Context, name string, want *reach) error {
	return r.engine.Register(ctx, job.Worker{
		Name: name, Kinds: want.types, Channels: want.channels, Slots: job.MaxSlots, Session: sessionOf(name),
	})
}

// InsertWorker makes a worker known, and gives its id. Error: *job.InvalidError.
func (q *JobQueue[W]) InsertWorker(channel, arch string) (uuid.UUID, error) {
	ctx, r := context.Background(), &q.roster
	if err := r.load(ctx); err != nil {
		return uuid.Nil, err
	}
	place, err := channelWord(channel)
	if err != nil {
		return uuid.Nil, err
	}
	id := uuid.New()
	name := prefix + id.String()
	w := job.Worker{Name: name, Channels: []string{place}, Slots: 1, Session: sessionOf(name)}
	if arch != "" {
		system, err := word("arch", arch)
		if err != nil {
			return uuid.Nil, err
		}
		w.Systems = []string{system}
	}
	err = steadily(ctx, func(ctx context.Context) error { return r.engine.Register(ctx, w) })
	if err != nil {
		return uuid.Nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers[id] = &member{channel: channel, arch: arch, seen: time.Now()}
	return id, nil
}

// UpdateWorkerStatus notes that the worker lives. Error: Errors.WorkerNotExist.
func (q *JobQueue[W]) UpdateWorkerStatus(workerID uuid.UUID) error {
	r := &q.roster
	if err := r.load(context.Background()); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.workers[workerID]
	if m == nil {
		return q.errs.WorkerNotExist
	}
	m.seen = time.Now()
	return nil
}

// Workers lists the workers that were not heard of for longer than the given time, sorted by id.
func (q *JobQueue[W]) Workers(olderThan time.Duration) ([]W, error) {
	r := &q.roster
	if err := r.load(context.Background()); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]W, 0, len(r.workers))
	now := time.Now()
	for id, m := range r.workers {
		if now.Sub(m.seen) > olderThan {
			list = append(list, W{ID: id, Channel: m.channel, Arch: m.arch})
		}
	}
	slices.SortFunc(list, func(a, b W) int { return cmp.Compare(worker(a).ID.String(), worker(b).ID.String()) })
	return list, nil
}

// DeleteWorker forgets a worker. Errors: Errors.WorkerNotExist, Errors.ActiveJobs while jobs run that it was given; those that were
// cancelled meanwhile do not count.
func (q *JobQueue[W]) DeleteWorker(workerID uuid.UUID) error {
	ctx, r := context.Background(), &q.roster
	if err := r.load(ctx); err != nil {
		return err
	}
	m, err := q.dismiss(workerID)
	if err != nil {
		return err
	}
	err = q.leave(ctx, workerID)
	r.mu.Lock()
	defer r.mu.Unlock()
	close(m.leaving)
	if m.leaving = nil; err == nil {
		delete(r.workers, workerID)
	}
	return err
}

// dismiss has a worker ask as anybody from now on, as it is being deleted. Whether it is there is not known while somebody else deletes it:
// he may be refused. Error: Errors.WorkerNotExist.
func (q *JobQueue[W]) dismiss(workerID uuid.UUID) (*member, error) {
	r := &q.roster
	var wait turn
	for {
		r.mu.Lock()
		m := r.workers[workerID]
		if m == nil {
			r.mu.Unlock()
			return nil, q.errs.WorkerNotExist
		}
		other := m.leaving
		if other == nil {
			m.leaving = make(chan struct{})
		}
		r.mu.Unlock()
		if other == nil {
			return m, nil
		}
		if err := wait.behind(other); err != nil {
			return nil, err
		}
	}
}

// leave removes the workers of the engine that stand for one, unless it has a job that runs.
func (q *JobQueue[W]) leave(ctx context.Context, workerID uuid.UUID) error {
	q.handouts.settle(ctx)
	views, err := read(ctx, q.engine.Workers)
	if err != nil {
		return err
	}
	var idle, busy, itself []string
	var stopping []job.Lease
	for i := range views {
		id, reach := parse(views[i].Name)
		switch {
		case id != workerID:
			continue
		case reach == "":
			itself = append(itself, views[i].Name)
		case len(views[i].Leases) == 0:
			idle = append(idle, views[i].Name)
		default:
			busy = append(busy, views[i].Name)
		}
		for _, id := range views[i].Leases {
			h, err := read(ctx, func(ctx context.Context) (queue.Held, error) { return q.engine.LeaseOf(ctx, id) })
			switch {
			case errors.Is(err, queue.ErrNotFound): // it has ended
			case err != nil:
				return err
			case h.Worker != views[i].Name: // it has been requeued, and another worker has it
			case !h.Stopping:
				return q.errs.ActiveJobs
			default:
				stopping = append(stopping, h.Lease)
			}
		}
	}
	// One that waits may be given a job at any time. Then nothing has been confirmed that the worker is still to learn of.
	if err := q.remove(ctx, idle); err != nil {
		return err
	}
	for _, l := range stopping {
		if err := q.confirm(ctx, l); err != nil {
			return err
		}
	}
	return q.remove(ctx, append(busy, itself...)) // itself last, so that what is cut off can be repeated
}

// remove removes workers of the engine. Error: Errors.ActiveJobs.
func (q *JobQueue[W]) remove(ctx context.Context, names []string) error {
	for _, n := range names {
		err := steadily(ctx, func(ctx context.Context) error { return q.engine.RemoveWorker(ctx, n, false) })
		if errors.Is(err, job.ErrBusy) {
			return q.errs.ActiveJobs
		}
		if err != nil && !errors.Is(err, queue.ErrNotFound) {
			return err
		}
	}
	return nil
}
