package sim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/headrace/headrace/job"
)

// What a round over its budget does depends on what it had not come to yet, which no rule of the design tells. So where rounds
// have a small budget, the model does what the engine did, change by change, and says of each whether it may be: a
// consequence must follow, by the model's rules, from all that came before it, and what starts must be able to. Commands are
// answered in their place. In a round that drew all consequences, each start is predicted; and once the engine is quiet,
// nothing may be left that follows.

// followed is how far the model has followed the engine, since the last comparison.
type followed struct {
	batches int            // of those stored: all of their changes
	changes int            // of all that are stored
	notes   int            // of the model's log: they are owed
	owed    map[string]int // what the model said happened, and the engine did not yet
	over    bool           // the last round was over its budget
	last    []*leaseCall   // who waited before it and not after it
	decided []mark         // what was decided in it, or in one before it that stored nothing
	opened  []*mBuild      // what was next at each gate before the last command
	// The attempts that had ended as the last round was decided, and the one before it.
	stored, before []*mRun
	begun          []job.Change // builds that are under way, and that the model does not know yet
}

// clerk counts the changes that tell something, as the owner logs them.
type clerk struct {
	slog.Handler
	*store
}

// Enabled implements slog.Handler.
func (clerk) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (c clerk) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case "started", "to be tried again", "ended", "build ended", "freed":
		c.told++
	case "storing":
		c.launched()
	}
	return nil
}

// place is the context of a command; it learns when the owner decides it.
type place struct {
	context.Context
	world   *world
	command *command
	live    atomic.Int64 // how often it said that it has not ended
}

// Err implements context.Context. Until it has ended it is asked by who sends the command, then by the owner that decides it; the owner
// does not decide what has ended, and who sent it may ask once more meanwhile.
func (p *place) Err() error {
	if err := p.Context.Err(); err != nil {
		return err
	}
	if p.live.Add(1) == 2 {
		s := p.world.store
		behind := s.machine == nil || s.machine.Behind()
		s.marks = append(s.marks, mark{p.command, s.told, p.world.now(), behind, s.held.Load()})
	}
	return nil
}

func (w *world) placed(c *command) context.Context {
	if w.m.lead == nil {
		return c.ctx
	}
	return &place{Context: c.ctx, world: w, command: c}
}

// follow has the model do what the engine did until now.
func (w *world) follow() {
	for {
		all := w.batches()
		if w.followed.batches == len(all) {
			break
		}
		b := &all[w.followed.batches]
		if b.at > w.m.now {
			return
		}
		if b.at < w.m.now {
			w.fail("round %d was at %d, and is looked at at %d", b.number, b.at, w.m.now)
		}
		w.followRound(b)
		w.followed.batches++
	}
	marks := w.store.pending()
	later := slices.IndexFunc(marks, func(m mark) bool { return m.when > w.m.now })
	if later < 0 {
		later = len(marks)
	}
	marks, w.store.marks = marks[:later], marks[later:]
	w.decide(marks, -1)
	w.m.behind = false
}

func (w *world) followRound(b *batch) {
	w.m.behind = true
	w.followed.before, w.m.stored = w.followed.stored, append([]*mRun{}, w.m.past...)
	w.followed.stored = w.m.stored
	defer func() { w.m.stored = nil }()
	w.followed.over, w.followed.decided = b.behind, b.marks
	base, marks, told, exact := w.followed.changes, b.marks, 0, false
	turn, waited := map[*mWorker]bool{}, w.m.waiters()
	for i, c := range b.changes {
		text := tell(c)
		if text != "" {
			marks = w.decide(marks, told)
			told++
		}
		switch c := c.(type) {
		case job.BuildAdded:
			if c.Active {
				w.followed.begun = append(w.followed.begun, c)
			}
		case job.BuildActivated:
			w.followed.begun = append(w.followed.begun, c)
		case job.BuildSealed:
			if w.sealing != nil {
				w.sealing(c.Build)
			}
		case job.JobStarted:
			if marks = w.decide(marks, -1); !b.behind && !exact {
				exact = true
				w.m.behind = false
				w.m.settle()
			}
			w.followStart(&c, turn)
		default:
			if text != "" && !b.erases(i) {
				w.followEnd(c, text)
			}
		}
		w.begin()
		if text != "" {
			w.followed.changes = base + i + 1
		}
	}
	w.decide(marks, -1)
	w.begin()
	w.followed.changes = base + len(b.changes)
	if b.behind {
		w.seen["over the budget"]++
	} else {
		w.m.behind = false
		w.m.settle()
		if j, k := w.m.next(map[*mWorker]bool{}); j != nil {
			w.fail("round %d ends, and job %s could start on %s", b.number, j.ID, k.Name)
		}
	}
	w.m.dismiss()
	wait := w.m.waiters()
	w.followed.last = filter(waited, func(x *leaseCall) bool { return !slices.Contains(wait, x) })
}

