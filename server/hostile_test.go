package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// with gives a client with a token of a role and channels.
func (l *lab) with(role string, channels ...string) *api.Client {
	l.t.Helper()
	made, err := l.CreateToken(l.t.Context(), &api.NewToken{Name: role + "-" + newID().String(), Role: role, Channels: channels})
	l.must(err)
	c, err := api.NewClient(l.web.URL, made.Secret)
	l.must(err)
	c.Patience = -1
	return c
}

// Nobody adds to a build that is there, in whatever channel: a build's id is the server's to give.
func TestNobodyAddsToABuild(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.submit(api.JobSpec{Name: "mine"})
	p := l.problem("POST", "/api/v1/builds", fmt.Sprintf(`{"id":"%s","name":"zz","channel":"a","jobs":[{"name":"evil"}]}`, r.Build))
	if p.Status != 422 {
		t.Errorf("told %+v", p)
	}
	b, err := l.Build(t.Context(), r.Build)
	l.must(err)
	if b.Counts.Jobs != 1 {
		t.Errorf("the build has %d jobs", b.Counts.Jobs)
	}
}

// What a token may not see it cannot need: neither whether a job is there, nor its name.
func TestNeedsDoNotReachIntoOtherChannels(t *testing.T) {
	t.Parallel()
	l := guardedLab(t)
	secret := l.submit(api.JobSpec{Name: "TOPSECRET"}).Jobs[0].ID
	a := l.with("submit", "a")
	ask := func(id job.ID) error {
		_, err := a.Submit(t.Context(), &api.Submission{
			BuildSpec: api.BuildSpec{Name: "b", Channel: "a"}, Jobs: []api.JobSpec{{Needs: []api.Need{{Job: id.String(), Policy: "finish"}}}},
		})
		return err
	}
	foreign, missing := ask(secret), ask(newID())
	if foreign == nil || missing == nil || foreign.Error() != missing.Error() {
		t.Errorf("a foreign job: %v; one that is not: %v", foreign, missing)
	}
	own, err := a.Submit(t.Context(), &api.Submission{BuildSpec: api.BuildSpec{Name: "own", Channel: "a"}, Jobs: []api.JobSpec{{}}})
	l.must(err)
	if err := ask(own.Jobs[0].ID); err != nil {
		t.Errorf("one of its own channel: %v", err)
	}
}

// A token that is revoked, or has expired, ends what it was let in for.
func TestStreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	l := guardedLab(t)
	ctx := t.Context()
	_, s := l.started()
	for _, c := range []struct {
		name string
		end  func(name string)
		good float64
	}{
		{"revoked", func(name string) { l.must(l.RevokeToken(ctx, name)) }, 0},
		{"expired", func(string) {}, 0.5},
	} {
		made, err := l.CreateToken(ctx, &api.NewToken{Name: c.name, Role: "read", Channels: []string{"*"}, Expires: c.good})
		l.must(err)
		client, err := api.NewClient(l.web.URL, made.Secret)
		l.must(err)
		client.Patience = -1
		content, _, err := client.Log(ctx, s.Job, api.LogOptions{Follow: true})
		l.must(err)
		events := make(chan error, 1)
		started := make(chan struct{}, 100)
		go func() {
			events <- client.Events(ctx, api.Watch{}, 0, func(api.Event) error { started <- struct{}{}; return nil })
		}()
		held := make(chan error, 1)
		go func() {
			_, err := client.AwaitJob(ctx, s.Job)
			held <- err
		}()
		<-started
		c.end(c.name)
		if err := <-held; !errors.Is(err, api.ErrUnauthorized) {
			t.Errorf("%s: a call that is held is told %v", c.name, err)
		}
		if _, err := io.ReadAll(content); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: the log goes on: %v", c.name, err)
		}
		content.Close()
		if err := <-events; err == nil {
			t.Errorf("%s: the events end well", c.name)
		}
	}
}

