package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// What there is not is told as a problem, with what there is.
func TestWrongPathsAndMethods(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if p := l.problem("GET", "/api/v1/bilds", ""); p.Status != 404 || !strings.Contains(p.Detail, "/api/v1/bilds") {
		t.Errorf("told %+v", p)
	}
	if p := l.problem("PUT", "/api/v1/builds", "{}"); p.Status != 405 || !strings.Contains(p.Detail, "GET, POST") {
		t.Errorf("told %+v", p)
	}
	if p := l.problem("GET", "/api/v1/builds?nmae=x", ""); p.Status != 422 || p.Errors[0].Location != "query.nmae" {
		t.Errorf("told %+v", p)
	}
	if p := l.problem("GET", "/api/v1/builds/x", ""); p.Status != 422 || p.Errors[0].Location != "path.id" {
		t.Errorf("told %+v", p)
	}
	if p := l.problem("GET", "/api/v1/builds?limit=1001", ""); p.Status != 422 || p.Errors[0].Location != "query.limit" {
		t.Errorf("told %+v", p)
	}
	if p := l.problem("GET", "/api/v1/jobs?name=a&prefix=b", ""); p.Status != 422 || p.Errors[0].Location != "query.prefix" {
		t.Errorf("told %+v", p)
	}
	if p := l.problem("POST", "/api/v1/builds", "name=x", "Content-Type", "application/x-www-form-urlencoded"); p.Status != 415 {
		t.Errorf("told %+v", p)
	}
	if p := l.problem("GET", "/api/v1/jobs/"+newID().String(), ""); p.Status != 404 || p.Type != "urn:headrace:not-found" {
		t.Errorf("told %+v", p)
	}
}

// A body that is too large is cut off, wherever it goes.
func TestHugeBodies(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w, s := l.started()
	huge := strings.Repeat("x", 20<<20)
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/builds/" + l.lastBuild.String() + "/bump", `{"priority":1,"x":"` + huge + `"}`},
		{"POST", "/jobs/" + s.Job.String() + "/attempts/1/log?offset=0", huge},
		{"POST", "/jobs/" + s.Job.String() + "/attempts/1/finish", `{"outcome":"failed","message":"` + huge + `"}`},
		{"PUT", "/jobs/" + s.Job.String() + "/attempts/1/progress", `"` + huge + `"`},
		{"PUT", "/channels/default", `{"name":"` + huge + `"}`},
	} {
		if p := l.problem(c.method, "/api/v1"+c.path, c.body, api.LeaseHeader, s.Token); p.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: told %+v", c.path, p)
		}
	}
	reply := w.sync(api.Sync{Running: running(s)})
	if len(reply.Stop)+len(reply.Start) != 0 {
		t.Errorf("after that the worker is told %+v", reply)
	}
}

// A worker that lies harms nobody: what it says of others' attempts counts for nothing.
func TestAWorkerThatLies(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	honest, s := l.startedBy("honest")
	liar := &syncer{lab: l, name: "liar", session: newID(), spec: spec(5)}
	lie := s.Lease
	lie.Token = newID().String()
	reply := liar.sync(api.Sync{Want: 5, Running: []api.Running{{Lease: lie}}, Finished: []api.Finished{{Lease: lie, Outcome: "failed"}}})
	if len(reply.Start) != 0 || len(reply.Acknowledged) != 1 || !errors.Is(reply.Acknowledged[0].Problem, job.ErrLeaseLost) {
		t.Errorf("the liar is told %+v", reply)
	}
	if p := l.problem("POST", "/api/v1/jobs/"+s.Job.String()+"/attempts/1/finish", `{"outcome":"failed"}`, api.LeaseHeader, lie.Token); p.Type != "urn:headrace:lease-lost" {
		t.Errorf("told %+v", p)
	}
	if p := l.problem("POST", "/api/v1/workers/honest/sync", fmt.Sprintf(`{"version":1,"session":"%s","want":1}`, liar.session)); p.Type != "urn:headrace:worker-live" {
		t.Errorf("in another's name: told %+v", p)
	}
	if reply := honest.sync(api.Sync{Running: running(s)}); len(reply.Stop)+len(reply.Start) != 0 {
		t.Errorf("the honest one is told %+v", reply)
	}
	reply = honest.sync(api.Sync{Finished: []api.Finished{{Lease: s.Lease, Outcome: "succeeded"}}})
	if len(reply.Acknowledged) != 1 || reply.Acknowledged[0].Problem != nil {
		t.Errorf("its end is told %+v", reply)
	}
}

