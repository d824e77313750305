package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
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
		m:    &model{channels: map[string]job.Channel{}, failures: map[job.Identity]job.FailureCached{}, settings: map[settingKey]string{}},
		seen: map[string]int{}, faulty: true,
	}
	w.size = sizes[seed%uint64(len(sizes))]
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
	w.m.drawn = w
	if w.size.budget > 0 {
		w.m.lead = w.follow
	}
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
	// panicked is how the owner did, if it did.
	panicked string
	ids      uint64

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

	size     size
	followed followed
	together []*command // that are under way at the same time; nil: one comes after the other
	deciding bool       // the model follows a command that was decided in a round over its budget
	sealing  func(build job.ID)
}

// size is what a round takes.
type size struct {
	stage  int // jobs of one submission
	budget int // 0: more than any round needs
}

// sizes are taken in turn. Where rounds have a small budget, the model follows the engine through those over it; else it
// predicts everything.
var sizes = []size{{6, 0}, {6, 4}, {6, 0}, {40, 9}, {6, 0}, {6, 20}, {6, 0}, {40, 3}}

// leaseCall is a worker's call that waits, or has been answered.
type leaseCall struct {
	worker  string
	session job.ID
	want    int
	load    float64
	due     []*mJob // what it must be given
	kind    string  // or why it must end without work
	asked   *command
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
		StageSize: w.size.stage, RoundBudget: w.size.budget, Log: slog.New(clerk{slog.DiscardHandler, w.store}),
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
	go func() {
		defer func() {
			if r := recover(); r != nil {
				w.panicked = fmt.Sprintf("the owner panicked: %v\n%s", r, debug.Stack())
				w.ran <- nil
			}
		}()
		w.ran <- q.Run(ctx)
	}()
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
	w.inspect(func(*job.Machine, *sched.Scheduler) {})
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

// drawnTurn takes over which age the engine had handed out; it never goes down.
func (w *world) drawnTurn(j *mJob) (turn int64) {
	for _, c := range w.changes() {
		if c, ok := c.(job.JobRetried); ok && c.Job == j.ID && c.Attempt.Number == j.last.Number {
			turn = c.Tally.Turn
		}
	}
	for _, k := range w.m.jobs {
		if k.turn != nil && k.turn.drawn > turn {
			w.fail("job %s was put back to %d, before %s, which was put back to %d before", j.ID, turn, k.ID, k.turn.drawn)
		}
	}
	return turn
}

func (w *world) drawnUntil(k *mWorker, least, span time.Duration) (at job.Time) {
	first, most := w.m.now.Add(least), w.m.now.Add(least+span)
	for _, c := range w.changes() {
		if c, ok := c.(job.WorkerPut); ok && c.Worker.Name == k.Name {
			if at = c.Worker.Until; w.m.lead != nil && at >= first && at <= most {
				break // others may follow
			}
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

// batches gives those that are not compared yet.
func (w *world) batches() []batch {
	return append(w.stored[:len(w.stored):len(w.stored)], w.store.batches...)
}

// changes gives what was stored and is not compared yet.
func (w *world) changes() (list []job.Change) {
	for _, b := range w.batches() {
		list = append(list, b.changes...)
	}
	return list[w.followed.changes:]
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
		w.store.machine, w.store.sched = m, s
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
		if w.m.lead != nil && w.chance(2) {
			w.store.spare = w.rng.IntN(4)
		}
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
	notReady = "not-ready"
	invalid  = "invalid"
	conflict = "conflict"
	cyclic   = "cycle"
	exists   = "exists"
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
	case errors.Is(err, job.ErrExists):
		return exists
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
	case errors.Is(err, job.ErrNotReady):
		return notReady
	case errors.Is(err, context.Canceled):
		return "gone"
	}
	return err.Error()
}

// command is a command on its way to the engine.
type command struct {
	op        string
	call      func(context.Context) error
	predict   func() string // gives the kind of the answer; nil: it gives itself account of it
	then      []func()      // once it is answered
	ctx       context.Context
	err       error
	ended     chan struct{} // closed when it is answered, if others come meanwhile
	want      string        // the prediction
	predicted bool
	once      bool // no request id makes it and its repeat one
}

// do gives one command, meets what goes wrong meanwhile, repeats it under the same request id until it is answered, and
// compares the kind of the answer with the prediction.
func (w *world) do(op string, call func(context.Context) error, predict func() string, then ...func()) {
	c := &command{op: op, call: call, predict: predict, then: then, ctx: context.Background()}
	if w.together == nil {
		w.arm()
	}
	if w.store.armed != noFault || w.chance(3) || w.together != nil {
		c.ctx = queue.WithRequest(c.ctx, w.newID())
	}
	if w.together != nil {
		w.launch(c)
		return
	}
	w.carry(c)
}

// doOnce is do of a command whose repeat is another: no request id makes the two one.
func (w *world) doOnce(op string, call func(context.Context) error, predict func() string, then ...func()) {
	w.arm()
	w.carry(&command{op: op, call: call, predict: predict, then: then, ctx: context.Background(), once: true})
}

// carry repeats a command until it is answered.
func (w *world) carry(c *command) {
	for {
		w.note("%s", c.op)
		err := c.call(w.placed(c))
		w.settle()
		met := w.met(func() { w.foresee(c) })
		if fatal(met) || met == lookupFails {
			if kindOf(err) == again {
				c.predicted = c.predicted && !c.once && (w.m.lead == nil || c.kept())
				continue
			}
			if !c.predicted || w.m.lead == nil {
				w.fail("%s met %q and was answered %v", c.op, met, err)
			}
		}
		w.answered(c, err)
		return
	}
}

// kept: a repeat gets the same answer. A refusal is not kept, but that a lease was lost is an answer.
func (c *command) kept() bool { return c.want == done || c.want == lost }

// foresee has the model do what a command did.
func (w *world) foresee(c *command) {
	if w.m.lead != nil {
		w.m.round()
	}
	if !c.predicted {
		c.want, c.predicted = c.predict(), true
	}
	w.m.round()
}

// answered compares an answer with the prediction.
func (w *world) answered(c *command, err error) {
	word, _, _ := strings.Cut(c.op, " ")
	kind := kindOf(err)
	w.seen[word+" "+kind]++
	w.note("    %q", kind)
	if kind != c.want {
		w.fail("%s was answered %q (%v), want %q", c.op, kind, err, c.want)
	}
	for _, f := range c.then {
		f()
	}
}

// fatal: the owner is gone, or has loaded anew.
func fatal(met fault) bool { return met == diesBefore || met == diesAfter || met == down }

// met takes account of a fault that a round met. happened gives the model what the round did.
func (w *world) met(happened func()) fault {
	w.rested()
	if w.panicked != "" {
		w.fail("%s", w.panicked)
	}
	if w.store.wrong != nil {
		w.fail("in a round over its budget: %v", w.store.wrong)
	}
	met, at := w.store.fired, w.store.at
	w.store.fired, w.store.armed, w.store.spare = noFault, noFault, 0
	if met != noFault {
		w.note("    met %s", met)
		w.seen["fault "+met.String()]++
	}
	if fatal(met) && w.m.lead != nil {
		w.m.advance(at-1, w.looks())
		w.m.now = max(w.m.now, at)
		w.follow()
		if w.followed.over {
			w.seen["over the budget: death"]++
		}
	}
	before := w.followed
	switch met {
	case diesBefore, diesAfter:
		w.m.advance(at-1, nil)
		if met == diesAfter && w.m.lead == nil {
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
		for _, c := range w.leases {
			c.life = 0
		}
	case lookupFails:
		if w.m.lead != nil {
			w.m.round()
		}
	default:
		happened()
	}
	if fatal(met) {
		for _, c := range w.leases {
			c.kind = w.told(c, met, &before)
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
	for _, b := range w.batches() {
		at = append(at, b.at)
	}
	for _, m := range w.store.pending() {
		at = append(at, m.when)
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
