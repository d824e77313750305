package job

import (
	"slices"
	"strings"
	"time"
)

// Identity is what makes two asked-for jobs the same job (rule 1): two unfinished jobs never share it.
type Identity struct{ Channel, Kind, Key string }

// Need is a dependency: the edge from a dependent to the job that it names.
type Need struct {
	Job    ID
	Policy Policy
	// Loose marks an Order edge that lies on a cycle: it neither lifts nor sorts. Set by the Machine.
	Loose bool
}

// Spec is a job as it is asked for. What is here never changes afterwards.
type Spec struct {
	ID      ID
	Name    string // for people; durations are learned by channel, kind and name
	Channel string
	Kind    string
	Key     string // "": the job shares its identity with no other
	System  string
	// Features that the worker must support; sorted, without repeats.
	Features []string
	Pin      string // "": any worker; else the name of the only one
	Needs    []Need
	// Exclusive jobs have their worker to themselves.
	Exclusive bool
	// NotBefore is the earliest start; zero: none.
	NotBefore Time
	// Gate limits how many jobs of one concurrency key run at once.
	Gate  Gate
	Retry Retry
	// CacheFailure: a verdict is remembered, and the next job of this identity and class fails at once until it is cleared.
	CacheFailure bool
	// Reuse: a kept success of this identity and class serves instead of a new run.
	Reuse bool
	// Estimate is how long the work is thought to take; 0: learned from history, else DefaultEstimate.
	Estimate time.Duration
	// Args is what the executor gets; opaque here and not kept in memory.
	Args []byte
}

// Identity gives the job's identity; a job without a key is identified by its ID.
func (s *Spec) Identity() Identity {
	if s.Key == "" {
		return Identity{s.Channel, s.Kind, "\x00" + string(s.ID[:])}
	}
	return Identity{s.Channel, s.Kind, s.Key}
}

// DefaultEstimate stands for a duration that nobody knows.
const DefaultEstimate = 10 * time.Second

// Gate is a concurrency key with how many may be under way at once; an empty Key is no gate. Keys of jobs are
// apart by channel, those of builds are not. Where several name one key with different limits, each goes by its own.
type Gate struct {
	Key   string
	Limit int32
}

// Limits bound an attempt; zero states no limit.
type Limits struct {
	Timeout time.Duration // from the start of the attempt
	Silence time.Duration // from its last sign of output
}

// JudgeSlack is how much later than a worker the engine judges a limit: a worker that is alive says it first, and
// says more. It covers the time that a worker gives a process to end by itself, and the killing after that.
const JudgeSlack = 30 * time.Second

// Ref is a build's wish for a job: it keeps the job alive and lends it its priority.
type Ref struct {
	Job ID
	// Awaited jobs delay the end of the build but do not count in its verdict.
	Awaited bool
	// Optional jobs neither delay the end nor count.
	Optional bool
	// Priority is added to the build's for this job.
	Priority int32
	// Limits that this build states for this very job instead of its own; zero fields take the build's.
	Limits Limits
	// Ended is how the job had ended when the reference was made or loaded; 0: it has not.
	Ended Outcome
}

// Build is what somebody asked for (rule 4).
type Build struct {
	ID   ID
	Name string
	// Group is the share group whose use of the farm its jobs count against.
	Group    string
	Priority int32
	Limits   Limits
	// Gate limits how many builds of one concurrency key are under way at once.
	Gate Gate
	// Labels are for the asker; opaque here and not kept in memory.
	Labels map[string]string
}

// Discipline is how a channel sorts its ready jobs.
type Discipline uint8

const (
	// ByRank: rule 8 (priority, share, longest path, age).
	ByRank Discipline = iota
	// ByAge: first come, first served.
	ByAge
)