// A write that is repeated under its key happens once, and gets the first answer; the key of another write is refused.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	body := `{"name":"b","jobs":[{"name":"x"},{"name":"y"}]}`
	_, first := l.call("POST", "/api/v1/builds", body, "Idempotency-Key", "k1")
	l.restart()
	_, second := l.call("POST", "/api/v1/builds", body, "Idempotency-Key", "k1")
	if string(first) != string(second) {
		t.Errorf("answered\n%s\nthen\n%s", first, second)
	}
	page, err := l.Builds(t.Context(), api.BuildFilter{})
	l.must(err)
	if len(page.Items) != 1 {
		t.Errorf("made %d builds", len(page.Items))
	}
	if status, text := l.call("POST", "/api/v1/builds/"+l.buildOf(first)+"/bump", `{"priority":3}`, "Idempotency-Key", "k1"); status != 204 {
		t.Errorf("another request under the key: %d %s", status, text)
	}
	if p := l.problem("POST", "/api/v1/builds", `{"name":"b","jobs":[{"name":"x"}]}`, "Idempotency-Key", "k1"); p.Type != "urn:headrace:request-reused" {
		t.Errorf("the key for other jobs: told %+v", p)
	}
	if p := l.problem("POST", "/api/v1/builds", body, "Idempotency-Key", strings.Repeat("k", 257)); p.Status != 422 {
		t.Errorf("told %+v", p)
	}
}

func (l *lab) buildOf(answer []byte) string {
	_, rest, _ := strings.Cut(string(answer), `"build":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// A body that does not come is not waited for.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.patience = 50 * time.Millisecond
	l.restart()
	for _, path := range []string{"/workers/w/sync", "/builds", "/jobs/" + newID().String() + "/attempts/1/finish", "/builds/" + newID().String() + "/bump"} {
		c, err := net.Dial("tcp", l.web.Listener.Addr().String())
		l.must(err)
		_, err = fmt.Fprintf(c, "POST /api/v1%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s: %s\r\nContent-Length: 100\r\n\r\n{", path, api.LeaseHeader, newID())
		l.must(err)
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusRequestTimeout && response.StatusCode != 422 {
			t.Errorf("%s: %d %s", path, response.StatusCode, text)
		}
		c.Close()
	}
}

// A client that sends all before it reads is told why its submission is refused, and not that the connection is gone.
func TestRefusalOfALargeBodyIsHeard(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	c, err := net.Dial("tcp", l.web.Listener.Addr().String())
	l.must(err)
	defer c.Close() //nolint:errcheck // nothing rests on it
	body := "{\"name\":\"b\"}\n{\"nmae\":\"j\"}\n" + strings.Repeat("{\"name\":\"j\"}\n", 500_000)
	_, err = fmt.Fprintf(c, "POST /api/v1/builds HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	l.must(err)
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	l.must(err)
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != 422 || !strings.Contains(string(text), "body.jobs[0]") {
		t.Errorf("told %d %s, %v", response.StatusCode, text, err)
	}
}

// Whoever has no token is refused at once, whatever he says that he will send, and is not waited for.
func TestSlowBodyOfAStranger(t *testing.T) {
	t.Parallel()
	l := guardedLab(t)
	for _, token := range []string{"", "Authorization: Bearer hr_nobody_X\r\n"} {
		for _, path := range []string{"/api/v1/builds", "/api/v1/channels/x/pause", "/api/v1/workers/w/sync", "/api/v1//builds", "/api/v1/nothing"} {
			c, err := net.Dial("tcp", strings.TrimPrefix(l.web.URL, "http://"))
			l.must(err)
			l.must(c.SetDeadline(time.Now().Add(20 * time.Second))) // below the patience with bodies
			_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", path, token)
			l.must(err)
			text, err := io.ReadAll(c)
			if errors.Is(err, syscall.ECONNRESET) {
				err = nil // What was sent is not read, so that an end may look so.
			}
			if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 40") {
				t.Errorf("%s, %q: answered %.100q, %v; want a refusal and the end of the connection", path, token, text, err)
			}
			l.must(c.Close())
		}
	}
}

// A key under which one build was asked for is not taken for another.
func TestKeyOfAnotherBuild(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if status, text := l.call("POST", "/api/v1/builds", `{"name":"one","jobs":[]}`, "Idempotency-Key", "k"); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	for _, other := range []string{`{"name":"two","jobs":[]}`, `{"name":"one","jobs":[{"name":"j"}]}`, `{"name":"one","jobs":[],"priority":1}`} {
		if p := l.problem("POST", "/api/v1/builds", other, "Idempotency-Key", "k"); p.Type != "urn:headrace:request-reused" {
			t.Errorf("%s is told %+v", other, p)
		}
	}
	if p := l.problem("GET", "/api/v1/events?build=xx", ""); len(p.Errors) != 1 || p.Errors[0].Location != "query.build" {
		t.Errorf("told %+v", p)
	}
}
