package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
)

// Explanation tells why a job is not running, from the very data that the scheduler decides by (rule 13).
type Explanation struct {
	Job     job.ID
	Name    string
	State   string
	Reasons []Reason
	// Nearest lists the workers that come closest to running it, the closest first; at most 5.
	Nearest []Near
	// Ahead is how many ready jobs would go first on a worker that could run it, counted up to AheadMax.
	Ahead int
	// Start is when it may start, guessed from estimates; zero: no guess can be made.
	Start time.Time
}

// AheadMax bounds the count of jobs ahead.
const AheadMax = 10_000

// Why it does not run.
const (
	WaitsForDependency = "dependency"      // Job, Name, State say which
	WaitsUntil         = "not-before"      // Until
	BacksOff           = "back-off"        // Until, after an attempt that ended badly
	WaitsForTwin       = "stopping"        // an attempt of its identity is still being stopped; Job, Worker
	NotUnderWay        = "build-waits"     // no build that needs it is under way: its concurrency key is full, or it is incomplete
	ChannelPaused      = "paused"          // its channel or kind
	KeyFull            = "concurrency-key" // Text names the key
	NoWorker           = "unsupported"     // no known worker could run it; Until is when it ends so
	NoSlot             = "no-free-worker"  // the workers that could are busy, drained or in quarantine
	NobodyAsks         = "nobody-asks"     // a worker that could run it has a free slot, and does not ask for work
	Reserved           = "reserved"        // the free ones are set aside for an exclusive job; Job
	Waits              = "ahead"           // others go first
)

// Reason is one thing that holds a job back.
type Reason struct {
	What   string
	Text   string // for people
	Job    job.ID
	Name   string
	State  string
	Worker string
	Until  time.Time
}

// Near is a worker and what keeps it from running the job.
type Near struct {
	Worker string
	Lacks  []string // what it would need to have; nothing: it could run the job
	Busy   string   // why it does not now, "" if it could at once
}

// maxBlockers is how many dependencies an explanation names.
const maxBlockers = 20

// Sight reports whether whoever asks may know of what belongs to one of these channels.
type Sight func(channels ...string) bool

// Why explains to one who may know all.
func (s *Scheduler) Why(j *job.Job, now job.Time) Explanation {
	return s.WhyTo(func(...string) bool { return true }, j, now)
}

// WhyTo explains, without the workers that cannot be seen, nor the names of jobs that cannot.
func (s *Scheduler) WhyTo(sees Sight, j *job.Job, now job.Time) Explanation {
	e := Explanation{Job: j.ID(), Name: j.Name(), State: j.State().String()}
	switch j.State().(type) {
	case job.Running, job.Done:
		return e
	case job.Blocked:
		s.blocked(&e, j, now)
	default:
		// A Ready job is explained below.
	}
	s.unserved(&e, sees, j, now)
	if _, ok := j.State().(job.Ready); ok {
		s.ready(&e, sees, j, now)
	}
	return e
}

func (e *Explanation) add(r Reason) { e.Reasons = append(e.Reasons, r) }

func (s *Scheduler) blocked(e *Explanation, j *job.Job, now job.Time) {
	j.Blockers(func(d *job.Job) bool {
		e.add(Reason{
			What: WaitsForDependency, Job: d.ID(), Name: d.Name(), State: d.State().String(),
			Text: fmt.Sprintf("waits for %s, which is %s", label(d), d.State()),
		})
		return len(e.Reasons) < maxBlockers
	})
	if n := j.Waits() - len(e.Reasons); n > 0 {
		e.add(Reason{What: WaitsForDependency, Text: fmt.Sprintf("waits for %d more", n)})
	}
	if !j.Needed() {
		builds := s.m.Needing(j)
		if len(builds) == 0 {
			e.add(Reason{What: NotUnderWay, Text: "the build that it was made for is not complete yet"})
		}
		for _, b := range builds {
			e.add(Reason{What: NotUnderWay, Name: b.Build.Name, Text: waitsToBegin(&b)})
		}
	}
	if j.Wake() > now {
		r := Reason{What: WaitsUntil, Until: j.Wake().Std(), Text: "not to start before " + stamp(j.Wake())}
		if t := j.Tally(); t.Attempts > 0 {
			r.What = BacksOff
			r.Text = fmt.Sprintf("attempt %d ended badly; the next may start at %s", t.Attempts, stamp(j.Wake()))
		}
		e.add(r)
	}
	if twin, ok := s.m.Lingering(j.Identity()); ok {
		e.add(Reason{
			What: WaitsForTwin, Job: twin.ID(), Worker: twin.Attempt().Worker,
			Text: "an earlier job of the same key is still being stopped on " + twin.Attempt().Worker,
		})
	}
}

// waitsToBegin says why a build is not under way.
func waitsToBegin(b *job.BuildRecord) string {
	if b.Staged {
		return fmt.Sprintf("build %q is not complete yet", b.Build.Name)
	}
	return fmt.Sprintf("build %q waits for a place under its concurrency key %q, which lets %d be under way",
		b.Build.Name, b.Build.Gate.Key, max(b.Build.Gate.Limit, 1))
}

