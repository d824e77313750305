package composer_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

// unwritable are values that cannot be written as JSON.
var unwritable = map[string]any{
	"a channel": make(chan int), "a function": func() {}, "infinity": math.Inf(1), "half an object": json.RawMessage(`{"a":`),
	"bytes of no JSON": []byte("plain text"), "a map with one inside": map[string]any{"a": []any{1, make(chan int)}},
}

func TestContractErrors(t *testing.T) {
	parts{"enqueue": refusedJobsLeaveNothing, "token": tokensEndWithTheirAttempt, "result": refusedResultsChangeNothing}.run(t)
}

func refusedJobsLeaveNothing(t *testing.T, l *lab) {
	refused := func(what string, args any, deps ...uuid.UUID) error {
		id, err := l.Enqueue("build", args, deps, "org-1")
		l.fails("enqueue with "+what, err)
		if id != uuid.Nil {
			t.Errorf("enqueue with %s: id %s, want none", what, id)
		}
		return err
	}
	for what, v := range unwritable {
		refused(what, v)
	}
	good := l.enqueue("build", "org-1")
	l.reports("enqueue", refused("an unknown dependency", nil, uuid.New()), composer.ErrNotExist)
	l.reports("enqueue", refused("no dependency", nil, uuid.Nil), composer.ErrNotExist)
	l.reports("enqueue", refused("one good dependency", nil, good, uuid.New()), composer.ErrNotExist)

	l.same("dependents", l.status(good).Dependents, []uuid.UUID(nil))
	roots, err := l.AllRootJobIDs(t.Context())
	l.works("all root jobs", err)
	l.same("root jobs", roots, []uuid.UUID{good})
	l.takes(anywhere("build"), good)
	l.takesNothing(anywhere("build"))
}

func tokensEndWithTheirAttempt(_ *testing.T, l *lab) {
	l.isGone(uuid.Nil)
	l.isGone(uuid.New())
	id := l.enqueue("build", "org-1")
	l.isGone(id) // a job's id is not its token
	first := l.take(from("org-1", "build")).Token
	l.resolves(first, id)
	l.ends(id, 1, nil, true)
	l.isGone(first)
	second := l.take(from("org-1", "build")).Token
	l.resolves(second, id)
	l.finish(id, nil)
	l.isGone(first)
	l.isGone(second)
}

func refusedResultsChangeNothing(_ *testing.T, l *lab) {
	id := l.enqueue("build", "org-1")
	for what, v := range unwritable {
		l.fails("fail with "+what, l.FailJob(id, v))
	}
	l.isState(id, "pending", "")
	token := l.takes(from("org-1", "build"), id).Token
	for what, v := range unwritable {
		l.fails("update with "+what, l.UpdateJobResult(id, v))
		_, err := l.RequeueOrFinishJob(id, 0, v)
		l.fails("finish with "+what, err)
	}
	l.isState(id, "running", "")
	l.resolves(token, id)
	l.finish(id, "good")
	l.isState(id, "finished", `"good"`)
}

// parcel is what a job may be enqueued with.
type parcel struct {
	Name    string            `json:"name"`
	Count   int64             `json:"count"`
	Labels  map[string]string `json:"labels,omitempty"`
	Inner   *parcel           `json:"inner,omitempty"`
	Comment string            `json:"-"`
}

func TestContractArgs(t *testing.T) {
	parts{"round trip": argsComeBackAsTheyWere, "dependencies": dependenciesComeBackInOrder, "unknown": func(_ *testing.T, l *lab) {
		for _, id := range []uuid.UUID{uuid.Nil, uuid.New()} {
			l.hasNoJob(id)
		}
	}}.run(t)
}

