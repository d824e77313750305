package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// What is deleted is no more: a repeat of the request that did it is told so, and not that there is none.
func TestRepeatedDeletionIsToldTheFirstAnswer(t *testing.T) {
	t.Parallel()
	l := guardedLab(t)
	ctx := t.Context()
	l.fail("default", "a", "b")
	w, s := l.started()
	w.sync(api.Sync{Finished: []api.Finished{{Lease: s.Lease, Outcome: "succeeded"}}})
	l.must(l.SignOff(ctx, "w", w.session))
	_, err := l.SetSchedule(ctx, "nightly", &api.ScheduleSpec{Cron: "0 2 * * *", Submission: api.Submission{BuildSpec: api.BuildSpec{Name: "b"}}})
	l.must(err)
	_, err = l.CreateToken(ctx, &api.NewToken{Name: "ci", Role: "read", Channels: []string{"*"}})
	l.must(err)
	for _, path := range []string{
		"/builds/" + l.lastBuild.String(), "/jobs/" + s.Job.String(), "/schedules/nightly", "/workers/w", "/tokens/ci",
		"/cached-failures?channel=default&kind=command&key=a", "/cached-failures?channel=default&kind=command&key=b",
	} {
		path := "/api/v1" + path
		for range 2 {
			if status, text := l.call("DELETE", path, "", "Idempotency-Key", "k"); status != http.StatusNoContent {
				t.Errorf("%s: %d %s", path, status, text)
			}
		}
		if strings.Contains(path, "failures") { // Clearing what is not remembered is no fault.
			continue
		}
		if p := l.problem("DELETE", path, "", "Idempotency-Key", "another"); p.Status != http.StatusNotFound {
			t.Errorf("%s, asked for by another: %+v", path, p)
		}
	}
	if left := l.failures(api.FailureFilter{}); len(left) != 0 {
		t.Errorf("one key for two failures cleared one of them: left %v", left)
	}
}

// A token's text is kept nowhere; yet whoever did not hear it can be told it again.
func TestRepeatedRequestForATokenIsToldItAgain(t *testing.T) {
	t.Parallel()
	l := guardedLab(t)
	ask := func(text, key string) (int, api.Secret) {
		t.Helper()
		status, answer := l.call("POST", "/api/v1/tokens", text, "Idempotency-Key", key)
		var made api.Secret
		if status == http.StatusCreated {
			l.must(json.Unmarshal(answer, &made))
		}
		return status, made
	}
	const asked = `{"name":"ci","role":"work","channels":["a"],"expires_seconds":3600}`
	_, first := ask(asked, "k")
	l.restart()
	status, again := ask(asked, "k")
	if status != http.StatusCreated || again.Secret != first.Secret || again.Secret == "" || !again.Created.Equal(first.Created) {
		t.Errorf("the repeat is told %d %+v, want %+v", status, again, first)
	}
	as := func(token string) *api.Client {
		c, err := api.NewClient(l.web.URL, token)
		l.must(err)
		return c
	}
	if me, err := as(again.Secret).WhoAmI(t.Context()); err != nil || me.Name != "ci" || me.Role != "work" {
		t.Errorf("it is %+v, %v", me, err)
	}
	for what, c := range map[string]struct{ text, key, want string }{
		"another key":     {asked, "k2", "urn:headrace:exists"},
		"another role":    {strings.Replace(asked, "work", "read", 1), "k", "urn:headrace:request-reused"},
		"another channel": {strings.Replace(asked, `"a"`, `"b"`, 1), "k", "urn:headrace:request-reused"},
		"another life":    {strings.Replace(asked, "3600", "3601", 1), "k", "urn:headrace:request-reused"},
	} {
		if p := l.problem("POST", "/api/v1/tokens", c.text, "Idempotency-Key", c.key); p.Type != c.want {
			t.Errorf("%s is told %+v, want %s", what, p, c.want)
		}
	}
	// Once it is revoked, a repeat that comes late does not bring it back.
	l.must(l.RevokeToken(t.Context(), "ci"))
	if p := l.problem("POST", "/api/v1/tokens", asked, "Idempotency-Key", "k"); p.Type != "urn:headrace:exists" || !strings.Contains(p.Detail, "is revoked") {
		t.Errorf("repeated after it was revoked: %+v", p)
	}
	if _, err := as(again.Secret).WhoAmI(t.Context()); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("revoked and asked for again, it is told %v", err)
	}
	if status, _ := ask(asked, "k2"); status != http.StatusCreated {
		t.Errorf("anew under another key: %d", status)
	}
	// Another secret is made of another key.
	if _, other := ask(strings.Replace(asked, "ci", "ci2", 1), "k3"); strings.TrimPrefix(other.Secret, "hr_ci2_") == strings.TrimPrefix(first.Secret, "hr_ci_") {
		t.Errorf("two tokens have the same secret: %s", other.Secret)
	}
	// One of the same name that was made anew is not told to whoever asked for the first.
	l.must(l.RevokeToken(t.Context(), "ci"))
	if status, _ := ask(asked, "k4"); status != http.StatusCreated {
		t.Errorf("anew: %d", status)
	}
	if p := l.problem("POST", "/api/v1/tokens", asked, "Idempotency-Key", "k"); p.Type != "urn:headrace:exists" {
		t.Errorf("the first is repeated after another one was made: %+v", p)
	}
}