func stamp(t job.Time) string { return t.Std().Format("2006-01-02 15:04:05 MST") }

func label(j *job.Job) string {
	if j.Name() != "" {
		return j.Name()
	}
	return j.ID().String()
}

func labelTo(sees Sight, j *job.Job) string {
	if !sees(j.Class().Channel) {
		return "a job of another channel"
	}
	return label(j)
}

// unserved says what workers lack, and that nobody could run the job.
func (s *Scheduler) unserved(e *Explanation, sees Sight, j *job.Job, now job.Time) {
	e.Nearest = s.nearest(sees, j, now)
	if len(e.Nearest) > 0 && len(e.Nearest[0].Lacks) == 0 {
		return
	}
	r := Reason{What: NoWorker, Text: "no worker is known"}
	if len(e.Nearest) > 0 {
		n := e.Nearest[0]
		r.Text = fmt.Sprintf("no known worker could run it; the nearest, %s, lacks %s", n.Worker, strings.Join(n.Lacks, ", "))
	}
	if end, ok := s.m.GivenUp(j); ok {
		r.Until = end.Std()
		r.Text += "; it ends as unsupported at " + stamp(end)
	}
	e.add(r)
}

// nearest lists the workers that lack least, the free ones first.
func (s *Scheduler) nearest(sees Sight, j *job.Job, now job.Time) []Near {
	var list []Near
	for _, name := range s.m.Workers() {
		w := s.workers[name]
		if w == nil || !sees(w.Channels...) {
			continue
		}
		list = append(list, Near{Worker: name, Lacks: w.Lacks(j.Class()), Busy: w.busy(sees, j, now)})
	}
	busy := func(n Near) int { return min(len(n.Busy), 1) }
	slices.SortFunc(list, func(a, b Near) int {
		return cmp.Or(len(a.Lacks)-len(b.Lacks), busy(a)-busy(b), strings.Compare(a.Worker, b.Worker))
	})
	return list[:min(len(list), 5)]
}

// DoesNotAsk is Near.Busy of a worker that has a free slot, and does not wait for work.
const DoesNotAsk = "does not ask for work"

// busy tells why the worker does not take the job now.
func (w *worker) busy(sees Sight, j *job.Job, now job.Time) string {
	switch {
	case w.Drained:
		return "drained"
	case w.Until > now:
		return "in quarantine until " + stamp(w.Until)
	case w.held > 0:
		return "runs an exclusive job"
	case w.used >= int(w.Slots) && w.Slots == 1:
		return "has its only slot taken"
	case w.used >= int(w.Slots):
		return fmt.Sprintf("has all %d slots taken", w.Slots)
	case j.Exclusive() && w.used == 1:
		return "runs another, and this job wants it to itself"
	case j.Exclusive() && w.used > 0:
		return fmt.Sprintf("runs %d others, and this job wants it to itself", w.used)
	case w.lost(j) != nil:
		return "set aside for " + labelTo(sees, w.lost(j))
	case w.place == 0:
		return DoesNotAsk
	}
	return ""
}

// lost gives the exclusive job that the worker was set aside for by the last decision, if that still waits and is not j.
func (w *worker) lost(j *job.Job) *job.Job {
	if w.reserved == nil || w.reserved == j {
		return nil
	}
	if _, waits := w.reserved.State().(job.Ready); !waits {
		return nil
	}
	return w.reserved
}

// ready says what holds back a job that could start.
func (s *Scheduler) ready(e *Explanation, sees Sight, j *job.Job, now job.Time) {
	c, barred := j.Class(), false
	if policy := s.m.Channel(c.Channel); policy.Closed(c.Kind) {
		barred = true
		text := fmt.Sprintf("channel %q is paused", c.Channel)
		if !policy.Paused {
			text += fmt.Sprintf(" for kind %q", c.Kind)
		}
		e.add(Reason{What: ChannelPaused, Text: text})
	}
	if gate := j.Gate(); gate.Key != "" {
		if g := s.gates[gateKey{c.Channel, gate.Key}]; g != nil && g.full(gate.Limit) {
			barred = true
			e.add(Reason{What: KeyFull, Text: fmt.Sprintf("concurrency key %q: %d of %d are under way", gate.Key, g.holders, max(gate.Limit, 1))})
		}
	}
	entry, class := s.entries[j], s.classes[c]
	if entry == nil || entry.in == nil || class == nil || len(class.workers) == 0 {
		return
	}
	e.Ahead = s.ahead(entry, now)
	free := s.freeWorkers(e, sees, entry, now)
	switch {
	case e.Ahead == 1:
		e.add(Reason{What: Waits, Text: "1 ready job goes first"})
	case e.Ahead >= AheadMax:
		e.add(Reason{What: Waits, Text: fmt.Sprintf("%d or more ready jobs go first", e.Ahead)})
	case e.Ahead > 0:
		e.add(Reason{What: Waits, Text: fmt.Sprintf("%d ready jobs go first", e.Ahead)})
	}
	if !barred && (free || len(e.Reasons) > 0) {
		e.Start = s.guess(entry, e.Ahead, now)
	}
}

