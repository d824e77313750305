package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// lease gives the lease that the request names and shows the right to. The job must be one that it may see: a token of a lease alone
// opens no other channel.
func (s *Server) lease(ctx context.Context, text string, number int32, token string) (job.Lease, error) {
	id, err := idOf("path.id", text)
	if err != nil {
		return job.Lease{}, err
	}
	l, err := leaseOf("header", &api.Lease{Job: id, Attempt: number, Token: token})
	if err != nil {
		return job.Lease{}, api.Invalid("header."+api.LeaseHeader, "want the token that came with the start")
	}
	if passOf(ctx).everywhere() {
		return l, nil
	}
	_, err = s.job(ctx, text)
	return l, err
}

// leaseOperations serves the simplest workers, which make one call for one thing.
func (s *Server) leaseOperations() {
	type register struct {
		Name string `path:"name" maxLength:"128" doc:"The worker."`
		Body api.Registration
	}
	handle(s, operation{
		id: "register-worker", own: true, method: http.MethodPut, path: "/workers/{name}", tag: "workers", role: worker, summary: "Make a worker known, or take it back",
		about: "A second session under a name that is alive is refused. What the worker had, and does not state as running, is ended as crashed.",
	}, func(ctx context.Context, in *register) (*struct{}, error) {
		if err := covers(ctx, in.Body.Channels); err != nil {
			return nil, err
		}
		standing, _, err := s.Queue.Standing(in.Name, nil)
		if err != nil && !errors.Is(err, queue.ErrNotFound) {
			return nil, err
		}
		if err := taken(ctx, standing.Worker.Channels, err != nil); err != nil {
			return nil, err
		}
		if err := checkSpec("body", &in.Body.WorkerSpec); err != nil {
			return nil, err
		}
		running := make([]job.Lease, 0, len(in.Body.Running))
		for i := range in.Body.Running {
			l, err := leaseOf(fmt.Sprintf("body.running[%d]", i), &in.Body.Running[i])
			if err != nil {
				return nil, err
			}
			running = append(running, l)
		}
		return nil, s.register(ctx, "body", workerFrom(in.Name, in.Body.Session, &in.Body.WorkerSpec), running)
	})
	type session struct {
		Name string `path:"name" maxLength:"128" doc:"The worker."`
		Body api.SignOff
	}
	handle(s, operation{
		id: "sign-off-worker", method: http.MethodPost, path: "/workers/{name}/sign-off", tag: "workers", role: worker,
		summary: "Say that a session of a worker is over", about: "The next may then register at once.",
	}, func(ctx context.Context, in *session) (*struct{}, error) {
		if err := s.mine(ctx, in.Name, in.Body.Session); err != nil {
			return nil, err
		}
		err := s.Queue.SignOff(ctx, in.Name, in.Body.Session)
		if err == nil {
			s.lines.end(in.Name, in.Body.Session)
		}
		return nil, err
	})
	type lease struct {
		Name string `path:"name" maxLength:"128" doc:"The worker."`
		Body api.LeaseRequest
	}
	handle(s, operation{
		id: "lease", own: true, method: http.MethodPost, path: "/workers/{name}/lease", tag: "workers", role: worker, summary: "Lease jobs",
		about: "For workers that make one call for one thing. An answer that is lost leaves a lease that runs out; sync gives it again.",
	}, func(ctx context.Context, in *lease) (*out[api.LeaseReply], error) {
		if err := s.mine(ctx, in.Name, in.Body.Session); err != nil {
			return nil, err
		}
		take := s.Queue.LeaseReady
		if in.Body.Wait > 0 {
			take = s.Queue.Lease
		}
		held, cancel := s.held(ctx, in.Body.Wait)
		defer cancel()
		if in.Body.Wait == 0 {
			held = ctx
		}
		got, err := take(held, in.Name, in.Body.Session, in.Body.Want, 0)
		if err != nil && (held.Err() == nil || ctx.Err() != nil) {
			return nil, err
		}
		list := api.LeaseReply{Start: []api.Start{}}
		for i := range got {
			list.Start = append(list.Start, viewStart(&got[i]))
		}
		return &out[api.LeaseReply]{list}, nil
	})
	s.attemptOperations()
}

