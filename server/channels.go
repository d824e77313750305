package server

import (
	"cmp"
	"context"
	"net/http"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

type byChannel struct {
	Name string `path:"name" maxLength:"128" doc:"The channel."`
}

func (s *Server) channelOperations() {
	handle(s, operation{
		id: "list-channels", method: http.MethodGet, path: "/channels", tag: "channels", role: reader, summary: "List the channels whose policy somebody has set, by name",
		about: "Each other channel has the policy that get-channel shows for it.",
	}, func(ctx context.Context, _ *struct{}) (*out[api.List[api.Channel]], error) {
		all, err := s.Queue.Channels(ctx)
		if err != nil {
			return nil, err
		}
		list := api.List[api.Channel]{Items: []api.Channel{}}
		for i := range all {
			if passOf(ctx).sees(all[i].Name) {
				list.Items = append(list.Items, viewChannel(&all[i]))
			}
		}
		return &out[api.List[api.Channel]]{list}, nil
	})
	handle(s, operation{
		id: "get-channel", method: http.MethodGet, path: "/channels/{name}", tag: "channels", role: reader, summary: "Show the policy of a channel",
	}, func(ctx context.Context, in *byChannel) (*out[api.Channel], error) {
		if err := cmp.Or(channelWord("path.name", in.Name), within(ctx, in.Name)); err != nil {
			return nil, err
		}
		c, err := s.Queue.Channel(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		return &out[api.Channel]{viewChannel(&c)}, nil
	})
	type set struct {
		Name string `path:"name" maxLength:"128" doc:"The channel."`
		Body api.Channel
	}
	handle(s, operation{
		id: "set-channel", method: http.MethodPut, path: "/channels/{name}", tag: "channels", role: admin, summary: "Set the policy of a channel",
	}, func(ctx context.Context, in *set) (*out[api.Channel], error) {
		if err := within(ctx, in.Name); err != nil {
			return nil, err
		}
		if in.Body.Name != "" && in.Body.Name != in.Name {
			return nil, api.Invalid("body.name", "want the name in the path, or none")
		}
		c, err := channelFrom(in.Name, &in.Body)
		if err != nil {
			return nil, err
		}
		old, err := s.Queue.Channel(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		c.CallerJudges = old.CallerJudges // It is the business of a door that has the channel.
		if err := s.Queue.SetChannel(ctx, c); err != nil {
			return nil, err
		}
		return &out[api.Channel]{viewChannel(&c)}, nil
	})
	type pause struct {
		Name string `path:"name" maxLength:"128" doc:"The channel."`
		Body api.PauseChannel
	}
	for _, o := range []struct {
		word, summary string
		paused        bool
	}{{"pause", "Start nothing new in a channel", true}, {"resume", "Let a channel go on", false}} {
		handle(s, operation{
			id: o.word + "-channel", method: http.MethodPost, path: "/channels/{name}/" + o.word, tag: "channels", role: admin, summary: o.summary,
		}, func(ctx context.Context, in *pause) (*struct{}, error) {
			if err := within(ctx, in.Name); err != nil {
				return nil, err
			}
			return nil, s.Queue.Pause(ctx, in.Name, in.Body.Kind, o.paused)
		})
	}
}

// channelFrom gives the policy that a wire's channel is.
func channelFrom(name string, in *api.Channel) (job.Channel, error) {
	c := job.DefaultChannel(name)
	var err error
	if c.Retry, err = retryOf("body.retry", &in.Retry); err != nil {
		return c, err
	}
	c.Grace = -1
	if in.Grace >= 0 {
		if c.Grace, err = spanOf("body.grace_seconds", in.Grace); err != nil {
			return c, err
		}
	}
	if c.TTL, err = spanOf("body.ttl_seconds", in.TTL); err != nil {
		return c, err
	}
	if c.FailureTTL, err = spanOf("body.failure_ttl_seconds", in.FailureTTL); err != nil {
		return c, err
	}
	if in.Discipline == "age" {
		c.Discipline = job.ByAge
	}
	c.Shares, c.GroupShares, c.Paused, c.PausedKinds = in.Shares, in.GroupShares, in.Paused, in.PausedKinds
	return c, nil
}
