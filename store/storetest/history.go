package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// filtered has filters, and the jobs of testFilters that pass each.
var filtered = []struct {
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
	{queue.JobFilter{Prefix: "job"}, []int64{6, 5, 4, 2, 1}},
	{queue.JobFilter{Prefix: "oth"}, []int64{3}},
	{queue.JobFilter{Prefix: "other"}, []int64{3}},
	{queue.JobFilter{Prefix: "others"}, nil},
	{queue.JobFilter{Prefix: "job", Limit: 2, Before: 6}, []int64{5, 4}},
	{queue.JobFilter{Prefix: "\U0010ffff"}, nil},
	{queue.JobFilter{Worker: "w1"}, []int64{5, 4, 3}},
	{queue.JobFilter{Worker: "w1", Before: 5, Limit: 1}, []int64{4}},
	{queue.JobFilter{Worker: "w"}, nil},
	{queue.JobFilter{Worker: "w1", State: "Running"}, nil},
	{queue.JobFilter{After: start + 3}, []int64{6, 5, 4, 3}},
	{queue.JobFilter{Until: start + 3}, []int64{2, 1}},
	{queue.JobFilter{After: start + 2, Until: start + 5}, []int64{4, 3, 2}},
	{queue.JobFilter{After: start + 5, Until: start + 2}, nil},
	{queue.JobFilter{After: start + 2, Until: start + 5, Before: 4}, []int64{3, 2}},
	{queue.JobFilter{After: start + 7}, nil},
	{queue.JobFilter{Limit: 2}, []int64{6, 5}},
	{queue.JobFilter{Limit: 2, Before: 5}, []int64{4, 3}},
	{queue.JobFilter{Limit: -1, Before: 2}, []int64{1}},
	{queue.JobFilter{Before: 1}, nil},
}

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
	for _, c := range filtered {
		var got []int64
		for _, r := range jobs(t, p.Store, c.filter) {
			got = append(got, r.Seq)
		}
		same(t, fmt.Sprintf("Jobs(%+v)", c.filter), c.want, got)
	}
	var invalid *job.InvalidError
	for _, f := range []queue.JobFilter{{Name: "a", Prefix: "a"}, {Prefix: "\xff"}} {
		if _, err := p.Store.Jobs(t.Context(), f); !errors.As(err, &invalid) || invalid.Field != "prefix" {
			t.Errorf("Jobs(%+v): %v, want an InvalidError of the prefix", f, err)
		}
	}
	if _, err := p.Store.Builds(t.Context(), queue.BuildFilter{Name: "a", Prefix: "a"}); !errors.As(err, &invalid) {
		t.Errorf("builds by name and prefix: %v, want an InvalidError", err)
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

// All combinations of what a list may be asked for give what the filters give by themselves.
func testCombinations(t *testing.T, p *place) {
	const n = 24
	names := []string{"ab", "a", "b", "ab\\c", "\u00fc", ""}
	want := map[int64]job.Record{}
	for i := int64(1); i <= n; i++ {
		a := added(i)
		a.At = start + job.Time(i/2)
		a.Spec.Name, a.Spec.Channel = names[i%6], []string{"x", "y"}[i/2%2]
		changes := []job.Change{a}
		if i%4 != 0 {
			end := finished(i, []job.Outcome{job.Succeeded, job.Failed}[i/3%2])
			end.Attempt.Worker, end.Open = []string{"w1", "w2"}[i/5%2], false
			changes = append(changes, started(i, 1), end)
			a.End, a.LastEnd = &end.End, end.Attempt
		} else if i%8 == 0 {
			changes = append(changes, cancelled(i))
			a.End = &job.End{Outcome: job.Cancelled}
		}
		want[i] = a.Record
		p.commit(t, changes...)
	}
	p.reopen(t)
	var all []queue.JobFilter
	for _, prefix := range []string{"", "a", "ab", "ab\\", "\u00fc"} {
		for _, worker := range []string{"", "w1", "w2", "w3"} {
			for _, outcome := range []job.Outcome{0, job.Succeeded, job.Failed, job.Cancelled} {
				for _, span := range [][2]job.Time{{}, {start + 3, 0}, {0, start + 9}, {start + 3, start + 9}} {
					for _, channel := range []string{"", "x"} {
						for _, state := range []string{"", "Done", "Blocked"} {
							all = append(all, queue.JobFilter{
								Prefix: prefix, Worker: worker, Outcome: outcome, After: span[0], Until: span[1], Channel: channel, State: state,
							})
						}
					}
				}
			}
		}
	}
	for i, f := range all {
		f.Limit, f.Before = 1+i%5, int64(i%7)*5
		var seqs, got []int64
		for s := int64(n); s > 0; s-- {
			r := want[s]
			is := func(want, have string) bool { return want == "" || want == have }
			state := "Blocked"
			if r.End != nil {
				state = "Done"
			}
			if len(seqs) < f.Limit && (f.Before == 0 || s < f.Before) && strings.HasPrefix(r.Spec.Name, f.Prefix) && is(f.Channel, r.Spec.Channel) && is(f.State, state) &&
				(f.After == 0 || r.At >= f.After) && (f.Until == 0 || r.At < f.Until) &&
				(f.Outcome == 0 || r.End != nil && r.End.Outcome == f.Outcome) &&
				(f.Worker == "" || r.End != nil && r.LastEnd != nil && r.LastEnd.Worker == f.Worker) {
				seqs = append(seqs, s)
			}
		}
		for _, r := range jobs(t, p.Store, f) {
			got = append(got, r.Seq)
		}
		same(t, fmt.Sprintf("Jobs(%+v)", f), seqs, got)
	}
}

func testBuildCombinations(t *testing.T, p *place) {
	const n = 24
	var built []job.BuildRecord
	for i := int64(n); i > 0; i-- {
		r := buildRecord(i)
		r.At, r.Build.Name = start+job.Time(i/2), []string{"ab", "a", "b", "\u00fc", ""}[i%5]
		built = append(built, r)
	}
	p.commit(t, added(n+1), added(n+2), added(n+3), added(n+9))
	for i := range slices.Backward(built) {
		r := &built[i]
		changes := []job.Change{job.BuildAdded{BuildRecord: *r}}
		if i := r.Seq; i%2 == 0 {
			changes = append(changes, job.BuildReferred{Build: r.Build.ID, Refs: []job.Ref{{Job: jobID(n + 1 + i%4)}, {Job: jobID(n + 9)}}})
		}
		if o := job.Outcome(r.Seq % 3); o != 0 {
			r.Outcome, r.Ended = o, start
			changes = append(changes, job.BuildEnded{Build: r.Build.ID, At: start, Outcome: o})
		}
		p.commit(t, changes...)
	}
	p.reopen(t)
	for i := range 5 * 4 * 2 * 4 * 2 * 4 {
		f := queue.BuildFilter{
			Prefix: []string{"", "a", "ab", "abc", "\u00fc"}[i%5], Outcome: job.Outcome(i / 5 % 4), Live: i/20%2 == 1,
			After: []job.Time{0, start + 4}[i/40%2], Until: []job.Time{0, start + 9}[i/80%2], Limit: 1 + i%5, Before: int64(i/160%2) * 20,
			Job: []job.ID{{}, jobID(n + 1), jobID(n + 9), jobID(n + 2)}[i/320],
		}
		refers := func(r *job.BuildRecord) bool {
			return f.Job.IsZero() || r.Seq%2 == 0 && (f.Job == jobID(n+9) || f.Job == jobID(n+1+r.Seq%4))
		}
		var want []job.BuildRecord
		for _, r := range built {
			if len(want) < f.Limit && refers(&r) && (f.Before == 0 || r.Seq < f.Before) && strings.HasPrefix(r.Build.Name, f.Prefix) && (!f.Live || r.Outcome == 0) &&
				(f.Outcome == 0 || r.Outcome == f.Outcome) && (f.After == 0 || r.At >= f.After) && (f.Until == 0 || r.At < f.Until) {
				want = append(want, r)
			}
		}
		got, err := p.Store.Builds(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprintf("Builds(%+v)", f), want, got)
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
