package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// beat is how often a stream of events tells where it stands if nothing of it happens: so that a proxy does not take it for dead, and a
// reader that comes back need not go far.
const beat = 15 * time.Second

func (s *Server) eventOperations() {
	s.raw(operation{
		id: "watch", method: http.MethodGet, path: "/events", tag: "events", role: reader, also: []int{http.StatusGone},
		summary: "Watch what changes, as server-sent events",
		about: "From the round after \"after\" on, or after the header Last-Event-ID: without gap or repeat over reconnects. Each event \"change\" is one round of the engine, its id the place after it; \"place\" tells where the stream stands while nothing of it happens; \"problem\" is the last, as of a place that is not kept any more. " +
			"What of a build is watched are the jobs that it refers to.",
	}, nil, &body{mediaType: "text/event-stream", of: reflect.TypeFor[api.Event]()}, []param{
		{name: "build", in: "query", about: "Only of this build and its jobs.", kind: "string"},
		{name: "job", in: "query", about: "Only of this job.", kind: "string"},
		{name: "channel", in: "query", about: "Only of this channel.", kind: "string"},
		{name: "after", in: "query", about: "The round after which to begin; left out, the newest.", kind: "integer"},
	}, s.watch)
}

// watched is what a reader watches.
type watched struct {
	s       *Server
	pass    *pass
	build   job.ID
	job     job.ID
	channel string
	jobs    map[job.ID]bool   // of the build
	of      map[job.ID]string // channels of jobs, as far as they are known
}

// channelsKnown bounds how many jobs' channels a reader remembers.
const channelsKnown = 10_000

func (s *Server) watch(w http.ResponseWriter, r *http.Request) error {
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer context.AfterFunc(s.closing, stop)()
	v := &watched{s: s, pass: passOf(ctx), channel: r.URL.Query().Get("channel"), of: map[job.ID]string{}}
	after, err := v.open(ctx, r)
	if err != nil {
		return err
	}
	stream := &stream{w: w, c: http.NewResponseController(w), place: after}
	if newest := s.Queue.Round(); newest > 0 && after > newest {
		return queue.ErrFeedAhead // while a problem can still be the answer
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if err := stream.send("place", nil); err != nil {
		return nil // Nobody reads.
	}
	for ctx.Err() == nil {
		held, cancel := context.WithTimeout(ctx, beat)
		err := s.Queue.Watch(held, stream.place, func(round queue.Round) error { return v.tell(ctx, stream, &round) })
		quiet := held.Err() != nil
		cancel()
		switch {
		case stream.gone:
			return nil
		case quiet:
			err = stream.send("place", nil)
		}
		if err != nil && ctx.Err() == nil {
			_ = stream.send("problem", s.told(ctx, err)) // It is the last, whoever reads it.
			return nil
		}
	}
	return nil
}

// standsAt tells that an id that is none stood at a place of the query.
func standsAt(err error, place string) error {
	var p *api.Problem
	if errors.As(err, &p) && len(p.Errors) == 1 && p.Errors[0].Location == "path.id" {
		return api.Invalid(place, p.Errors[0].Message)
	}
	return err
}

// open reads what is to be watched, and from where.
func (v *watched) open(ctx context.Context, r *http.Request) (after uint64, err error) {
	q := r.URL.Query()
	if text := q.Get("build"); text != "" {
		b, err := v.s.build(ctx, text)
		if err != nil {
			return 0, standsAt(err, "query.build")
		}
		v.build = b.Build.ID
	}
	if text := q.Get("job"); text != "" {
		j, err := v.s.job(ctx, text)
		if err != nil {
			return 0, standsAt(err, "query.job")
		}
		v.job = j.Spec.ID
	}
	if v.channel != "" {
		if err := within(ctx, v.channel); err != nil {
			return 0, err
		}
	}
	after = v.s.Queue.Round()
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = q.Get("after")
	}
	if text != "" {
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return 0, api.Invalid("query.after", "want the number of a round")
		}
	}
	if v.build.IsZero() {
		return after, nil
	}
	refs, err := v.s.History.Refs(ctx, v.build)
	v.jobs = make(map[job.ID]bool, len(refs))
	for i := range refs {
		v.jobs[refs[i].Job] = true
	}
	return after, err
}

// tell sends what of a round is watched.
func (v *watched) tell(ctx context.Context, stream *stream, round *queue.Round) error {
	e := api.Event{Round: round.Number, At: round.At.Std()}
	for _, c := range round.Changes {
		change, ok := v.change(ctx, c)
		if ok {
			e.Changes = append(e.Changes, change)
		}
	}
	stream.place = round.Number
	if len(e.Changes) == 0 {
		return nil
	}
	return stream.send("change", &e)
}

// change tells one change, if it is watched.
func (v *watched) change(ctx context.Context, c job.Change) (api.Change, bool) {
	out, build, id, channel := changeOf(c)
	if out.What == "" {
		return out, false
	}
	if r, ok := c.(job.BuildReferred); ok && r.Build == v.build {
		for i := range r.Refs {
			v.jobs[r.Refs[i].Job] = true
		}
	}
	switch {
	case !v.build.IsZero() && build != v.build && !v.jobs[id], !v.job.IsZero() && id != v.job:
		return out, false
	case v.channel == "" && v.pass.everywhere():
	case !v.sees(ctx, c, build, id, channel):
		return out, false
	}
	if !build.IsZero() {
		out.Build = &build
	}
	if !id.IsZero() {
		out.Job = &id
	}
	return out, true
}

