package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
	"github.com/headrace/headrace/store/memory"
)

// Result is what a run leaves.
type Result struct {
	// Feed is the whole change feed, encoded: the same seed gives the same bytes.
	Feed []byte
	// Seen counts each operation with the kind of its reply.
	Seen map[string]int
}

// Failure says where engine and model part.
type Failure struct {
	Seed       uint64
	Step       int
	Difference string
	Trace      []string // the last steps, oldest first
}

// traceLen is how many steps a failure shows.
const traceLen = 40

func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d, step %d:\n\t%s\n%s\nto run it again: make sim SEEDS=1 FIRST=%d",
		f.Seed, f.Step, strings.Join(f.Trace, "\n\t"), f.Difference, f.Seed)
}

// Run makes a world from the seed, takes so many steps in it, lets it come to rest, and reports a *Failure if engine
// and model ever differ. It must be called in a synctest bubble, whose Wait is settle.
func Run(seed uint64, steps int, settle func()) (res Result, err error) {
	w := &world{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), settle: settle, disk: memory.NewDisk(),
		m:    &model{channels: map[string]job.Channel{}, failures: map[job.Identity]job.FailureCached{}},
		seen: map[string]int{}, faulty: true, abandoned: map[job.ID]bool{},
	}
	w.m.now = w.now()
	for _, name := range channels {
		w.m.channels[name] = job.DefaultChannel(name)
	}
	defer func() {
		res = Result{w.feed, w.seen}
		switch r := recover().(type) {
		case nil:
		case *Failure:
			err = r
		default:
			panic(r)
		}
		w.stop()
	}()
	w.m.drawnWake, w.m.drawnUntil, w.m.drawnRoot = w.drawnWake, w.drawnUntil, w.drawnRoot
	w.open()
	w.found()
	for w.step = 1; w.step <= steps; w.step++ {
		w.act()
		w.verify()
	}
	w.rest()
	return res, nil
}

// world is a run under way. It belongs to one goroutine; the engine's is quiet whenever the world looks.
type world struct {
	seed   uint64
	step   int
	rng    *rand.Rand
	settle func()
	faulty bool // things still go wrong

	disk   *memory.Disk
	store  *store
	q      *queue.Queue
	life   int // of the queue
	cancel context.CancelFunc
	ran    chan error
	ids    uint64

	m      *model
	leases []*leaseCall
	awaits []*awaitCall
	work   []*work // what workers were given, newest last
	past   []job.ID
	stored []batch       // by owners before this one, not compared yet
	rounds []queue.Round // that a watcher was shown and that are not compared yet
	number uint64        // of the last round compared
	feed   []byte
	trace  []string
	seen   map[string]int
	// abandoned are the jobs of large submissions that were refused: nothing of them stays.
	abandoned map[job.ID]bool
}

// leaseCall is a worker's call that waits, or has been answered.
type leaseCall struct {
	worker  string
	session job.ID
	want    int
	load    float64
	due     []*mJob // what it must be given
	kind    string  // or why it must end without work
	life    int
	cancel  context.CancelFunc
	done    chan struct{}
	got     []queue.Assignment
	err     error
}

// awaitCall waits for the end of a build.
type awaitCall struct {
	build job.ID
	life  int
	done  chan struct{}
	got   job.BuildRecord
	err   error
}

// work is an attempt as its worker knows it.
type work struct {
	queue.Assignment
	worker   string
	life     int
	over     bool // the worker has told its end
	reported job.Report
}

func (w *world) fail(format string, args ...any) {
	panic(&Failure{w.seed, w.step, fmt.Sprintf(format, args...), w.trace})
}

func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf("%4d %s  ", w.step, time.Now().UTC().Format("02 15:04:05")) + fmt.Sprintf(format, args...)
	w.trace = append(w.trace[max(0, len(w.trace)-traceLen+1):], line)
}

func (w *world) now() job.Time { return job.At(time.Now()) }

func (w *world) newID() (id job.ID) {
	w.ids++
	binary.BigEndian.PutUint64(id[8:], w.ids)
	id[0] = 0x10
	return id
}

// wholeSeconds makes jitter of whole seconds, so that equal times happen.
type wholeSeconds struct{ *rand.PCG }

// Uint64 implements rand.Source.
func (s wholeSeconds) Uint64() uint64 { return s.PCG.Uint64() % 1000 * uint64(time.Second) }

