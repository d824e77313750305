package progress

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/headrace/headrace/job"
)

// Event is one thing that happened in a run. The set is closed; `headrace run --help` describes the JSON form.
//
//sumtype:decl
type Event interface {
	// name is the word for it in JSON.
	name() string
}

// RunStarted: the jobs are submitted.
type RunStarted struct {
	Build job.ID `json:"build"`
	// Name is the graph's, or else the file's.
	Name string `json:"name"`
	File string `json:"file"`
	// Jobs is how many the run has in all, Reused how many of them had succeeded before.
	Jobs   int `json:"jobs"`
	Reused int `json:"reused"`
	// Slots is how many jobs run at once.
	Slots int    `json:"slots"`
	Store string `json:"store"`
	// Server is where it runs, if that is not here; then Slots and Store say nothing.
	Server string `json:"server,omitempty"`
	// Forecast may be nil.
	Forecast *Forecast `json:"-"`
}

// JobReused: the job had succeeded before, and is not run again.
type JobReused struct {
	Job
}

// Job names a job of the run.
type Job struct {
	// Index is its place in the graph.
	Index int    `json:"-"`
	Name  string `json:"job"`
	ID    job.ID `json:"id"`
}

// JobStarted: an attempt began.
type JobStarted struct {
	Job
	Attempt int32     `json:"attempt"`
	Start   time.Time `json:"-"`
	Log     string    `json:"log"`
}

// JobRetried: an attempt ended and another will follow.
type JobRetried struct {
	Job
	Attempt int32   `json:"attempt"`
	Outcome string  `json:"outcome"`
	Detail  string  `json:"detail,omitempty"`
	Message string  `json:"message,omitempty"`
	Took    Seconds `json:"seconds"`
	// Wait is the time before the next attempt, Until when it is over; nil: there is none.
	Wait  Seconds    `json:"wait_seconds"`
	Until *time.Time `json:"until,omitempty"`
	Log   string     `json:"log"`
	// HandedBack: the run is being stopped; the next run makes the next attempt.
	HandedBack bool `json:"-"`
}

// JobWaiting: the job waits before its next attempt already as the run begins.
type JobWaiting struct {
	Job
	// Attempt is the one that ended badly.
	Attempt int32     `json:"attempt"`
	Outcome string    `json:"outcome"`
	Detail  string    `json:"detail,omitempty"`
	Message string    `json:"message,omitempty"`
	Until   time.Time `json:"until"`
}

// JobEnded: the job is Done.
type JobEnded struct {
	Job
	Outcome job.Outcome `json:"-"`
	Word    string      `json:"outcome"`
	Detail  string      `json:"detail,omitempty"`
	Message string      `json:"message,omitempty"`
	// Attempts is how many there were.
	Attempts int32 `json:"attempts"`
	// Took is the time of the last attempt.
	Took     Seconds `json:"seconds"`
	Optional bool    `json:"optional,omitempty"`
	// Interrupted: it was handed back, but no run goes on with it, as this one had stopped at a failure.
	Interrupted bool `json:"-"`
	// Root is the job whose end is the reason, where that is another one.
	Root        string `json:"root,omitempty"`
	RootOutcome string `json:"root_outcome,omitempty"`
	// Through is the needed job that stands between, if one does.
	Through string `json:"through,omitempty"`
	// Log is the last attempt's log; empty if there was none.
	Log string `json:"log,omitempty"`
	// Tail holds the last lines of the log of a job that did not succeed.
	Tail []string `json:"tail,omitempty"`
	// See says how to see the log of a job that ran elsewhere.
	See string `json:"-"`
}

// Notice tells something that a person may want to know.
type Notice struct {
	Job  string `json:"job,omitempty"`
	Text string `json:"text"`
}

// RunStopping: nothing more is started. Why is failure, interrupt or fault.
type RunStopping struct {
	Why  string `json:"why"`
	Text string `json:"text"`
}

// RunEnded is the last event.
type RunEnded struct {
	// Outcome is succeeded, failed, interrupted or aborted.
	Outcome string  `json:"outcome"`
	Code    int     `json:"exit_code"`
	Took    Seconds `json:"seconds"`
	// Counts tells how many jobs ended how, by the words of outcomes; reused ones are counted as succeeded, too.
	Counts map[string]int `json:"counts"`
	Reused int            `json:"reused"`
	// Unfinished jobs are for the next run; nil: no job was to start yet, and it is not known how many are left.
	Unfinished *int `json:"unfinished,omitempty"`
	// Store is what the next run will find.
	Store StoreFate `json:"-"`
}

// StoreFate is what became of the store of a run.
type StoreFate int

// A store that is sound, that could not be used any more but has what was told, and that has nothing any more.
const (
	StoreSound StoreFate = iota
	StoreFailed
	StoreLost
)

func (RunStarted) name() string  { return "run-started" }
func (JobReused) name() string   { return "job-reused" }
func (JobStarted) name() string  { return "job-started" }
func (JobRetried) name() string  { return "job-retried" }
func (JobWaiting) name() string  { return "job-waiting" }
func (JobEnded) name() string    { return "job-ended" }
func (Notice) name() string      { return "notice" }
func (RunStopping) name() string { return "run-stopping" }
func (RunEnded) name() string    { return "run-ended" }

// Seconds is a duration that JSON shows as seconds, to the millisecond.
type Seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(time.Duration(s).Round(time.Millisecond).Milliseconds())/1000, 'f', -1, 64), nil
}

// marshal gives an event as one line of JSON with its name and time first.
func marshal(e Event, at time.Time) ([]byte, error) {
	head, err := json.Marshal(struct {
		Time  time.Time `json:"time"`
		Event string    `json:"event"`
	}{at.UTC().Truncate(time.Microsecond), e.name()})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	line := append(head[:len(head)-1], ',')
	return append(append(line, body[1:]...), '\n'), nil
}
