package api

import (
	"encoding/json"

	"github.com/headrace/headrace/job"
)

// ProtocolVersion is that of sync. A server refuses another one with the problem "version".
const ProtocolVersion = 1

// LeaseHeader carries a lease's token where the path names the attempt.
const LeaseHeader = "Headrace-Lease"

// Sync is all that a worker says: one call that states the whole truth, who it is, what it runs, what has ended and is not yet
// acknowledged, and how much it wants. It is a long poll, and can be repeated without harm: the answer rests on what is stated alone.
// So either side may be killed, or an answer lost, at any moment: the next call heals it.
//
// The server
//   - registers the worker, if it does not know it as it is described;
//   - records what has ended, and acknowledges it: a worker states an ended attempt until it is acknowledged;
//   - renews the leases of what runs;
//   - starts work: also what was started before, and is neither stated as running nor as ended, is given again;
//   - says what to stop: each running attempt that is cancelled, or that it does not know.
//
// If there is nothing to say, it holds the call for up to WaitSeconds. A worker that has news meanwhile calls again with the next
// Number: the call that waits is then answered, with nothing. A call with a number that is lower than one that has come is answered so
// at once, as what it states is out of date. A worker must disregard an answer to a call that is older than one whose
// answer it has heeded.
type Sync struct {
	Version int `json:"version" minimum:"1" doc:"Of the protocol: 1."`
	// Session is one life of the worker.
	Session job.ID `json:"session" format:"uuid" doc:"One life of the worker; a second one under a live name is refused."`
	Number  uint64 `json:"number,omitempty" doc:"Counts the calls of the session, if the worker makes several at once."`
	// Worker describes it; nil: it is as it was registered.
	Worker   *WorkerSpec `json:"worker,omitempty" doc:"Who it is; may be left out by one that is registered."`
	Machine  *Machine    `json:"machine,omitempty" doc:"How its machine is."`
	Running  []Running   `json:"running,omitempty" maxItems:"100000"`
	Finished []Finished  `json:"finished,omitempty" maxItems:"100000"`
	// Drained is what the worker was told last.
	Drained bool `json:"drained,omitempty" doc:"What the worker was told last: if it is no longer so, it is told at once."`
	// Want is how many jobs it would take now.
	Want        int     `json:"want,omitempty" minimum:"0" maximum:"100000" doc:"How many jobs it would take now; 0: none, as one that drains."`
	WaitSeconds float64 `json:"wait_seconds,omitempty" minimum:"0" maximum:"300" doc:"How long the answer may take if there is nothing to say; the server may say less."`
}

// WorkerSpec describes a worker.
type WorkerSpec struct {
	Channels  []string `json:"channels" maxItems:"64" doc:"Whose jobs it takes; [\"*\"]: all."`
	Kinds     []string `json:"kinds" minItems:"1" maxItems:"64"`
	Systems   []string `json:"systems" maxItems:"64"`
	Features  []string `json:"features,omitempty" maxItems:"256" doc:"That it supports."`
	Mandatory []string `json:"mandatory,omitempty" maxItems:"256" doc:"Those of them that a job must require."`
	Slots     int32    `json:"slots" minimum:"1" maximum:"100000"`
	Speed     float64  `json:"speed,omitempty" minimum:"0" maximum:"1000000" doc:"Its speed factor; 0 counts as 1."`
	Version   string   `json:"version,omitempty" maxLength:"128" doc:"Of its program."`
}

// Machine is how a worker's machine is; it changes nothing durable.
type Machine struct {
	Load       float64 `json:"load,omitempty" minimum:"0" doc:"Processes that run besides; the lower, the sooner it is served."`
	Memory     int64   `json:"memory_bytes,omitempty" minimum:"0"`
	MemoryFree int64   `json:"memory_free_bytes,omitempty" minimum:"0"`
	Disk       int64   `json:"disk_bytes,omitempty" minimum:"0"`
	DiskFree   int64   `json:"disk_free_bytes,omitempty" minimum:"0"`
}