// Channel is the policy of a channel. A channel that nobody has described has DefaultChannel's.
type Channel struct {
	Name       string
	Discipline Discipline
	// CallerJudges: a lost lease is listed, not ended, until the caller says so (composer's interface).
	CallerJudges bool
	// Grace is how long a job that no known worker can run waits before it ends as Unsupported; negative: for ever.
	Grace time.Duration
	// TTL of a lease; the renewal period of workers should be at most a third of it.
	TTL time.Duration
	// Retry fills the zero fields of the jobs' own.
	Retry Retry
	// Shares and the shares of its groups divide a contended farm; 0 counts as 1.
	Shares      int32
	GroupShares map[string]int32
	// FailureTTL ends cached failures after so long; 0: never.
	FailureTTL time.Duration
	// Paused channels and kinds start nothing new.
	Paused      bool
	PausedKinds []string
}

// DefaultChannel is the policy of a channel that nobody has described.
func DefaultChannel(name string) Channel {
	return Channel{
		Name: name, Grace: 24 * time.Hour, TTL: DefaultTTL, Shares: 1,
		Retry: Retry{Aborts: 5, Losses: 3, Crashes: 3, Delay: 60 * time.Second, Factor: 3},
	}
}

// DefaultTTL is how long a lease lasts without a heartbeat (rule 6 wants at least 60 s by default).
const DefaultTTL = 90 * time.Second

// Class is what ready jobs have in common for matching: a worker that can run one can run all. It is
// comparable; Features is the sorted list joined by blanks.
type Class struct{ Channel, Kind, System, Features, Pin string }

// Likeness is identity and class together: what a job has in common with an ended one whose success, or whose remembered
// failure, serves for it. What was built for one system says nothing of another.
type Likeness struct {
	Class Class // with the channel and kind of the identity
	Key   string
}

// Likeness gives the job's likeness.
func (s *Spec) Likeness() Likeness { return Likeness{s.Class(), s.Identity().Key} }

// Identity gives the identity that is part of it.
func (l Likeness) Identity() Identity { return Identity{l.Class.Channel, l.Class.Kind, l.Key} }

// Class gives the class of the job.
func (s *Spec) Class() Class {
	return Class{s.Channel, s.Kind, s.System, strings.Join(s.Features, " "), s.Pin}
}

// FeatureList splits Features.
func (c Class) FeatureList() []string { return strings.Fields(c.Features) }

// AnyChannel among the Channels of a worker stands for all of them; no channel has this name.
const AnyChannel = "*"

// Worker is what is known of a worker for good. Who waits, and for how many jobs, is volatile.
type Worker struct {
	Name     string
	Channels []string
	Kinds    []string
	Systems  []string
	// Features it supports; Mandatory ones (a subset) must all be required by a job.
	Features  []string
	Mandatory []string
	Slots     int32
	Speed     float64 // 0 counts as 1
	// Session tells one life of the worker from the next; zero: the last one has signed off.
	Session ID
	Drained bool
	// Faults is how often in a row it failed on its own account; Until is when its quarantine ends.
	Faults int32
	Until  Time
	Delay  time.Duration // the quarantine's whole length, to which a loaded Until is clamped
}

// Pace gives the speed factor with rule 9's default.
func (w *Worker) Pace() float64 {
	if !(w.Speed > 0) {
		return 1
	}
	return w.Speed
}

// Lacks names what the worker lacks to run jobs of the class; nothing: it could run them. It says
// nothing of slots, drain and quarantine, which pass.
func (w *Worker) Lacks(c Class) []string {
	var lacks []string
	if c.Pin != "" && c.Pin != w.Name {
		lacks = append(lacks, "the name "+c.Pin)
	}
	if !slices.Contains(w.Channels, c.Channel) && !slices.Contains(w.Channels, AnyChannel) {
		lacks = append(lacks, "channel "+c.Channel)
	}
	if !slices.Contains(w.Kinds, c.Kind) {
		lacks = append(lacks, "kind "+c.Kind)
	}
	if c.System != "" && !slices.Contains(w.Systems, c.System) {
		lacks = append(lacks, "system "+c.System)
	}
	asked := c.FeatureList()
	for _, f := range asked {
		if !slices.Contains(w.Features, f) {
			lacks = append(lacks, "feature "+f)
		}
	}
	for _, f := range w.Mandatory {
		if !slices.Contains(asked, f) {
			lacks = append(lacks, "takes only jobs that require "+f)
		}
	}
	return lacks
}
