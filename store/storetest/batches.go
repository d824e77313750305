package storetest

import (
	"sync"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// A batch with an impossible change leaves nothing, wherever the change stands.
func testImpossible(t *testing.T, p *place) {
	// 1 and 2 wait, 2 not for the first time, 3 runs, 4 has ended, 5 is held; 6 is not there.
	p.commit(t, added(1), added(2, 1), added(3), added(4), added(5), started(3, 1), started(5, 1),
		job.BuildAdded{BuildRecord: buildRecord(7)}, job.BuildReferred{Build: buildID(7), Refs: []job.Ref{{Job: jobID(1)}}})
	p.commit(t, ran(4, job.Succeeded)...)
	held := finished(5, job.Cancelled)
	held.Held = true
	p.commit(t, held)
	lost, late := attemptEnd(1, job.Aborted, ""), attemptEnd(1, job.Succeeded, "late")
	p.commit(t, started(2, 1), job.JobRetried{Job: jobID(2), Seq: 2, Attempt: lost, Tally: job.Tally{Attempts: 1}})
	n := everything(8, 8, func(int64) bool { return true })
	before := ask(t, t.Context(), p.Store, n)
	possible := []job.Change{
		added(8, 1, 2), started(8, 1),
		job.BuildAdded{BuildRecord: buildRecord(9)},
		job.WorkerPut{Worker: job.Worker{Name: "w"}},
		job.BuildReferred{Build: buildID(9), Refs: []job.Ref{{Job: jobID(8)}}},
		job.BuildBumped{Build: buildID(7), Priority: 1},
		started(1, 1), finished(1, job.Succeeded),
		job.JobDeleted{Job: jobID(4)},
		job.JobKept{Job: jobID(2), Seq: 2},
		job.ChannelPut{Channel: job.DefaultChannel("c")},
		job.SettingPut{Setting: job.Setting{Space: "s", Name: "n"}},
		job.UsagePut{Group: "g", Slice: int64(start) / 1_800_000_000},
		cleared(1),
		job.ClassMarked{Since: 1},
		job.FailureCached{Message: "m"},
		job.DurationLearned{Took: 5},
		job.BuildEnded{Build: buildID(7), Outcome: 1},
		job.JobEnded{Job: jobID(2), Seq: 2, End: job.End{Outcome: job.Succeeded}, Attempt: &late},
	}
	for _, c := range []job.Change{
		added(1),
		job.JobAdded{Record: job.Record{Seq: 1, Spec: job.Spec{ID: jobID(99)}}},
		job.JobAdded{Record: job.Record{Seq: 99, Spec: job.Spec{ID: jobID(1)}}},
		started(6, 1), started(3, 2), started(4, 2), started(5, 2), finished(6, job.Failed), finished(4, job.Failed),
		finished(5, job.Failed), settled(4), settled(6), settled(2),
		job.JobFreed{Job: jobID(3), Seq: 3},
		job.JobDeleted{Job: jobID(6)},
		job.JobReleased{Job: jobID(3), Seq: 3},
		job.JobBlocked{Job: jobID(4), Seq: 4},
		job.JobKept{Job: jobID(4), Seq: 4},
		job.JobRetried{Job: jobID(2), Seq: 2, Attempt: attemptEnd(1, job.Aborted, "")},
		job.JobProgress{Job: jobID(2), Seq: 2},
		job.BuildAdded{BuildRecord: buildRecord(7)},
		job.BuildReferred{Build: buildID(6)},
		job.BuildReferred{Build: buildID(7), Refs: []job.Ref{{Job: jobID(2)}, {Job: jobID(6)}}},
		job.BuildSealed{Build: buildID(6)},
		job.BuildActivated{Build: buildID(6)},
		job.BuildBumped{Build: buildID(6)},
		job.BuildEnded{Build: buildID(6), Outcome: job.Failed},
		job.BuildEnded{Build: buildID(6), Erased: true},
		job.BuildDeleted{Build: buildID(6)},
	} {
		for _, changes := range [][]job.Change{{c}, append(possible[:len(possible):len(possible)], c)} {
			b := &queue.Batch{Number: p.number + 1, At: p.at + 1, Changes: changes, Answers: []queue.Answer{{Request: requestID(1)}}}
			if err := p.Store.Commit(t.Context(), b); err == nil {
				t.Fatalf("%+v: no error", c)
			}
		}
	}
	// What a refused batch added is not there for the next.
	b := &queue.Batch{Number: p.number + 1, At: p.at + 1, Changes: []job.Change{
		job.BuildReferred{Build: buildID(7), Refs: []job.Ref{{Job: jobID(8)}}},
	}}
	if err := p.Store.Commit(t.Context(), b); err == nil {
		t.Fatal("a job of a refused batch is referred to: no error")
	}
	same(t, "after the impossible", before, ask(t, t.Context(), p.Store, n))
	p.reopen(t)
	same(t, "after reopening", before, ask(t, t.Context(), p.Store, n))
	p.commit(t, possible...)
}

// One batch may take a job and a build away and bring others of their ids, and be done with what it brings.
func testIDAgain(t *testing.T, p *place) {
	again := func(n int64) job.JobAdded {
		a := added(n, 3)
		a.Spec.ID = jobID(1)
		return a
	}
	build := func(n int64) job.BuildAdded {
		r := buildRecord(n)
		r.Build.ID = buildID(2)
		return job.BuildAdded{BuildRecord: r}
	}
	refer := job.BuildReferred{Build: buildID(2), Refs: []job.Ref{{Job: jobID(1)}}}
	p.commit(t, added(1), build(2), added(3), refer, finished(3, job.Failed))
	p.commit(t, cancelled(1), job.JobDeleted{Job: jobID(1)}, job.BuildEnded{Build: buildID(2), Outcome: job.Failed},
		job.BuildDeleted{Build: buildID(2)}, again(4), build(5), refer, settled(3), job.JobDeleted{Job: jobID(3)},
		started(4, 1), job.JobProgress{Job: jobID(4), Seq: 4, Result: []byte("a")}, job.JobProgress{Job: jobID(4), Seq: 4, Result: []byte("b")},
		job.BuildBumped{Build: buildID(2), Priority: 1}, job.BuildBumped{Build: buildID(2), Priority: 2}, refer,
		job.JobDeleted{Job: jobID(1)}, again(6), refer)
	p.reopen(t)
	_, changes := load(t, p.Store)
	last, b := again(6), build(5)
	b.Build.Priority = 2
	same(t, "loaded", []job.Change{b, loaded(last.Record), refer}, changes)
	same(t, "payload", queue.Payload{Args: []byte("args 6")}, payload(t, p.Store, jobID(1)))
	same(t, "dependents", []job.ID{jobID(1)}, dependents(t, p.Store, jobID(3)))
}

func dependents(t testing.TB, s Store, id job.ID) []job.ID {
	t.Helper()
	ids, err := s.Dependents(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func testLargeBatch(t *testing.T, p *place) {
	const n = 2500
	var changes []job.Change
	for i := range int64(n) {
		changes = append(changes, added(i+1), job.JobReleased{Job: jobID(i + 1), Seq: i + 1}, started(i+1, 1))
		if i%2 == 0 {
			changes = append(changes, finished(i+1, job.Succeeded))
		} else {
			changes = append(changes, cleared(i))
		}
	}
	p.commit(t, changes...)
	p.reopen(t)
	head, all := load(t, p.Store)
	same(t, "head", queue.Head{Number: 1, Seq: n}, head)
	if len(all) != n {
		t.Errorf("%d jobs loaded, want %d", len(all), n)
	}
	for i, c := range all {
		r := c.(job.JobAdded)
		if r.Seq != int64(i)+1 || r.Open != (i%2 == 0) || r.Running != (i%2 == 1) {
			t.Fatalf("job %d is loaded as %+v", i+1, r)
		}
	}
	rounds, err := p.Store.Feed(t.Context(), 0, 1)
	if err != nil || len(rounds[0].Changes) != len(changes) {
		t.Errorf("the round has %d changes (%v), want %d", len(rounds[0].Changes), err, len(changes))
	}
}

// Readers see each batch whole, and each one that has been acknowledged.
func testReads(t *testing.T, p *place) {
	const batches = 60
	ctx := t.Context()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		acked int64
	)
	stop := make(chan struct{})
	now := func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return acked
	}
	read := func(f func(acked int64)) {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f(now())
				}
			}
		})
	}
	read(func(acked int64) {
		list, err := p.Store.Jobs(ctx, queue.JobFilter{Limit: 10_000})
		if err != nil || len(list)%2 != 0 || int64(len(list)) < 2*acked {
			t.Errorf("%d jobs listed (%v) after %d batches of two", len(list), err, acked)
		}
	})
	read(func(acked int64) {
		f, err := p.Store.Lookup(ctx, &queue.Query{Jobs: []job.ID{jobID(2 * acked)}})
		if err != nil || acked > 0 && f.Jobs[jobID(2*acked)] == nil {
			t.Errorf("the job of batch %d is not found (%v)", acked, err)
		}
	})
	read(func(acked int64) {
		rounds, err := p.Store.Feed(ctx, uint64(max(acked-1, 0)), 1)
		if err != nil || acked > 0 && (len(rounds) != 1 || rounds[0].Number != uint64(acked)) {
			t.Errorf("round %d: %v, %v", acked, rounds, err)
		}
	})
	read(func(acked int64) {
		n := 0
		head, err := p.Store.Load(ctx, func(c job.Change) error { n++; return nil })
		if err != nil || head.Seq != 2*int64(head.Number) || n != int(head.Number) {
			t.Errorf("Load gives %+v and %d jobs (%v)", head, n, err)
		}
	})
	for i := range int64(batches) {
		a, b := 2*i+1, 2*i+2
		p.commit(t, added(a), added(b), cancelled(b))
		mu.Lock()
		acked = i + 1
		mu.Unlock()
	}
	close(stop)
	wg.Wait()
}

