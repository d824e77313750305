package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// sameCorrupt checks what Load could not read.
func sameCorrupt(t testing.TB, want []queue.Corrupt, head queue.Head) {
	t.Helper()
	for i := range head.Corrupt {
		if head.Corrupt[i].Err == nil {
			t.Errorf("%+v has no error", head.Corrupt[i])
		}
		head.Corrupt[i].Err = nil
	}
	same(t, "corrupt", want, head.Corrupt)
}

func (p *place) damage(t testing.TB, table, key string) {
	t.Helper()
	p.Damage(t, table, key)
	p.reopen(t)
}

// A record that cannot be read is set aside, with a stand-in for it while it is live, and the rest goes on.
func testDamagedJob(t *testing.T, p *place) {
	p.commit(t, added(1), added(2), added(3), added(4, 2), started(2, 1), added(5), started(5, 1))
	p.commit(t, ran(4, job.Succeeded)...)
	held := finished(5, job.Cancelled)
	held.Held = true
	p.commit(t, held)
	for _, n := range []int64{2, 4, 5} {
		p.Damage(t, "job", jobID(n).String())
		p.reopen(t)
	}
	head, changes := load(t, p.Store)
	e := *held.Attempt
	e.Result = nil
	ended := job.Record{
		Spec: job.Spec{ID: jobID(5)}, Seq: 5, End: &held.End, Held: true, Open: true, Last: &e.Attempt, LastEnd: &e,
	}
	same(t, "loaded", []job.Change{
		loaded(record(1)),
		job.JobAdded{Record: job.Record{Spec: job.Spec{ID: jobID(2)}, Seq: 2}},
		loaded(record(3)),
		job.JobAdded{Record: ended},
	}, changes)
	sameCorrupt(t, []queue.Corrupt{
		{Table: "job", Key: jobID(2).String(), Job: jobID(2), Seq: 2}, {Table: "job", Key: jobID(5).String(), Seq: 5},
	}, head)
	same(t, "found", map[job.ID]*job.Record(nil), lookup(t, p.Store, &queue.Query{Jobs: []job.ID{jobID(4)}}).Jobs)
	if list := jobs(t, p.Store, queue.JobFilter{}); len(list) != 2 {
		t.Errorf("%d jobs listed, want the 2 that can be read", len(list))
	}
	// They can be ended and deleted all the same.
	end := finished(2, job.Aborted)
	end.Attempt, end.Open = nil, false
	p.commit(t, end, settled(5), job.JobFreed{Job: jobID(5), Seq: 5})
	p.commit(t, job.JobDeleted{Job: jobID(2)}, job.JobDeleted{Job: jobID(4)}, job.JobDeleted{Job: jobID(5)})
	p.reopen(t)
	head, changes = load(t, p.Store)
	same(t, "head", queue.Head{Number: p.number, Seq: 5}, head)
	same(t, "loaded", []job.Change{loaded(record(1)), loaded(record(3))}, changes)
}

