package rows

// Query names a statement. Its parameters and columns are listed in this order; those in brackets may be null. A store has
// the tables that the names tell of: see store/sqlite/migrations for what they hold.
type Query int

// What is written. Rows of Add are new; Put replaces those of the same key, or alters what is there.
const (
	// AddJob: seq, id, at, channel, kind, name, [key], spec, [args], [staging].
	AddJob Query = iota
	// AddEdge: dep, dependent's seq. One that is there stays.
	AddEdge
	// AddLive: state, wake, delay, [attempt], [tally], [own], held, open, seq.
	AddLive
	// PutLive: as AddLive; seq is the key.
	PutLive
	// DropLive: seq.
	DropLive
	// AddEnded: seq, outcome, body, [attempt], [tally], [own], [worker of the attempt].
	AddEnded
	// PutAttempt: seq, number, body, [result]; the first two are the key.
	PutAttempt
	// PutProgress: seq, result of the job; seq is the key.
	PutProgress
	// PutResult: seq, [result of the job], [result of the attempt], same. One of the job that is null leaves that which is
	// there.
	PutResult
	// AddResult: as PutResult, for a job that has none. A store may write so what comes as PutResult.
	AddResult
	// AddBuild: seq, id, at, name, priority, active, staged, outcome, ended, body.
	AddBuild
	// PutBuild: priority, active, staged, outcome, ended, seq; that is the key, and the rest stays.
	PutBuild
	// PutRef: build's seq, job, place, awaited, optional, priority, timeout, silence, ended; the first two are the key. It
	// is put over what is there as job.Ref.Over says; the place stays.
	PutRef
	// PutChannel: name, body.
	PutChannel
	// PutWorker: name, body.
	PutWorker
	// DropWorker: name.
	DropWorker
	// PutClass: channel, kind, system, features, pin, since; all but the last are the key.
	PutClass
	// DropClass: channel, kind, system, features, pin.
	DropClass
	// PutSetting: space, name, body; the first two are the key.
	PutSetting
	// DropSetting: space, name.
	DropSetting
	// PutUsage: slice, channel, group, used; the first three are the key.
	PutUsage
	// PutTook: channel, kind, name, took, count; the first three are the key.
	PutTook
	// PutFailure: channel, kind, key, body.
	PutFailure
	// DropFailure: channel, kind, key.
	DropFailure

	// DropEdge: dep, dependent's seq.
	DropEdge
	// DropEnded: seq.
	DropEnded
	// DropAttempts: seq.
	DropAttempts
	// DropResult: seq.
	DropResult
	// DropJob: seq.
	DropJob
	// DropRefsTo: job.
	DropRefsTo
	// EndRefsTo: outcome, job.
	EndRefsTo
	// DropRefs: build's seq.
	DropRefs
	// DropBuild: seq.
	DropBuild

	// AddRound: number, at, changes.
	AddRound
	// AddAnswer: request, at, reply. One that is there stays.
	AddAnswer
	// DropRounds: number; that one and those before.
	DropRounds
	// DropAnswers: place; that one and those before.
	DropAnswers
	// DropUsage: slice; those before.
	DropUsage
	// PutHead: number, at, seq, dropped.
	PutHead

	// GetHead gives number, at, seq, dropped.
	GetHead
	// GetLive: seq. It gives state, wake, delay, [attempt], [tally], [own], held, open.
	GetLive
	// GetBuild: id. It gives seq, priority, active, staged, outcome, ended.
	GetBuild
	// HasJob: id. It gives a row if there is such a job.
	HasJob
	// GetDropped: id. It gives seq, spec, outcome or 0 of the job.
	GetDropped
	// OldRounds: limit. It gives number, at, oldest first.
	OldRounds
	// OldAnswers: limit. It gives place, at, oldest first.
	OldAnswers

	// Channels gives name, body, by name.
	Channels
	// Classes gives channel, kind, system, features, pin, since, by the first five.
	Classes
	// Workers gives name, body, by name.
	Workers
	// Settings gives space, name, body, by the first two.
	Settings
	// Usage: slice. It gives slice, channel, group, used, of that one and those after, by the first three.
	Usage
	// LiveBuilds gives Build's columns, by seq.
	LiveBuilds
	// LiveJobs gives Record's columns, by seq.
	LiveJobs
	// LiveRefs: build's seq. It gives job, awaited, optional, priority, timeout, silence, and how the job had ended by what the row
	// says; by place.
	LiveRefs
	// JobOutcome: id. It gives how a job has ended by now, 0 if it has not.
	JobOutcome
	// Refs: build's seq. It gives job, awaited, optional, priority, timeout, silence, how the job has ended by now or, if it
	// is no more, what the row says; by place.
	Refs

	// SettledJob: id. It gives Record's columns of one that has left memory.
	SettledJob
	// LastResult: seq. It gives the result of the attempt that ended with the job.
	LastResult
	// AttemptEnd: job's id, number. It gives the body of an attempt that ended before its job.
	AttemptEnd
	// AttemptResult: seq, number. It gives the result of an attempt that ended before its job.
	AttemptResult
	// Kept: key, kind, channel, outcome, limit. It gives id, spec of so many jobs, newest first.
	Kept
	// Failure: channel, kind, key. It gives body.
	Failure
	// Failures: channel, kind, key, limit. It gives channel, kind, key, body, of those after the first three, by these.
	Failures
	// Took: channel, kind, name. It gives took, count.
	Took
	// EndedBuild: id. It gives Build's columns.
	EndedBuild
	// GetAnswer: request. It gives the reply.
	GetAnswer
	// Feed: number, limit. It gives number, at, changes, of those after the number, oldest first.
	Feed

	// Attempts: job's id. It gives body, [result] of those that ended before their job, by number.
	Attempts
	// EndedAttempt: job's id. It gives body, [result] of the one that ended with it, if one did.
	EndedAttempt
	// Payload: job's id. It gives [args], [result].
	Payload
	// Dependents: job's id. It gives id, by seq.
	Dependents

	// AllChannels and those that follow give the columns of whole tables: see Wholes. Those with text in their key come in any
	// order.
	AllChannels
	// AllWorkers: see AllChannels.
	AllWorkers
	// AllClasses: see AllChannels.
	AllClasses
	// AllSettings: see AllChannels.
	AllSettings
	// AllUsage: see AllChannels.
	AllUsage
	// AllTook: see AllChannels.
	AllTook
	// AllFailures: see AllChannels.
	AllFailures
	// AllBuilds, by seq.
	AllBuilds
	// AllJobs, by seq.
	AllJobs
	// AllEdges, by dep and dependent.
	AllEdges
	// AllRefs, by build and job.
	AllRefs
	// AllLive, by seq.
	AllLive
	// AllEnded, by seq.
	AllEnded
	// AllAttempts, by seq and number.
	AllAttempts
	// AllResults, by seq.
	AllResults
	// AllRounds, by number.
	AllRounds
	// AllAnswers, in the order in which they came.
	AllAnswers

	// Count is how many statements there are.
	Count
)