// What a worker says of itself is bounded, in each call.
func TestWorkersKeepToTheirBounds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	good := `"channels":["default"],"kinds":["command"],"systems":[],"slots":1`
	many := strings.Repeat(`"c",`, 64) + `"c"`
	for where, spec := range map[string]string{
		"version":  good + `,"version":"` + strings.Repeat("v", 129) + `"`,
		"version ": good + `,"version":"a\u0007b"`,
		"speed":    good + `,"speed":-1`,
		"speed ":   good + `,"speed":1e300`,
		"kinds":    `"channels":["default"],"kinds":[],"systems":[],"slots":1`,
		"channels": `"channels":[` + many + `],"kinds":["command"],"systems":[],"slots":1`,
		"slots":    `"channels":["default"],"kinds":["command"],"systems":[],"slots":0`,
	} {
		want := strings.TrimSpace(where)
		sync := fmt.Sprintf(`{"version":1,"session":"%s","worker":{%s}}`, newID(), spec)
		if p := l.problem("POST", "/api/v1/workers/x/sync", sync); p.Status != 422 || p.Errors[0].Location != "body.worker."+want {
			t.Errorf("sync with a wrong %s: told %+v", where, p)
		}
		register := fmt.Sprintf(`{"session":"%s",%s}`, newID(), spec)
		if p := l.problem("PUT", "/api/v1/workers/x", register); p.Status != 422 {
			t.Errorf("registered with a wrong %s: told %+v", where, p)
		}
	}
	for _, machine := range []string{`"load":-1`, `"load":1e308`, `"memory_bytes":-5`, `"disk_free_bytes":-1`} {
		sync := fmt.Sprintf(`{"version":1,"session":"%s","worker":{%s},"machine":{%s}}`, newID(), good, machine)
		if p := l.problem("POST", "/api/v1/workers/x/sync", sync); p.Status != 422 || !strings.HasPrefix(p.Errors[0].Location, "body.machine.") {
			t.Errorf("a machine with %s: told %+v", machine, p)
		}
	}
	workers, err := l.Workers(t.Context())
	if err != nil || len(workers) != 0 {
		t.Errorf("registered %+v, %v", workers, err)
	}
}

// A worker's token of one channel does not take over the name of a worker of another.
func TestNamesOfOtherChannelsAreTaken(t *testing.T) {
	t.Parallel()
	l := guardedLab(t)
	other := &api.WorkerSpec{Channels: []string{"zz"}, Kinds: []string{"command"}, Systems: []string{}, Slots: 1}
	session := newID()
	_, err := l.Sync(t.Context(), "big", &api.Sync{Version: 1, Session: session, Worker: other})
	l.must(err)
	l.must(l.SignOff(t.Context(), "big", session))
	_, err = l.with("work", api.DefaultChannel).Sync(t.Context(), "big", &api.Sync{Version: 1, Session: newID(), Worker: spec(1)})
	if !errors.Is(err, api.ErrForbidden) {
		t.Errorf("told %v", err)
	}
}

// A call that is sent again under the same number, as its answer was lost, is answered.
func TestSyncMayBeRepeatedUnderItsNumber(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w, s := l.started()
	for range 2 {
		reply := w.sync(api.Sync{Number: 7, Finished: []api.Finished{{Lease: s.Lease, Outcome: "succeeded"}}})
		if reply.Superseded || len(reply.Acknowledged) != 1 || reply.Acknowledged[0].Problem != nil {
			t.Errorf("told %+v", reply)
		}
	}
}

