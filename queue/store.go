package queue

import (
	"context"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
)

// Store keeps what the engine decides. It is owned by one Queue, which makes one Commit at a time, and calls the others
// from any goroutine meanwhile. Package storetest holds every backend to this contract.
//
// Errors are those of the backend, with the operation and its subject before them; the Queue treats a
// failed Commit as one that may have happened, and asks Committed.
type Store interface {
	// Load calls fn with the changes that, applied to an empty Machine, give the unfinished state: channels,
	// classes, workers, settings, usage of the last day, then live builds, then live jobs by Seq (those that are not
	// Done, and the Done ones that are Open or Held), then each live build's references, those to settled jobs
	// with how they Ended. A job has the Staging that it was made with, but no more once that build was sealed. Payloads
	// (Args, Result) are left out.
	//
	// A record that cannot be read goes to Head.Corrupt and the rest goes on. Live jobs and builds among them are given,
	// in their places, as stand-ins, so that nobody waits for them for ever: a job with its ID and Seq alone and, if it is
	// Done, how it ended and what holds it in memory; a build with its ID, Seq, At, Active and Staged. A job whose
	// newest ended attempt alone is corrupt is given without that; if it is Held, the Machine lets go of it at once.
	Load(ctx context.Context, fn func(job.Change) error) (Head, error)

	// Commit stores the batch whole and for good, or not at all. Numbers are consecutive; a number that is
	// already stored is refused with ErrNumber, and nothing is changed. So is a batch with a change that is
	// impossible, as one to a job that is unknown or has left memory. JobStarted sets Tally.Attempts to the
	// attempt's Number; a job that is Done has no Wake and no Delay. JobDeleted leaves those references to the
	// job that say how it ended. BuildReferred to a job that the build refers to already puts, in the same place, the
	// newer over the older (job.Ref.Over). No field is kept by reference; an empty list, map or blob may read back as nil.
	Commit(ctx context.Context, b *Batch) error

	// Committed reports whether the batch of that number is stored.
	Committed(ctx context.Context, number uint64) (bool, error)

	// Lookup reads in one go what a round's commands name. Jobs are those that Load would not give; they come
	// without Args but with the Result of their last attempt. A record that cannot be read is not found, but for Kept,
	// which says what identity and outcome do; an ended attempt that cannot be read is left out of its job.
	Lookup(ctx context.Context, q *Query) (*Found, error)

	// Feed gives up to limit rounds after the given number, oldest first, none if there is none yet. It leaves none out: it
	// stops before a round that is gone or cannot be read. If that is the very next, it reports a *FeedGapError, an
	// ErrFeedTruncated that says from where the feed can be read on.
	Feed(ctx context.Context, after uint64, limit int) ([]Round, error)

	// Close frees what the store holds. No other call may be under way.
	Close() error
}

// Fenced is what a Store has besides if another process can take it from its owner.
type Fenced interface {
	// Owned reports nil while nobody else can be the owner, ErrFenced once somebody is, and another error while that is
	// not known. It is quick.
	Owned() error
	// Lost is closed once somebody else is the owner.
	Lost() <-chan struct{}
}

// Head is where a store stands.
type Head struct {
	Number uint64 // of the last batch; 0: none
	Seq    int64  // the greatest Seq ever given; 0: none
	// Corrupt lists the records that could not be read.
	Corrupt []Corrupt
}

// Corrupt is a record that was set aside.
type Corrupt struct {
	Table string
	Key   string
	// Job is its id, if the record is that of a job that is not Done, and Build if it is that of a live build: they can
	// only be ended.
	Job   job.ID
	Build job.ID
	Seq   int64
	Err   error
}

// Batch is one round's changes.
type Batch struct {
	Number  uint64 // from 1
	At      job.Time
	Changes []job.Change
	// Answers to requests that carry an id, kept so that a repeat gets the first answer.
	Answers []Answer
}

// Answer is what a request was told.
type Answer struct {
	Request job.ID
	Reply   []byte
}

// Query names what a Lookup reads.
type Query struct {
	Jobs     []job.ID
	Leases   []job.Lease    // how the attempts ended that they gave the right to
	Kept     []job.Likeness // newest success with this likeness, while it is kept, among the KeptMost newest of its identity
	Cached   []job.Identity
	Took     []job.Series
	Builds   []job.ID
	Requests []job.ID
}

// KeptMost is how many successes of an identity are looked at for one of the class that is asked for: whoever asks for more
// classes under one key in turn than there is room for has a job run again.
const KeptMost = 100

// Empty reports whether there is nothing to read.
func (q *Query) Empty() bool { return q.size() == 0 }

func (q *Query) size() int {
	return len(q.Jobs) + len(q.Leases) + len(q.Kept) + len(q.Cached) + len(q.Took) + len(q.Builds) + len(q.Requests)
}

