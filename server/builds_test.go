package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// A build is asked for, worked on by a worker that syncs, and ends; everything tells the same of it.
func TestABuildFromEndToEnd(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	r := l.submit(
		api.JobSpec{Name: "test", Needs: []api.Need{{Job: "compile"}}, Args: json.RawMessage(`{"shell":"make test"}`)},
		api.JobSpec{Name: "compile", Args: json.RawMessage(`{"shell":"make"}`)},
	)
	b, err := l.Build(ctx, r.Build)
	l.must(err)
	if b.State != "running" || b.Counts.Jobs != 2 || b.Counts.States["ready"] != 1 || b.Channel != api.DefaultChannel {
		t.Fatalf("the build is %+v, %+v", b, b.Counts)
	}
	why, err := l.Why(ctx, r.Jobs[0].ID)
	l.must(err)
	if len(why.Reasons) == 0 || why.Reasons[0].What != "dependency" || *why.Reasons[0].Job != r.Jobs[1].ID {
		t.Errorf("why is %+v", why)
	}
	w := &syncer{lab: l, name: "w1", session: newID(), spec: spec(2)}
	for i, name := range []string{"compile", "test"} {
		started := w.sync(api.Sync{Want: 1, WaitSeconds: 10}).Start
		if len(started) != 1 || started[0].Name != name || started[0].Job != r.Jobs[1-i].ID {
			t.Fatalf("started %+v, want %s", started, name)
		}
		reply := w.sync(api.Sync{Finished: []api.Finished{{Lease: started[0].Lease, Outcome: "succeeded", Result: json.RawMessage(`{"i":1}`)}}})
		if len(reply.Acknowledged) != 1 || reply.Acknowledged[0].Problem != nil {
			t.Fatalf("told %+v", reply)
		}
	}
	b, err = l.AwaitBuild(ctx, r.Build)
	l.must(err)
	if b.Outcome != "succeeded" || b.Counts.Ends["succeeded"] != 2 {
		t.Errorf("the build is %+v, %+v", b, b.Counts)
	}
	result, err := l.Result(ctx, r.Jobs[0].ID)
	l.must(err)
	if string(result.Value) != `{"i":1}` {
		t.Errorf("the result is %s", result.Value)
	}
	if _, err := l.Why(ctx, r.Jobs[0].ID); !errors.Is(err, job.ErrEnded) {
		t.Errorf("why of an ended job: %v", err)
	}
	attempts, err := l.Attempts(ctx, r.Jobs[0].ID)
	l.must(err)
	if len(attempts) != 1 || attempts[0].Worker != "w1" || attempts[0].Outcome != "succeeded" {
		t.Errorf("the attempts are %+v", attempts)
	}
}

// What is wrong with a submission is named, with its place, and nothing is made.
// The engine takes a large build in pieces, and names it itself.
func TestSubmissionLargerThanARound(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	jobs := make([]api.JobSpec, l.queue.StageSize+1)
	for i := range jobs {
		jobs[i].Name = fmt.Sprintf("job-%d", i)
		if i > 0 {
			jobs[i].Needs = []api.Need{{Job: fmt.Sprintf("job-%d", i/2)}}
		}
	}
	before := l.queue.Round()
	r := l.submit(jobs...)
	if len(r.Jobs) != len(jobs) || r.Build.IsZero() || r.Round != before {
		t.Errorf("the receipt has %d jobs, build %s, round %d; want %d jobs, round %d", len(r.Jobs), r.Build, r.Round, len(jobs), before)
	}
	b, err := l.Build(t.Context(), r.Build)
	l.must(err)
	if b.Counts == nil || b.Counts.Jobs != len(jobs) {
		t.Errorf("the build has %+v", b.Counts)
	}
}

func TestSubmissionsThatAreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, c := range []struct{ name, body, where string }{
		{"nothing", ``, "body"},
		{"no JSON", `{"name":`, "body.name"},
		{"a list", `[]`, "body"},
		{"more after it", `{"name":"b","jobs":[]} {}`, "body"},
		{"no name", `{"jobs":[]}`, "body.name"},
		{"an unknown field", `{"name":"b","jbos":[]}`, "body"},
		{"an unknown field of a job", `{"name":"b","jobs":[{"nmae":"x"}]}`, "body.jobs[0]"},
		{"a wrong type", `{"name":"b","priority":"high","jobs":[]}`, "body.priority"},
		{"a wrong type in a job", `{"name":"b","jobs":[{"name":"x"},{"exclusive":"yes"}]}`, "body.jobs[1].exclusive"},
		{"jobs twice", `{"name":"b","jobs":[],"jobs":[]}`, "body.jobs"},
		{"a need of nobody", `{"name":"b","jobs":[{"name":"x","needs":[{"job":"y"}]}]}`, "body.jobs[0].needs[0].job"},
		{"a need of two", `{"name":"b","jobs":[{"name":"x"},{"name":"x"},{"needs":[{"job":"x"}]}]}`, "body.jobs[2].needs[0].job"},
		{"no job", `{"name":"b","jobs":[{},null]}`, "body.jobs[1]"},
		{"a policy", `{"name":"b","jobs":[{"name":"x"},{"needs":[{"job":"x","policy":"maybe"}]}]}`, "body.jobs[1].needs[0].policy"},
		{"a role", `{"name":"b","jobs":[{"role":"star"}]}`, "body.jobs[0].role"},
		{"an id twice", `{"name":"b","jobs":[{"id":"0190163d-8694-739b-aea5-966c26f8ad91"},{"id":"0190163d-8694-739b-aea5-966c26f8ad91"}]}`, "body.jobs[1].id"},
		{"a negative time", `{"name":"b","timeout_seconds":-1,"jobs":[]}`, "body.timeout_seconds"},
		{"a time of nothing", `{"name":"b","jobs":[{"timeout_seconds":1e-9}]}`, "body.jobs[0].timeout_seconds"},
		{"a gate without limit", `{"name":"b","jobs":[{"gate":{"key":"k"}}]}`, "body.jobs[0].gate.limit"},
		{"a label of the server's", `{"name":"b","labels":{"headrace.channel":"x"},"jobs":[]}`, "body.labels.headrace.channel"},
		{"a feature with a blank", `{"name":"b","jobs":[{"name":"a"},{"name":"b","features":["x y"],"needs":[{"job":"c"}]},{"name":"c"}]}`, "body.jobs[1].features[0]"},
		{"a long name", `{"name":"b","jobs":[{"name":"` + string(make129()) + `"}]}`, "body.jobs[0].name"},
		{"a channel of all", `{"name":"b","channel":"*","jobs":[{}]}`, "body.channel"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := l.problem("POST", "/api/v1/builds", c.body, "Content-Type", "application/json")
			if p.Status != 422 || len(p.Errors) != 1 || p.Errors[0].Location != c.where {
				t.Errorf("told %d %v, want %s", p.Status, p.Errors, c.where)
			}
		})
	}
	p := l.problem("POST", "/api/v1/builds", `{"name":"b","jobs":[{"name":"a","needs":[{"job":"b"}]},{"name":"b","needs":[{"job":"a"}]}]}`)
	if p.Type != "urn:headrace:cycle" || p.Detail != "cycle: a needs b needs a" {
		t.Errorf("a circle: %+v", p)
	}
	page, err := l.Builds(t.Context(), api.BuildFilter{})
	l.must(err)
	if len(page.Items) != 0 {
		t.Errorf("made %+v", page.Items)
	}
}

func make129() []byte {
	b := make([]byte, 129)
	for i := range b {
		b[i] = 'a'
	}
	return b
}
