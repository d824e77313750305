package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
)

// maxSync bounds the body of a worker's call, and maxFinish that of one report.
const (
	maxSync   = 64 << 20
	maxFinish = 17 << 20
)

func (s *Server) syncOperations() {
	s.raw(operation{
		id: "sync", own: true, method: http.MethodPost, path: "/workers/{name}/sync", tag: "workers", role: worker,
		summary: "The whole call of a worker",
		about:   "The worker states who it is, what it runs, what has ended and is not yet acknowledged, and how much it wants; the answer acknowledges, starts and stops. It can be repeated without harm. If there is nothing to say it is held, as a long poll; see the description of the protocol.",
	}, &body{mediaType: "application/json", of: reflect.TypeFor[api.Sync]()}, &body{mediaType: "application/json", of: reflect.TypeFor[api.SyncReply]()},
		[]param{{name: "name", in: "path", about: "The worker.", kind: "string"}},
		func(w http.ResponseWriter, r *http.Request) error {
			var in api.Sync
			if err := s.read(w, r, maxSync, &in); err != nil {
				return err
			}
			reply, err := s.sync(r.Context(), r.PathValue("name"), &in)
			if err != nil {
				return err
			}
			return write(w, http.StatusOK, reply)
		})
}

// lines are the workers that call, as this server knows them. What is here is volatile: it is made anew from what they say.
type lines struct {
	mu     sync.Mutex
	byName map[string]*line
}

// line is a worker that calls.
type line struct {
	session job.ID
	number  uint64                  // of its newest call
	hang    context.CancelCauseFunc // ends the call that is held
	left    chan struct{}           // closed once the newest call, and those before it, are over
	seen    time.Time
	under   int       // calls under way
	quiet   time.Time // when the last of them ended
	machine *api.Machine
	version string
	over    bool // it has signed off
}

// errSuperseded ends a call after which a later one has come.
var errSuperseded = errors.New("superseded by a later call")

// entered is a call that is let in.
type entered struct {
	held   context.Context //nolint:containedctx // of this call alone
	wake   func()          // ends held
	before <-chan struct{} // closed once all earlier calls are over: until then it is not known what the worker was given
	leave  func()          // must be called in the end
}

// enter notes a call of a session that the engine knows. ok is false if a later one has come; else a call that is held is ended, and this
// one when the next comes.
func (l *lines) enter(ctx context.Context, name string, in *api.Sync) (e entered, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.byName[name]
	if of == nil || of.session != in.Session {
		if of != nil && of.hang != nil {
			of.hang(errSuperseded)
		}
		of = &line{session: in.Session, left: make(chan struct{})}
		close(of.left)
		l.byName[name] = of
	}
	if in.Number != 0 && in.Number < of.number { // The same one again is a repeat, whose answer was lost.
		return entered{}, false
	}
	if of.hang != nil {
		of.hang(errSuperseded)
	}
	of.number = max(of.number, in.Number)
	held, cancel := context.WithCancelCause(ctx)
	of.hang, of.seen = cancel, time.Now()
	of.under++
	if in.Machine != nil {
		of.machine = in.Machine
	}
	if in.Worker != nil {
		of.version = in.Worker.Version
	}
	earlier, left := of.left, make(chan struct{})
	of.left = left
	wake := func() { cancel(nil) }
	return entered{held: held, wake: wake, before: earlier, leave: func() {
		wake()
		<-earlier // They are not held any more.
		l.mu.Lock()
		of.under, of.quiet = of.under-1, time.Now()
		l.mu.Unlock()
		close(left)
	}}, true
}

// tell adds what is known of a worker's calls.
func (l *lines) tell(w *api.Worker, session job.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.byName[w.Name]
	if of == nil || of.session != session || session.IsZero() || of.over {
		return
	}
	w.Machine, w.Version, w.Seen = of.machine, of.version, timeAt(of.seen)
	w.Online = of.under > 0 || time.Since(of.quiet) < awayAfter
}

// awayAfter is how long after its last call a worker is thought to be there. One that runs has a call under way nearly always.
const awayAfter = 30 * time.Second

