package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

func wireLease(l job.Lease) api.Lease {
	return api.Lease{Job: l.Job, Attempt: l.Attempt, Token: l.Token.Reveal()}
}

func leaseOf(l *api.Lease) (job.Lease, error) {
	token, err := job.ParseToken(l.Token)
	if err != nil || l.Job.IsZero() || l.Attempt < 1 {
		return job.Lease{}, fmt.Errorf("no lease of an attempt: job %v, attempt %d", l.Job, l.Attempt)
	}
	return job.Lease{Job: l.Job, Attempt: l.Attempt, Token: token}, nil
}

// wireReport puts a report on the wire. What the server would refuse for its size is cut, or told as a failure: it would be
// stated again for ever. A result that is no JSON goes in base64.
func wireReport(r *job.Report) api.Finished {
	f := api.Finished{
		Lease: wireLease(r.Lease), Outcome: r.Outcome.String(), Detail: r.Detail.String(), Message: r.Message, Result: r.Result, NoRetry: r.NoRetry,
	}
	if len(f.Result) > job.MaxResult {
		f.Outcome, f.Detail, f.Result = job.Failed.String(), job.OutputLimit.String(), nil
		f.Message = fmt.Sprintf("its result has %d bytes, at most %d are kept", len(r.Result), job.MaxResult)
	}
	if len(f.Result) > 0 && !json.Valid(f.Result) {
		f.Result, _ = json.Marshal(r.Result) // A list of bytes becomes a text in base64.
	}
	if len(f.Message) > job.MaxMessage {
		f.Message = f.Message[:job.MaxMessage]
	}
	f.Message = strings.ToValidUTF8(f.Message, "?")
	return f
}

// reportOf reads a report that was journaled.
func reportOf(f *api.Finished) (job.Report, error) {
	lease, err := leaseOf(&f.Lease)
	if err != nil {
		return job.Report{}, err
	}
	outcome, known := job.ParseOutcome(f.Outcome)
	detail, ok := job.ParseDetail(f.Detail)
	if !known || !ok {
		return job.Report{}, fmt.Errorf("outcome %q, detail %q: not known", f.Outcome, f.Detail)
	}
	return job.Report{Lease: lease, Outcome: outcome, Detail: detail, Message: f.Message, Result: f.Result, NoRetry: f.NoRetry}, nil
}

func wireWorker(w *job.Worker, version string) *api.WorkerSpec {
	list := func(l []string) []string { return append([]string{}, l...) }
	return &api.WorkerSpec{
		Channels: list(w.Channels), Kinds: slices.Sorted(slices.Values(w.Kinds)), Systems: list(w.Systems), Features: w.Features, Mandatory: w.Mandatory,
		Slots: w.Slots, Speed: w.Speed, Version: version,
	}
}

// assignmentOf reads what is to be run; stop is closed when it is to stop.
func assignmentOf(s *api.Start, stop <-chan struct{}) (queue.Assignment, error) {
	lease, err := leaseOf(&s.Lease)
	if err != nil {
		return queue.Assignment{}, err
	}
	a := queue.Assignment{
		Lease: lease, Stop: stop, Start: time.Now(), TTL: api.Duration(s.TTL),
		Limits: job.Limits{Timeout: api.Duration(s.Timeout), Silence: api.Duration(s.Silence)},
		Spec: job.Spec{
			ID: lease.Job, Name: s.Name, Channel: s.Channel, Kind: s.Kind, System: s.System, Features: s.Features, Args: s.Args,
		},
	}
	if a.Spec.Args == nil {
		a.Spec.Args = s.ArgBytes
	}
	for _, n := range s.Needs {
		// What this program does not know of a need its handlers do not ask for.
		id, err := job.ParseID(n.Job)
		if policy, ok := job.ParsePolicy(n.Policy); err == nil && ok {
			a.Spec.Needs = append(a.Spec.Needs, job.Need{Job: id, Policy: policy})
		}
	}
	return a, nil
}
