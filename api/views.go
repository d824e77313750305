package api

import (
	"encoding/json"

	"github.com/headrace/headrace/job"
)

// Build is a build as lists show it.
type Build struct {
	ID       job.ID            `json:"id" format:"uuid"`
	Name     string            `json:"name"`
	Channel  string            `json:"channel"`
	Group    string            `json:"group,omitempty"`
	Priority int32             `json:"priority"`
	Labels   map[string]string `json:"labels,omitempty"`
	State    string            `json:"state" enum:"waiting,running,ended" doc:"waiting: its concurrency key is full."`
	Outcome  string            `json:"outcome,omitempty" enum:"succeeded,failed,dependency-failed,timed-out,aborted,cancelled,unsupported"`
	Asked    Time              `json:"asked" format:"date-time"`
	Ended    *Time             `json:"ended,omitempty" format:"date-time"`
	Limits
	// Counts is given for a single build alone.
	Counts *Counts `json:"counts,omitempty"`
}

// Counts says how many jobs of a build are where.
type Counts struct {
	Jobs    int            `json:"jobs"`
	States  map[string]int `json:"states" doc:"By state: blocked, ready, running, done."`
	Ends    map[string]int `json:"outcomes" doc:"Of those that are done, by outcome."`
	Further bool           `json:"further,omitempty" doc:"There are more jobs than were counted."`
}

// Job is a job as lists show it.
type Job struct {
	ID       job.ID   `json:"id" format:"uuid"`
	Name     string   `json:"name,omitempty"`
	Channel  string   `json:"channel"`
	Kind     string   `json:"kind"`
	Key      string   `json:"key,omitempty"`
	System   string   `json:"system,omitempty"`
	Features []string `json:"features,omitempty"`
	Pin      string   `json:"pin,omitempty"`
	// State is where it is, Outcome how it ended.
	State     string  `json:"state" enum:"blocked,ready,running,done"`
	Outcome   string  `json:"outcome,omitempty" enum:"succeeded,failed,dependency-failed,timed-out,aborted,cancelled,unsupported"`
	Detail    string  `json:"detail,omitempty" doc:"Refines the outcome, such as log-limit or lease-lost."`
	Cached    bool    `json:"cached,omitempty" doc:"It never ran: an earlier verdict on its key was remembered."`
	Message   string  `json:"message,omitempty"`
	Root      *job.ID `json:"root,omitempty" format:"uuid" doc:"The job whose end is the reason, where a dependency failed."`
	RootEnd   string  `json:"root_outcome,omitempty"`
	Asked     Time    `json:"asked" format:"date-time"`
	NotBefore *Time   `json:"not_before,omitempty" format:"date-time" doc:"It waits for this moment."`
	Started   *Time   `json:"started,omitempty" format:"date-time" doc:"The start of the last attempt."`
	Ended     *Time   `json:"ended,omitempty" format:"date-time"`
	Worker    string  `json:"worker,omitempty" doc:"Of the last attempt."`
	Attempts  int32   `json:"attempts"`
	Exclusive bool    `json:"exclusive,omitempty"`
	// Needs are given for a single job alone.
	Needs []Need `json:"needs,omitempty"`
}

// Attempt is one run of a job.
type Attempt struct {
	Number  int32  `json:"number" minimum:"1"`
	Worker  string `json:"worker"`
	Started Time   `json:"started" format:"date-time"`
	Ended   *Time  `json:"ended,omitempty" format:"date-time" doc:"Left out while it runs."`
	Outcome string `json:"outcome,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Message string `json:"message,omitempty"`
	LogSize *int64 `json:"log_size,omitempty" doc:"Bytes of its log, where there is one."`
}

// Payload is what a job got, or what it left: JSON as it is, anything else in base64.
type Payload struct {
	Value json.RawMessage `json:"value,omitempty" doc:"If it is JSON."`
	Bytes []byte          `json:"bytes,omitempty" doc:"If it is not, in base64."`
}

// Explanation tells why a job does not run.
type Explanation struct {
	Job     job.ID   `json:"job" format:"uuid"`
	Name    string   `json:"name,omitempty"`
	State   string   `json:"state" enum:"blocked,ready,running,done"`
	Reasons []Reason `json:"reasons,omitempty"`
	Nearest []Near   `json:"nearest,omitempty" doc:"The workers that come closest to running it, the closest first."`
	Ahead   int      `json:"ahead,omitempty" doc:"How many would go first, counted up to 10,000."`
	Start   *Time    `json:"start,omitempty" format:"date-time" doc:"A guess at when it may start."`
}

// Reason is one thing that holds a job back.
type Reason struct {
	What   string  `json:"what" doc:"dependency, not-before, back-off, stopping, build-waits, paused, concurrency-key, unsupported, no-free-worker, nobody-asks, reserved or ahead."`
	Text   string  `json:"text"`
	Job    *job.ID `json:"job,omitempty" format:"uuid"`
	Name   string  `json:"name,omitempty"`
	State  string  `json:"state,omitempty"`
	Worker string  `json:"worker,omitempty"`
	Until  *Time   `json:"until,omitempty" format:"date-time"`
}

// Near is a worker and what keeps it from running a job.
type Near struct {
	Worker string   `json:"worker"`
	Lacks  []string `json:"lacks,omitempty"`
	Busy   string   `json:"busy,omitempty"`
}

// Page is a part of a list, newest first.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is the cursor of the page after this one; "": this is the last.
	Next string `json:"next,omitempty" doc:"The cursor of the next page; left out on the last."`
}

// Artifact is a file that an attempt left.
type Artifact struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256" pattern:"^[0-9a-f]{64}$"`
	At     Time   `json:"at" format:"date-time"`
}

// Channel is the policy of a channel.
type Channel struct {
	Name       string `json:"name" maxLength:"128"`
	Discipline string `json:"discipline,omitempty" enum:"rank,age" doc:"rank: priority, share, longest path, age. age: first come, first served. Left out: rank."`
	// Grace below 0 is for ever.
	Grace       float64          `json:"grace_seconds" minimum:"-1" maximum:"315360000" doc:"How long a job that no known worker could run waits before it ends unsupported; -1: for ever."`
	TTL         float64          `json:"ttl_seconds" minimum:"1" maximum:"315360000" doc:"Of a lease; workers renew it at a third of that."`
	Retry       Retry            `json:"retry" doc:"Of jobs that state none."`
	Shares      int32            `json:"shares,omitempty" minimum:"0"`
	GroupShares map[string]int32 `json:"group_shares,omitempty"`
	FailureTTL  float64          `json:"failure_ttl_seconds,omitempty" minimum:"0" maximum:"315360000" doc:"Ends remembered failures; 0: never."`
	Paused      bool             `json:"paused,omitempty"`
	PausedKinds []string         `json:"paused_kinds,omitempty" maxItems:"1000"`
}

// CachedFailure is a remembered verdict.
type CachedFailure struct {
	Channel string `json:"channel"`
	Kind    string `json:"kind"`
	Key     string `json:"key"`
	System  string `json:"system,omitempty" doc:"Of the job; the verdict counts for jobs of the same alone."`
	// Job gave the verdict.
	Job     *job.ID `json:"job,omitempty" format:"uuid" doc:"That gave the verdict."`
	Outcome string  `json:"outcome,omitempty"`
	Message string  `json:"message,omitempty"`
	At      *Time   `json:"at,omitempty" format:"date-time"`
	Until   *Time   `json:"until,omitempty" format:"date-time" doc:"It is remembered up to then; left out: until it is cleared."`
}