// open gives the disk a new owner.
func (w *world) open() {
	w.life++
	w.store = &store{Store: w.disk.Open()}
	tokens := rand.New(rand.NewPCG(w.seed, uint64(w.life)<<32))
	q, err := queue.Open(queue.Config{
		Store: w.store, History: w.store.Store, NewID: w.newID, Random: wholeSeconds{rand.NewPCG(w.seed, uint64(w.life))},
		StageSize: stageSize,
		NewToken: func() (t job.Token) {
			binary.BigEndian.PutUint64(t[:], tokens.Uint64())
			binary.BigEndian.PutUint64(t[8:], tokens.Uint64())
			return t
		},
	})
	if err != nil {
		w.fail("open: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.q, w.cancel, w.ran = q, cancel, make(chan error, 1)
	go func() { w.ran <- q.Run(ctx) }()
	from := w.number + uint64(len(w.rounds))
	go func() {
		_ = q.Watch(ctx, from, func(r queue.Round) error { // it ends with the queue
			w.rounds = append(w.rounds, r)
			return nil
		})
	}()
	w.settle()
}

// stop ends the owner, as kill would.
func (w *world) stop() {
	if w.q == nil {
		return
	}
	w.cancel()
	<-w.ran
	w.settle()
}

// reopen replaces a dead owner, and lets the model know.
func (w *world) reopen() {
	w.stop()
	w.stored, w.store.batches = append(w.stored, w.store.batches...), nil
	w.open()
	w.m.restart(w.store.loaded)
	w.note("a new owner")
}

// drawnWake takes over the jitter that the engine drew.
func (w *world) drawnWake(j *mJob, least, span time.Duration) (at job.Time) {
	for _, c := range w.changes() {
		if c, ok := c.(job.JobRetried); ok && c.Job == j.ID && c.Attempt.Number == j.last.Number {
			at = c.Wake
		}
	}
	return w.within("back-off of "+j.ID.String(), at, least, span)
}

func (w *world) drawnUntil(k *mWorker, least, span time.Duration) (at job.Time) {
	for _, c := range w.changes() {
		if c, ok := c.(job.WorkerPut); ok && c.Worker.Name == k.Name {
			at = c.Worker.Until
		}
	}
	return w.within("quarantine of "+k.Name, at, least, span)
}

func (w *world) drawnRoot(j *mJob) (root job.ID) {
	for _, c := range w.changes() {
		if c, ok := c.(job.JobEnded); ok && c.Job == j.ID {
			root = c.End.Root
		}
	}
	return root
}

// changes gives what was stored and is not compared yet.
func (w *world) changes() (list []job.Change) {
	for _, b := range w.stored {
		list = append(list, b.changes...)
	}
	for _, b := range w.store.batches {
		list = append(list, b.changes...)
	}
	return list
}

func (w *world) within(what string, at job.Time, least, span time.Duration) job.Time {
	first := w.m.now.Add(least)
	if at < first || at > first && at >= first.Add(span) {
		w.fail("%s until %d, want %d to %d", what, at, first, first.Add(span))
	}
	return at
}

// inspect looks at the engine's state. A difference that it finds is the world's, not the owner's, to fail by.
func (w *world) inspect(look func(*job.Machine, *sched.Scheduler)) {
	var found any
	err := w.q.Inspect(context.Background(), func(m *job.Machine, s *sched.Scheduler) {
		defer func() { found = recover() }()
		look(m, s)
	})
	if found != nil {
		panic(found)
	}
	if err != nil {
		w.fail("inspect: %v", err)
	}
}

// arm lets the next round meet a fault, now and then.
func (w *world) arm() {
	if w.faulty && w.chance(8) {
		w.store.armed = fault(1 + w.rng.IntN(int(faults)-1))
	}
}

// chance is true once in n times.
func (w *world) chance(n int) bool { return w.rng.IntN(n) == 0 }

func pick[T any](w *world, list ...T) T { return list[w.rng.IntN(len(list))] }

// The kinds of replies. Each but done is a refusal.
const (
	done     = ""
	notFound = "not-found"
	ended    = "ended"
	busy     = "busy"
	needed   = "needed"
	lost     = "lease-lost"
	alive    = "worker-live"
	off      = "signed-off"
	invalid  = "invalid"
	conflict = "conflict"
	cyclic   = "cycle"
	again    = "retry" // nobody knows whether it happened
)

// kindOf sorts errors by what the caller can do about them.
func kindOf(err error) string {
	var invalidErr *job.InvalidError
	var conflictErr *job.ConflictError
	var cycleErr *job.CycleError
	var neededErr *job.NeededError
	var retryErr *queue.RetryError
	switch {
	case err == nil:
		return done
	case errors.As(err, &retryErr), errors.Is(err, queue.ErrClosed):
		return again
	case errors.As(err, &invalidErr):
		return invalid
	case errors.As(err, &conflictErr):
		return conflict
	case errors.As(err, &cycleErr):
		return cyclic
	case errors.As(err, &neededErr):
		return needed
	case errors.Is(err, job.ErrNotFound):
		return notFound
	case errors.Is(err, job.ErrLeaseLost):
		return lost
	case errors.Is(err, job.ErrEnded):
		return ended
	case errors.Is(err, job.ErrBusy):
		return busy
	case errors.Is(err, job.ErrWorkerLive):
		return alive
	case errors.Is(err, job.ErrSignedOff):
		return off
	case errors.Is(err, context.Canceled):
		return "gone"
	}
	return err.Error()
}

// do gives one command, meets what goes wrong meanwhile, repeats it under the same request id until it is answered, and
// compares the kind of the answer with the prediction.
func (w *world) do(op string, call func(context.Context) error, predict func() string) {
	ctx := context.Background()
	w.arm()
	if w.store.armed != noFault || w.chance(3) {
		ctx = queue.WithRequest(ctx, w.newID())
	}
	want, predicted := "", false
	foresee := func() {
		if !predicted {
			want, predicted = predict(), true
		}
		w.m.round()
	}
	for {
		w.note("%s", op)
		err := call(ctx)
		w.settle()
		if met := w.met(foresee); met == diesBefore || met == diesAfter || met == down || met == lookupFails {
			if kindOf(err) != again {
				w.fail("%s met %q and was answered %v", op, met, err)
			}
			continue
		}
		word, _, _ := strings.Cut(op, " ")
		kind := kindOf(err)
		w.seen[word+" "+kind]++
		w.note("    %q", kind)
		if kind != want {
			w.fail("%s was answered %q (%v), want %q", op, kind, err, want)
		}
		return
	}
}

// met takes account of a fault that a round met. happened gives the model what the round did.
func (w *world) met(happened func()) fault {
	w.rested()
	met, at := w.store.fired, w.store.at
	w.store.fired, w.store.armed = noFault, noFault
	if met != noFault {
		w.note("    met %s", met)
		w.seen["fault "+met.String()]++
	}
	switch met {
	case diesBefore, diesAfter:
		w.m.advance(at-1, nil)
		if met == diesAfter {
			w.m.now = at
			happened()
		}
		w.reopen()
	case down:
		w.m.advance(at-1, nil)
		w.m.restart(w.store.loaded)
		for _, k := range w.work {
			k.life = 0 // nobody is told any more
		}
	case lookupFails:
	default:
		happened()
	}
	if met == diesBefore || met == diesAfter || met == down {
		for _, c := range w.leases {
			c.kind = again
		}
	}
	// A look is a round, too, in which the engine may find that a reservation has moved with the time.
	w.inspect(func(*job.Machine, *sched.Scheduler) {})
	w.settle()
	w.m.advance(w.now(), w.looks())
	w.m.round()
	return met
}

// rested waits until a store that went wrong has come to itself.
func (w *world) rested() {
	for n := 0; w.store.slow || w.store.blind || w.store.armed == down && w.store.fired == down; n++ {
		if n > 60 {
			w.fail("the owner does not come back after %s", w.store.fired)
		}
		w.pass(time.Second)
	}
	if late := time.Since(time.Now().Truncate(time.Second)); late > 0 {
		w.pass(time.Second - late)
	}
}

// looks gives the moments of rounds that are not compared yet: the engine may look without need.
func (w *world) looks() (at []job.Time) {
	for _, b := range append(w.stored[:len(w.stored):len(w.stored)], w.store.batches...) {
		at = append(at, b.at)
	}
	return at
}

// pass lets the owner go on for so long.
func (w *world) pass(d time.Duration) {
	w.store.turns.Add(1)
	time.Sleep(d)
	w.settle()
}

// sleep lets time pass.
func (w *world) sleep(d time.Duration) {
	w.note("sleep %v", d)
	w.arm()
	w.pass(d)
	w.met(w.m.round)
	w.seen["sleep "]++
}