// freeWorkers says why none of the workers that could run the job takes it now, and reports whether one could be free.
func (s *Scheduler) freeWorkers(e *Explanation, sees Sight, x *entry, now job.Time) bool {
	idle, asking, able, reserved := 0, 0, 0, 0
	for _, w := range x.in.class.workers {
		if w.Drained || w.Until > now {
			continue
		}
		able++
		if w.used >= int(w.Slots) || w.held > 0 || x.job.Exclusive() && w.used > 0 {
			continue
		}
		if r := w.lost(x.job); r != nil {
			reserved++
			v := Reason{What: Reserved, Worker: w.Name, Text: fmt.Sprintf("%s is set aside for %s, which is exclusive", w.Name, labelTo(sees, r))}
			if sees(r.Class().Channel) {
				v.Job, v.Name = r.ID(), r.Name()
			}
			e.add(v)
			continue
		}
		if idle++; w.place > 0 {
			asking++
		}
	}
	switch {
	case able == 0:
		e.add(Reason{What: NoSlot, Text: "all workers that could run it are drained or in quarantine: " + e.states()})
	case idle+reserved == 0:
		e.add(Reason{What: NoSlot, Text: "all workers that could run it are busy: " + e.states()})
	case asking == 0 && idle == able:
		e.add(Reason{What: NobodyAsks, Text: "no worker that could run it asks for work: " + e.states()})
	case e.Ahead == 0 && len(e.Reasons) == 0:
		e.add(Reason{What: NobodyAsks, Text: "a worker that could run it has a free slot, but does not ask for work"})
	}
	return able > 0
}

func (e *Explanation) states() string {
	var list []string
	for _, n := range e.Nearest {
		if len(n.Lacks) == 0 && n.Busy != "" {
			list = append(list, n.Worker+" "+n.Busy)
		}
	}
	return strings.Join(list, "; ")
}

// ahead counts the ready jobs that would go before x on one of the workers that could run it. What is paused goes before
// nobody, but for one that is paused as well: they may be let go at the same time.
func (s *Scheduler) ahead(x *entry, now job.Time) int {
	s.stamp++ // what was read for the last decision is old
	seen := map[*ready]bool{}
	mine := s.head(x.in, x, now) // x itself may be parked
	count := 0
	paused := s.paused(x.in.class, now)
	for _, w := range x.in.class.workers {
		for _, c := range w.classes {
			if !paused && s.paused(c, now) {
				continue
			}
			for _, r := range c.heaps {
				if seen[r] || count >= AheadMax {
					continue
				}
				seen[r] = true
				pair := []head{s.head(r, r.entries[0], now), mine}
				s.level(pair, now)
				count += r.countBefore(0, &pair[0], &pair[1], AheadMax-count)
			}
		}
	}
	return count
}

// countBefore walks the heap from the i-th entry, and turns back at each that does not go first.
func (r *ready) countBefore(i int, theirs, mine *head, room int) int {
	if i >= len(r.entries) || room <= 0 {
		return 0
	}
	theirs.entry = r.entries[i]
	if theirs.entry == mine.entry || theirs.compare(mine) >= 0 {
		return 0
	}
	n := 1
	n += r.countBefore(2*i+1, theirs, mine, room-n)
	n += r.countBefore(2*i+2, theirs, mine, room-n)
	return n
}

// guess estimates the start: what is ahead, spread over the slots that could run it, after the first of them is free.
func (s *Scheduler) guess(x *entry, ahead int, now job.Time) time.Time {
	slots := 0
	first := job.Time(0)
	for _, w := range x.in.class.workers {
		full := w.used >= int(w.Slots) || w.held > 0
		if w.Drained || !full && w.place == 0 && w.Until <= now { // nobody knows when it asks
			continue
		}
		slots += int(w.Slots)
		at := max(now, w.Until)
		if full {
			at = max(at, s.soonest(w, now))
		}
		if x.job.Exclusive() {
			at = max(at, s.freeAt(w, now))
		}
		if r := w.lost(x.job); r != nil {
			at = max(at, s.freeAt(w, now).Add(r.Estimate()))
		}
		if first == 0 || at < first {
			first = at
		}
	}
	if slots == 0 {
		return time.Time{}
	}
	return first.Add(time.Duration(ahead/slots) * x.job.Estimate()).Std()
}

// soonest guesses when the first of the worker's attempts ends.
func (s *Scheduler) soonest(w *worker, now job.Time) job.Time {
	var at job.Time
	s.m.Leases(w.Name, func(j *job.Job) {
		if end := max(now, j.Attempt().Start.Add(j.Estimate())); at == 0 || end < at {
			at = end
		}
	})
	return max(at, now)
}
