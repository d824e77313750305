package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// haunted is a network in which a call of a session comes late: as that is about to be signed off.
type haunted struct {
	next http.RoundTripper
	late func(session job.ID)
}

// RoundTrip implements http.RoundTripper.
func (h *haunted) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/sign-off") {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		var body api.SignOff
		if err := json.Unmarshal(text, &body); err != nil {
			return nil, err
		}
		h.late(body.Session)
		r.Body = io.NopCloser(bytes.NewReader(text))
	}
	return h.next.RoundTrip(r)
}

// What a process had asked for before it was killed, and the server only hears as the next one ends its session, is not given to it: nobody
// would run it, and the attempt would end as crashed.
func TestRemoteIsNotGivenWhatTheDeadAskedFor(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	network := f.network()
	dir, dead, ctx := t.TempDir(), freshID(), t.Context()
	home, err := OpenHome(dir, "w")
	if err != nil {
		t.Fatal(err)
	}
	if err := home.begin(dead); err != nil {
		t.Fatal(err)
	}
	if err := home.Close(); err != nil {
		t.Fatal(err)
	}
	before := through(t, network)
	spec := wireWorker(&job.Worker{Channels: []string{api.DefaultChannel}, Kinds: []string{CommandKind}, Slots: 1}, "1")
	if _, err := before.Sync(ctx, "w", &api.Sync{Version: api.ProtocolVersion, Session: dead, Number: 1, Worker: spec}); err != nil {
		t.Fatal(err)
	}
	receipt, err := before.Submit(ctx, &api.Submission{
		BuildSpec: api.BuildSpec{Name: "b"}, Jobs: []api.JobSpec{{Name: "j", Args: []byte(`{"shell": "exit 0"}`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	client := through(t, network)
	client.HTTP.Transport = &haunted{next: client.HTTP.Transport, late: func(session job.ID) {
		if session != dead {
			return
		}
		reply, err := before.Sync(context.Background(), "w", &api.Sync{Version: api.ProtocolVersion, Session: dead, Number: 2, Want: 1})
		if err != nil || !reply.Superseded {
			t.Errorf("the late call is told %+v, %v; want that it is out of date", reply, err)
		}
	}}
	h := hire(t, client, dir, "w", 1, nil)
	f.succeeds(receipt.Jobs[0].ID, 1)
	h.leave()
}