// sees reports whether a change is of a channel that is watched, and that the request may see.
func (v *watched) sees(ctx context.Context, c job.Change, build, id job.ID, channel *string) bool {
	if channel == nil && !id.IsZero() {
		found := v.channelOf(ctx, id)
		channel = &found
	}
	if channel == nil && !build.IsZero() {
		recs, err := v.s.History.Builds(ctx, queue.BuildFilter{IDs: []job.ID{build}, Limit: 1})
		if err != nil || len(recs) == 0 {
			return false
		}
		found := channelOf(&recs[0].Build)
		channel = &found
	}
	if w, ok := c.(job.WorkerPut); ok {
		return v.channel == "" && shares(v.pass, w.Worker.Channels)
	}
	return channel != nil && (v.channel == "" || v.channel == *channel) && v.pass.sees(*channel)
}

func (v *watched) channelOf(ctx context.Context, id job.ID) string {
	if c, ok := v.of[id]; ok {
		return c
	}
	if len(v.of) >= channelsKnown {
		clear(v.of)
	}
	recs, err := v.s.History.Jobs(ctx, queue.JobFilter{IDs: []job.ID{id}, Limit: 1})
	if err != nil || len(recs) == 0 {
		return ""
	}
	v.of[id] = recs[0].Spec.Channel
	return v.of[id]
}

// changeOf tells a change of the engine; What is "" if it is nobody's business. channel is nil where the change does not say it.
func changeOf(c job.Change) (out api.Change, build, id job.ID, channel *string) {
	switch c := c.(type) {
	case job.BuildAdded:
		if c.Staged {
			return out, build, id, nil
		}
		of := channelOf(&c.Build)
		return api.Change{What: "build-added", Name: c.Build.Name}, c.Build.ID, id, &of
	case job.BuildReferred:
		return api.Change{What: "build-grown"}, c.Build, id, nil
	case job.BuildSealed:
		return api.Change{What: "build-added"}, c.Build, id, nil
	case job.BuildActivated:
		return api.Change{What: "build-started"}, c.Build, id, nil
	case job.BuildBumped:
		return api.Change{What: "build-bumped"}, c.Build, id, nil
	case job.BuildEnded:
		if c.Erased {
			return out, build, id, nil
		}
		return api.Change{What: "build-ended", Outcome: c.Outcome.String()}, c.Build, id, nil
	case job.BuildDeleted:
		return api.Change{What: "build-deleted"}, c.Build, id, nil
	case job.WorkerPut:
		return api.Change{What: "worker", Name: c.Worker.Name}, build, id, nil
	case job.WorkerRemoved:
		return api.Change{What: "worker-removed", Name: c.Name}, build, id, nil
	case job.ChannelPut:
		return api.Change{What: "channel", Name: c.Channel.Name}, build, id, &c.Channel.Name
	default:
		// It is of a job, or nobody's business.
	}
	out, id, channel = jobChangeOf(c)
	return out, build, id, channel
}

func jobChangeOf(c job.Change) (out api.Change, id job.ID, channel *string) {
	switch c := c.(type) {
	case job.JobAdded:
		out = api.Change{What: "job-added", Name: c.Spec.Name}
		if e := c.End; e != nil {
			out.What, out.Outcome, out.Detail, out.Message = "job-ended", e.Outcome.String(), e.Detail.String(), e.Message
		}
		return out, c.Spec.ID, &c.Spec.Channel
	case job.JobReleased:
		return api.Change{What: "job-ready"}, c.Job, nil
	case job.JobBlocked:
		return api.Change{What: "job-blocked"}, c.Job, nil
	case job.JobStarted:
		return api.Change{What: "job-started", Worker: c.Attempt.Worker, Attempt: c.Attempt.Number}, c.Job, nil
	case job.JobRetried:
		a := &c.Attempt
		return api.Change{
			What: "job-retried", Worker: a.Worker, Attempt: a.Number, Outcome: a.Outcome.String(), Detail: a.Detail.String(), Message: a.Message,
			Until: timeOf(c.Wake),
		}, c.Job, nil
	case job.JobEnded:
		out = api.Change{What: "job-ended", Outcome: c.End.Outcome.String(), Detail: c.End.Detail.String(), Message: c.End.Message}
		if c.Attempt != nil {
			out.Worker, out.Attempt = c.Attempt.Worker, c.Attempt.Number
		}
		return out, c.Job, nil
	case job.JobFreed:
		return api.Change{What: "job-freed"}, c.Job, nil
	case job.JobProgress:
		return api.Change{What: "job-progress"}, c.Job, nil
	case job.JobDeleted:
		return api.Change{What: "job-deleted"}, c.Job, nil
	default:
		// It is nobody's business.
	}
	return out, id, nil
}

// stream writes server-sent events.
type stream struct {
	w     http.ResponseWriter
	c     *http.ResponseController
	place uint64
	gone  bool // nobody reads any more
}

func (s *stream) send(kind string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	_ = s.c.SetWriteDeadline(time.Now().Add(writePatience)) // A server that cannot has none.
	_, err = fmt.Fprintf(s.w, "id: %d\nevent: %s\ndata: %s\n\n", s.place, kind, text)
	if err == nil {
		err = s.c.Flush()
	}
	s.gone = s.gone || err != nil
	return err
}