// silent says of workers that do not ask for work when they were last heard of.
func (l *lines) silent(near []api.Near) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range near {
		of := l.byName[near[i].Worker]
		switch {
		case near[i].Busy != sched.DoesNotAsk, of == nil: // It may make calls of other kinds.
		case of.over:
			near[i].Busy = "has signed off"
		default:
			if ago := time.Since(of.seen).Round(time.Second); ago >= silence {
				near[i].Busy = fmt.Sprintf("does not ask for work, and was last heard of %s ago", ago)
			}
		}
	}
}

// silence is how long a worker may say nothing between two calls before it is worth a word.
const silence = 5 * time.Second

// end notes that a session is over. A call of it that comes late, and describes it, must not make it known again.
func (l *lines) end(name string, session job.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.byName[name]; of != nil && of.session == session && of.hang != nil {
		of.hang(errSuperseded)
	}
	l.byName[name] = &line{session: session, over: true}
}

// isOver reports whether the session has signed off.
func (l *lines) isOver(name string, session job.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.byName[name]
	return of != nil && of.session == session && of.over
}

// wakeAll ends all calls that are held.
func (l *lines) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.byName {
		if of.hang != nil {
			of.hang(nil)
		}
	}
}

// call is one sync as it is worked on.
type call struct {
	s     *Server
	name  string
	in    *api.Sync
	reply api.SyncReply
	// stated are the attempts that the worker runs, ended those that it says have ended.
	stated, ended map[attempt]job.Lease
	// stopping are those that it says it stops: it need not be told again.
	stopping map[attempt]bool
}

// attempt names one: a worker may still have one of a job, stopped or not yet acknowledged, while it has the next.
type attempt struct {
	job    job.ID
	number int32
}

func attemptOf(l job.Lease) attempt { return attempt{l.Job, l.Attempt} }