// tidy takes out what is named twice: hundreds of commands of one round ask for one series.
func (q *Query) tidy() {
	q.Jobs, q.Leases, q.Kept, q.Cached = unique(q.Jobs), unique(q.Leases), unique(q.Kept), unique(q.Cached)
	q.Took, q.Builds, q.Requests = unique(q.Took), unique(q.Builds), unique(q.Requests)
}

// unique leaves the first of those that are equal, in place.
func unique[T comparable](list []T) []T {
	if len(list) < 2 {
		return list
	}
	seen := make(map[T]bool, len(list))
	return slices.DeleteFunc(list, func(v T) bool {
		again := seen[v]
		seen[v] = true
		return again
	})
}

// Found is what a Lookup read.
type Found struct {
	job.Facts
	Answers map[job.ID][]byte
}

// Round is one row of the change feed. Its changes carry no Args, no Result, no token and no Body of a setting.
type Round struct {
	Number  uint64
	At      job.Time
	Changes []job.Change
}

// History is the read-only side of a store: it also answers for what has left memory, as of the last
// commit. Lists are keyset pages: newest first, below Before. Records that cannot be read are left out, and stop no list.
type History interface {
	// Jobs lists jobs; a *job.InvalidError if the filter cannot be (see JobFilter.Check). Their Results are left out, and so are their Args unless the filter asks for them. Those made for a
	// build that is staged are left out unless they are asked for by IDs or Build.
	Jobs(ctx context.Context, f JobFilter) ([]job.Record, error)
	// Builds lists builds, with the same error; staged ones are left out.
	Builds(ctx context.Context, f BuildFilter) ([]job.BuildRecord, error)
	// Refs gives a build's references in the order in which they were made, with how they Ended.
	Refs(ctx context.Context, build job.ID) ([]job.Ref, error)
	// Attempts gives the ended attempts of a job, oldest first, with their results.
	Attempts(ctx context.Context, id job.ID) ([]job.AttemptEnd, error)
	// Payload gives what the job got and what it left; ErrNotFound if there is no such job.
	Payload(ctx context.Context, id job.ID) (Payload, error)
	// Dependents gives the jobs that name this one as a dependency, oldest first.
	Dependents(ctx context.Context, id job.ID) ([]job.ID, error)
}

// Payload is a job's opaque contents. An empty Result never replaces one that is there: what an attempt
// reported as progress stays until a later attempt or the end brings another.
type Payload struct {
	Args   []byte
	Result []byte
}

// JobFilter selects jobs; zero fields select all.
type JobFilter struct {
	IDs     []job.ID
	Build   job.ID // jobs that this build references
	Channel string
	Kind    string
	Name    string
	Prefix  string // how the Name begins, in UTF-8; instead of Name
	Key     string
	// State is the word of a State; Outcome selects Done jobs only.
	State   string
	Outcome job.Outcome
	// Worker selects Done jobs only: those with which an attempt on that worker ended. A job that ended between two attempts, as by a
	// cancel, is none of them. What a worker has now is in WorkerView.Leases.
	Worker string
	// After and Until select what was asked for (At) at After or later, and before Until; 0: no bound. They are found by halving, as At
	// follows Seq: where a clock was set back between two owners, some of what was asked for around that may be left out.
	After, Until job.Time
	// Args has the jobs come with their Args.
	Args   bool
	Before int64 // Seq; 0: from the newest
	Limit  int   // 0: 100; at most 10,000
}

// BuildFilter selects builds; zero fields select all.
type BuildFilter struct {
	IDs     []job.ID
	Job     job.ID // builds that refer to this job
	Name    string
	Prefix  string      // how the Name begins, in UTF-8; instead of Name
	Live    bool        // only those that have not ended
	Outcome job.Outcome // only those that ended so
	// After and Until: see JobFilter.
	After, Until job.Time
	Before       int64
	Limit        int // 0: 100; at most 10,000
}

// FeedRetention is how long the change feed is kept.
const FeedRetention = 7 * 24 * time.Hour

// AnswerRetention is how long the answers to requests are kept at least.
const AnswerRetention = 24 * time.Hour

// How many rounds and answers that are too old one commit drops at most: more than it adds, so that the rest shrinks. Of
// answers it may drop twice as many as it adds on top.
const (
	FeedPortion   = 8
	AnswerPortion = 64
)

// FirstSlice gives the oldest slice of usage that still counts at a moment, for those that are not loaded any more.
func FirstSlice(at job.Time) int64 {
	width := int64(job.UsageSlice / time.Microsecond)
	return int64(at)/width - int64(job.UsageWindow/job.UsageSlice) + 1
}

// PageLimit gives how long a page of a list is, for the Limit of its filter.
func PageLimit(limit int) int {
	const usual, most = 100, 10_000
	if limit <= 0 {
		return usual
	}
	return min(limit, most)
}
