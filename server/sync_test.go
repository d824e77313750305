package server_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// syncer is a worker that syncs by hand.
type syncer struct {
	*lab
	name    string
	session job.ID
	spec    *api.WorkerSpec
}

// sync makes a call that must be answered.
func (w *syncer) sync(in api.Sync) api.SyncReply {
	w.t.Helper()
	reply, err := w.try(in)
	w.must(err)
	return reply
}

func (w *syncer) try(in api.Sync) (api.SyncReply, error) {
	in.Version, in.Session, in.Worker = api.ProtocolVersion, w.session, w.spec
	return w.Sync(w.t.Context(), w.name, &in)
}

func running(starts ...api.Start) (list []api.Running) {
	for _, s := range starts {
		list = append(list, api.Running{Lease: s.Lease})
	}
	return list
}

// What was started and is not stated is given again, by the same server and by the next; what is stated is not.
func TestSyncGivesAgainWhatGotLost(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.submit(api.JobSpec{Name: "a", Args: []byte(`{"n":1}`)}, api.JobSpec{Name: "b"})
	w := &syncer{lab: l, name: "w", session: newID(), spec: spec(2)}
	first := w.sync(api.Sync{Want: 1}).Start
	if len(first) != 1 {
		t.Fatalf("started %+v", first)
	}
	for range 2 {
		again := w.sync(api.Sync{}).Start
		if len(again) != 1 || again[0].Lease != first[0].Lease || string(again[0].Args) != `{"n":1}` {
			t.Fatalf("given again %+v, want %+v", again, first)
		}
		l.restart()
	}
	if reply := w.sync(api.Sync{Running: running(first...)}); len(reply.Start)+len(reply.Stop) != 0 {
		t.Errorf("told %+v, though it states what it runs", reply)
	}
	second := w.sync(api.Sync{Want: 1, Running: running(first...)}).Start
	if len(second) != 1 || second[0].Name != "b" {
		t.Errorf("started %+v, want b", second)
	}
}

// A worker is told to stop what is cancelled, while its call is held; once it says that it does, it is not told again.
func TestSyncTellsToStop(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.submit(api.JobSpec{})
	w := &syncer{lab: l, name: "w", session: newID(), spec: spec(1)}
	started := w.sync(api.Sync{Want: 1}).Start
	told := make(chan api.SyncReply)
	go func() {
		reply, err := w.try(api.Sync{Running: running(started...), WaitSeconds: 60})
		if err != nil {
			t.Error(err)
		}
		told <- reply
	}()
	l.must(l.CancelJob(t.Context(), r.Jobs[0].ID, job.ID{}, true, ""))
	reply := <-told
	if len(reply.Stop) != 1 || reply.Stop[0].Job != r.Jobs[0].ID {
		t.Fatalf("told %+v, want to stop", reply)
	}
	if reply := w.sync(api.Sync{Running: running(started...)}); len(reply.Stop) != 1 {
		t.Errorf("told %+v, want to stop again", reply)
	}
	stopping := running(started...)
	stopping[0].Stopping = true
	if reply := w.sync(api.Sync{Running: stopping}); len(reply.Stop) != 0 {
		t.Errorf("told %+v, though it is at it", reply)
	}
	reply = w.sync(api.Sync{Finished: []api.Finished{{Lease: started[0].Lease, Outcome: "cancelled"}}})
	if len(reply.Acknowledged) != 1 || !errors.Is(reply.Acknowledged[0].Problem, job.ErrLeaseLost) {
		t.Errorf("told %+v, want that it counted for nothing", reply)
	}
	if _, err := l.queue.LeaseOf(t.Context(), r.Jobs[0].ID); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("its slot is not free: %v", err)
	}
}

// What a worker runs and the engine does not know is to be stopped.
func TestSyncStopsWhatIsUnknown(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := &syncer{lab: l, name: "w", session: newID(), spec: spec(1)}
	stray := api.Start{Lease: api.Lease{Job: newID(), Attempt: 1, Token: newID().String()}}
	if reply := w.sync(api.Sync{Running: running(stray)}); len(reply.Stop) != 1 || reply.Stop[0].Job != stray.Job {
		t.Errorf("told %+v, want to stop", reply)
	}
}

// A call that waits is answered when the next comes, and one that comes late is not heeded.
func TestSyncNumbersItsCalls(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := &syncer{lab: l, name: "w", session: newID(), spec: spec(1)}
	w.sync(api.Sync{Number: 1})
	answered := make(chan api.SyncReply)
	go func() {
		reply, err := w.try(api.Sync{Number: 2, Want: 1, WaitSeconds: 60})
		if err != nil {
			t.Error(err)
		}
		answered <- reply
	}()
	for { // until it waits
		views, err := l.Workers(t.Context())
		l.must(err)
		if views[0].Waits == 1 {
			break
		}
	}
	w.sync(api.Sync{Number: 3})
	if reply := <-answered; !reply.Superseded {
		t.Errorf("the one that waited is told %+v", reply)
	}
	l.submit(api.JobSpec{})
	if reply := w.sync(api.Sync{Number: 2, Want: 1}); !reply.Superseded || len(reply.Start) != 0 {
		t.Errorf("one that comes late is told %+v", reply)
	}
	if reply := w.sync(api.Sync{Number: 4, Want: 1}); len(reply.Start) != 1 {
		t.Errorf("the next is told %+v", reply)
	}
}

