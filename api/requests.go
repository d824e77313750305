package api

import (
	"encoding/json"

	"github.com/headrace/headrace/job"
)

// CancelBuild asks for the end of a build.
type CancelBuild struct {
	Spare bool `json:"spare,omitempty" doc:"What runs goes on, and is recorded."`
}

// Bump asks for a new priority.
type Bump struct {
	Priority int32 `json:"priority" minimum:"-1073741824" maximum:"1073741824"`
}

// CancelJob asks for the end of a job.
type CancelJob struct {
	Force  bool    `json:"force,omitempty" doc:"Also if other builds need it."`
	Build  *job.ID `json:"build,omitempty" format:"uuid" doc:"The build on whose behalf it is asked: others that need the job are in the way, this one is not."`
	Reason string  `json:"reason,omitempty" maxLength:"1000" doc:"Kept as the job's message."`
}

// PauseChannel says what of a channel is to pause, or to go on.
type PauseChannel struct {
	Kind string `json:"kind,omitempty" maxLength:"128" doc:"Only this kind; left out, all."`
}

// SignOff says which session of a worker is over.
type SignOff struct {
	Session job.ID `json:"session" format:"uuid"`
}

// LeaseRequest asks for jobs, for workers that make one call for one thing.
type LeaseRequest struct {
	Session job.ID  `json:"session" format:"uuid"`
	Want    int     `json:"want,omitempty" minimum:"1" maximum:"100000" default:"1"`
	Wait    float64 `json:"wait_seconds,omitempty" minimum:"0" maximum:"300" doc:"How long the answer may take if nothing is ready."`
}

// LeaseReply is what such a worker is to run.
type LeaseReply struct {
	Start []Start `json:"start"`
}

// Finish is the end of an attempt that the path names.
type Finish struct {
	Outcome string          `json:"outcome" enum:"succeeded,failed,timed-out,aborted,cancelled"`
	Detail  string          `json:"detail,omitempty" maxLength:"64" doc:"Such as log-limit, missing-output, worker-fault or handed-back."`
	Message string          `json:"message,omitempty" maxLength:"65536"`
	Result  json.RawMessage `json:"result,omitempty" doc:"What the job leaves: any JSON, at most 16 MiB."`
	NoRetry bool            `json:"no_retry,omitempty" doc:"No further attempt, whatever the budgets say."`
}

// List is a list that is whole.
type List[T any] struct {
	Items []T `json:"items"`
}
