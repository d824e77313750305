package job

import "time"

// Job is a job in memory: unfinished, or Done with something left to tell or to free. Its fields
// belong to the Machine; others read it through its methods, in the owner's goroutine.
//
// There may be a million of these, so what few jobs have lives in extra, and edges know their own
// place in the other side's list, so that removing one searches nothing.
type Job struct {
	id       ID
	seq      int64
	at       Time
	estimate time.Duration
	name     string
	key      string
	class    *class
	state    State

	twin       *Job   // the next in the index of identities whose hash is the same
	needs      []edge // dependencies that have not told this job yet
	dependents []edge // jobs that wait to be told, or are sorted after this one
	wishes     []wish // of live builds
	waits      int32  // needs that block

	in   demand
	out  offer
	more *extra
	last *trial // nil before the first attempt

	due   Time  // its alarm
	slot  int32 // place in the timers, from 1; 0: none
	flags flags

	stagers uint16 // how often it is kept by builds that are not complete
}

type flags uint16

const (
	exclusive flags = 1 << iota
	cacheFailure
	heldAttempt // Done, but the worker has not confirmed that the attempt is over
	openEnd     // Done, but dependents are still to be told
	inFlow      // waits in the flow queue
	isTouched   // waits in the touched list
	isUnneeded  // waits in the unneeded list
	isChecked   // waits in the check list
	stop        // a cancel took its builds: stop it, if nobody needs it
	inSweep     // waits for a sweep of ranks
	erase       // its build was never complete: leave no trace of it, if nobody needs it
	unborn      // its build is not complete
)

func (f *flags) set(b flags)     { *f |= b }
func (f *flags) clear(b flags)   { *f &^= b }
func (f flags) has(b flags) bool { return f&b != 0 }

// extra is what few jobs have.
type extra struct {
	own   *Own
	retry Retry
	gate  Gate
	tally Tally
	wake  Time
	delay time.Duration
	doom  *Job  // the dependency that dooms it
	tells int32 // dependents that it doomed and that have not ended yet
}

// trial is the newest attempt.
type trial struct {
	Attempt
	end   *AttemptEnd // once it has ended
	lease *lease      // while it has one
}

// leased gives the lease of the newest attempt; nil: it has none.
func (j *Job) leased() *lease {
	if j.last == nil {
		return nil
	}
	return j.last.lease
}

// lease is the volatile side of an attempt that has its lease.
type lease struct {
	deadline Time // when it is lost unless renewed
	beat     Time // last heartbeat
	output   Time // last sign of output, or since when one could have been seen
	heard    bool // the worker tells of its output, so that silence can be judged here
	aged     bool // older than the share window
	worker   *worker
	prev     *Job // with the next older lease of the worker
	next     *Job
}

// edge joins a dependent and its dependency; both sides keep one, with the place of the other.
type edge struct {
	job    *Job
	back   int32
	policy Policy
	loose  bool
}

func (e edge) blocks() bool { return e.policy != Order }

// wish is a live build's reference to the job.
type wish struct {
	build    *build
	back     int32 // place in build.jobs
	priority int32
	limits   *Limits
	awaited  bool
	optional bool
}

// ID gives the job's id.
func (j *Job) ID() ID { return j.id }

// Seq gives the job's age: lower is older.
func (j *Job) Seq() int64 { return j.seq }

// Before reports whether the job goes before another where jobs go by age: it is older or, of those that were put back after
// an attempt, was put back earlier.
func (j *Job) Before(o *Job) bool {
	a, aback := j.turn()
	b, bback := o.turn()
	switch {
	case a != b:
		return a < b
	case aback != bback:
		return bback // it was put back behind the other, which was the newest
	case aback && j.backAt() != o.backAt():
		return j.backAt() < o.backAt()
	}
	return j.seq < o.seq
}

// backAt gives when the job was put back.
func (j *Job) backAt() Time {
	if j.last == nil || j.last.end == nil {
		return 0
	}
	return j.last.end.At
}

// turn gives the job's place among those that go by age, and whether it was put back there.
func (j *Job) turn() (place int64, back bool) {
	if j.more != nil && j.more.tally.Turn != 0 {
		return j.more.tally.Turn, true
	}
	return j.seq, false
}

// Added gives the moment at which the job was asked for.
func (j *Job) Added() Time { return j.at }

// Name gives the job's name for people.
func (j *Job) Name() string { return j.name }

// Class gives what decides who can run it.
func (j *Job) Class() Class { return j.class.Class }

// Identity gives what makes it the same job as another.
func (j *Job) Identity() Identity {
	s := Spec{ID: j.id, Channel: j.class.Channel, Kind: j.class.Kind, Key: j.key}
	return s.Identity()
}

