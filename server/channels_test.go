package server_test

import (
	"testing"

	"github.com/headrace/headrace/api"
)

// A policy that is set is shown, alone and in the list, also after a restart; what is left as it was stays so.
func TestChannels(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	c, err := l.Channel(ctx, "images")
	l.must(err)
	if c.TTL != 90 || c.Grace != 86400 || c.Retry.Aborts != 5 {
		t.Errorf("the usual policy is %+v", c)
	}
	c.Discipline, c.Grace, c.TTL, c.Shares = "age", -1, 120, 3
	l.must(l.SetChannel(ctx, &c))
	l.must(l.Pause(ctx, "images", "upload", true))
	for range 2 {
		got, err := l.Channel(ctx, "images")
		l.must(err)
		if got.Discipline != "age" || got.Grace != -1 || got.TTL != 120 || got.Shares != 3 || len(got.PausedKinds) != 1 || got.Paused {
			t.Errorf("it is %+v", got)
		}
		list, err := l.Channels(ctx)
		l.must(err)
		if len(list) != 1 || list[0].Name != "images" {
			t.Errorf("listed %+v", list)
		}
		l.restart()
	}
	l.must(l.Pause(ctx, "images", "upload", false))
	if got, err := l.Channel(ctx, "images"); err != nil || len(got.PausedKinds) != 0 {
		t.Errorf("resumed, it is %+v, %v", got, err)
	}
	for where, body := range map[string]string{
		"body.ttl_seconds":   `{"name":"images","grace_seconds":1,"ttl_seconds":0.5,"retry":{}}`,
		"body.grace_seconds": `{"name":"images","grace_seconds":-2,"ttl_seconds":60,"retry":{}}`,
		"body.discipline":    `{"name":"images","grace_seconds":1,"ttl_seconds":60,"retry":{},"discipline":"luck"}`,
		"body.name":          `{"name":"other","grace_seconds":1,"ttl_seconds":60,"retry":{}}`,
	} {
		if p := l.problem("PUT", "/api/v1/channels/images", body); len(p.Errors) != 1 || p.Errors[0].Location != where {
			t.Errorf("%s: told %+v", where, p)
		}
	}
}

// A retry asks again for what did not succeed, and takes over the rest.
func TestRetryOfABuild(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	r := l.submit(api.JobSpec{Name: "a"}, api.JobSpec{Name: "b", Needs: []api.Need{{Job: "a"}}}, api.JobSpec{Name: "c", Needs: []api.Need{{Job: "b"}}})
	w := &syncer{lab: l, name: "w", session: newID(), spec: spec(1)}
	end := func(name, outcome string) {
		t.Helper()
		got := w.sync(api.Sync{Want: 1}).Start
		if len(got) != 1 || got[0].Name != name {
			t.Fatalf("started %+v, want %s", got, name)
		}
		w.sync(api.Sync{Finished: []api.Finished{{Lease: got[0].Lease, Outcome: outcome}}})
	}
	if _, err := l.RetryBuild(ctx, r.Build); err == nil {
		t.Error("a build of which nothing has failed is retried")
	}
	end("a", "succeeded")
	end("b", "failed")
	again, err := l.RetryBuild(ctx, r.Build)
	l.must(err)
	end("b", "succeeded")
	end("c", "succeeded")
	b, err := l.AwaitBuild(ctx, again.Build)
	l.must(err)
	if b.Outcome != "succeeded" || b.Counts.Jobs != 3 || b.Name != "b" {
		t.Errorf("the retry is %+v, %+v", b, b.Counts)
	}
	old, err := l.Build(ctx, r.Build)
	l.must(err)
	if old.Outcome != "failed" {
		t.Errorf("the build is %+v", old)
	}
}

// Pages are a list without gap or repeat, whatever is added meanwhile, and for a token of several channels, too.
func TestPages(t *testing.T) {
	t.Parallel()
	l := guardedLab(t)
	ctx := t.Context()
	want := 0
	for i := range 40 {
		channel := []string{"a", "b", "c"}[i%3]
		_, err := l.Submit(ctx, &api.Submission{BuildSpec: api.BuildSpec{Name: "b", Channel: channel}, Jobs: []api.JobSpec{{}}})
		l.must(err)
		if channel != "c" {
			want++
		}
	}
	made, err := l.CreateToken(ctx, &api.NewToken{Name: "two", Role: "read", Channels: []string{"a", "b"}})
	l.must(err)
	two, err := api.NewClient(l.web.URL, made.Secret)
	l.must(err)
	jobs, builds := map[string]bool{}, map[string]bool{}
	for cursor := ""; ; {
		page, err := two.Jobs(ctx, api.JobFilter{Limit: 7, Cursor: cursor})
		l.must(err)
		for _, j := range page.Items {
			if jobs[j.ID.String()] || j.Channel == "c" {
				t.Errorf("job %s of channel %s", j.ID, j.Channel)
			}
			jobs[j.ID.String()] = true
		}
		if cursor = page.Next; cursor == "" {
			break
		}
		_, err = l.Submit(ctx, &api.Submission{BuildSpec: api.BuildSpec{Name: "late", Channel: "a"}, Jobs: []api.JobSpec{{}}})
		l.must(err)
	}
	for cursor := ""; ; {
		page, err := two.Builds(ctx, api.BuildFilter{Name: "b", Limit: 7, Cursor: cursor})
		l.must(err)
		for _, b := range page.Items {
			if builds[b.ID.String()] || b.Channel == "c" {
				t.Errorf("build %s of channel %s", b.ID, b.Channel)
			}
			builds[b.ID.String()] = true
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(jobs) != want || len(builds) != want {
		t.Errorf("%d jobs, %d builds, want %d of each", len(jobs), len(builds), want)
	}
}
