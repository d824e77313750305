package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

func testFilters(t *testing.T, p *place) {
	with := func(n int64, f func(s *job.Spec)) job.JobAdded {
		a := added(n)
		f(&a.Spec)
		return a
	}
	p.commit(t,
		with(1, func(s *job.Spec) { s.Channel = "other" }),
		with(2, func(s *job.Spec) { s.Kind = "other" }),
		with(3, func(s *job.Spec) { s.Name = "other" }),
		with(4, func(s *job.Spec) { s.Key = "key 5" }), added(5), with(6, func(s *job.Spec) { s.Key = "" }),
		job.BuildAdded{BuildRecord: buildRecord(7)},
		job.BuildReferred{Build: buildID(7), Refs: []job.Ref{{Job: jobID(5)}, {Job: jobID(2)}, {Job: jobID(3)}}},
	)
	p.commit(t, job.JobReleased{Job: jobID(1), Seq: 1}, started(2, 1))
	p.commit(t, ran(3, job.Succeeded)...)
	p.commit(t, ran(4, job.Failed)...)
	open := finished(5, job.Failed)
	p.commit(t, started(5, 1), open)
	for _, c := range []struct {
		filter queue.JobFilter
		want   []int64
	}{
		{queue.JobFilter{}, []int64{6, 5, 4, 3, 2, 1}},
		{queue.JobFilter{Channel: "other"}, []int64{1}},
		{queue.JobFilter{Kind: "other"}, []int64{2}},
		{queue.JobFilter{Name: "other"}, []int64{3}},
		{queue.JobFilter{Key: "key 5"}, []int64{5, 4}},
		{queue.JobFilter{Key: "key 5", Channel: "other"}, nil},
		{queue.JobFilter{Key: "key 5", Before: 5}, []int64{4}},
		{queue.JobFilter{State: "Blocked"}, []int64{6}},
		{queue.JobFilter{State: "Ready"}, []int64{1}},
		{queue.JobFilter{State: "Running"}, []int64{2}},
		{queue.JobFilter{State: "Done"}, []int64{5, 4, 3}},
		{queue.JobFilter{State: "Gone"}, nil},
		{queue.JobFilter{Outcome: job.Failed}, []int64{5, 4}},
		{queue.JobFilter{Outcome: job.Failed, State: "Done"}, []int64{5, 4}},
		{queue.JobFilter{Outcome: job.Failed, State: "Blocked"}, nil},
		{queue.JobFilter{Outcome: job.Failed, Before: 5}, []int64{4}},
		{queue.JobFilter{Build: buildID(7)}, []int64{5, 3, 2}},
		{queue.JobFilter{Build: buildID(7), State: "Done"}, []int64{5, 3}},
		{queue.JobFilter{Build: buildID(7), State: "Running"}, []int64{2}},
		{queue.JobFilter{Build: buildID(8)}, nil},
		{queue.JobFilter{IDs: []job.ID{jobID(1), jobID(9), jobID(4), jobID(1)}}, []int64{4, 1}},
		{queue.JobFilter{IDs: []job.ID{jobID(1), jobID(4)}, Outcome: job.Failed}, []int64{4}},
		{queue.JobFilter{IDs: []job.ID{jobID(1), jobID(4)}, State: "Done"}, []int64{4}},
		{queue.JobFilter{IDs: []job.ID{jobID(1), jobID(4)}, State: "Ready"}, []int64{1}},
		{queue.JobFilter{Limit: 2}, []int64{6, 5}},
		{queue.JobFilter{Limit: 2, Before: 5}, []int64{4, 3}},
		{queue.JobFilter{Limit: -1, Before: 2}, []int64{1}},
		{queue.JobFilter{Before: 1}, nil},
	} {
		var got []int64
		for _, r := range jobs(t, p.Store, c.filter) {
			got = append(got, r.Seq)
		}
		same(t, fmt.Sprintf("Jobs(%+v)", c.filter), c.want, got)
	}
	list := jobs(t, p.Store, queue.JobFilter{IDs: []job.ID{jobID(5)}})
	want := record(5)
	e := *open.Attempt
	e.Result = nil
	want.Spec.Args, want.Wake, want.Delay = nil, 0, 0
	want.Last, want.LastEnd, want.End, want.Open, want.Tally.Attempts = &e.Attempt, &e, &open.End, true, 1
	same(t, "a listed job", []job.Record{want}, list)

	// What a lease reads: many jobs with their Args, one of which is none, and not what others have.
	ids := []job.ID{jobID(1), jobID(5), jobID(9), jobID(6)}
	p.commit(t, with(8, func(s *job.Spec) { s.Args = nil }))
	var args []string
	for _, r := range jobs(t, p.Store, queue.JobFilter{IDs: append(ids, jobID(8)), Args: true}) {
		args = append(args, string(r.Spec.Args))
	}
	same(t, "args", []string{"", "args 6", "args 5", "args 1"}, args)
	for _, r := range jobs(t, p.Store, queue.JobFilter{Args: true, Limit: 3}) {
		if n := r.Seq; n != 8 && string(r.Spec.Args) != fmt.Sprintf("args %d", n) {
			t.Errorf("job %d is listed with args %q", n, r.Spec.Args)
		}
	}
}

