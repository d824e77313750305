package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
)

type byJob struct {
	ID string `path:"id" format:"uuid" doc:"The job."`
}

func (s *Server) jobOperations() {
	type list struct {
		Cursor  string    `query:"cursor" doc:"The next of the page before; left out: the newest."`
		Limit   int       `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many at most."`
		Build   string    `query:"build" format:"uuid" doc:"Those that this build refers to."`
		Channel string    `query:"channel" maxLength:"128"`
		Kind    string    `query:"kind" maxLength:"128"`
		Name    string    `query:"name" maxLength:"128"`
		Key     string    `query:"key" maxLength:"1024"`
		Prefix  string    `query:"prefix" maxLength:"128" doc:"Those whose name begins so."`
		Worker  string    `query:"worker" maxLength:"128" doc:"Those that are done, and of which an attempt on this worker was the last; with the state running, what it runs."`
		After   time.Time `query:"after" doc:"Asked for at this time or later."`
		Until   time.Time `query:"until" doc:"Asked for before this time."`
		State   string    `query:"state" enum:"blocked,ready,running,done"`
		Outcome string    `query:"outcome" enum:"succeeded,failed,dependency-failed,timed-out,aborted,cancelled,unsupported"`
	}
	handle(s, operation{
		id: "list-jobs", method: http.MethodGet, path: "/jobs", tag: "jobs", role: reader, summary: "List jobs, the newest first",
	}, func(ctx context.Context, in *list) (*out[api.Page[api.Job]], error) {
		f := queue.JobFilter{Channel: in.Channel, Kind: in.Kind, Name: in.Name, Key: in.Key, Limit: in.Limit, Prefix: in.Prefix, Worker: in.Worker, After: timeFrom(in.After), Until: timeFrom(in.Until)}
		var err error
		if f.Before, err = cursorOf(in.Cursor); err != nil {
			return nil, err
		}
		if in.Build != "" {
			b, err := s.build(ctx, in.Build)
			if err != nil {
				return nil, err
			}
			f.Build = b.Build.ID
		}
		f.State = storedState(in.State)
		if in.Outcome != "" {
			f.Outcome, _ = job.ParseOutcome(in.Outcome)
		}
		if f.Worker != "" && f.State == storedState("running") {
			// A store knows whom a job ended with; who runs it the engine knows.
			if f.IDs, err = s.runBy(ctx, f.Worker); err != nil || len(f.IDs) == 0 {
				return &out[api.Page[api.Job]]{api.Page[api.Job]{Items: []api.Job{}}}, err
			}
			f.Worker = ""
		}
		page, err := s.jobs(ctx, f)
		return &out[api.Page[api.Job]]{page}, err
	})
	type one struct {
		ID   string  `path:"id" format:"uuid" doc:"The job."`
		Wait float64 `query:"wait_seconds" minimum:"0" maximum:"300" doc:"Answer when it has ended, or after so long."`
	}
	handle(s, operation{
		id: "get-job", method: http.MethodGet, path: "/jobs/{id}", tag: "jobs", role: reader, summary: "Show a job, or wait for its end",
	}, func(ctx context.Context, in *one) (*out[api.Job], error) {
		r, err := s.job(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if r.End == nil && in.Wait > 0 {
			held, cancel := s.held(ctx, in.Wait)
			_, err := s.Queue.AwaitJob(held, r.Spec.ID)
			ranOut := held.Err() != nil && ctx.Err() == nil
			cancel()
			if err != nil && !ranOut {
				return nil, err
			}
			if r, err = s.job(ctx, in.ID); err != nil {
				return nil, err
			}
		}
		view := viewJob(r)
		view.Needs = viewNeeds(r.Spec.Needs)
		return &out[api.Job]{view}, nil
	})
	s.jobParts()
	s.jobActions()
}

// jobParts serves what belongs to a job.
func (s *Server) jobParts() {
	handle(s, operation{
		id: "why", method: http.MethodGet, path: "/jobs/{id}/why", tag: "jobs", role: reader, summary: "Explain why a job does not run",
	}, func(ctx context.Context, in *byJob) (*out[api.Explanation], error) {
		r, err := s.job(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		pass := passOf(ctx)
		e, err := s.Queue.WhyTo(ctx, func(channels ...string) bool { return shares(pass, channels) }, r.Spec.ID)
		if errors.Is(err, queue.ErrNotFound) {
			if r, err = s.job(ctx, in.ID); err == nil && r.End != nil {
				err = job.ErrEnded
			}
		}
		if err != nil {
			return nil, err
		}
		v := viewExplanation(&e)
		s.lines.silent(v.Nearest)
		return &out[api.Explanation]{v}, nil
	})
	handle(s, operation{
		id: "get-args", method: http.MethodGet, path: "/jobs/{id}/args", tag: "jobs", role: reader, summary: "Show what a job got",
	}, func(ctx context.Context, in *byJob) (*out[api.Payload], error) {
		p, err := s.payload(ctx, in.ID)
		return &out[api.Payload]{viewPayload(p.Args)}, err
	})
	handle(s, operation{
		id: "get-result", method: http.MethodGet, path: "/jobs/{id}/result", tag: "jobs", role: reader, summary: "Show what a job left",
		about: "While it runs, what it reported as progress.",
	}, func(ctx context.Context, in *byJob) (*out[api.Payload], error) {
		p, err := s.payload(ctx, in.ID)
		return &out[api.Payload]{viewPayload(p.Result)}, err
	})
	handle(s, operation{
		id: "list-attempts", method: http.MethodGet, path: "/jobs/{id}/attempts", tag: "jobs", role: reader, summary: "List the attempts of a job, the first first",
	}, func(ctx context.Context, in *byJob) (*out[api.List[api.Attempt]], error) {
		r, err := s.job(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		ended, err := s.History.Attempts(ctx, r.Spec.ID)
		if err != nil {
			return nil, err
		}
		list := api.List[api.Attempt]{Items: []api.Attempt{}}
		for i := range ended {
			a := &ended[i]
			list.Items = append(list.Items, api.Attempt{
				Number: a.Number, Worker: a.Worker, Started: a.Start.Std(), Ended: timeOf(a.At), Outcome: a.Outcome.String(),
				Detail: a.Detail.String(), Message: a.Message,
			})
		}
		if l := r.Last; l != nil && r.Running && (len(ended) == 0 || ended[len(ended)-1].Number < l.Number) {
			list.Items = append(list.Items, api.Attempt{Number: l.Number, Worker: l.Worker, Started: l.Start.Std()})
		}
		return &out[api.List[api.Attempt]]{list}, nil
	})
	handle(s, operation{
		id: "list-dependents", method: http.MethodGet, path: "/jobs/{id}/dependents", tag: "jobs", role: reader, summary: "List the jobs that need this one, the oldest first",
	}, func(ctx context.Context, in *byJob) (*out[api.List[job.ID]], error) {
		r, err := s.job(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		ids, err := s.History.Dependents(ctx, r.Spec.ID)
		if ids == nil {
			ids = []job.ID{}
		}
		return &out[api.List[job.ID]]{api.List[job.ID]{Items: ids}}, err
	})
}

func (s *Server) jobActions() {
	type cancel struct {
		ID   string `path:"id" format:"uuid" doc:"The job."`
		Body api.CancelJob
	}
	handle(s, operation{
		id: "cancel-job", method: http.MethodPost, path: "/jobs/{id}/cancel", tag: "jobs", role: submitter, summary: "End a job as cancelled",
		about: "One that runs is stopped. If other builds need it, it is refused unless forced.",
	}, func(ctx context.Context, in *cancel) (*struct{}, error) {
		r, err := s.job(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		of := job.ID{}
		if in.Body.Build != nil {
			of = *in.Body.Build
		}
		err = s.Queue.CancelJob(ctx, r.Spec.ID, of, in.Body.Force, in.Body.Reason)
		if errors.Is(err, queue.ErrNotFound) {
			err = job.ErrEnded // it has left memory
		}
		return nil, err
	})
	type remove struct {
		ID    string `path:"id" format:"uuid" doc:"The job."`
		Force bool   `query:"force" doc:"Also if it has not ended, and several builds need it."`
	}
	handle(s, operation{
		id: "delete-job", method: http.MethodDelete, path: "/jobs/{id}", tag: "jobs", role: admin, summary: "Take a job out of the history",
		about: "One that has not ended is cancelled first; if several builds need it, that is refused unless forced. It is refused while an unfinished dependent could read it.",
	}, func(ctx context.Context, in *remove) (*struct{}, error) {
		r, err := s.job(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if r.End == nil {
			err := s.Queue.CancelJob(queue.WithRequest(ctx, job.ID{}), r.Spec.ID, job.ID{}, in.Force, "deleted")
			if err != nil && !errors.Is(err, job.ErrEnded) && !errors.Is(err, queue.ErrNotFound) {
				return nil, err
			}
		}
		held, cancel := s.held(ctx, s.Hold.Seconds())
		defer cancel()
		err = s.Queue.DeleteJob(held, r.Spec.ID)
		if err != nil && held.Err() != nil && ctx.Err() == nil {
			err = &queue.RetryError{Cause: errStopping}
		}
		return nil, err
	})
}

// errStopping says that a worker has not confirmed yet.
var errStopping = errors.New("the job is cancelled, and its worker has not confirmed that it is stopped; ask again")

// runBy gives the jobs of which a worker has an attempt.
func (s *Server) runBy(ctx context.Context, worker string) ([]job.ID, error) {
	var ids []job.ID
	err := s.Queue.Inspect(ctx, func(m *job.Machine, _ *sched.Scheduler) {
		m.Leases(worker, func(j *job.Job) { ids = append(ids, j.ID()) })
	})
	return ids, err
}

// storedState gives the word by which stores know a state.
func storedState(word string) string {
	for _, s := range []job.State{job.Blocked{}, job.Ready{}, job.Running{}, job.Done{}} {
		if stateWord(s) == word {
			return s.String()
		}
	}
	return ""
}

// job gives one that the request may see.
func (s *Server) job(ctx context.Context, text string) (*job.Record, error) {
	id, err := idOf("path.id", text)
	if err != nil {
		return nil, err
	}
	recs, err := s.History.Jobs(ctx, queue.JobFilter{IDs: []job.ID{id}, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(recs) == 0 || !passOf(ctx).sees(recs[0].Spec.Channel) {
		return nil, notFound("job", id)
	}
	return &recs[0], nil
}

// payload gives the contents of a job that the request may see.
func (s *Server) payload(ctx context.Context, text string) (queue.Payload, error) {
	r, err := s.job(ctx, text)
	if err != nil {
		return queue.Payload{}, err
	}
	return s.History.Payload(ctx, r.Spec.ID)
}

// jobs gives a page of those that the request may see: of several channels, each is asked for its own, and they are merged.
func (s *Server) jobs(ctx context.Context, f queue.JobFilter) (api.Page[api.Job], error) {
	page := api.Page[api.Job]{Items: []api.Job{}}
	pass := passOf(ctx)
	channels := []string{f.Channel}
	switch {
	case f.Channel != "":
		if err := within(ctx, f.Channel); err != nil {
			return page, err
		}
	case !pass.everywhere():
		channels = pass.channels
	}
	var all []job.Record
	more := false
	for _, c := range channels {
		f.Channel = c
		recs, err := s.History.Jobs(ctx, f)
		if err != nil {
			return page, err
		}
		more = more || len(recs) == f.Limit
		all = append(all, recs...)
	}
	if len(channels) > 1 {
		slices.SortFunc(all, func(a, b job.Record) int { return cmp.Compare(b.Seq, a.Seq) })
	}
	if len(all) > f.Limit {
		all, more = all[:f.Limit], true
	}
	for i := range all {
		page.Items = append(page.Items, viewJob(&all[i]))
	}
	if more && len(all) > 0 {
		page.Next = strconv.FormatInt(all[len(all)-1].Seq, 10)
	}
	return page, nil
}