// What changes of a live job, how a job ended, and its attempts can be spoilt each by itself.
func testDamagedParts(t *testing.T, p *place) {
	p.commit(t, added(1), added(2), added(3), added(4), added(5), added(6), added(7), started(1, 1), started(2, 1), started(6, 1))
	first, second := attemptEnd(1, job.Aborted, "one"), attemptEnd(2, job.Aborted, "two")
	p.commit(t, job.JobRetried{Job: jobID(2), Seq: 2, Attempt: first, Tally: job.Tally{Attempts: 1}}, started(2, 2))
	p.commit(t, job.JobRetried{Job: jobID(2), Seq: 2, Attempt: second, Tally: job.Tally{Attempts: 2}})
	p.commit(t, ran(3, job.Failed)...)
	p.commit(t, ran(5, job.Failed)...)
	p.commit(t, started(4, 1), finished(4, job.Failed)) // open
	held := finished(6, job.Cancelled)
	held.Held = true
	p.commit(t, held, job.BuildAdded{BuildRecord: buildRecord(8)},
		job.BuildReferred{Build: buildID(8), Refs: []job.Ref{{Job: jobID(3)}, {Job: jobID(2)}}})
	for table, keys := range map[string][]string{
		"live": {jobID(1).String()}, "ended": {jobID(3).String(), jobID(4).String()},
		"attempt": {jobID(2).String() + "/2", jobID(5).String() + "/1", jobID(6).String() + "/1"},
	} {
		for _, k := range keys {
			p.damage(t, table, k)
		}
	}
	head, changes := load(t, p.Store)
	var got []job.Record
	for _, c := range changes {
		if a, ok := c.(job.JobAdded); ok {
			got = append(got, a.Record)
		}
	}
	a := *finished(4, job.Failed).Attempt
	a.Result = nil
	waits, freed := record(2), record(6)
	waits.Spec.Args, waits.Tally, waits.Wake, waits.Delay = nil, job.Tally{Attempts: 2}, 0, 0
	freed.Spec.Args, freed.Tally.Attempts, freed.End, freed.Open, freed.Held, freed.Wake, freed.Delay = nil, 1, &held.End, true, true, 0, 0
	same(t, "loaded", []job.Record{
		{Seq: 1, Spec: job.Spec{ID: jobID(1)}},
		waits,
		{Seq: 4, Spec: job.Spec{ID: jobID(4)}, End: &job.End{Outcome: job.Failed}, Open: true, Last: &a.Attempt, LastEnd: &a},
		freed,
		loaded(record(7)).(job.JobAdded).Record,
	}, got)
	sameCorrupt(t, []queue.Corrupt{
		{Table: "job", Key: jobID(1).String(), Job: jobID(1), Seq: 1},
		{Table: "attempt", Key: jobID(2).String()},
		{Table: "job", Key: jobID(4).String(), Seq: 4},
		{Table: "attempt", Key: jobID(6).String()},
	}, head)
	same(t, "attempts", []job.AttemptEnd{first}, attempts(t, p.Store, jobID(2)))
	same(t, "attempts", []job.AttemptEnd(nil), attempts(t, p.Store, jobID(5)))
	found := lookup(t, p.Store, &queue.Query{Jobs: []job.ID{jobID(3), jobID(5)}}).Jobs
	if r := found[jobID(5)]; len(found) != 1 || r == nil || r.End.Outcome != job.Failed || r.LastEnd != nil {
		t.Errorf("found %+v, want job 5 without its attempt", found)
	}
	same(t, "references", []job.Ref{{Job: jobID(3), Ended: job.Failed}, {Job: jobID(2)}}, refs(t, p.Store, buildID(8)))
	same(t, "result", "result", string(payload(t, p.Store, jobID(3)).Result))
	same(t, "listed", []int64{7, 6, 5, 2}, seqs(jobs(t, p.Store, queue.JobFilter{})))

	// All the same, each goes on.
	end := finished(1, job.Aborted)
	end.Attempt, end.Open = nil, false
	p.commit(t, end, started(2, 3), settled(4), settled(6), job.JobFreed{Job: jobID(6), Seq: 6})
	p.commit(t, job.JobDeleted{Job: jobID(3)}, job.JobDeleted{Job: jobID(5)})
	p.reopen(t)
	if _, changes := load(t, p.Store); len(changes) != 4 { // job 2 and 7; the build and what it refers to
		t.Errorf("%d changes loaded: %+v", len(changes), changes)
	}
}

