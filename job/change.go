package job

import "time"

// Change is one step of the Machine's state: what is stored, replayed and watched. The set is closed.
// A change is a fact, not a wish: applying it cannot be refused, only found to be corrupt.
//
//sumtype:decl
type Change interface{ change() }

// BuildAdded: a build exists. Load gives it as it is now.
type BuildAdded struct{ BuildRecord }

// BuildRecord is all that is known of a build but its references.
type BuildRecord struct {
	Build Build
	Seq   int64
	At    Time
	// Active: its jobs may run. A staged build, or one whose gate is full, is not yet.
	Active bool
	// Staged builds are invisible, and are given up at a restart.
	Staged bool
	// Outcome and Ended are zero until it ends.
	Outcome Outcome
	Ended   Time
}

// BuildReferred: the build wants these jobs.
type BuildReferred struct {
	Build ID
	Refs  []Ref
	// Keeps are jobs of others that a staged build has joined. It keeps them until it is complete; no store has to.
	Keeps []ID
}

// BuildSealed: a staged build is complete and becomes visible.
type BuildSealed struct{ Build ID }

// BuildActivated: the jobs of the build may run.
type BuildActivated struct{ Build ID }

// BuildBumped: the build has a new priority.
type BuildBumped struct {
	Build    ID
	Priority int32
}

// BuildEnded: the build ended. Its verdict is the worst of its targets', or Cancelled.
type BuildEnded struct {
	Build   ID
	At      Time
	Outcome Outcome
	// Spare: running jobs that nobody else needs go on (rule 7's last sentence).
	Spare bool
	// Erased: a staged build was refused or given up; nothing of it is kept.
	Erased bool
}

// BuildDeleted: the ended build leaves the history.
type BuildDeleted struct{ Build ID }

// JobAdded: a job exists. Load gives it as it is now.
type JobAdded struct{ Record }

// Record is all that is known of a job but its payloads' contents.
type Record struct {
	Spec Spec
	Seq  int64 // age, from 1
	At   Time
	// Own is the wish of a job that belongs to no build; nil: builds alone keep it.
	Own *Own
	// Staging is the build that it was made for, while that is not complete, or if that was given up; else zero.
	Staging ID
	Tally   Tally
	// Wake and Delay: not before Wake, which a load clamps to Delay from now.
	Wake  Time
	Delay time.Duration
	// Last is the newest attempt, running or not; nil before the first.
	Last    *Attempt
	Running bool
	// Ready, and neither Running nor Done; else, without those, Blocked.
	Ready bool
	// LastEnd is how Last ended; nil while it runs.
	LastEnd *AttemptEnd
	// End is set for a Done job. Held: its attempt is still being stopped. Open: dependents are still to be told.
	End  *End
	Held bool
	Open bool
}

// Own is what a build would give a job that belongs to none.
type Own struct {
	Priority int32
	Group    string
	Limits   Limits
}

// JobKept: an existing job was asked for outside any build.
type JobKept struct {
	Job ID
	Seq int64
	Own Own
}

// JobReleased: Blocked to Ready.
type JobReleased struct {
	Job ID
	Seq int64
}

// JobBlocked: Ready to Blocked, as no build under way needs it any more.
type JobBlocked struct {
	Job ID
	Seq int64
}

// JobStarted: Ready to Running.
type JobStarted struct {
	Job     ID
	Seq     int64
	Attempt Attempt
}

// JobRetried: Running to Blocked; the attempt ended, another will follow.
type JobRetried struct {
	Job     ID
	Seq     int64
	Attempt AttemptEnd
	Tally   Tally
	Wake    Time
	Delay   time.Duration
}

// AttemptEnd is how an attempt ended.
type AttemptEnd struct {
	Attempt
	At      Time
	Outcome Outcome
	Detail  Detail
	Message string
	// Result is what the worker handed in; opaque, not kept in memory.
	Result []byte
}

// JobEnded: to Done.
type JobEnded struct {
	Job ID
	Seq int64
	End End
	// Attempt ended with the job, or nil if none was running. A late finish names the lost one.
	Attempt *AttemptEnd
	// Result of the job; opaque, not kept in memory.
	Result []byte
	// Held: its attempt is still being stopped by the worker, so slot and identity are not free.
	Held bool
	// Open: dependents are still to be told; JobSettled follows.
	Open bool
}

// JobFreed: the worker confirmed that a stopped attempt is over, or its lease ran out.
type JobFreed struct {
	Job ID
	Seq int64
	At  Time
}

// JobSettled: a Done job has told all its dependents, and leaves memory once it is not held.
type JobSettled struct {
	Job ID
	Seq int64
}

// JobProgress: a partial result of a running attempt.
type JobProgress struct {
	Job    ID
	Seq    int64
	Result []byte
}

// JobDeleted: the Done job leaves the history.
type JobDeleted struct{ Job ID }

// WorkerPut: a worker is known, with these properties.
type WorkerPut struct{ Worker Worker }

// WorkerRemoved: a worker is no longer known.
type WorkerRemoved struct{ Name string }

// ClassMarked: since Since no known worker can run jobs of the class; zero: one can again, or it has no jobs any more.
type ClassMarked struct {
	Class Class
	Since Time
}

// ChannelPut: a channel has this policy.
type ChannelPut struct{ Channel Channel }

// SettingPut: a setting is there, with this Body, which may hold secrets: the change feed leaves it out.
type SettingPut struct{ Setting }

// SettingRemoved: a setting is gone.
type SettingRemoved struct{ Space, Name string }

// UsagePut: what a share group used of the farm in one slice of time, in all.
type UsagePut struct {
	Channel, Group string
	Slice          int64 // Time / UsageSlice
	Used           time.Duration
}

// DurationLearned: a success took so long; the store merges it into the estimate by Learn.
type DurationLearned struct {
	Series Series
	Took   time.Duration
}

// FailureCached: a verdict on this identity is remembered, for jobs of the class that it was given in. There is one for an
// identity: a newer takes the place of the older.
type FailureCached struct {
	Identity Identity
	Class    Class // zero in what was stored before it was kept: it serves for none
	Job      ID
	Outcome  Outcome
	At       Time
	Until    Time // zero: until cleared
	Message  string
}

// FailureCleared: the identity is run again when asked for.
type FailureCleared struct{ Identity Identity }

func (BuildAdded) change()      {}
func (BuildReferred) change()   {}
func (BuildSealed) change()     {}
func (BuildActivated) change()  {}
func (BuildBumped) change()     {}
func (BuildEnded) change()      {}
func (BuildDeleted) change()    {}
func (JobAdded) change()        {}
func (JobKept) change()         {}
func (JobReleased) change()     {}
func (JobBlocked) change()      {}
func (JobStarted) change()      {}
func (JobRetried) change()      {}
func (JobEnded) change()        {}
func (JobFreed) change()        {}
func (JobSettled) change()      {}
func (JobProgress) change()     {}
func (JobDeleted) change()      {}
func (WorkerPut) change()       {}
func (WorkerRemoved) change()   {}
func (ClassMarked) change()     {}
func (ChannelPut) change()      {}
func (SettingPut) change()      {}
func (SettingRemoved) change()  {}
func (UsagePut) change()        {}
func (DurationLearned) change() {}
func (FailureCached) change()   {}
func (FailureCleared) change()  {}