func argsComeBackAsTheyWere(t *testing.T, l *lab) {
	in := parcel{Name: "größe \"x\" <&>", Count: math.MaxInt64, Labels: map[string]string{"b": "2", "a": "1"}, Inner: &parcel{Name: "in"}}
	in.Inner.Comment = "left out"
	written, err := json.Marshal(in)
	l.works("marshal", err)
	for _, c := range []struct {
		args any
		want string
	}{
		{in, string(written)},
		{&in, string(written)},
		{nil, "null"},
		{(*parcel)(nil), "null"},
		{json.RawMessage(nil), "null"},
		{"", `""`},
		{"plain text", `"plain text"`},
		{`{"a": 1}`, `"{\"a\": 1}"`},
		{false, "false"},
		{0, "0"},
		{-1.5e300, "-1.5e+300"},
		{[]int{}, "[]"},
		{struct{}{}, "{}"},
		{json.RawMessage("{ \"b\":1,\n\t\"a\": 1.0, \"a\":12345678901234567890 }"), "{ \"b\":1,\n\t\"a\": 1.0, \"a\":12345678901234567890 }"},
		{[]byte("[1,  2]"), "[1,  2]"},
		{strings.Repeat("long ", 1<<18), `"` + strings.Repeat("long ", 1<<18) + `"`},
	} {
		id, err := l.Enqueue("build", c.args, nil, "org-1")
		l.works("enqueue", err)
		before := l.job(id)
		g := l.takes(from("org-1", "build"), id)
		if string(g.Args) != c.want || string(before.Args) != c.want || string(l.job(id).Args) != c.want {
			t.Errorf("%.40v came back as %.40s, %.40s before and %.40s after that; want %.40s", c.args, g.Args, before.Args, l.job(id).Args, c.want)
		}
		l.finish(id, nil)
		l.same("the job", l.job(id), before)
	}
	id, err := l.Enqueue("build", in, nil, "org-1")
	l.works("enqueue", err)
	var out parcel
	l.works("unmarshal", json.Unmarshal(l.takes(anywhere("build"), id).Args, &out))
	in.Inner.Comment = ""
	l.same("the arguments", out, in)
}

func dependenciesComeBackInOrder(_ *testing.T, l *lab) {
	var deps []uuid.UUID
	for range 5 {
		deps = append(deps, l.enqueue("before", "org-1"))
	}
	deps[0], deps[3] = deps[3], deps[0]
	deps[1], deps[4] = deps[4], deps[1]
	for range deps {
		l.finish(l.take(from("org-1", "before")).ID, nil)
	}
	for _, take := range []func(id uuid.UUID) handout{
		func(id uuid.UUID) handout { return l.takes(from("org-2", "after"), id) },
		func(id uuid.UUID) handout { return l.takes(anywhere("after"), id) },
		func(id uuid.UUID) handout { return l.takeByID(id, uuid.Nil) },
	} {
		id, err := l.Enqueue("after", parcel{Name: "x"}, deps, "org-2")
		l.works("enqueue", err)
		want := enqueued{Type: "after", Args: json.RawMessage(`{"name":"x","count":0}`), Deps: deps, Channel: "org-2"}
		l.same("the job before it is dequeued", l.job(id), want)
		g := take(id)
		l.same("what is dequeued", g, handout{ID: id, Token: g.Token, Deps: want.Deps, Type: want.Type, Args: want.Args})
		l.same("the job after it was dequeued", l.job(id), want)
		l.same("the dependencies in its status", l.status(id).Deps, deps)
	}
}

// enqueued is what Job gives.
type enqueued struct {
	Type    string
	Args    json.RawMessage
	Deps    []uuid.UUID
	Channel string
}

func (l *lab) job(id uuid.UUID) enqueued {
	l.Helper()
	typ, args, deps, channel, err := l.Job(id)
	l.works("job", err)
	return enqueued{typ, args, deps, channel}
}

// hasNoJob checks that nothing is known of a job.
func (l *lab) hasNoJob(id uuid.UUID) {
	l.Helper()
	typ, args, deps, channel, err := l.Job(id)
	l.reports("job", err, composer.ErrNotExist)
	if typ != "" || args != nil || deps != nil || channel != "" {
		l.Errorf("of no job it is said that it is %q, %s, %v, %q", typ, args, deps, channel)
	}
	var s status
	var result json.RawMessage
	s.Type, s.Channel, result, s.Queued, s.Started, s.Finished, s.Canceled, s.Deps, s.Dependents, err = l.JobStatus(id)
	l.reports("status", err, composer.ErrNotExist)
	if result != nil {
		l.Errorf("no job has the result %s", result)
	}
	l.same("the status of no job", s, status{})
}

