package storetest

import (
	"testing"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// step is a change and what Load and Jobs say of the only job afterwards.
type step struct {
	change job.Change
	alter  func(r *job.Record)
	state  job.State
	gone   bool // it has left memory
}

// walk takes a job along the steps, with a crash after each.
func walk(t *testing.T, p *place, r job.Record, steps []step) {
	t.Helper()
	for i, s := range steps {
		p.commit(t, s.change)
		p.reopen(t)
		if s.alter != nil {
			s.alter(&r)
		}
		_, r.Ready = s.state.(job.Ready)
		head, changes := load(t, p.Store)
		same(t, "head", queue.Head{Number: p.number, Seq: r.Seq}, head)
		want := []job.Change{loaded(r)}
		if s.gone {
			want = nil
		}
		if d := diff(want, changes); d != "" {
			t.Errorf("after step %d, %T (-want +got):\n%s", i, s.change, d)
		}
		for _, st := range []job.State{job.Blocked{}, job.Ready{}, job.Running{}, job.Done{}} {
			list := jobs(t, p.Store, queue.JobFilter{State: st.String()})
			if is := s.state.String() == st.String(); is != (len(list) == 1) {
				t.Errorf("after step %d, %T: %d jobs are %s, and the job should be %s", i, s.change, len(list), st, s.state)
			}
		}
		found := lookup(t, p.Store, &queue.Query{Jobs: []job.ID{r.Spec.ID}})
		settled := map[job.ID]*job.Record{}
		if s.gone {
			v := r
			v.Spec.Args = nil
			settled[r.Spec.ID] = &v
		}
		same(t, "Lookup", settled, found.Jobs)
	}
}

func testLife(t *testing.T, p *place) {
	r := record(1, 2, 3, 4)
	lost := attemptEnd(1, job.Aborted, "half")
	good := attemptEnd(2, job.Succeeded, "whole")
	tally := job.Tally{Attempts: 1, Aborts: 1, Losses: 2, Crashes: 3, Failures: 4, HandBacks: 5, Turn: 6, Fault: "w9"}
	own := job.Own{Priority: 3, Group: "other"}
	end := job.End{
		At: start + 20*second, Outcome: job.Succeeded, Detail: job.NonDeterministic, Cached: true, Root: jobID(9),
		RootOutcome: job.TimedOut, Message: "done",
	}
	at := func(s job.State, c job.Change, alter func(r *job.Record)) step {
		return step{change: c, state: s, alter: alter}
	}
	walk(t, p, r, []step{
		at(job.Blocked{}, job.JobAdded{Record: r}, nil),
		at(job.Blocked{}, job.JobKept{Job: jobID(1), Seq: 1, Own: own}, func(r *job.Record) { r.Own = &own }),
		at(job.Ready{}, job.JobReleased{Job: jobID(1), Seq: 1}, nil),
		at(job.Blocked{}, job.JobBlocked{Job: jobID(1), Seq: 1}, nil),
		at(job.Ready{}, job.JobReleased{Job: jobID(1), Seq: 1}, nil),
		at(job.Running{}, started(1, 1), func(r *job.Record) {
			a := attempt(1)
			r.Last, r.Running, r.Tally.Attempts = &a, true, 1
		}),
		at(job.Running{}, job.JobProgress{Job: jobID(1), Seq: 1, Result: []byte("some")}, nil),
		at(job.Blocked{}, job.JobRetried{
			Job: jobID(1), Seq: 1, Attempt: lost, Tally: tally, Wake: start + 99*second, Delay: time.Minute,
		}, func(r *job.Record) {
			r.Running, r.LastEnd, r.Tally, r.Wake, r.Delay = false, &lost, tally, start+99*second, time.Minute
		}),
		at(job.Ready{}, job.JobReleased{Job: jobID(1), Seq: 1}, nil),
		at(job.Running{}, started(1, 2), func(r *job.Record) {
			a := attempt(2)
			r.Last, r.LastEnd, r.Running, r.Tally.Attempts = &a, nil, true, 2
		}),
		at(job.Done{}, job.JobEnded{
			Job: jobID(1), Seq: 1, End: end, Attempt: &good, Result: []byte("the result"), Open: true,
		}, func(r *job.Record) {
			r.Running, r.LastEnd, r.End, r.Open, r.Wake, r.Delay = false, &good, &end, true, 0, 0
		}),
		{change: settled(1), state: job.Done{}, gone: true, alter: func(r *job.Record) { r.Open = false }},
	})
	same(t, "attempts", []job.AttemptEnd{lost, good}, attempts(t, p.Store, jobID(1)))
	same(t, "payload", queue.Payload{Args: []byte("args 1"), Result: []byte("the result")}, payload(t, p.Store, jobID(1)))
	p.commit(t, job.JobDeleted{Job: jobID(1)})
	p.reopen(t)
	n := &names{jobs: []job.ID{jobID(1)}, filters: []queue.JobFilter{{}}}
	a := ask(t, t.Context(), p.Store, n)
	a.Feed = nil
	same(t, "after deleting", &answers{
		Head: queue.Head{Number: p.number, Seq: 1}, Lists: [][]job.Record{nil}, Builds: make([][]job.BuildRecord, len(a.Builds)),
		Attempts: map[job.ID][]job.AttemptEnd{jobID(1): nil}, Dependents: map[job.ID][]job.ID{jobID(1): nil},
	}, a)
}

// A job that is cancelled while it runs leaves memory when it is neither held nor open, in whatever order.
func testHeld(t *testing.T, p *place) {
	r := record(1)
	a := attemptEnd(1, job.Cancelled, "")
	end := job.End{At: start, Outcome: job.Cancelled}
	begun := []step{
		{change: job.JobAdded{Record: r}, state: job.Blocked{}},
		{change: started(1, 1), state: job.Running{}, alter: func(r *job.Record) {
			v := attempt(1)
			r.Last, r.Running, r.Tally.Attempts = &v, true, 1
		}},
		{change: job.JobProgress{Job: jobID(1), Seq: 1, Result: []byte("some")}, state: job.Running{}},
		{
			change: job.JobEnded{Job: jobID(1), Seq: 1, End: end, Attempt: &a, Held: true, Open: true}, state: job.Done{},
			alter: func(r *job.Record) {
				r.Running, r.LastEnd, r.End, r.Held, r.Open, r.Wake, r.Delay = false, &a, &end, true, true, 0, 0
			},
		},
		{change: settled(1), state: job.Done{}, alter: func(r *job.Record) { r.Open = false }},
		{change: job.JobFreed{Job: jobID(1), Seq: 1, At: start}, state: job.Done{}, gone: true, alter: func(r *job.Record) { r.Held = false }},
	}
	walk(t, p, r, begun)
	if got := payload(t, p.Store, jobID(1)); string(got.Result) != "some" {
		t.Errorf("result = %q, want what the attempt had reported", got.Result)
	}
	p.commit(t, added(2), started(2, 1), job.JobEnded{Job: jobID(2), Seq: 2, End: end, Attempt: &a, Held: true, Open: true})
	p.commit(t, job.JobFreed{Job: jobID(2), Seq: 2})
	if _, changes := load(t, p.Store); len(changes) != 1 {
		t.Errorf("%d jobs loaded while one is open", len(changes))
	}
	p.commit(t, settled(2))
	if _, changes := load(t, p.Store); len(changes) != 0 {
		t.Errorf("%d jobs loaded after all have left", len(changes))
	}
}

// A late finish stands in the place of what the engine had judged.
func testLateFinish(t *testing.T, p *place) {
	lost, late := attemptEnd(1, job.Aborted, ""), attemptEnd(1, job.Succeeded, "after all")
	p.commit(t, added(1), started(1, 1))
	p.commit(t, job.JobRetried{Job: jobID(1), Seq: 1, Attempt: lost, Tally: job.Tally{Attempts: 1, Losses: 1}})
	end := finished(1, job.Succeeded)
	end.Attempt, end.Result = &late, []byte("another thing")
	p.commit(t, end, settled(1))
	p.reopen(t)
	same(t, "attempts", []job.AttemptEnd{late}, attempts(t, p.Store, jobID(1)))
	found := lookup(t, p.Store, &queue.Query{Jobs: []job.ID{jobID(1)}}).Jobs[jobID(1)]
	same(t, "last end", &late, found.LastEnd)
	same(t, "attempts by their leases", map[job.Lease]*job.AttemptEnd{leaseOf(1, 1): without(late)}, lookupLeases(t, p, leaseOf(1, 1)))

	// A job whose last attempt ended before it did still has that attempt.
	p.commit(t, added(2), started(2, 1))
	p.commit(t, job.JobRetried{Job: jobID(2), Seq: 2, Attempt: late, Tally: job.Tally{Attempts: 1, Losses: 1}})
	p.commit(t, cancelled(2))
	p.reopen(t)
	same(t, "attempts", []job.AttemptEnd{late}, attempts(t, p.Store, jobID(2)))
	found = lookup(t, p.Store, &queue.Query{Jobs: []job.ID{jobID(2)}}).Jobs[jobID(2)]
	same(t, "last end", &late, found.LastEnd)
}

// Of several ended attempts the newest is the last; and what an attempt handed in is not the job's result, for
// which the progress stands.
func testResults(t *testing.T, p *place) {
	first, second, third := attemptEnd(1, job.Aborted, "one"), attemptEnd(2, job.Aborted, ""), attemptEnd(3, job.Failed, "three")
	p.commit(t, added(1), started(1, 1), job.JobRetried{Job: jobID(1), Seq: 1, Attempt: first})
	p.commit(t, started(1, 2), job.JobProgress{Job: jobID(1), Seq: 1, Result: []byte("progress")},
		job.JobRetried{Job: jobID(1), Seq: 1, Attempt: second})
	p.reopen(t)
	_, changes := load(t, p.Store)
	same(t, "last end", &second, changes[0].(job.JobAdded).LastEnd)
	p.commit(t, started(1, 3), job.JobProgress{Job: jobID(1), Seq: 1})
	same(t, "result", "progress", string(payload(t, p.Store, jobID(1)).Result))
	p.commit(t, job.JobEnded{Job: jobID(1), Seq: 1, End: job.End{Outcome: job.Failed}, Attempt: &third})
	p.reopen(t)
	same(t, "result", "progress", string(payload(t, p.Store, jobID(1)).Result))
	same(t, "attempts", []job.AttemptEnd{first, second, third}, attempts(t, p.Store, jobID(1)))
	found := lookup(t, p.Store, &queue.Query{Jobs: []job.ID{jobID(1)}})
	same(t, "last end", &third, found.Jobs[jobID(1)].LastEnd)
}

// leaseOf gives the lease of a job's attempt.
func leaseOf(n int64, number int32) job.Lease {
	return job.Lease{Job: jobID(n), Attempt: number, Token: attempt(number).Token}
}

func without(e job.AttemptEnd) *job.AttemptEnd {
	e.Result = nil
	return &e
}

func lookupLeases(t *testing.T, p *place, leases ...job.Lease) map[job.Lease]*job.AttemptEnd {
	t.Helper()
	p.reopen(t)
	return lookup(t, p.Store, &queue.Query{Leases: leases}).Ended
}

// How an attempt ended is found by its lease: whether newer ones have begun, and whether the job has ended, been settled or
// been deleted; only the true token opens it.
func testEndedAttempts(t *testing.T, p *place) {
	first, second := attemptEnd(1, job.Aborted, "one"), attemptEnd(2, job.Failed, "two")
	forged, other := leaseOf(1, 1), leaseOf(1, 1)
	forged.Token[0]++
	other.Job = jobID(2)
	ask := []job.Lease{leaseOf(1, 1), leaseOf(1, 2), leaseOf(1, 3), forged, other}
	check := func(what string, want map[job.Lease]*job.AttemptEnd) {
		t.Helper()
		same(t, what, want, lookupLeases(t, p, ask...))
	}
	p.commit(t, added(1), added(2), started(1, 1))
	check("while it runs", nil)
	p.commit(t, job.JobRetried{Job: jobID(1), Seq: 1, Attempt: first})
	check("once it has ended", map[job.Lease]*job.AttemptEnd{leaseOf(1, 1): without(first)})
	p.commit(t, started(1, 2))
	check("once the next has begun", map[job.Lease]*job.AttemptEnd{leaseOf(1, 1): without(first)})
	both := map[job.Lease]*job.AttemptEnd{leaseOf(1, 1): without(first), leaseOf(1, 2): without(second)}
	p.commit(t, job.JobEnded{Job: jobID(1), Seq: 1, End: job.End{Outcome: job.Failed}, Attempt: &second, Open: true})
	check("once the job has ended", both)
	p.commit(t, settled(1))
	check("once it has left memory", both)
	p.commit(t, job.JobDeleted{Job: jobID(1)})
	check("once it is deleted", nil)
}

func testNothingShared(t *testing.T, p *place) {
	r := record(1, 2)
	a := started(1, 1)
	p.commit(t, job.JobAdded{Record: r}, a)
	r.Spec.Features[0], r.Spec.Needs[0].Job, r.Spec.Args[0], r.Own.Group = "spoilt", jobID(9), 'X', "spoilt"
	a.Attempt.Groups[0] = "spoilt"
	want := record(1, 2)
	b := attempt(1)
	want.Last, want.Running, want.Tally.Attempts = &b, true, 1
	for range 2 {
		_, changes := load(t, p.Store)
		same(t, "job", []job.Change{loaded(want)}, changes)
		got := changes[0].(job.JobAdded)
		got.Spec.Features[0], got.Own.Group, got.Last.Groups[0] = "spoilt", "spoilt", "spoilt"
		pay := payload(t, p.Store, jobID(1))
		same(t, "args", "args 1", string(pay.Args))
		pay.Args[0] = 'X'
	}
}
