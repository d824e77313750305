package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/internal/apitest"
	"github.com/headrace/headrace/job"
)

// bodies are what operations are asked that want a body.
var bodies = map[string]string{
	"submit-build":    `{"name":"b","jobs":[{"name":"j"}]}`,
	"bump-build":      `{"priority":1}`,
	"set-channel":     `{"name":"","grace_seconds":1,"ttl_seconds":60,"retry":{}}`,
	"create-token":    `{"name":"t%d","role":"read","channels":["default"]}`,
	"register-worker": `{"session":"SESSION","channels":["default"],"kinds":["command"],"systems":[],"slots":1}`,
	"sign-off-worker": `{"session":"SESSION"}`,
	"lease":           `{"session":"SESSION"}`,
	"sync":            `{"version":1,"session":"SESSION"}`,
	"finish":          `{"outcome":"succeeded"}`,
	"report-progress": `{}`,
	"set-schedule":    `{"cron":"@daily","submission":{"name":"b","jobs":[{}]}}`,
}

// free are the operations that ask for nothing of a channel: what they give is cut down to what the token may see.
var free = map[string]bool{
	"list-builds": true, "list-jobs": true, "list-workers": true, "list-channels": true, "whoami": true, "watch": true,
	"list-schedules": true, "list-cached-failures": true,
}

// Every operation in the document, by every role, in the token's own channel and in another's: who may not is refused, and who may is
// not. A token of another channel finds nothing there.
func TestAuthorizationMatrix(t *testing.T) {
	t.Parallel()
	operations, err := apitest.Operations()
	if err != nil {
		t.Fatal(err)
	}
	shared := guardedLab(t)
	secrets := map[string]string{"nobody default": ""}
	for _, who := range []string{"read", "work", "submit", "admin"} {
		for _, channel := range []string{api.DefaultChannel, "other"} {
			made, err := shared.CreateToken(t.Context(), &api.NewToken{Name: who + "-" + channel, Role: who, Channels: []string{channel}})
			shared.must(err)
			secrets[who+" "+channel] = made.Secret
		}
	}
	tried := 0
	for _, op := range operations {
		if op.Role == "" {
			t.Errorf("%s %s needs no token", op.Method, op.Path)
			continue
		}
		for _, who := range []string{"nobody", "read", "work", "submit", "admin"} {
			for _, channel := range []string{api.DefaultChannel, "other"} {
				if who == "nobody" && channel == "other" {
					continue
				}
				tried++
				t.Run(fmt.Sprintf("%s/%s/%s", op.ID, who, channel), func(t *testing.T) {
					l := *shared
					client := *shared.Client
					l.t, l.Client = t, &client
					testAuthorization(&l, op, who, channel, secrets[who+" "+channel])
				})
			}
		}
	}
	if tried < 300 {
		t.Errorf("only %d cases: is the document whole?", tried)
	}
}

func testAuthorization(l *lab, op apitest.Operation, who, channel, secret string) {
	t := l.t
	l.must(l.Pause(t.Context(), api.DefaultChannel, "", false)) // an earlier case may have paused it
	_, err := l.SetSchedule(t.Context(), "nightly", &api.ScheduleSpec{Cron: "@yearly", Submission: api.Submission{BuildSpec: api.BuildSpec{Name: "n"}, Jobs: []api.JobSpec{}}})
	l.must(err)
	w, s := l.startedBy("w-" + newID().String())
	if op.ID == "delete-job" { // else it waits until the worker has confirmed
		w.sync(api.Sync{Finished: []api.Finished{{Lease: s.Lease, Outcome: "failed"}}})
	}
	l.Token = secret
	page := strings.NewReplacer("{attempt}", "1", "{name}", name(op.ID, w.name)).Replace(op.Path)
	id := s.Job.String()
	if strings.HasPrefix(op.Path, "/builds/") {
		id = l.lastBuild.String()
	}
	page = strings.ReplaceAll(page, "{id}", id)
	switch op.ID {
	case "append-log":
		page += "?offset=0"
	case "put-artifact":
		page += "?size=1&sha256=" + strings.Repeat("0", 64)
	case "clear-cached-failure":
		page += "?channel=default&kind=command&key=k"
	case "watch":
		page += "?after=1000000" // so that it ends
	}
	text := strings.ReplaceAll(bodies[op.ID], "SESSION", w.session.String())
	if text == "" && op.Method != http.MethodGet && op.Method != http.MethodDelete {
		text = "{}"
	}
	status, answer := l.call(op.Method, "/api/v1"+page, text, api.LeaseHeader, s.Token, "Content-Type", "application/json")
	refused := status == http.StatusUnauthorized || status == http.StatusForbidden
	foreign := channel == "other" && !free[op.ID]
	switch {
	case who == "nobody":
		if status != http.StatusUnauthorized {
			t.Errorf("without a token: %d %s, want 401", status, answer)
		}
	case !may(who, op.Role):
		if status != http.StatusForbidden {
			t.Errorf("%d %s, want 403", status, answer)
		}
	case foreign:
		if status != http.StatusForbidden && status != http.StatusNotFound {
			t.Errorf("with a token of another channel: %d %s, want 403 or 404", status, answer)
		}
	case overall[op.ID]:
		if status != http.StatusForbidden {
			t.Errorf("with a token of one channel: %d %s, want 403: it concerns all", status, answer)
		}
	case refused:
		t.Errorf("%d %s, want to be let in", status, answer)
	case status >= 500:
		t.Errorf("%d %s", status, answer)
	}
}