// Lease names an attempt and shows the right to it.
type Lease struct {
	Job     job.ID `json:"job" format:"uuid"`
	Attempt int32  `json:"attempt" minimum:"1"`
	Token   string `json:"token" minLength:"1" maxLength:"64"`
}

// Running is an attempt that a worker works on.
type Running struct {
	Lease
	// Silent is how long ago it last gave a sign of output; nil: not known, so that its worker alone judges its silence.
	Silent *float64 `json:"silent_seconds,omitempty" minimum:"0" doc:"How long ago it last gave a sign of output, by the worker's clock."`
	// Stopping: the worker stops it, and need not be told again.
	Stopping bool `json:"stopping,omitempty" doc:"The worker stops it, as it was told to, and need not be told again."`
}

// Finished is an attempt that has ended.
type Finished struct {
	Lease
	Outcome string          `json:"outcome" enum:"succeeded,failed,timed-out,aborted,cancelled"`
	Detail  string          `json:"detail,omitempty" maxLength:"64" doc:"Such as log-limit, missing-output, worker-fault or handed-back."`
	Message string          `json:"message,omitempty" maxLength:"65536"`
	Result  json.RawMessage `json:"result,omitempty" doc:"What the job leaves: any JSON, at most 16 MiB."`
	NoRetry bool            `json:"no_retry,omitempty" doc:"No further attempt, whatever the budgets say."`
}

// SyncReply is what a worker is told.
type SyncReply struct {
	// Superseded: a later call of the session has come; disregard this answer.
	Superseded bool `json:"superseded,omitempty"`
	// Acknowledged lists the ended attempts that need not be stated again.
	Acknowledged []Acknowledged `json:"acknowledged,omitempty"`
	Start        []Start        `json:"start,omitempty" doc:"What to run. What is running already must not be started again."`
	Stop         []Stop         `json:"stop,omitempty" doc:"What to stop; when it is over it is stated as finished."`
	Drained      bool           `json:"drained,omitempty" doc:"It is given nothing new."`
	// Wanted is the version of the worker's program that the server would have; "": it does not mind.
	Wanted string `json:"wanted_version,omitempty"`
}

// Acknowledged is an ended attempt that the server has recorded, or will never.
type Acknowledged struct {
	Job     job.ID `json:"job" format:"uuid"`
	Attempt int32  `json:"attempt"`
	// Problem says why it counted for nothing; nil: it counted.
	Problem *Problem `json:"problem,omitempty"`
}

// Start is an attempt to run.
type Start struct {
	Lease
	Name     string          `json:"name,omitempty"`
	Channel  string          `json:"channel"`
	Kind     string          `json:"kind"`
	System   string          `json:"system,omitempty"`
	Features []string        `json:"features,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"`
	ArgBytes []byte          `json:"arg_bytes,omitempty" doc:"The arguments in base64, if they are not JSON."`
	Needs    []Need          `json:"needs,omitempty"`
	TTL      float64         `json:"ttl_seconds" doc:"Of the lease."`
	Limits
}

// Stop is an attempt to stop.
type Stop struct {
	Job     job.ID `json:"job" format:"uuid"`
	Attempt int32  `json:"attempt"`
}

// Registration registers a worker without a sync, for the simplest ones.
type Registration struct {
	Session job.ID `json:"session" format:"uuid"`
	WorkerSpec
	Running []Lease `json:"running,omitempty" maxItems:"100000" doc:"What it still runs; what it had besides is ended as crashed."`
}

// Worker is a worker as lists show it.
type Worker struct {
	Name string `json:"name"`
	WorkerSpec
	Online  bool     `json:"online" doc:"It waits for work or has attempts, and was heard of within a lease."`
	Drained bool     `json:"drained,omitempty"`
	Faults  int32    `json:"faults,omitempty" doc:"How often in a row it failed on its own account."`
	Until   *Time    `json:"quarantined_until,omitempty" format:"date-time"`
	Running []job.ID `json:"running,omitempty" doc:"The jobs that it has."`
	Waits   int      `json:"waits,omitempty" doc:"For so many jobs."`
	Seen    *Time    `json:"seen,omitempty" format:"date-time" doc:"When it was last heard of by this server."`
	Machine *Machine `json:"machine,omitempty"`
}