func (m *model) waiters() (list []*leaseCall) {
	for _, k := range m.workers {
		list = append(list, k.waiters...)
	}
	return list
}

// told is what a worker that waits is told as the owner goes, if it was not told before.
func (w *world) told(c *leaseCall, met fault, f *followed) string {
	if w.m.lead == nil {
		return again
	}
	<-c.done
	decided := slices.ContainsFunc(f.decided, func(m mark) bool { return m.command == c.asked })
	lost := met == diesAfter && (decided || slices.Contains(f.last, c)) // stored, but nobody was told
	switch {
	case lost && kindOf(c.err) == again:
		return again
	case c.asked.predicted:
		return c.kind
	case kindOf(c.err) == again:
		return again
	}
	return w.m.lease(c) // a refusal needs no commit
}

// decide has the model do the commands that were decided after so many changes that tell something, or all.
func (w *world) decide(marks []mark, told int) (rest []mark) {
	for len(marks) > 0 && (told < 0 || marks[0].at <= told) {
		m := marks[0]
		marks = marks[1:]
		w.followed.opened = w.nextAtGates()
		if !m.predicted && m.predict != nil {
			w.owe()
			behind, stored := w.m.behind, w.m.stored
			w.m.behind, w.deciding = true, m.behind
			if m.ahead {
				w.m.stored = w.followed.before
			}
			m.want, m.predicted = m.predict(), true
			w.m.behind, w.deciding, w.m.stored = behind, false, stored
			if m.behind {
				w.seen["over the budget: command"]++
			}
			if m.ahead {
				w.seen["decided while a round is stored"]++
			}
		}
		w.begin()
	}
	return marks
}

// owe takes note of what the model said that happened.
func (w *world) owe() {
	if w.followed.owed == nil {
		w.followed.owed = map[string]int{}
	}
	for ; w.followed.notes < len(w.m.log); w.followed.notes++ {
		w.followed.owed[w.m.log[w.followed.notes]]++
	}
}

// paid reports whether the model said so, too.
func (w *world) paid(text string) bool {
	w.owe()
	text = fmt.Sprintf("%d %s", w.m.now, text)
	if w.followed.owed[text] == 0 {
		return false
	}
	w.followed.owed[text]--
	return true
}

// followEnd has the model do what the engine did to an attempt, a job or a build, if that follows.
func (w *world) followEnd(c job.Change, text string) {
	if w.paid(text) {
		return
	}
	m := w.m
	var id job.ID
	var of job.Outcome
	switch c := c.(type) {
	case job.JobRetried:
		id, of = c.Job, c.Attempt.Outcome
	case job.JobFreed:
		id = c.Job
	case job.JobEnded:
		id, of = c.Job, c.End.Outcome
	case job.BuildEnded:
		if b := m.build(c.Build); b != nil {
			m.endBuild(b)
		}
	default:
		// The others tell of no end.
	}
	if j := m.job(id); j != nil {
		due := func(c consequence) bool { return c.so && c.at <= m.now && c.of == of }
		all := m.consequences(j)
		if i := slices.IndexFunc(all, due); i >= 0 {
			all[i].do()
		}
	}
	if !w.paid(text) {
		w.fail("nothing makes the engine do this: %s", text)
	}
}