// sync answers a worker's call. See api.Sync for the rules.
func (s *Server) sync(ctx context.Context, name string, in *api.Sync) (*api.SyncReply, error) {
	c := &call{s: s, name: name, in: in}
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := c.register(ctx); err != nil {
		return nil, err
	}
	e, ok := s.lines.enter(ctx, name, in)
	if !ok {
		return &api.SyncReply{Superseded: true}, nil
	}
	defer e.leave()
	in.Worker = nil // It need not be kept while the call is held.
	if err := c.finish(ctx); err != nil {
		return nil, err
	}
	select {
	case <-e.before:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := c.renew(ctx); err != nil {
		return nil, err
	}
	err := c.answer(ctx, e.held, e.wake)
	switch {
	case err == nil:
		c.reply.Wanted = s.WorkerVersion
		return &c.reply, nil
	case errors.Is(context.Cause(e.held), errSuperseded) && ctx.Err() == nil:
		return &api.SyncReply{Superseded: true}, nil
	}
	return nil, err
}

// check reads the leases that are stated.
func (c *call) check() error {
	if c.in.Version != api.ProtocolVersion {
		p := api.ProblemOf(api.ErrVersion)
		p.Detail = fmt.Sprintf("the worker speaks version %d of the protocol, the server version %d", c.in.Version, api.ProtocolVersion)
		return p
	}
	if c.in.Session.IsZero() {
		return api.Invalid("body.session", "must not be zero")
	}
	if c.in.Want < 0 || c.in.Want > job.MaxSlots {
		return api.Invalid("body.want", fmt.Sprintf("want 0 to %d", job.MaxSlots))
	}
	if !(c.in.WaitSeconds >= 0 && c.in.WaitSeconds <= 300) {
		return api.Invalid("body.wait_seconds", "want 0 to 300")
	}
	if err := checkMachine(c.in.Machine); err != nil {
		return err
	}
	if n := len(c.in.Running); n > 0 {
		c.stated, c.stopping = make(map[attempt]job.Lease, n), map[attempt]bool{}
	}
	if n := len(c.in.Finished); n > 0 {
		c.ended = make(map[attempt]job.Lease, n)
	}
	for i := range c.in.Running {
		l, err := leaseOf(fmt.Sprintf("body.running[%d]", i), &c.in.Running[i].Lease)
		if err != nil {
			return err
		}
		c.stated[attemptOf(l)] = l
		if c.in.Running[i].Stopping {
			c.stopping[attemptOf(l)] = true
		}
	}
	for i := range c.in.Finished {
		at := fmt.Sprintf("body.finished[%d]", i)
		l, err := leaseOf(at, &c.in.Finished[i].Lease)
		if err != nil {
			return err
		}
		if _, err := reportOf(at, l, &c.in.Finished[i]); err != nil {
			return err
		}
		c.ended[attemptOf(l)] = l
	}
	return nil
}

// register makes the worker known as it describes itself, unless it is.
func (c *call) register(ctx context.Context) error {
	standing, _, err := c.s.Queue.Standing(c.name, nil)
	unknown := errors.Is(err, queue.ErrNotFound)
	if err != nil && !unknown {
		return err
	}
	if c.in.Worker == nil {
		if unknown {
			return fmt.Errorf("worker %q: %w", clip(c.name), queue.ErrNotFound)
		}
		if err := covers(ctx, standing.Worker.Channels); err != nil {
			return err
		}
		return sessionIs(&standing.Worker, c.in.Session)
	}
	w := workerFrom(c.name, c.in.Session, c.in.Worker)
	if err := covers(ctx, w.Channels); err != nil {
		return err
	}
	if err := taken(ctx, standing.Worker.Channels, unknown); err != nil {
		return err
	}
	if err := checkSpec("body.worker", c.in.Worker); err != nil {
		return err
	}
	if c.s.lines.isOver(c.name, c.in.Session) {
		return fmt.Errorf("worker %q: %w", c.name, job.ErrSignedOff)
	}
	if !unknown && alike(&standing.Worker, &w) {
		return nil
	}
	running := make([]job.Lease, 0, len(c.stated)+len(c.ended))
	for _, l := range c.stated {
		running = append(running, l)
	}
	for _, l := range c.ended {
		running = append(running, l)
	}
	return c.s.register(ctx, "body.worker", w, running)
}

// register makes a worker known, whose description stands at a place of the request. The request id of a call is not that of its parts.
func (s *Server) register(ctx context.Context, at string, w job.Worker, running []job.Lease) error {
	err := s.Queue.Register(queue.WithRequest(ctx, job.ID{}), w, running...)
	var invalid *job.InvalidError
	if errors.As(err, &invalid) {
		switch invalid.Field {
		case "name":
			return api.Invalid("path.name", invalid.Want)
		case "session":
			return api.Invalid("body.session", invalid.Want)
		default:
			return api.Invalid(at+"."+invalid.Field, invalid.Want)
		}
	}
	if err != nil {
		return err
	}
	s.Log.Info("worker registered", "worker", w.Name, "slots", w.Slots)
	return nil
}

// taken refuses the name of a worker of other channels, which is none of this token's business; an administrator can remove it.
func taken(ctx context.Context, channels []string, unknown bool) error {
	if unknown || covers(ctx, channels) == nil {
		return nil
	}
	return forbidden("a worker of this name is of a channel that the token is not good for; take another name, or have an administrator remove it")
}

// checkSpec holds a worker's description to its bounds; the engine sees to those of its own.
func checkSpec(at string, w *api.WorkerSpec) error {
	const (
		most    = 64
		fastest = 1e6
	)
	switch {
	case len(w.Kinds) < 1 || len(w.Kinds) > most:
		return api.Invalid(at+".kinds", fmt.Sprintf("has %d entries, want 1 to %d", len(w.Kinds), most))
	case len(w.Channels) > most:
		return api.Invalid(at+".channels", fmt.Sprintf("has %d entries, want at most %d", len(w.Channels), most))
	case !(w.Speed >= 0 && w.Speed <= fastest):
		return api.Invalid(at+".speed", fmt.Sprintf("want 0 to %.0f", fastest))
	case len(w.Version) > job.MaxName:
		return api.Invalid(at+".version", fmt.Sprintf("has %d bytes, want at most %d", len(w.Version), job.MaxName))
	case strings.ContainsFunc(w.Version, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return api.Invalid(at+".version", "has a control character")
	}
	return nil
}

// checkMachine holds what is told of a machine to its bounds.
func checkMachine(m *api.Machine) error {
	if m == nil {
		return nil
	}
	const busiest = 1e6
	if !(m.Load >= 0 && m.Load <= busiest) {
		return api.Invalid("body.machine.load", fmt.Sprintf("want 0 to %.0f", busiest))
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"memory_bytes", m.Memory}, {"memory_free_bytes", m.MemoryFree}, {"disk_bytes", m.Disk}, {"disk_free_bytes", m.DiskFree}} {
		if n.value < 0 {
			return api.Invalid("body.machine."+n.name, "must not be negative")
		}
	}
	return nil
}

// covers reports whether the request may work in all of the channels.
func covers(ctx context.Context, channels []string) error {
	p := passOf(ctx)
	for _, c := range channels {
		if p == nil || !p.everywhere() && (c == job.AnyChannel || !p.sees(c)) {
			return forbidden("the token is not good for channel %q", c)
		}
	}
	return nil
}

// sessionIs reports whether it is the worker's.
func sessionIs(w *job.Worker, session job.ID) error {
	switch w.Session {
	case session:
		return nil
	case job.ID{}:
		return fmt.Errorf("worker %q: %w", w.Name, job.ErrSignedOff)
	}
	return fmt.Errorf("worker %q: %w", w.Name, job.ErrWorkerLive)
}

// atOnce is how many reports of one call are told to the engine at the same time.
const atOnce = 256

// finish records what has ended. What could not be recorded is not acknowledged, so that it comes again.
func (c *call) finish(ctx context.Context) error {
	if len(c.in.Finished) == 0 {
		return nil
	}
	ctx = queue.WithRequest(ctx, job.ID{})
	errs := make([]error, len(c.in.Finished))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range c.in.Finished {
		f := &c.in.Finished[i]
		report, err := reportOf(fmt.Sprintf("body.finished[%d]", i), c.ended[attempt{f.Job, f.Attempt}], f)
		if err != nil {
			return err
		}
		if len(c.in.Finished) == 1 {
			errs[i] = c.s.Queue.Finish(ctx, report)
			break
		}
		slots <- struct{}{}
		all.Go(func() {
			errs[i] = c.s.Queue.Finish(ctx, report)
			<-slots
		})
	}
	all.Wait()
	var again error
	for i, err := range errs {
		f := &c.in.Finished[i]
		ack := api.Acknowledged{Job: f.Job, Attempt: f.Attempt}
		switch {
		case err == nil:
		case errors.Is(err, job.ErrLeaseLost):
			ack.Problem = api.ProblemOf(err)
		default:
			again = err
			continue
		}
		c.reply.Acknowledged = append(c.reply.Acknowledged, ack)
	}
	if len(c.reply.Acknowledged) == 0 {
		return again
	}
	return nil
}

// renew renews the leases of what runs.
func (c *call) renew(ctx context.Context) error {
	if len(c.stated) == 0 {
		return nil
	}
	now := time.Now()
	beats := make([]queue.Beat, 0, len(c.in.Running))
	for i := range c.in.Running {
		r := &c.in.Running[i]
		b := queue.Beat{Lease: c.stated[attempt{r.Job, r.Attempt}]}
		if r.Silent != nil {
			b.Output = spoke(now, *r.Silent)
		}
		beats = append(beats, b)
	}
	// Which of them are lost is seen from where the worker stands.
	_, err := c.s.Queue.Heartbeat(ctx, beats...)
	return err
}

// spoke gives when an attempt last gave a sign of output that was so many seconds ago.
func spoke(now time.Time, silent float64) time.Time {
	return now.Add(-api.Duration(min(max(silent, 0), time.Duration(job.MaxDuration).Seconds())))
}

// answer says what is to be said; if it is nothing, it waits for it until held ends, as wake makes it. Ten thousand workers wait here: each
// context that a call would have of its own costs half a kilobyte.
func (c *call) answer(ctx, held context.Context, wake func()) error {
	wait := c.s.wait(c.in.WaitSeconds)
	if wait > 0 {
		defer time.AfterFunc(wait, wake).Stop()
	}
	if c.s.closing.Err() != nil || wait <= 0 {
		wake()
	}
	standing, forget, err := c.s.Queue.Standing(c.name, wake)
	if err != nil {
		return err
	}
	defer forget()
	if err := sessionIs(&standing.Worker, c.in.Session); err != nil {
		return err
	}
	if err := c.compare(ctx, &standing); err != nil {
		return err
	}
	told := len(c.reply.Acknowledged)+len(c.reply.Start)+len(c.reply.Stop) > 0 || c.reply.Drained != c.in.Drained || wait <= 0
	if c.in.Want > 0 && !c.reply.Drained {
		if err := c.lease(ctx, held, told); err != nil {
			return err
		}
		told = told || len(c.reply.Start) > 0
	}
	if told {
		return nil
	}
	<-held.Done()
	if errors.Is(context.Cause(held), errSuperseded) {
		return errSuperseded
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// It was woken, or time is up: what there is to say now is said.
	standing, _, err = c.s.Queue.Standing(c.name, nil)
	if err != nil {
		return err
	}
	if err := sessionIs(&standing.Worker, c.in.Session); err != nil {
		return err
	}
	return c.compare(ctx, &standing)
}

// lease takes new work, and waits for it unless there is something else to say.
func (c *call) lease(ctx, held context.Context, told bool) error {
	load := 0.0
	if c.in.Machine != nil {
		load = max(c.in.Machine.Load, 0)
	}
	lease := c.s.Queue.Lease
	if told {
		lease, held = c.s.Queue.LeaseReady, ctx
	}
	got, err := lease(held, c.name, c.in.Session, c.in.Want, load)
	if err != nil && held.Err() == nil {
		return err
	}
	for i := range got {
		c.reply.Start = append(c.reply.Start, viewStart(&got[i]))
	}
	return nil
}

// compare says where what the worker states differs from what it should do.
func (c *call) compare(ctx context.Context, standing *queue.Standing) error {
	c.reply.Drained = standing.Worker.Drained
	var missed []job.Lease
	known := make(map[attempt]job.Lease, len(standing.Held))
	for _, h := range standing.Held {
		of := attemptOf(h.Lease)
		known[of] = h.Lease
		switch {
		case c.stated[of] == h.Lease:
			if h.Stopping && !c.stopping[of] {
				c.reply.Stop = append(c.reply.Stop, api.Stop{Job: h.Lease.Job, Attempt: h.Lease.Attempt})
			}
		case c.ended[of] == h.Lease:
			// It could not be recorded, and comes again.
		case h.Stopping:
			// The worker never heard of it, or has forgotten it: it does not run.
			err := c.s.Queue.Finish(queue.WithRequest(ctx, job.ID{}), job.Report{Lease: h.Lease, Outcome: job.Cancelled})
			if err != nil && !errors.Is(err, job.ErrLeaseLost) {
				return err
			}
		default:
			missed = append(missed, h.Lease)
		}
	}
	for of, l := range c.stated {
		if known[of] != l && !c.stopping[of] {
			c.reply.Stop = append(c.reply.Stop, api.Stop{Job: l.Job, Attempt: l.Attempt})
		}
	}
	if len(missed) == 0 {
		return nil
	}
	again, err := c.s.Queue.Resume(ctx, missed...)
	if err != nil {
		return err
	}
	for i := range again {
		c.reply.Start = append(c.reply.Start, viewStart(&again[i]))
	}
	return nil
}

// leaseOf reads a lease of the wire.
func leaseOf(at string, in *api.Lease) (job.Lease, error) {
	token, err := job.ParseToken(in.Token)
	switch {
	case err != nil:
		return job.Lease{}, api.Invalid(at+".token", "want the token that came with the start")
	case in.Job.IsZero():
		return job.Lease{}, api.Invalid(at+".job", "must not be zero")
	case in.Attempt < 1:
		return job.Lease{}, api.Invalid(at+".attempt", "want at least 1")
	}
	return job.Lease{Job: in.Job, Attempt: in.Attempt, Token: token}, nil
}

// reportOf reads a report of the wire.
func reportOf(at string, lease job.Lease, in *api.Finished) (job.Report, error) {
	r := job.Report{Lease: lease, Message: in.Message, Result: in.Result, NoRetry: in.NoRetry}
	var ok bool
	switch r.Outcome, ok = job.ParseOutcome(in.Outcome); {
	case !ok, r.Outcome == job.DependencyFailed, r.Outcome == job.Unsupported:
		return r, api.Invalid(at+".outcome", "want succeeded, failed, timed-out, aborted or cancelled")
	case len(in.Message) > job.MaxMessage:
		return r, api.Invalid(at+".message", fmt.Sprintf("has %d bytes, want at most %d", len(in.Message), job.MaxMessage))
	case len(in.Result) > job.MaxResult:
		return r, api.Invalid(at+".result", fmt.Sprintf("has %d bytes, want at most %d", len(in.Result), job.MaxResult))
	}
	if r.Detail, ok = job.ParseDetail(in.Detail); !ok {
		return r, api.Invalid(at+".detail", "is none of the known details")
	}
	return r, nil
}
