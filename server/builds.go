package server

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

type byBuild struct {
	ID string `path:"id" format:"uuid" doc:"The build."`
}

type out[T any] struct{ Body T }

func (s *Server) buildOperations() {
	type list struct {
		Cursor  string    `query:"cursor" doc:"The next of the page before; left out: the newest."`
		Limit   int       `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many at most."`
		Job     string    `query:"job" format:"uuid" doc:"Those that refer to this job."`
		Name    string    `query:"name" maxLength:"128"`
		Live    bool      `query:"live" doc:"Only those that have not ended."`
		Prefix  string    `query:"prefix" maxLength:"128" doc:"Those whose name begins so."`
		Outcome string    `query:"outcome" enum:"succeeded,failed,dependency-failed,timed-out,aborted,cancelled,unsupported"`
		Channel string    `query:"channel" maxLength:"128"`
		After   time.Time `query:"after" doc:"Asked for at this time or later."`
		Until   time.Time `query:"until" doc:"Asked for before this time."`
	}
	handle(s, operation{
		id: "list-builds", method: http.MethodGet, path: "/builds", tag: "builds", role: reader, summary: "List builds, the newest first",
	}, func(ctx context.Context, in *list) (*out[api.Page[api.Build]], error) {
		before, err := cursorOf(in.Cursor)
		if err != nil {
			return nil, err
		}
		f := queue.BuildFilter{
			Name: in.Name, Live: in.Live, Before: before, Limit: in.Limit, Prefix: in.Prefix, After: timeFrom(in.After), Until: timeFrom(in.Until),
		}
		if in.Outcome != "" {
			f.Outcome, _ = job.ParseOutcome(in.Outcome)
		}
		if in.Channel != "" {
			if err := within(ctx, in.Channel); err != nil {
				return nil, err
			}
		}
		if in.Job != "" {
			r, err := s.job(ctx, in.Job)
			if err != nil {
				return nil, err
			}
			f.Job = r.Spec.ID
		}
		page, err := s.builds(ctx, f, in.Channel)
		return &out[api.Page[api.Build]]{page}, err
	})
	s.raw(operation{
		id: "submit-build", method: http.MethodPost, path: "/builds", tag: "builds", role: submitter, status: http.StatusCreated,
		also: []int{http.StatusUnsupportedMediaType}, summary: "Ask for a build with its jobs",
		about: "All or nothing. A large one may also come as lines of JSON (" + ndjson + "): the build without its jobs, then a job a line.",
	}, &body{mediaType: "application/json", of: reflect.TypeFor[api.Submission]()}, &body{mediaType: "application/json", of: reflect.TypeFor[api.Receipt]()},
		nil, s.submit)
	type one struct {
		ID   string  `path:"id" format:"uuid" doc:"The build."`
		Wait float64 `query:"wait_seconds" minimum:"0" maximum:"300" doc:"Answer when it has ended, or after so long."`
	}
	handle(s, operation{
		id: "get-build", method: http.MethodGet, path: "/builds/{id}", tag: "builds", role: reader, summary: "Show a build, or wait for its end",
	}, func(ctx context.Context, in *one) (*out[api.Build], error) {
		b, err := s.build(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if b.Ended == 0 && in.Wait > 0 {
			held, cancel := s.held(ctx, in.Wait)
			ended, err := s.Queue.AwaitBuild(held, b.Build.ID)
			cancel()
			switch {
			case err == nil:
				b = &ended
			case held.Err() == nil || ctx.Err() != nil:
				return nil, err
			}
		}
		view := viewBuild(b)
		view.Counts, err = s.count(ctx, b.Build.ID)
		return &out[api.Build]{view}, err
	})
	s.buildActions()
}

// held gives the context of a call that waits.
func (s *Server) held(ctx context.Context, seconds float64) (context.Context, context.CancelFunc) {
	held, cancel := context.WithTimeout(ctx, min(api.Duration(seconds), s.Hold))
	stop := context.AfterFunc(s.closing, cancel)
	return held, func() { stop(); cancel() }
}

func (s *Server) buildActions() {
	type cancel struct {
		ID   string `path:"id" format:"uuid" doc:"The build."`
		Body api.CancelBuild
	}
	handle(s, operation{
		id: "cancel-build", method: http.MethodPost, path: "/builds/{id}/cancel", tag: "builds", role: submitter,
		summary: "End a build as cancelled", about: "Its running jobs that nobody else needs are stopped.",
	}, func(ctx context.Context, in *cancel) (*struct{}, error) {
		b, err := s.build(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		err = s.Queue.CancelBuild(ctx, b.Build.ID, in.Body.Spare)
		if errors.Is(err, queue.ErrNotFound) {
			err = job.ErrEnded
		}
		return nil, err
	})
	type bump struct {
		ID   string `path:"id" format:"uuid" doc:"The build."`
		Body api.Bump
	}
	handle(s, operation{
		id: "bump-build", method: http.MethodPost, path: "/builds/{id}/bump", tag: "builds", role: submitter,
		summary: "Give a live build a new priority",
	}, func(ctx context.Context, in *bump) (*struct{}, error) {
		b, err := s.build(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		err = s.Queue.Bump(ctx, b.Build.ID, in.Body.Priority)
		if errors.Is(err, queue.ErrNotFound) {
			err = job.ErrEnded
		}
		return nil, err
	})
	type created struct {
		Status int
		Body   api.Receipt
	}
	handle(s, operation{
		id: "retry-build", method: http.MethodPost, path: "/builds/{id}/retry", tag: "builds", role: submitter, status: http.StatusCreated,
		summary: "Ask again for the part of a build that did not succeed",
		about:   "Makes a new build, with new jobs for those that ended without success; what succeeded, or is still under way, is taken over. Remembered failures of these jobs are cleared.",
	}, func(ctx context.Context, in *byBuild) (*created, error) {
		b, err := s.build(ctx, in.ID)
		if err != nil {
			return again[created](ctx, s, err, func(r api.Receipt) created { return created{http.StatusCreated, r} })
		}
		receipt, err := s.retry(ctx, b)
		return &created{http.StatusCreated, receipt}, err
	})
	handle(s, operation{
		id: "delete-build", method: http.MethodDelete, path: "/builds/{id}", tag: "builds", role: admin,
		summary: "Take an ended build out of the history, but not its jobs",
	}, func(ctx context.Context, in *byBuild) (*struct{}, error) {
		b, err := s.build(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return nil, s.Queue.DeleteBuild(ctx, b.Build.ID)
	})
}

// build gives a build that the request may see.
func (s *Server) build(ctx context.Context, text string) (*job.BuildRecord, error) {
	id, err := idOf("path.id", text)
	if err != nil {
		return nil, err
	}
	recs, err := s.History.Builds(ctx, queue.BuildFilter{IDs: []job.ID{id}, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(recs) == 0 || !passOf(ctx).sees(channelOf(&recs[0].Build)) {
		return nil, notFound("build", id)
	}
	return &recs[0], nil
}

// scanned bounds how many pages one request reads to find what it may see.
const scanned = 20

// builds gives a page of those that the request may see.
func (s *Server) builds(ctx context.Context, f queue.BuildFilter, channel string) (api.Page[api.Build], error) {
	page := api.Page[api.Build]{Items: []api.Build{}}
	pass := passOf(ctx)
	for range scanned {
		recs, err := s.History.Builds(ctx, f)
		if err != nil {
			return page, err
		}
		for i := range recs {
			if len(page.Items) == f.Limit {
				page.Next = strconv.FormatInt(f.Before, 10)
				return page, nil
			}
			f.Before = recs[i].Seq
			if of := channelOf(&recs[i].Build); !pass.sees(of) || channel != "" && of != channel {
				continue
			}
			page.Items = append(page.Items, viewBuild(&recs[i]))
		}
		if len(recs) < f.Limit {
			return page, nil
		}
	}
	page.Next = strconv.FormatInt(f.Before, 10)
	return page, nil
}

// countedMost is how many jobs of a build are counted.
const countedMost = 20_000

func (s *Server) count(ctx context.Context, build job.ID) (*api.Counts, error) {
	c := &api.Counts{States: map[string]int{}, Ends: map[string]int{}}
	f := queue.JobFilter{Build: build, Limit: 10_000}
	for {
		recs, err := s.History.Jobs(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range recs {
			c.Jobs++
			c.States[stateOf(&recs[i])]++
			if e := recs[i].End; e != nil {
				c.Ends[e.Outcome.String()]++
			}
			f.Before = recs[i].Seq
		}
		if len(recs) < f.Limit {
			return c, nil
		}
		if c.Jobs >= countedMost {
			c.Further = true
			return c, nil
		}
	}
}

// retry asks again for what of a build did not succeed.
func (s *Server) retry(ctx context.Context, b *job.BuildRecord) (api.Receipt, error) {
	old, err := s.jobsOf(ctx, b.Build.ID)
	if err != nil {
		return api.Receipt{}, err
	}
	refs, err := s.History.Refs(ctx, b.Build.ID)
	if err != nil {
		return api.Receipt{}, err
	}
	again := map[job.ID]job.ID{}
	var failures []job.Identity
	for i := range old {
		r := &old[i]
		if r.End != nil && r.End.Outcome != job.Succeeded {
			again[r.Spec.ID] = s.Queue.NewID()
			failures = append(failures, r.Spec.Identity())
		}
	}
	if len(again) == 0 {
		p := api.ProblemOf(job.ErrEnded)
		p.Detail = "nothing of this build has ended without success"
		return api.Receipt{}, p
	}
	build := b.Build
	build.ID = job.ID{}
	build.Labels = map[string]string{channelLabel: channelOf(&b.Build), retryLabel: b.Build.ID.String()}
	maps.Copy(build.Labels, labelsOf(b.Build.Labels))
	submission := queue.Submission{Build: &build}
	for i := range old {
		spec := old[i].Spec
		if again[spec.ID].IsZero() {
			continue
		}
		spec.ID, spec.NotBefore = again[spec.ID], 0
		spec.Needs = slices.Clone(spec.Needs)
		for k := range spec.Needs {
			if id := again[spec.Needs[k].Job]; !id.IsZero() {
				spec.Needs[k].Job = id
			}
			spec.Needs[k].Loose = false
		}
		submission.Jobs = append(submission.Jobs, spec)
	}
	for _, r := range refs {
		if id := again[r.Job]; !id.IsZero() {
			r.Job = id
		}
		r.Ended = 0
		submission.Refs = append(submission.Refs, r)
	}
	if err := s.Queue.ClearFailures(queue.WithRequest(ctx, job.ID{}), failures...); err != nil {
		return api.Receipt{}, err
	}
	receipt, err := s.place(ctx, submission)
	if err != nil {
		return api.Receipt{}, err
	}
	out := viewReceipt(&receipt.Receipt)
	out.Round = receipt.round
	return out, nil
}

// jobsOf gives the jobs that a build refers to, with their arguments, the oldest first.
func (s *Server) jobsOf(ctx context.Context, build job.ID) ([]job.Record, error) {
	var all []job.Record
	f := queue.JobFilter{Build: build, Args: true, Limit: 1000}
	for {
		recs, err := s.History.Jobs(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, recs...)
		if len(recs) < f.Limit {
			slices.Reverse(all)
			return all, nil
		}
		f.Before = recs[len(recs)-1].Seq
	}
}

// wait gives how long a call may be held.
func (s *Server) wait(seconds float64) time.Duration { return min(api.Duration(seconds), s.Hold) }