// followStart has the model start what the engine did. Where all consequences are drawn it must be the next; else one that
// could have been before, or that can be after, what is still to follow.
func (w *world) followStart(c *job.JobStarted, turn map[*mWorker]bool) {
	m := w.m
	j, k := m.job(c.Job), m.worker(c.Attempt.Worker)
	if j == nil || k == nil {
		w.fail("unknown job %s started on %q", c.Job, c.Attempt.Worker)
	}
	if !m.behind {
		if best, on := m.next(turn); best != j || on != k {
			w.fail("job %s started on %s, want %v on %v", j.ID, k.Name, best, on)
		}
	} else {
		w.mayStart(j, k)
		w.seen["over the budget: start"]++
	}
	m.start(j, k)
	j.last.Token = c.Attempt.Token
	if m.behind { // who asks for it may have changed without the engine having come to it
		j.last.Groups, j.last.Limits = c.Attempt.Groups, c.Attempt.Limits
	}
	if !w.paid(tell(*c)) {
		w.fail("the engine did %s, and the model otherwise", tell(*c))
	}
}

// mayStart: all that is known at once allows the start; only who asks for the job may be known late, and only by way of what
// depends on it.
func (w *world) mayStart(j *mJob, k *mWorker) {
	m := w.m
	switch {
	case !j.waiting() || len(j.blockers()) > 0 || m.doom(j) != nil || j.wake > m.now || m.twin(j) != nil:
		w.fail("job %s started, and was %s", j.ID, w.stateOf(j))
	case len(m.demand(j).groups) == 0 && !w.leaned(j):
		w.fail("job %s started, and nobody asks for it", j.ID)
	case m.paused(j) || !m.keyFree(j):
		w.fail("job %s started: its channel is paused, or its concurrency key full", j.ID)
	case k.wants() == 0 || k.Drained || k.Until > m.now || !capable(k, j) || !m.slotFree(k, j):
		w.fail("job %s started on %s, which waits for %d and cannot take it", j.ID, k.Name, k.wants())
	}
}

// leaned: something unfinished needs the job; it may be that nobody needs that any more.
func (w *world) leaned(j *mJob) bool {
	return slices.ContainsFunc(w.m.jobs, func(k *mJob) bool {
		return k.end == nil && slices.Contains(k.blockers(), j)
	})
}

// drawnKept takes over that the engine tried a job again which nobody needs any more, as it had not come to that.
func (w *world) drawnKept(j *mJob) bool {
	return w.deciding && w.leaned(j) && slices.ContainsFunc(w.changes(), func(c job.Change) bool {
		r, ok := c.(job.JobRetried)
		return ok && r.Job == j.ID && r.Attempt.Number == j.last.Number
	})
}

// begin lets builds be under way of which the engine said so.
func (w *world) begin() {
	w.followed.begun = slices.DeleteFunc(w.followed.begun, func(c job.Change) bool {
		added, atOnce := c.(job.BuildAdded)
		id := added.Build.ID
		if a, ok := c.(job.BuildActivated); ok {
			id = a.Build
		}
		b := w.m.build(id)
		if b == nil || atOnce && b.outcome != 0 {
			return false // the model has not come to it; one of its id that has ended is still to be deleted
		}
		next := w.nextAtGates()
		switch {
		case b.active:
			w.fail("build %s began twice", id)
		case b.Gate.Key != "" && !w.m.gateFree(b):
			w.fail("build %s began, and its concurrency key is full", id)
		case b.Gate.Key != "" && !atOnce && !slices.Contains(next, b) && !slices.Contains(w.followed.opened, b):
			w.fail("build %s began before its turn", id)
		}
		b.active = true
		return true
	})
}

// nextAtGates gives the next build at each concurrency key: the most urgent, then the oldest.
func (w *world) nextAtGates() (list []*mBuild) {
	next := map[string]*mBuild{}
	for _, b := range w.m.builds {
		if have := next[b.Gate.Key]; b.live() && !b.active && (have == nil || b.Priority > have.Priority) {
			next[b.Gate.Key] = b
		}
	}
	for _, b := range next {
		list = append(list, b)
	}
	return list
}
