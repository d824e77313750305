package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

type byWorker struct {
	Name string `path:"name" maxLength:"128" doc:"The worker."`
}

func (s *Server) workerOperations() {
	s.syncOperations()
	s.leaseOperations()
	handle(s, operation{
		id: "list-workers", method: http.MethodGet, path: "/workers", tag: "workers", role: reader, summary: "List workers by name",
		about: "Those that take jobs of a channel of the token.",
	}, func(ctx context.Context, _ *struct{}) (*out[api.List[api.Worker]], error) {
		views, err := s.Queue.Workers(ctx)
		if err != nil {
			return nil, err
		}
		list := api.List[api.Worker]{Items: []api.Worker{}}
		for i := range views {
			if shares(passOf(ctx), views[i].Channels) {
				v, err := s.viewWorkerTo(ctx, &views[i])
				if err != nil {
					return nil, err
				}
				list.Items = append(list.Items, v)
			}
		}
		return &out[api.List[api.Worker]]{list}, nil
	})
	handle(s, operation{
		id: "get-worker", method: http.MethodGet, path: "/workers/{name}", tag: "workers", role: reader, summary: "Show a worker",
	}, func(ctx context.Context, in *byWorker) (*out[api.Worker], error) {
		views, err := s.Queue.Workers(ctx)
		if err != nil {
			return nil, err
		}
		for i := range views {
			if views[i].Name == in.Name && shares(passOf(ctx), views[i].Channels) {
				v, err := s.viewWorkerTo(ctx, &views[i])
				return &out[api.Worker]{v}, err
			}
		}
		return nil, job.ErrNotFound
	})
	for _, o := range []struct {
		word, summary string
		do            func(context.Context, string) error
	}{
		{"drain", "Give a worker nothing new", func(ctx context.Context, name string) error { return s.Queue.Drain(ctx, name, true) }},
		{"undrain", "Give a worker jobs again", func(ctx context.Context, name string) error { return s.Queue.Drain(ctx, name, false) }},
		{"pardon", "End the quarantine of a worker", s.Queue.Pardon},
	} {
		handle(s, operation{
			id: o.word + "-worker", method: http.MethodPost, path: "/workers/{name}/" + o.word, tag: "workers", role: admin, summary: o.summary,
		}, func(ctx context.Context, in *byWorker) (*struct{}, error) {
			if err := overall(ctx); err != nil {
				return nil, err
			}
			return nil, o.do(ctx, in.Name)
		})
	}
	type remove struct {
		Name  string `path:"name" maxLength:"128" doc:"The worker."`
		Force bool   `query:"force" doc:"Also if it has attempts, which are then lost."`
	}
	handle(s, operation{
		id: "remove-worker", method: http.MethodDelete, path: "/workers/{name}", tag: "workers", role: admin, summary: "Forget a worker",
	}, func(ctx context.Context, in *remove) (*struct{}, error) {
		if err := overall(ctx); err != nil {
			return nil, err
		}
		return nil, s.Queue.RemoveWorker(ctx, in.Name, in.Force)
	})
}

// shares reports whether one of the channels is of the pass, so that it may see who works there.
func shares(p *pass, channels []string) bool {
	return p.everywhere() || slices.ContainsFunc(channels, func(c string) bool { return c == job.AnyChannel || p.sees(c) })
}

// viewWorkerTo is viewWorker without the jobs that the request may not see.
func (s *Server) viewWorkerTo(ctx context.Context, v *queue.WorkerView) (api.Worker, error) {
	w := s.viewWorker(v)
	pass := passOf(ctx)
	if len(w.Running) == 0 || !slices.ContainsFunc(v.Channels, func(c string) bool { return !pass.sees(c) }) {
		return w, nil
	}
	recs, err := s.History.Jobs(ctx, queue.JobFilter{IDs: w.Running, Limit: len(w.Running)})
	if err != nil {
		return w, err
	}
	seen := make(map[job.ID]bool, len(recs))
	for i := range recs {
		seen[recs[i].Spec.ID] = pass.sees(recs[i].Spec.Channel)
	}
	w.Running = slices.DeleteFunc(slices.Clone(w.Running), func(id job.ID) bool { return !seen[id] })
	return w, nil
}

func (s *Server) viewWorker(v *queue.WorkerView) api.Worker {
	w := api.Worker{
		Name: v.Name, WorkerSpec: specOf(&v.Worker), Drained: v.Drained, Faults: v.Faults, Until: timeOf(v.Until), Running: v.Leases, Waits: v.Waits,
	}
	s.lines.tell(&w, v.Session)
	return w
}

// specOf describes a worker as it would itself.
func specOf(w *job.Worker) api.WorkerSpec {
	list := func(l []string) []string {
		if l == nil {
			return []string{}
		}
		return l
	}
	return api.WorkerSpec{
		Channels: list(w.Channels), Kinds: list(w.Kinds), Systems: list(w.Systems), Features: w.Features, Mandatory: w.Mandatory,
		Slots: w.Slots, Speed: w.Speed,
	}
}

// workerFrom gives the worker that a description is of.
func workerFrom(name string, session job.ID, in *api.WorkerSpec) job.Worker {
	sorted := func(l []string) []string { return slices.Compact(slices.Sorted(slices.Values(l))) }
	return job.Worker{
		Name: name, Session: session, Channels: slices.Clone(in.Channels), Kinds: slices.Clone(in.Kinds), Systems: slices.Clone(in.Systems),
		Features: sorted(in.Features), Mandatory: sorted(in.Mandatory), Slots: in.Slots, Speed: in.Speed,
	}
}

// alike reports whether a worker is registered as it describes itself.
func alike(have, asked *job.Worker) bool {
	return have.Session == asked.Session && have.Slots == asked.Slots && have.Speed == asked.Speed &&
		slices.Equal(have.Channels, asked.Channels) && slices.Equal(have.Kinds, asked.Kinds) && slices.Equal(have.Systems, asked.Systems) &&
		slices.Equal(have.Features, asked.Features) && slices.Equal(have.Mandatory, asked.Mandatory)
}