// What is not text is refused, not taken for something else.
func TestBodiesAreText(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, body := range []string{
		"{\"name\":\"b\",\"jobs\":[{\"args\":{\"shell\":\"echo \xff\"}}]}", "{\"name\":\"\xc3\x28\",\"jobs\":[]}", "{\"name\":\"b\",\"jobs\":[]}\xe2\x82",
	} {
		if p := l.problem("POST", "/api/v1/builds", body); p.Status != 422 {
			t.Errorf("%q: told %+v", body, p)
		}
	}
	long := `{"name":"b","jobs":[{"args":{"shell":"` + strings.Repeat("é€😀", 20_000) + `"}}]}`
	if status, answer := l.call("POST", "/api/v1/builds", long); status != 201 {
		t.Errorf("text of many bytes: %d %s", status, answer)
	}
	if p := l.problem("PUT", "/api/v1/channels/c", "{\"name\":\"c\xff\"}"); p.Status/100 != 4 {
		t.Errorf("told %+v", p)
	}
}

// A first token that cannot be told is not made.
func TestFirstTokenIsToldBeforeItIsGood(t *testing.T) {
	t.Parallel()
	inClockLab(t, func(t *testing.T, l *clockLab) {
		full := errors.New("no space left on device")
		if err := l.server.AdminToken(t.Context(), "", func(string) error { return full }); !errors.Is(err, full) {
			t.Errorf("told %v", err)
		}
		told := ""
		if err := l.server.AdminToken(t.Context(), "", func(secret string) error { told = secret; return nil }); err != nil || told == "" {
			t.Errorf("the next start tells %q, %v", told, err)
		}
	})
}

// A build of more jobs than one round takes is made, and told, as any other.
func TestALargeBuild(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	jobs := make([]api.JobSpec, 5000)
	for i := range jobs {
		jobs[i].Name = fmt.Sprintf("j%d", i)
		if i > 0 {
			jobs[i].Needs = []api.Need{{Job: fmt.Sprintf("j%d", i-1)}}
		}
	}
	r, err := l.Submit(t.Context(), &api.Submission{BuildSpec: api.BuildSpec{Name: "large"}, Jobs: jobs})
	l.must(err)
	b, err := l.Build(t.Context(), r.Build)
	l.must(err)
	if len(r.Jobs) != len(jobs) || b.Counts.Jobs != len(jobs) || b.Counts.States["ready"] != 1 {
		t.Errorf("made %d jobs, %+v", len(r.Jobs), b.Counts)
	}
}

// What is wrong with a worker is named where its request has it.
func TestWrongWorkersAreToldWhere(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	long := strings.Repeat("w", 129)
	for _, c := range []struct{ path, body, where string }{
		{"/workers/" + long, `{"session":"SESSION","channels":["default"],"kinds":["command"],"systems":[],"slots":1}`, "path.name"},
		{"/workers/w", `{"session":"SESSION","channels":["default"],"kinds":["command"],"systems":[],"features":["a b"],"slots":1}`, "body.features[0]"},
		{"/workers/w", `{"session":"00000000-0000-0000-0000-000000000000","channels":["default"],"kinds":["command"],"systems":[],"slots":1}`, "body.session"},
		{"/workers/" + long + "/sync", `{"version":1,"session":"SESSION","worker":{"channels":["default"],"kinds":["command"],"systems":[],"slots":1}}`, "path.name"},
		{"/workers/w/sync", `{"version":1,"session":"SESSION","worker":{"channels":["default"],"kinds":["command"],"systems":["a b"],"slots":1}}`, "body.worker.systems[0]"},
		{"/workers/w/sync", `{"version":1,"session":"SESSION","worker":{"channels":["default"],"kinds":["command"],"systems":[],"slots":1,"colour":"red"}}`, "body"},
	} {
		method := "PUT"
		if strings.HasSuffix(c.path, "/sync") {
			method = "POST"
		}
		p := l.problem(method, "/api/v1"+c.path, strings.ReplaceAll(c.body, "SESSION", newID().String()))
		if len(p.Errors) != 1 || p.Errors[0].Location != c.where || p.Status != 422 {
			t.Errorf("%s %.60s: told %+v, want %s", c.path, c.body, p, c.where)
		}
	}
}