// There is always a token that can make others, but for one that is told to expire.
func TestLastTokenOfAnAdministratorStays(t *testing.T) {
	t.Parallel()
	l := guardedLab(t)
	ctx := t.Context()
	for name, of := range map[string]*api.NewToken{
		"brief": {Role: "admin", Channels: []string{"*"}, Expires: 3600}, "narrow": {Role: "admin", Channels: []string{"a"}}, "weak": {Role: "submit", Channels: []string{"*"}},
	} {
		of.Name = name
		_, err := l.CreateToken(ctx, of)
		l.must(err)
	}
	if err := l.RevokeToken(ctx, "admin"); !errors.Is(err, job.ErrBusy) || !strings.Contains(err.Error(), "make another first") {
		t.Errorf("the last one is revoked: %v", err)
	}
	if _, err := l.WhoAmI(ctx); err != nil {
		t.Errorf("it was refused, and is good for nothing now: %v", err)
	}
	_, err := l.CreateToken(ctx, &api.NewToken{Name: "second", Role: "admin", Channels: []string{"*"}})
	l.must(err)
	for _, name := range []string{"brief", "narrow", "weak", "second"} {
		l.must(l.RevokeToken(ctx, name))
	}
	_, err = l.CreateToken(ctx, &api.NewToken{Name: "third", Role: "admin", Channels: []string{"*"}})
	l.must(err)
	l.must(l.RevokeToken(ctx, "admin"))
}

// What a worker runs now is found by its name, and so is what has ended on it.
func TestJobsAreListedByWorker(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w, ended := l.startedBy("w")
	w.sync(api.Sync{Finished: []api.Finished{{Lease: ended.Lease, Outcome: "succeeded"}}})
	_, runs := l.startedBy("other")
	_, mine := l.startedBy("w2")
	for _, c := range []struct {
		filter api.JobFilter
		want   []job.ID
	}{
		{api.JobFilter{Worker: "w"}, []job.ID{ended.Job}},
		{api.JobFilter{Worker: "w", State: "running"}, nil},
		{api.JobFilter{Worker: "other", State: "running"}, []job.ID{runs.Job}},
		{api.JobFilter{Worker: "w2", State: "running"}, []job.ID{mine.Job}},
		{api.JobFilter{Worker: "w2", State: "running", Name: "none"}, nil},
		{api.JobFilter{Worker: "w2", State: "blocked"}, nil},
		{api.JobFilter{Worker: "nobody", State: "running"}, nil},
	} {
		page, err := l.Jobs(t.Context(), c.filter)
		l.must(err)
		got := []job.ID{}
		for i := range page.Items {
			got = append(got, page.Items[i].ID)
		}
		if len(got) != len(c.want) || len(got) > 0 && got[0] != c.want[0] {
			t.Errorf("%+v: %v, want %v", c.filter, got, c.want)
		}
	}
}

// What a request was about may be gone when it is repeated: the repeat is told the first answer all the same.
func TestRepeatAfterItsBuildIsGone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	w, s := l.started()
	asked := l.lastBuild
	path := "/api/v1/builds/" + asked.String()
	calls := []struct{ path, body string }{{path + "/bump", `{"priority":3}`}, {path + "/cancel", `{}`}, {path + "/retry", ""}, {"/api/v1/schedules/nightly/run", ""}}
	_, err := l.SetSchedule(ctx, "nightly", &api.ScheduleSpec{Cron: "0 2 * * *", Submission: api.Submission{BuildSpec: api.BuildSpec{Name: "b"}, Jobs: []api.JobSpec{{Name: "j"}}}})
	l.must(err)
	first := make([]string, len(calls))
	for i, c := range calls {
		if i == 2 {
			w.sync(api.Sync{Finished: []api.Finished{{Lease: s.Lease, Outcome: "cancelled"}}})
		}
		status, text := l.call("POST", c.path, c.body, "Idempotency-Key", "k")
		if first[i] = fmt.Sprint(status, string(text)); status/100 != 2 {
			t.Fatalf("%s: %s", c.path, first[i])
		}
	}
	l.must(l.queue.DeleteBuild(ctx, asked))
	l.must(l.RemoveSchedule(ctx, "nightly"))
	l.restart()
	for i, c := range calls {
		status, text := l.call("POST", c.path, c.body, "Idempotency-Key", "k")
		if again := fmt.Sprint(status, string(text)); again != first[i] {
			t.Errorf("%s: at first\n%s\nthen\n%s", c.path, first[i], again)
		}
		if p := l.problem("POST", c.path, c.body, "Idempotency-Key", "another"); p.Status != http.StatusNotFound {
			t.Errorf("%s, asked for by another: %+v", c.path, p)
		}
	}
}