// overall are the operations that concern all channels.
var overall = map[string]bool{
	"drain-worker": true, "undrain-worker": true, "pardon-worker": true, "remove-worker": true,
	"list-tokens": true, "create-token": true, "revoke-token": true,
}

func may(who, need string) bool {
	return who == "admin" || who == need || need == "read"
}

func name(operation, worker string) string {
	switch {
	case strings.Contains(operation, "channel"):
		return api.DefaultChannel
	case strings.Contains(operation, "schedule"):
		return "nightly"
	case strings.Contains(operation, "artifact"):
		return "a.txt"
	}
	return worker
}

// A token is good until it is revoked or has expired, and for what it says; nothing of it can be had back.
func TestTokens(t *testing.T) {
	t.Parallel()
	l := guardedLab(t)
	ctx := t.Context()
	err := l.server.AdminToken(ctx, "", func(secret string) error { t.Error("a second first token"); return nil })
	l.must(err)
	made, err := l.CreateToken(ctx, &api.NewToken{Name: "ci_1", Role: "submit", Channels: []string{"a", "b"}, Expires: 3600})
	l.must(err)
	if _, err := l.CreateToken(ctx, &api.NewToken{Name: "ci_1", Role: "read", Channels: []string{"a"}}); !errors.Is(err, job.ErrExists) {
		t.Errorf("the same name again: %v", err)
	}
	status, text := l.call("GET", "/api/v1/tokens", "")
	if status != 200 || strings.Contains(string(text), made.Secret) || strings.Contains(string(text), "hash") {
		t.Errorf("the list tells %d %s", status, text)
	}
	l.restart()
	ci, err := api.NewClient(l.web.URL, made.Secret)
	l.must(err)
	ci.Patience = -1
	me, err := ci.WhoAmI(ctx)
	if err != nil || me.Name != "ci_1" || me.Role != "submit" || len(me.Channels) != 2 {
		t.Errorf("it is %+v, %v", me, err)
	}
	for _, wrong := range []string{made.Secret + "A", made.Secret[:len(made.Secret)-1], strings.Replace(made.Secret, "ci_1", "admin", 1), "hr_", "hr__", "x", strings.Repeat("x", 10_000)} {
		ci.Token = wrong
		if _, err := ci.WhoAmI(ctx); !errors.Is(err, api.ErrUnauthorized) {
			t.Errorf("%.40q is told %v", wrong, err)
		}
	}
	ci.Token = made.Secret
	l.must(l.RevokeToken(ctx, "ci_1"))
	if _, err := ci.WhoAmI(ctx); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("revoked, it is told %v", err)
	}
	short, err := l.CreateToken(ctx, &api.NewToken{Name: "short", Role: "read", Channels: []string{"*"}, Expires: 0.001})
	l.must(err)
	for time.Now().Before(*short.Expires) { //nolint:revive // it is over in a millisecond
	}
	ci.Token = short.Secret
	if _, err := ci.WhoAmI(ctx); !errors.Is(err, api.ErrUnauthorized) {
		t.Errorf("expired, it is told %v", err)
	}
}

// Whoever guesses is held up, and nobody else.
func TestWrongTokensAreHeldUp(t *testing.T) {
	t.Parallel()
	l := guardedLab(t)
	good := l.Token
	l.Token = "hr_admin_WRONG"
	held := false
	for range 100 {
		_, err := l.WhoAmI(t.Context())
		switch {
		case errors.Is(err, api.ErrTooMany):
			held = true
		case !errors.Is(err, api.ErrUnauthorized):
			t.Fatalf("told %v", err)
		}
	}
	if !held {
		t.Error("a hundred wrong tokens, and nobody is held up")
	}
	l.Token = good
	if _, err := l.WhoAmI(t.Context()); err != nil {
		t.Errorf("who has a good one is told %v", err)
	}
}
