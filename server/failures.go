package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

func (s *Server) failureOperations() {
	type list struct {
		Cursor  string `query:"cursor" maxLength:"4096" doc:"The next of the page before; left out: the first."`
		Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many at most."`
		Channel string `query:"channel" maxLength:"128"`
		Kind    string `query:"kind" maxLength:"128"`
	}
	handle(s, operation{
		id: "list-cached-failures", method: http.MethodGet, path: "/cached-failures", tag: "channels", role: reader,
		summary: "List remembered failures by channel, kind and key", about: "A job of one of these fails at once when it is asked for.",
	}, func(ctx context.Context, in *list) (*out[api.Page[api.CachedFailure]], error) {
		after, err := placeOfFailure(in.Cursor)
		if err != nil {
			return nil, err
		}
		page, err := s.failures(ctx, queue.FailureFilter{Channel: in.Channel, Kind: in.Kind, After: after, Limit: in.Limit})
		return &out[api.Page[api.CachedFailure]]{page}, err
	})
	type failure struct {
		Channel string `query:"channel" required:"true" maxLength:"128"`
		Kind    string `query:"kind" required:"true" maxLength:"128"`
		Key     string `query:"key" required:"true" maxLength:"1024"`
	}
	handle(s, operation{
		id: "clear-cached-failure", method: http.MethodDelete, path: "/cached-failures", tag: "channels", role: submitter,
		summary: "Forget a remembered failure, so that the job is run again when asked for",
	}, func(ctx context.Context, in *failure) (*struct{}, error) {
		if err := within(ctx, in.Channel); err != nil {
			return nil, err
		}
		return nil, s.Queue.ClearFailures(ctx, job.Identity{Channel: in.Channel, Kind: in.Kind, Key: in.Key})
	})
}

// failures gives a page of those that count now and that the request may see, one of its channels after the other.
func (s *Server) failures(ctx context.Context, f queue.FailureFilter) (api.Page[api.CachedFailure], error) {
	page := api.Page[api.CachedFailure]{Items: []api.CachedFailure{}}
	pass := passOf(ctx)
	channels := []string{f.Channel}
	switch {
	case f.Channel != "":
		if err := within(ctx, f.Channel); err != nil {
			return page, err
		}
	case !pass.everywhere():
		channels = slices.Compact(slices.Sorted(slices.Values(pass.channels)))
	}
	now := job.At(time.Now())
	var last job.Identity
	for _, c := range channels {
		if c != "" && c < f.After.Channel {
			continue // It was on the pages before.
		}
		for part := f; ; {
			part.Channel = c
			recs, err := s.Failures.CachedFailures(ctx, part)
			if err != nil {
				return page, err
			}
			for i := range recs {
				r := &recs[i]
				part.After = r.Identity
				switch {
				case r.Until != 0 && r.Until <= now:
					continue
				case len(page.Items) == f.Limit:
					page.Next = cursorOfFailure(last)
					return page, nil
				}
				last = r.Identity
				page.Items = append(page.Items, viewFailure(r))
			}
			if len(recs) < part.Limit {
				break
			}
		}
	}
	return page, nil
}

func viewFailure(f *job.FailureCached) api.CachedFailure {
	v := api.CachedFailure{
		Channel: f.Identity.Channel, Kind: f.Identity.Kind, Key: f.Identity.Key, System: f.Class.System, Outcome: f.Outcome.String(),
		Message: f.Message, At: timeOf(f.At), Until: timeOf(f.Until),
	}
	if !f.Job.IsZero() {
		v.Job = &f.Job
	}
	return v
}

// cursorOfFailure writes the place of a list: keys have any characters.
func cursorOfFailure(i job.Identity) string {
	text, err := json.Marshal([][]byte{[]byte(i.Channel), []byte(i.Kind), []byte(i.Key)})
	if err != nil {
		return "" // Lists of bytes are JSON.
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// placeOfFailure is the inverse of cursorOfFailure.
func placeOfFailure(cursor string) (job.Identity, error) {
	if cursor == "" {
		return job.Identity{}, nil
	}
	var parts [][]byte
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(text, &parts) != nil || len(parts) != 3 {
		return job.Identity{}, api.Invalid("query.cursor", "want the next of a page")
	}
	return job.Identity{Channel: string(parts[0]), Kind: string(parts[1]), Key: string(parts[2])}, nil
}