// A ready job reaches the worker that waits for it at once; so does a drain.
func TestSyncIsHeldUntilThereIsSomethingToSay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := &syncer{lab: l, name: "w", session: newID(), spec: spec(1)}
	w.sync(api.Sync{})
	answered := make(chan api.SyncReply)
	drained := false
	hold := func() {
		reply, err := w.try(api.Sync{Want: 1, WaitSeconds: 60, Drained: drained})
		if err != nil {
			t.Error(err)
		}
		answered <- reply
	}
	began := time.Now()
	go hold()
	l.must(l.Drain(t.Context(), "w", true))
	for {
		if reply := <-answered; reply.Drained {
			break
		}
		go hold() // it came before the drain was stored
	}
	r := l.submit(api.JobSpec{})
	if reply := w.sync(api.Sync{Want: 1, WaitSeconds: 60}); len(reply.Start) != 0 || !reply.Drained {
		t.Errorf("drained, told %+v", reply)
	}
	drained = true
	go hold()
	l.must(l.Drain(t.Context(), "w", false))
	for {
		reply := <-answered
		if len(reply.Start) == 1 && reply.Start[0].Job == r.Jobs[0].ID {
			break
		}
		drained = reply.Drained
		go hold()
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s: nobody was woken", took)
	}
}

// A second session under a live name is refused; so is the first after the second was let in.
func TestSyncRefusesTwins(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := &syncer{lab: l, name: "w", session: newID(), spec: spec(1)}
	second := &syncer{lab: l, name: "w", session: newID(), spec: spec(1)}
	first.sync(api.Sync{})
	l.submit(api.JobSpec{})
	started := first.sync(api.Sync{Want: 1}).Start
	if _, err := second.try(api.Sync{Want: 1}); !errors.Is(err, job.ErrWorkerLive) {
		t.Fatalf("the second is told %v", err)
	}
	_, err := l.Sync(t.Context(), "w", &api.Sync{Version: api.ProtocolVersion, Session: second.session})
	if !errors.Is(err, job.ErrWorkerLive) {
		t.Errorf("the second, which does not describe itself, is told %v", err)
	}
	if reply := first.sync(api.Sync{Running: running(started...)}); len(reply.Stop) != 0 {
		t.Errorf("the first is told %+v", reply)
	}
	l.must(l.SignOff(t.Context(), "w", first.session))
	second.sync(api.Sync{})
	if _, err := first.try(api.Sync{Want: 1}); err == nil {
		t.Error("the first may go on")
	}
}

// A worker that speaks another version is refused, and told so.
func TestSyncRefusesOtherVersions(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, err := l.Sync(t.Context(), "w", &api.Sync{Version: 2, Session: newID(), Worker: spec(1)})
	if !errors.Is(err, api.ErrVersion) {
		t.Errorf("told %v", err)
	}
}

// A worker may state two attempts of one job: one that has ended and is not acknowledged, and the next.
func TestSyncKnowsAttemptsOfOneJobApart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.submit(api.JobSpec{Retry: &api.Retry{Failures: 3}})
	w := &syncer{lab: l, name: "w", session: newID(), spec: spec(2)}
	first := w.sync(api.Sync{Want: 1}).Start
	w.sync(api.Sync{Finished: []api.Finished{{Lease: first[0].Lease, Outcome: "failed"}}})
	second := w.sync(api.Sync{Want: 1, WaitSeconds: 30}).Start
	if len(second) != 1 || second[0].Job != first[0].Job || second[0].Attempt != 2 {
		t.Fatalf("started %+v, want the second attempt", second)
	}
	reply := w.sync(api.Sync{Running: running(second...), Finished: []api.Finished{{Lease: first[0].Lease, Outcome: "failed"}}})
	if len(reply.Start)+len(reply.Stop) != 0 || len(reply.Acknowledged) != 1 || reply.Acknowledged[0].Attempt != 1 || reply.Acknowledged[0].Problem != nil {
		t.Errorf("told %+v", reply)
	}
}

// A call of a session that comes after its sign-off does not bring it back.
func TestSignOffIsForGood(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := &syncer{lab: l, name: "w", session: newID(), spec: spec(1)}
	first.sync(api.Sync{})
	l.must(l.SignOff(t.Context(), "w", first.session))
	if _, err := first.try(api.Sync{Want: 1}); !errors.Is(err, job.ErrSignedOff) {
		t.Errorf("told %v", err)
	}
	second := &syncer{lab: l, name: "w", session: newID(), spec: spec(1)}
	second.sync(api.Sync{})
}