func testPages(t *testing.T, p *place) {
	const n = 250
	var changes []job.Change
	var want []int64
	for i := int64(n); i > 0; i-- {
		changes = append(changes, added(2*i), job.BuildAdded{BuildRecord: buildRecord(2*i + 1)})
		want = append(want, 2*i)
	}
	p.commit(t, changes...)
	for _, limit := range []int{0, 1, 7, n, 1_000_000} {
		var got []int64
		before := int64(0)
		for {
			list := jobs(t, p.Store, queue.JobFilter{Before: before, Limit: limit})
			if most := cmpLimit(limit); len(list) > most {
				t.Fatalf("a page of %d jobs, want at most %d", len(list), most)
			}
			if len(list) == 0 {
				break
			}
			for _, r := range list {
				got = append(got, r.Seq)
			}
			before = list[len(list)-1].Seq
		}
		same(t, fmt.Sprintf("jobs by %d", limit), want, got)
	}
	var got []int64
	before := int64(0)
	for {
		list, err := p.Store.Builds(t.Context(), queue.BuildFilter{Before: before})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		if len(list) > 100 {
			t.Fatalf("a page of %d builds, want at most 100", len(list))
		}
		for _, r := range list {
			got = append(got, r.Seq-1)
		}
		before = list[len(list)-1].Seq
	}
	same(t, "builds", want, got)
	for _, f := range []queue.BuildFilter{{Name: "build 7"}, {IDs: []job.ID{buildID(7), buildID(8)}}, {IDs: []job.ID{buildID(7)}, Live: true}} {
		list, err := p.Store.Builds(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprintf("Builds(%+v)", f), []job.BuildRecord{buildRecord(7)}, list)
	}
}

func cmpLimit(limit int) int {
	if limit == 0 {
		return 100
	}
	return limit
}

func testDependents(t *testing.T, p *place) {
	// An unknown dependency, and one that is named twice.
	p.commit(t, added(1, 99), added(2, 1, 99), added(3, 1, 1), added(4, 3))
	p.commit(t, ran(1, job.Succeeded)...)
	ask := func(n int64) []int64 {
		t.Helper()
		p.reopen(t)
		ids, err := p.Store.Dependents(t.Context(), jobID(n))
		if err != nil {
			t.Fatal(err)
		}
		var seqs []int64
		for _, id := range ids {
			seqs = append(seqs, int64(slices.IndexFunc([]int64{0, 1, 2, 3, 4}, func(i int64) bool { return jobID(i) == id })))
		}
		return seqs
	}
	same(t, "dependents of 1", []int64{2, 3}, ask(1))
	same(t, "dependents of 99", []int64{1, 2}, ask(99))
	same(t, "dependents of 4", []int64(nil), ask(4))
	p.commit(t, job.JobDeleted{Job: jobID(1)}, job.JobDeleted{Job: jobID(2)})
	same(t, "dependents of 1", []int64{3}, ask(1))
	same(t, "dependents of 99", []int64(nil), ask(99))
}