func TestContractFail(t *testing.T) {
	parts{
		"pending": failedJobHasFinished, "released": failedJobReleasesItsDependents, "refused": func(_ *testing.T, l *lab) {
			l.reports("fail an unknown job", l.FailJob(uuid.Nil, nil), composer.ErrNotExist)
			l.reports("fail an unknown job", l.FailJob(uuid.New(), "bad"), composer.ErrNotExist)
			id := l.enqueue("build", "org-1")
			token := l.takes(from("org-1", "build"), id).Token
			l.reports("fail a running job", l.FailJob(id, "bad"), composer.ErrRunning)
			l.isState(id, "running", "")
			l.resolves(token, id)
			l.finish(id, "good")
			l.reports("fail a finished job", l.FailJob(id, "bad"), composer.ErrFinished)
			l.isState(id, "finished", `"good"`)
			id = l.enqueue("build", "org-1")
			l.works("cancel", l.CancelJob(id))
			l.reports("fail a canceled job", l.FailJob(id, "bad"), composer.ErrCanceled)
			l.isState(id, "canceled", "")
		},
	}.run(t)
}

func failedJobHasFinished(t *testing.T, l *lab) {
	began := time.Now()
	id, err := l.Enqueue("build", parcel{Name: "x"}, nil, "org-1")
	l.works("enqueue", err)
	before := l.job(id)
	next := l.enqueue("build", "org-1")
	l.works("fail", l.FailJob(id, parcel{Name: "why"}))
	ended := time.Now()

	s := l.isState(id, "finished", `{"name":"why","count":0}`)
	l.same("the job", l.job(id), before)
	if s.Type != "build" || s.Channel != "org-1" {
		t.Errorf("it is of type %q in %q", s.Type, s.Channel)
	}
	for _, at := range []time.Time{s.Queued, s.Started, s.Finished} {
		if !at.After(began) || !at.Before(ended) {
			t.Errorf("it was queued, started, finished at %v, %v, %v; want all between %v and %v", s.Queued, s.Started, s.Finished, began, ended)
		}
	}
	l.reports("fail it again", l.FailJob(id, "again"), composer.ErrFinished)
	l.reports("cancel it", l.CancelJob(id), composer.ErrNotRunning)
	l.reports("update it", l.UpdateJobResult(id, "late"), composer.ErrNotRunning)
	l.mayNotEnd(id, composer.ErrNotRunning)
	l.reports("dequeue it", l.dequeueByID(t.Context(), id, uuid.Nil).err, composer.ErrNotPending)
	l.takes(from("org-1", "build"), next)
	l.takesNothing(from("org-1", "build"))
	l.isState(id, "finished", `{"name":"why","count":0}`)
}

func failedJobReleasesItsDependents(_ *testing.T, l *lab) {
	first := l.enqueue("build", "org-1")
	second := l.enqueue("build", "org-1", first)
	third := l.enqueue("check", "org-1", first, second)
	waiter := l.waits(from("org-1", "check"))
	l.callsWait(1)
	l.works("fail a job that waits for another", l.FailJob(second, nil))
	l.isState(second, "finished", "null")
	l.isState(third, "pending", "")
	l.works("fail", l.FailJob(first, nil))
	if g := l.served(waiter); g.ID != third {
		l.Errorf("dequeued %s, want %s", g.ID, third)
	}
	l.takesNothing(from("org-1", "build"))
}

func TestTokensAreUUIDsOfVersion4(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		for range 16 {
			id := l.enqueue("build", "")
			for _, u := range []uuid.UUID{id, l.pick(id)} {
				if u.Version() != 4 || u.Variant() != uuid.RFC4122 {
					t.Errorf("%s is a UUID of version %d and variant %v, want 4 and %v", u, u.Version(), u.Variant(), uuid.RFC4122)
				}
			}
		}
	})
}
