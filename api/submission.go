package api

import (
	"encoding/json"
	"time"

	"github.com/headrace/headrace/job"
)

// DefaultChannel is the channel of what names none.
const DefaultChannel = "default"

// DefaultKind is the kind of jobs that name none: those that run a command.
const DefaultKind = "command"

// Submission asks for a build: a set of jobs, with a name and a priority. It is made whole or not at all.
type Submission struct {
	BuildSpec
	Jobs []JobSpec `json:"jobs" maxItems:"1000000" doc:"In any order. A job that others need is named by its id or its name."`
}

// BuildSpec is a build as it is asked for, without its jobs.
type BuildSpec struct {
	Name     string `json:"name" minLength:"1" maxLength:"128"`
	Channel  string `json:"channel,omitempty" maxLength:"128" doc:"Of all its jobs; \"default\" if it is left out."`
	Group    string `json:"group,omitempty" maxLength:"128" doc:"The share group whose use of the farm it counts against."`
	Priority int32  `json:"priority,omitempty" minimum:"-1073741824" maximum:"1073741824"`
	Limits
	Gate   *Gate             `json:"gate,omitempty" doc:"Limits how many builds of one concurrency key of the channel are under way at once."`
	Labels map[string]string `json:"labels,omitempty" doc:"For the asker; at most 256. Names that begin with \"headrace.\" are the server's."`
}

// JobSpec is a job as it is asked for.
type JobSpec struct {
	ID           *job.ID  `json:"id,omitempty" format:"uuid" doc:"Given by the asker; left out, the server gives one."`
	Name         string   `json:"name,omitempty" maxLength:"128" doc:"For people, and for the needs of other jobs."`
	Kind         string   `json:"kind,omitempty" maxLength:"128" doc:"What sort of work; \"command\" if it is left out."`
	Key          string   `json:"key,omitempty" maxLength:"1024" doc:"Its identity over builds: two unfinished jobs of a channel and kind never share it."`
	System       string   `json:"system,omitempty" maxLength:"128" doc:"Such as x86_64-linux; left out, any will do."`
	Features     []string `json:"features,omitempty" maxItems:"64" doc:"That its worker must support."`
	Pin          string   `json:"pin,omitempty" maxLength:"128" doc:"The only worker that may run it."`
	Needs        []Need   `json:"needs,omitempty" maxItems:"100000"`
	Exclusive    bool     `json:"exclusive,omitempty" doc:"It has its worker to itself."`
	NotBefore    *Time    `json:"not_before,omitempty" format:"date-time" doc:"The earliest start."`
	Gate         *Gate    `json:"gate,omitempty" doc:"Limits how many jobs of one concurrency key of the channel run at once."`
	Retry        *Retry   `json:"retry,omitempty"`
	CacheFailure bool     `json:"cache_failure,omitempty" doc:"A verdict is remembered: the next job of this key fails at once until that is cleared."`
	Reuse        bool     `json:"reuse,omitempty" doc:"A kept success of this key serves instead of a new run."`
	Estimate     float64  `json:"estimate_seconds,omitempty" minimum:"0" maximum:"315360000" doc:"How long it is thought to take; left out, learned from history."`
	// Args is what the executor gets; for commands worker.CommandArgs.
	Args json.RawMessage `json:"args,omitempty" doc:"What the executor gets: any JSON, at most 16 MiB. Of the kind command: shell or argv, env, dir, retry_on, outputs, log_limit."`
	// Role says what the end of the job is to its build.
	Role     string `json:"role,omitempty" enum:"target,awaited,optional" doc:"A target's end counts in the verdict of the build; an awaited one's does not, but the build waits for it; the build does not wait for an optional one. Left out: target."`
	Priority int32  `json:"priority,omitempty" minimum:"-1073741824" maximum:"1073741824" doc:"Added to the build's."`
	Limits
}

// Roles of a job in its build.
const (
	RoleTarget   = "target"
	RoleAwaited  = "awaited"
	RoleOptional = "optional"
)

// Need is a dependency.
type Need struct {
	Job    string `json:"job" minLength:"1" maxLength:"128" doc:"The id of a job, or the name of one of the same submission."`
	Policy string `json:"policy,omitempty" enum:"success,finish,order" doc:"success: it must succeed. finish: any end will do. order: it only goes first where both wait. Left out: success."`
}

// Limits bound each attempt; what is left out bounds nothing.
type Limits struct {
	Timeout float64 `json:"timeout_seconds,omitempty" minimum:"0" maximum:"315360000" doc:"From the start of the attempt."`
	Silence float64 `json:"silence_seconds,omitempty" minimum:"0" maximum:"315360000" doc:"Without a sign of output."`
}

// Gate is a concurrency key with how many may be under way at once.
type Gate struct {
	Key   string `json:"key" minLength:"1" maxLength:"1024"`
	Limit int32  `json:"limit" minimum:"1"`
}

// Retry says how often an attempt that did not end well is followed by another. What is left out is the channel's; below 0: never.
type Retry struct {
	Failures int32   `json:"failures,omitempty" doc:"How many verdicts are tried again."`
	Aborts   int32   `json:"aborts,omitempty" doc:"How many attempts may end aborted before the job does."`
	Losses   int32   `json:"losses,omitempty" doc:"How many lost leases are tried again."`
	Crashes  int32   `json:"crashes,omitempty" doc:"How many crashes of workers are tried again."`
	Delay    float64 `json:"delay_seconds,omitempty" minimum:"0" maximum:"315360000" doc:"Before the second attempt after an abort."`
	Factor   int32   `json:"factor,omitempty" minimum:"0" maximum:"1000" doc:"Each further one waits so many times as long."`
}

// Receipt tells what became of a submission.
type Receipt struct {
	Build job.ID      `json:"build" format:"uuid"`
	Jobs  []Submitted `json:"jobs" doc:"One for each job asked for, in order."`
	// Round is the place of the feed from which events tell of it.
	Round uint64 `json:"round" doc:"The cursor from which events tell what becomes of it."`
}

// Submitted tells which job stands for one that was asked for.
type Submitted struct {
	ID  job.ID `json:"id" format:"uuid"`
	How string `json:"how" enum:"created,joined,reused,cached-failure" doc:"created: it is new. joined: an unfinished one of its key serves for both. reused: a kept success serves. cached-failure: it failed at once, as its key failed before."`
}

// Time is a moment on the wire: RFC 3339, UTC, microseconds.
type Time = time.Time

// Duration gives a span of time of a wire's number of seconds.
func Duration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond)
}

// Seconds is the inverse of Duration.
func Seconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Second)
}