// mine reports whether the request may act for the session of a worker.
func (s *Server) mine(ctx context.Context, name string, session job.ID) error {
	standing, _, err := s.Queue.Standing(name, nil)
	if err != nil {
		return err
	}
	if err := covers(ctx, standing.Worker.Channels); err != nil {
		return err
	}
	return sessionIs(&standing.Worker, session)
}

func (s *Server) attemptOperations() {
	type beat struct {
		ID     string  `path:"id" format:"uuid" doc:"The job."`
		Number int32   `path:"attempt" minimum:"1" doc:"The number of the attempt."`
		Token  string  `header:"Headrace-Lease" required:"true" maxLength:"64" doc:"The token of the lease."`
		Silent float64 `query:"silent_seconds" minimum:"-1" default:"-1" doc:"How long ago it last gave a sign of output; -1: not known."`
	}
	handle(s, operation{
		id: "renew-lease", own: true, method: http.MethodPost, path: "/jobs/{id}/attempts/{attempt}/heartbeat", tag: "workers", role: worker,
		summary: "Renew a lease", about: "The problem lease-lost says that the attempt must be stopped.",
	}, func(ctx context.Context, in *beat) (*struct{}, error) {
		l, err := s.lease(ctx, in.ID, in.Number, in.Token)
		if err != nil {
			return nil, err
		}
		b := queue.Beat{Lease: l}
		if in.Silent >= 0 {
			b.Output = spoke(time.Now(), in.Silent)
		}
		errs, err := s.Queue.Heartbeat(ctx, b)
		if err == nil {
			err = errs[0]
		}
		return nil, err
	})
	attempt := []param{
		{name: "id", in: "path", about: "The job.", kind: "string"},
		{name: "attempt", in: "path", about: "The number of the attempt.", kind: "integer"},
		{name: api.LeaseHeader, in: "header", about: "The token of the lease.", kind: "string", must: true},
	}
	s.raw(operation{
		id: "finish", method: http.MethodPost, path: "/jobs/{id}/attempts/{attempt}/finish", tag: "workers", role: worker, status: http.StatusNoContent,
		summary: "End an attempt", about: "May be repeated: the same end again succeeds and changes nothing.",
	}, &body{mediaType: "application/json", of: reflect.TypeFor[api.Finish]()}, nil, attempt, func(w http.ResponseWriter, r *http.Request) error {
		l, err := s.leaseIn(r)
		if err != nil {
			return err
		}
		var in api.Finish
		if err := s.read(w, r, maxFinish, &in); err != nil {
			return err
		}
		report, err := reportOf("body", l, &api.Finished{
			Outcome: in.Outcome, Detail: in.Detail, Message: in.Message, Result: in.Result, NoRetry: in.NoRetry,
		})
		if err != nil {
			return err
		}
		if err := s.Queue.Finish(r.Context(), report); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
	s.raw(operation{
		id: "report-progress", method: http.MethodPut, path: "/jobs/{id}/attempts/{attempt}/progress", tag: "workers", role: worker, status: http.StatusNoContent,
		summary: "Store a partial result of a running attempt", about: "Any JSON, at most 16 MiB. The result at the end takes its place.",
	}, &body{mediaType: "application/json", of: reflect.TypeFor[json.RawMessage]()}, nil, attempt, func(w http.ResponseWriter, r *http.Request) error {
		l, err := s.leaseIn(r)
		if err != nil {
			return err
		}
		var result json.RawMessage
		if err := s.read(w, r, maxFinish, &result); err != nil {
			return err
		}
		if err := s.Queue.Progress(r.Context(), l, result); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
}

// leaseIn gives the lease of a raw request.
func (s *Server) leaseIn(r *http.Request) (job.Lease, error) {
	number, err := attemptIn(r)
	if err != nil {
		return job.Lease{}, err
	}
	return s.lease(r.Context(), r.PathValue("id"), number, r.Header.Get(api.LeaseHeader))
}

func attemptIn(r *http.Request) (int32, error) {
	n, err := parseInt32(r.PathValue("attempt"))
	if err != nil || n < 1 {
		return 0, api.Invalid("path.attempt", "want a whole number from 1")
	}
	return n, nil
}