// everything names the first so many of each kind; of builds those that may be one.
func everything(jobs, requests int64, builds func(n int64) bool) *names {
	n := &names{filters: []queue.JobFilter{
		{},
		{State: "Blocked"},
		{State: "Ready"},
		{State: "Running"},
		{State: "Done"},
		{Outcome: job.Succeeded},
		{Limit: 3},
		{Before: jobs / 2, Limit: 2},
		{Channel: "main"},
		{Kind: "other"},
		{Key: "key 1"},
		{Name: "job 2"},
		{State: "Running", Outcome: job.Failed},
		{State: "Done", Channel: "main", Limit: 2},
		{State: "nonsense"},
		{Args: true},
	}}
	for i := int64(0); i <= jobs; i++ {
		n.jobs = append(n.jobs, jobID(i))
		if !builds(i) {
			continue
		}
		n.builds = append(n.builds, buildID(i))
		n.filters = append(n.filters, queue.JobFilter{Build: buildID(i)}, queue.JobFilter{Build: buildID(i), State: "Done"})
	}
	n.filters = append(n.filters, queue.JobFilter{IDs: n.jobs, Limit: 4}, queue.JobFilter{IDs: n.jobs[:2], State: "Done"})
	for i := int64(0); i <= requests; i++ {
		n.requests = append(n.requests, requestID(i))
	}
	return n
}
