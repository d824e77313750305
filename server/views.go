package server

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
)

// timeOf gives a time of the wire; nil: there is none.
func timeOf(t job.Time) *api.Time {
	if t == 0 {
		return nil
	}
	at := t.Std()
	return &at
}

func stateWord(s job.State) string { return strings.ToLower(s.String()) }

// channelOf gives the channel of a build; "": it was asked for by other means, and those who see all channels alone see it.
func channelOf(b *job.Build) string { return b.Labels[channelLabel] }

func viewBuild(r *job.BuildRecord) api.Build {
	b := api.Build{
		ID: r.Build.ID, Name: r.Build.Name, Channel: channelOf(&r.Build), Group: r.Build.Group, Priority: r.Build.Priority,
		Labels: labelsOf(r.Build.Labels), State: "running", Asked: r.At.Std(), Ended: timeOf(r.Ended),
		Limits: api.Limits{Timeout: api.Seconds(r.Build.Limits.Timeout), Silence: api.Seconds(r.Build.Limits.Silence)},
	}
	switch {
	case r.Ended != 0:
		b.State, b.Outcome = "ended", r.Outcome.String()
	case !r.Active:
		b.State = "waiting"
	}
	return b
}

// stateOf gives the word for where a stored job is.
func stateOf(r *job.Record) string {
	switch {
	case r.End != nil:
		return stateWord(job.Done{})
	case r.Running:
		return stateWord(job.Running{})
	case r.Ready:
		return stateWord(job.Ready{})
	}
	return stateWord(job.Blocked{})
}

func viewJob(r *job.Record) api.Job {
	s := &r.Spec
	j := api.Job{
		ID: s.ID, Name: s.Name, Channel: s.Channel, Kind: s.Kind, Key: s.Key, System: s.System, Features: s.Features, Pin: s.Pin,
		State: stateOf(r), Asked: r.At.Std(), Attempts: r.Tally.Attempts, Exclusive: s.Exclusive,
	}
	if r.End == nil {
		j.NotBefore = timeOf(max(r.Wake, s.NotBefore))
	}
	if r.Last != nil {
		j.Worker, j.Started, j.Attempts = r.Last.Worker, timeOf(r.Last.Start), r.Last.Number
	}
	if r.LastEnd != nil && r.End == nil {
		j.Detail, j.Message = r.LastEnd.Detail.String(), r.LastEnd.Message
	}
	if e := r.End; e != nil {
		j.Outcome, j.Detail, j.Cached, j.Message, j.Ended = e.Outcome.String(), e.Detail.String(), e.Cached, e.Message, timeOf(e.At)
		if !e.Root.IsZero() {
			root := e.Root
			j.Root, j.RootEnd = &root, e.RootOutcome.String()
		}
	}
	return j
}

func viewNeeds(needs []job.Need) []api.Need {
	var out []api.Need
	for _, n := range needs {
		out = append(out, api.Need{Job: n.Job.String(), Policy: n.Policy.String()})
	}
	return out
}

func viewPayload(b []byte) api.Payload {
	if len(b) > 0 && json.Valid(b) {
		return api.Payload{Value: b}
	}
	return api.Payload{Bytes: b}
}

func viewExplanation(e *sched.Explanation) api.Explanation {
	out := api.Explanation{Job: e.Job, Name: e.Name, State: strings.ToLower(e.State), Ahead: e.Ahead, Start: timeAt(e.Start)}
	for _, r := range e.Reasons {
		v := api.Reason{What: r.What, Text: r.Text, Name: r.Name, State: strings.ToLower(r.State), Worker: r.Worker, Until: timeAt(r.Until)}
		if !r.Job.IsZero() {
			id := r.Job
			v.Job = &id
		}
		out.Reasons = append(out.Reasons, v)
	}
	for _, n := range e.Nearest {
		out.Nearest = append(out.Nearest, api.Near{Worker: n.Worker, Lacks: n.Lacks, Busy: n.Busy})
	}
	return out
}

// viewReceipt tells what became of a submission, in the order in which the engine got it.
func viewReceipt(r *queue.Receipt) api.Receipt {
	out := api.Receipt{Build: r.Build, Jobs: []api.Submitted{}}
	for _, j := range r.Jobs {
		out.Jobs = append(out.Jobs, api.Submitted{ID: j.ID, How: j.How.String()})
	}
	return out
}

func timeAt(t time.Time) *api.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	return &t
}

func viewChannel(c *job.Channel) api.Channel {
	out := api.Channel{
		Name: c.Name, Discipline: "rank", Grace: api.Seconds(c.Grace), TTL: api.Seconds(c.TTL), Shares: c.Shares,
		GroupShares: c.GroupShares, FailureTTL: api.Seconds(c.FailureTTL), Paused: c.Paused, PausedKinds: c.PausedKinds,
		Retry: api.Retry{
			Failures: c.Retry.Failures, Aborts: c.Retry.Aborts, Losses: c.Retry.Losses, Crashes: c.Retry.Crashes,
			Delay: api.Seconds(c.Retry.Delay), Factor: c.Retry.Factor,
		},
	}
	if c.Discipline == job.ByAge {
		out.Discipline = "age"
	}
	if c.Grace < 0 {
		out.Grace = -1
	}
	return out
}

func viewStart(a *queue.Assignment) api.Start {
	s := api.Start{
		Lease: api.Lease{Job: a.Lease.Job, Attempt: a.Lease.Attempt, Token: a.Lease.Token.Reveal()},
		Name:  a.Spec.Name, Channel: a.Spec.Channel, Kind: a.Spec.Kind, System: a.Spec.System, Features: a.Spec.Features,
		Needs: viewNeeds(a.Spec.Needs), TTL: api.Seconds(a.TTL),
		Limits: api.Limits{Timeout: api.Seconds(a.Limits.Timeout), Silence: api.Seconds(a.Limits.Silence)},
	}
	if p := viewPayload(a.Spec.Args); p.Value != nil {
		s.Args = p.Value
	} else {
		s.ArgBytes = p.Bytes
	}
	return s
}

// timeFrom gives the engine's time of a wire's; 0: none.
func timeFrom(t time.Time) job.Time {
	if t.IsZero() {
		return 0
	}
	return job.At(t)
}

// cursor is a place in a list, newest first: what comes is below it.
func cursorOf(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, api.Invalid("query.cursor", "want the next of a page")
	}
	return n, nil
}

func idOf(at, text string) (job.ID, error) {
	id, err := job.ParseID(text)
	if err != nil || id.IsZero() {
		return id, api.Invalid(at, "want a UUID")
	}
	return id, nil
}

func notFound(what string, id fmt.Stringer) error {
	p := api.ProblemOf(job.ErrNotFound)
	p.Detail = fmt.Sprintf("there is no %s %s", what, id)
	return p
}

func parseInt32(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err
}
