package server_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// A list of builds has all that the request may see and asks for, on pages of any length, however many others lie between.
func TestBuildsOfAChannelAreAllListed(t *testing.T) {
	t.Parallel()
	l := guardedLab(t)
	ctx := t.Context()
	var want []string
	for i, channel := range strings.Fields("a a b a b b a a a b a b b b a") {
		name := fmt.Sprint(channel, i)
		_, err := l.Submit(ctx, &api.Submission{BuildSpec: api.BuildSpec{Name: name, Channel: channel}})
		l.must(err)
		if channel == "a" {
			want = append([]string{name}, want...)
		}
	}
	for limit := 1; limit <= 20; limit++ {
		for who, c := range map[string]struct {
			client *api.Client
			filter api.BuildFilter
		}{"a filter": {l.Client, api.BuildFilter{Channel: "a"}}, "a token": {l.with("read", "a"), api.BuildFilter{}}, "a prefix": {l.with("read", "a"), api.BuildFilter{Prefix: "a"}}} {
			var got []string
			for f := c.filter; ; {
				f.Limit = limit
				page, err := c.client.Builds(ctx, f)
				l.must(err)
				for i := range page.Items {
					got = append(got, page.Items[i].Name)
				}
				if f.Cursor = page.Next; page.Next == "" {
					break
				}
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s, pages of %d: %v, want %v", who, limit, got, want)
			}
		}
	}
}

// Whoever may see one channel is told of no worker, job or build of another, also not as the reason of something.
func TestNoReasonNamesWhatIsForeign(t *testing.T) {
	t.Parallel()
	l := guardedLab(t)
	ctx := t.Context()
	secret := &syncer{lab: l, name: "secret-worker", session: newID(), spec: &api.WorkerSpec{Channels: []string{"b"}, Kinds: []string{api.DefaultKind}, Systems: []string{}, Slots: 1}}
	secret.sync(api.Sync{})
	both := &syncer{lab: l, name: "both", session: newID(), spec: &api.WorkerSpec{Channels: []string{"a", "b"}, Kinds: []string{api.DefaultKind}, Systems: []string{}, Slots: 3}}
	ask := func(channel, name string, gate *api.Gate, jobs ...api.JobSpec) api.Receipt {
		t.Helper()
		r, err := l.Submit(ctx, &api.Submission{BuildSpec: api.BuildSpec{Name: name, Channel: channel, Gate: gate}, Jobs: jobs})
		l.must(err)
		return r
	}
	foreign := ask("b", "secret-build", &api.Gate{Key: "deploy", Limit: 1}, api.JobSpec{Name: "secret-job", Pin: "both"})
	both.sync(api.Sync{Want: 1})
	ask("b", "secret-build", nil, api.JobSpec{Name: "secret-exclusive", Pin: "both", Exclusive: true})
	waits := ask("a", "own", &api.Gate{Key: "deploy", Limit: 1}, api.JobSpec{Name: "own", Pin: "both"}, api.JobSpec{Name: "nobody", Features: []string{"kvm"}})
	both.sync(api.Sync{Running: []api.Running{}, Want: 1})
	client := l.with("submit", "a")
	for _, j := range waits.Jobs {
		e, err := client.Why(ctx, j.ID)
		l.must(err)
		if text := fmt.Sprintf("%+v %+v", e, e.Reasons); strings.Contains(text, "secret") || strings.Contains(text, foreign.Jobs[0].ID.String()) {
			t.Errorf("told %s", text)
		}
		if strings.Contains(fmt.Sprint(e.Reasons), "concurrency key") {
			t.Errorf("a build of another channel is in the way: %+v", e.Reasons)
		}
	}
	w, err := client.Worker(ctx, "both")
	l.must(err)
	if all, err := l.Worker(ctx, "both"); err != nil || len(w.Running) != len(all.Running)-1 {
		t.Errorf("of %v it is told %v (%v), want all but %s", all.Running, w.Running, err, foreign.Jobs[0].ID)
	}
}

// A job that has not ended, and that several builds need, is not deleted under them.
func TestNeededJobIsNotDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	shared := api.JobSpec{Name: "shared", Key: "k", Features: []string{"kvm"}}
	id := l.submit(shared).Jobs[0].ID
	if again := l.submit(shared).Jobs[0].ID; again != id {
		t.Fatalf("two jobs, %s and %s", id, again)
	}
	path := "/api/v1/jobs/" + id.String()
	if p := l.problem("DELETE", path, ""); p.Type != "urn:headrace:needed" {
		t.Errorf("told %+v", p)
	}
	if j, err := l.Job(ctx, id); err != nil || j.State != "ready" {
		t.Errorf("it is %+v, %v", j, err)
	}
	if status, text := l.call("DELETE", path+"?force=true", ""); status != 204 {
		t.Errorf("forced: %d %s", status, text)
	}
	if _, err := l.Job(ctx, id); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("deleted, it is told %v", err)
	}
}