// A job whose record is spoilt while its owner knows it well takes its next step all the same.
func testDamagedInUse(t *testing.T, p *place) {
	p.commit(t, added(1), added(2))
	p.damage(t, "live", jobID(1).String())
	p.damage(t, "job", jobID(2).String())
	p.commit(t, ran(1, job.Failed)...)
	p.commit(t, ran(2, job.Failed)...)
	p.reopen(t)
	same(t, "attempts", 1, len(attempts(t, p.Store, jobID(1))))
	same(t, "attempts", 1, len(attempts(t, p.Store, jobID(2))))
	if head, changes := load(t, p.Store); len(changes) != 0 || len(head.Corrupt) != 0 {
		t.Errorf("loaded %+v and %+v, want nothing", head, changes)
	}
}

func seqs(list []job.Record) (seqs []int64) {
	for i := range list {
		seqs = append(seqs, list[i].Seq)
	}
	return seqs
}

// A live build has a stand-in; one that has ended is not found.
func testDamagedBuild(t *testing.T, p *place) {
	staged := buildRecord(5)
	staged.Staged = true
	made := added(6)
	made.Staging = buildID(5)
	p.commit(t, added(1), job.BuildAdded{BuildRecord: buildRecord(2)}, job.BuildAdded{BuildRecord: buildRecord(3)},
		job.BuildAdded{BuildRecord: buildRecord(4)}, job.BuildAdded{BuildRecord: staged}, made,
		job.BuildReferred{Build: buildID(3), Refs: []job.Ref{{Job: jobID(1)}}}, job.BuildActivated{Build: buildID(3)},
		job.BuildReferred{Build: buildID(4), Refs: []job.Ref{{Job: jobID(1)}}},
		job.BuildEnded{Build: buildID(4), At: start, Outcome: job.Failed})
	for _, n := range []int64{3, 4, 5} {
		p.damage(t, "build", buildID(n).String())
	}
	head, changes := load(t, p.Store)
	same(t, "loaded", []job.Change{
		job.BuildAdded{BuildRecord: buildRecord(2)},
		job.BuildAdded{BuildRecord: job.BuildRecord{Seq: 3, At: start + 3, Active: true, Build: job.Build{ID: buildID(3)}}},
		job.BuildAdded{BuildRecord: job.BuildRecord{Seq: 5, At: start + 5, Staged: true, Build: job.Build{ID: buildID(5)}}},
		loaded(record(1)), loaded(made.Record),
		job.BuildReferred{Build: buildID(3), Refs: []job.Ref{{Job: jobID(1)}}},
	}, changes)
	sameCorrupt(t, []queue.Corrupt{
		{Table: "build", Key: buildID(3).String(), Build: buildID(3), Seq: 3},
		{Table: "build", Key: buildID(5).String(), Build: buildID(5), Seq: 5},
	}, head)
	list, err := p.Store.Builds(t.Context(), queue.BuildFilter{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "listed", []job.BuildRecord{buildRecord(2)}, list)
	same(t, "found", 0, len(lookup(t, p.Store, &queue.Query{Builds: []job.ID{buildID(4)}}).Builds))
	same(t, "references", []job.Ref{{Job: jobID(1)}}, refs(t, p.Store, buildID(4)))
	same(t, "listed", []int64{1}, seqs(jobs(t, p.Store, queue.JobFilter{Build: buildID(4)})))
	same(t, "listed", []int64{1}, seqs(jobs(t, p.Store, queue.JobFilter{})))

	p.commit(t, job.BuildEnded{Build: buildID(3), At: start, Outcome: job.Aborted},
		job.BuildEnded{Build: buildID(5), At: start, Outcome: job.Cancelled, Erased: true}, job.BuildDeleted{Build: buildID(4)})
	p.reopen(t)
	head, changes = load(t, p.Store)
	sameCorrupt(t, nil, head)
	same(t, "loaded", []job.Change{job.BuildAdded{BuildRecord: buildRecord(2)}, loaded(record(1)), loaded(made.Record)}, changes)
}

// Workers, channels, settings and cached failures that cannot be read are as if they were not there, until they are put anew.
func testDamagedSettings(t *testing.T, p *place) {
	channel := func(name string) job.ChannelPut { return job.ChannelPut{Channel: job.DefaultChannel(name)} }
	worker := func(name string) job.WorkerPut {
		return job.WorkerPut{Worker: job.Worker{Name: name, Slots: 1}}
	}
	setting := func(name string) job.SettingPut {
		return job.SettingPut{Setting: job.Setting{Space: "s", Name: name, Body: []byte("body")}}
	}
	failure := func(key string) job.FailureCached {
		return job.FailureCached{Identity: job.Identity{Channel: "c", Kind: "k", Key: key}, Job: jobID(1), Outcome: job.Failed}
	}
	p.commit(t, channel("a"), channel("b"), worker("a"), worker("b"), setting("a"), setting("b"), failure("a"), failure("b"))
	for _, table := range []string{"channel", "worker", "cached_failure"} {
		p.damage(t, table, "a")
	}
	p.damage(t, "setting", "s/a")
	head, changes := load(t, p.Store)
	same(t, "loaded", []job.Change{channel("b"), worker("b"), setting("b")}, changes)
	sameCorrupt(t, []queue.Corrupt{{Table: "channel", Key: "a"}, {Table: "worker", Key: "a"}, {Table: "setting", Key: "s/a"}}, head)
	ask := &queue.Query{Cached: []job.Identity{failure("a").Identity, failure("b").Identity}}
	b := failure("b")
	same(t, "cached", map[job.Identity]*job.FailureCached{b.Identity: &b}, lookup(t, p.Store, ask).Cached)
	for limit := range 3 { // What cannot be read takes no place on a page.
		same(t, "listed", []job.FailureCached{b}, listCached(t, p, queue.FailureFilter{Limit: limit}))
	}

	p.commit(t, channel("a"), worker("a"), setting("a"), failure("a"))
	p.reopen(t)
	head, changes = load(t, p.Store)
	sameCorrupt(t, nil, head)
	same(t, "loaded", []job.Change{channel("a"), channel("b"), worker("a"), worker("b"), setting("a"), setting("b")}, changes)
	same(t, "cached", 2, len(lookup(t, p.Store, ask).Cached))
}

// A reader of the feed is told of a round that cannot be read when it comes to it, and goes on behind it.
func testDamagedFeed(t *testing.T, p *place) {
	for n := range int64(6) {
		p.commit(t, cleared(n))
	}
	for _, n := range []string{"3", "4", "6"} {
		p.damage(t, "feed", n)
	}
	for _, c := range []struct {
		after uint64
		limit int
		want  []uint64
		gap   uint64
	}{
		{0, 10, []uint64{1, 2}, 0},
		{0, 1, []uint64{1}, 0},
		{0, 2, []uint64{1, 2}, 0},
		{2, 10, nil, 3},
		{2, 1, nil, 3},
		{2, 0, nil, 0},
		{3, 10, nil, 4},
		{4, 10, []uint64{5}, 0},
		{5, 10, nil, 6},
		{6, 10, nil, 0},
	} {
		what := fmt.Sprintf("Feed(%d, %d)", c.after, c.limit)
		rounds, err := p.Store.Feed(t.Context(), c.after, c.limit)
		var got []uint64
		for _, r := range rounds {
			got = append(got, r.Number)
		}
		same(t, what, c.want, got)
		var gap *queue.FeedGapError
		switch {
		case c.gap == 0 && err != nil:
			t.Errorf("%s: %v", what, err)
		case c.gap != 0 && (!errors.As(err, &gap) || gap.After != c.after || gap.Next != c.gap || gap.Err == nil || !errors.Is(err, queue.ErrFeedTruncated)):
			t.Errorf("%s: %v, want a gap up to round %d", what, err, c.gap)
		}
	}
	p.commit(t, cleared(7))
	rounds, err := p.Store.Feed(t.Context(), 6, 10)
	if err != nil || len(rounds) != 1 {
		t.Errorf("behind the gap: %v, %v", rounds, err)
	}
}