// State gives where the job is.
func (j *Job) State() State { return j.state }

// Exclusive reports whether it wants its worker to itself.
func (j *Job) Exclusive() bool { return j.flags.has(exclusive) }

// Held reports whether the job is Done while its worker has not confirmed that the attempt is over.
func (j *Job) Held() bool { return j.flags.has(heldAttempt) }

// Unborn reports whether the job was made for a build that is not complete, or that never was, so that it is about to be taken away
// without a trace.
func (j *Job) Unborn() bool { return j.flags.has(unborn | erase) }

// Priority is the greatest over the live builds that need it, directly or through dependents.
func (j *Job) Priority() int32 { return j.in.priority }

// Path is the longest remaining path through the job: its own estimate and its dependents'.
func (j *Job) Path() time.Duration { return sum(j.in.path, j.estimate) }

// Estimate is how long one attempt is thought to take.
func (j *Job) Estimate() time.Duration { return j.estimate }

// Audience is who asked for it: nil while no build under way needs it.
func (j *Job) Audience() *Audience { return j.in.audience }

// Gate gives the concurrency key and limit; an empty key is none.
func (j *Job) Gate() Gate {
	if j.more == nil {
		return Gate{}
	}
	return j.more.gate
}

// Tally gives how its attempts ended so far.
func (j *Job) Tally() Tally {
	var t Tally
	if j.more != nil {
		t = j.more.tally
	}
	if j.last != nil {
		t.Attempts = j.last.Number
	}
	return t
}

// Wake is the moment before which it must not start; zero: none.
func (j *Job) Wake() Time {
	if j.more == nil {
		return 0
	}
	return j.more.wake
}

// Attempt gives the newest attempt, which has its lease if the job is Running or Held; nil before the first.
func (j *Job) Attempt() *Attempt {
	if j.last == nil {
		return nil
	}
	return &j.last.Attempt
}

// Beat is when the worker was last heard of for this attempt; zero without a lease.
func (j *Job) Beat() Time {
	if j.leased() == nil {
		return 0
	}
	return j.last.lease.beat
}

// Waits counts the dependencies that block it.
func (j *Job) Waits() int { return int(j.waits) }

// Needed reports whether a build under way needs it.
func (j *Job) Needed() bool { return j.in.active > 0 }

// Blockers calls f with each dependency that blocks it until f returns false.
func (j *Job) Blockers(f func(*Job) bool) {
	for _, e := range j.needs {
		if e.blocks() && !f(e.job) {
			return
		}
	}
}

func (j *Job) done() bool {
	_, ok := j.state.(Done)
	return ok
}

func (j *Job) running() bool {
	_, ok := j.state.(Running)
	return ok
}

// waiting: neither started nor ended.
func (j *Job) waiting() bool { return !j.done() && !j.running() }

func (j *Job) extra() *extra {
	if j.more == nil {
		j.more = &extra{}
	}
	return j.more
}

func (j *Job) retry() Retry {
	if j.more == nil {
		return Retry{}
	}
	return j.more.retry
}

func (j *Job) own() *Own {
	if j.more == nil {
		return nil
	}
	return j.more.own
}

// join makes d a dependency of j. The caller touches d.
func (j *Job) join(d *Job, p Policy, loose bool) {
	j.needs = append(j.needs, edge{d, int32(len(d.dependents)), p, loose})
	d.dependents = append(d.dependents, edge{j, int32(len(j.needs) - 1), p, loose})
	if p != Order {
		j.waits++
	}
	d.in.take(through(j.out, p, loose, j, d))
}

// part removes j's i-th need from both sides. The caller touches the dependency.
func (j *Job) part(i int32) {
	e := j.needs[i]
	d := e.job
	d.in.drop(through(j.out, e.policy, e.loose, j, d))
	if e.blocks() {
		j.waits--
	}
	if last := int32(len(j.needs) - 1); i != last {
		moved := j.needs[last]
		j.needs[i] = moved
		moved.job.dependents[moved.back].back = i
	}
	j.needs[len(j.needs)-1] = edge{}
	j.needs = j.needs[:len(j.needs)-1]

	b := e.back
	if last := int32(len(d.dependents) - 1); b != last {
		moved := d.dependents[last]
		d.dependents[b] = moved
		moved.job.needs[moved.back].back = b
	}
	d.dependents[len(d.dependents)-1] = edge{}
	d.dependents = d.dependents[:len(d.dependents)-1]
	if len(j.needs) == 0 {
		j.needs = nil
	}
	if len(d.dependents) == 0 {
		d.dependents = nil
	}
}
