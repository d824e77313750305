package storetest

import (
	"testing"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

func testBuilds(t *testing.T, p *place) {
	b := buildRecord(3)
	b.Staged = true
	list := []job.Ref{
		{Job: jobID(2), Awaited: true, Priority: 4},
		{Job: jobID(1), Optional: true, Limits: job.Limits{Timeout: time.Hour, Silence: time.Second}},
	}
	p.commit(t, added(1), added(2), job.BuildAdded{BuildRecord: b})
	check := func(what string) {
		t.Helper()
		p.reopen(t)
		_, changes := load(t, p.Store)
		want := []job.Change{job.BuildAdded{BuildRecord: b}, loaded(record(1)), loaded(record(2))}
		if list != nil && len(refs(t, p.Store, buildID(3))) > 0 {
			want = append(want, job.BuildReferred{Build: buildID(3), Refs: list})
		}
		same(t, what, want, changes)
		shown, err := p.Store.Builds(t.Context(), queue.BuildFilter{})
		if err != nil || len(shown) == 1 == b.Staged {
			t.Errorf("%s: %d builds listed (%v), staged is %v", what, len(shown), err, b.Staged)
		}
	}
	check("added")
	p.commit(t, job.BuildReferred{Build: buildID(3), Refs: list[:1]})
	again := list[0]
	again.Awaited, again.Optional, again.Priority = false, true, 5 // it is awaited all the same
	list[0].Priority = 5
	p.commit(t, job.BuildReferred{Build: buildID(3), Refs: []job.Ref{again, list[1]}})
	same(t, "refs", list, refs(t, p.Store, buildID(3)))
	testReferredAgain(t, p)
	check("referred")
	p.commit(t, job.BuildSealed{Build: buildID(3)})
	b.Staged = false
	check("sealed")
	p.commit(t, job.BuildActivated{Build: buildID(3)})
	b.Active = true
	check("activated")
	p.commit(t, job.BuildBumped{Build: buildID(3), Priority: -2})
	b.Build.Priority = -2
	check("bumped")

	p.commit(t, ran(1, job.Failed)...)
	list[1].Ended = job.Failed
	p.reopen(t)
	_, changes := load(t, p.Store)
	same(t, "one job ended", []job.Change{
		job.BuildAdded{BuildRecord: b}, loaded(record(2)), job.BuildReferred{Build: buildID(3), Refs: list},
	}, changes)
	same(t, "live build", &queue.Found{}, lookup(t, p.Store, &queue.Query{Builds: []job.ID{buildID(3)}}))

	p.commit(t, job.BuildEnded{Build: buildID(3), At: start + second, Outcome: job.Failed})
	b.Outcome, b.Ended = job.Failed, start+second
	p.reopen(t)
	_, changes = load(t, p.Store)
	same(t, "ended", []job.Change{loaded(record(2))}, changes)
	found := lookup(t, p.Store, &queue.Query{Builds: []job.ID{buildID(3), buildID(4)}})
	same(t, "ended build", map[job.ID]*job.BuildRecord{buildID(3): &b}, found.Builds)

	// An ended build may still be given references, for its history.
	p.commit(t, added(4), job.BuildReferred{Build: buildID(3), Refs: []job.Ref{{Job: jobID(4)}}})
	same(t, "refs", append(list, job.Ref{Job: jobID(4)}), refs(t, p.Store, buildID(3)))

	p.commit(t, job.BuildDeleted{Build: buildID(3)})
	p.reopen(t)
	same(t, "deleted", &queue.Found{}, lookup(t, p.Store, &queue.Query{Builds: []job.ID{buildID(3)}}))
	same(t, "refs", []job.Ref(nil), refs(t, p.Store, buildID(3)))
}

// testReferredAgain refers to one job by each pair of references: what stands must be what the newer is over the older.
func testReferredAgain(t *testing.T, p *place) {
	t.Helper()
	var kinds []job.Ref
	for n := range 4 {
		kinds = append(kinds, job.Ref{
			Job: jobID(1), Awaited: n&1 != 0, Optional: n&2 != 0, Priority: int32(n), Limits: job.Limits{Timeout: time.Duration(n), Silence: 1},
		})
	}
	b := buildRecord(5)
	for _, older := range kinds {
		for _, newer := range kinds {
			p.commit(t, job.BuildAdded{BuildRecord: b}, job.BuildReferred{Build: b.Build.ID, Refs: []job.Ref{older}},
				job.BuildReferred{Build: b.Build.ID, Refs: []job.Ref{newer}})
			same(t, "referred again", []job.Ref{newer.Over(older)}, refs(t, p.Store, b.Build.ID))
			p.commit(t, job.BuildEnded{Build: b.Build.ID, At: start, Outcome: job.Cancelled, Erased: true})
		}
	}
}

func testErased(t *testing.T, p *place) {
	b := buildRecord(2)
	b.Staged = true
	p.commit(t, added(1), job.BuildAdded{BuildRecord: b}, job.BuildReferred{Build: buildID(2), Refs: []job.Ref{{Job: jobID(1)}}})
	p.commit(t, cancelled(1), job.JobDeleted{Job: jobID(1)},
		job.BuildEnded{Build: buildID(2), At: start, Outcome: job.Cancelled, Erased: true})
	p.reopen(t)
	head, changes := load(t, p.Store)
	same(t, "head", queue.Head{Number: 2, Seq: 2}, head)
	same(t, "changes", []job.Change(nil), changes)
	same(t, "refs", []job.Ref(nil), refs(t, p.Store, buildID(2)))
	found := lookup(t, p.Store, &queue.Query{Jobs: []job.ID{jobID(1)}, Builds: []job.ID{buildID(2)}})
	same(t, "found", &queue.Found{}, found)
	// Its id may be used again.
	p.commit(t, added(3), job.BuildAdded{BuildRecord: b})
	same(t, "refs", []job.Ref(nil), refs(t, p.Store, buildID(2)))
}

func testDeletedJob(t *testing.T, p *place) {
	p.commit(t, added(1), added(2), added(3), job.BuildAdded{BuildRecord: buildRecord(4)}, job.BuildReferred{
		Build: buildID(4), Refs: []job.Ref{{Job: jobID(1)}, {Job: jobID(2)}, {Job: jobID(3)}},
	})
	p.commit(t, ran(1, job.TimedOut)...)
	p.commit(t, job.JobDeleted{Job: jobID(1)}, job.JobDeleted{Job: jobID(2)})
	p.reopen(t)
	want := []job.Ref{{Job: jobID(1), Ended: job.TimedOut}, {Job: jobID(3)}}
	same(t, "refs", want, refs(t, p.Store, buildID(4)))
	_, changes := load(t, p.Store)
	same(t, "load", job.Change(job.BuildReferred{Build: buildID(4), Refs: want}), changes[len(changes)-1])
}
