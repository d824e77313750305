package sqlite

import (
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// numbered gives an id that sorts against the order in which it is given out.
func numbered(kind byte, n int) (id job.ID) {
	id[0] = kind
	binary.BigEndian.PutUint32(id[12:], ^uint32(n))
	return id
}

// A page of a build that has most of the jobs must not sort all of them: the pages of a million jobs would take hours. One
// that has few among many must not go along all of those.
func TestPageOfABuildTakesTheShorterWay(t *testing.T) {
	t.Parallel()
	const large, small = 3000, 20
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() // Nothing is kept.
	batch := &queue.Batch{Number: 1, At: 1}
	seq := int64(0)
	add := func(build, jobs int) {
		b := job.BuildAdded{BuildRecord: job.BuildRecord{Build: job.Build{ID: numbered('b', build), Name: "b"}, Seq: seq + 1, At: 1}}
		seq++
		batch.Changes = append(batch.Changes, b)
		refs := job.BuildReferred{Build: b.Build.ID}
		for i := range jobs {
			seq++
			id := numbered(byte('k'+build), i)
			batch.Changes = append(batch.Changes, job.JobAdded{Record: job.Record{Spec: job.Spec{ID: id, Name: "n", Kind: "k"}, Seq: seq, At: 1}})
			refs.Refs = append(refs.Refs, job.Ref{Job: id})
		}
		batch.Changes = append(batch.Changes, refs)
	}
	add(1, large)
	add(2, small)
	if err := s.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		build, jobs int
		state       job.State
		sorts       bool
	}{
		{1, large, nil, false},
		{1, large, job.Blocked{}, false},
		{2, small, nil, true},
		{2, small, job.Blocked{}, true},
		{3, 0, nil, true},
	} {
		f := queue.JobFilter{Build: numbered('b', tc.build), Limit: 100}
		if tc.state != nil {
			f.State = tc.state.String()
		}
		reach, err := s.w.reachJobs(&f)
		if err != nil {
			t.Fatal(err)
		}
		l, err := listJobs(&f, reach)
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(plan(t, s.w, l.sql()), "\n")
		if sorts := strings.Contains(plan, "TEMP B-TREE FOR ORDER BY"); sorts != tc.sorts {
			t.Errorf("build %d, state %q: sorts: %v\n%s", tc.build, f.State, sorts, plan)
		}
		var seen []job.ID
		for {
			recs, err := s.Jobs(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			if len(recs) == 0 {
				break
			}
			for i := range recs {
				seen = append(seen, recs[i].Spec.ID)
			}
			f.Before = recs[len(recs)-1].Seq
		}
		if len(seen) != tc.jobs {
			t.Errorf("build %d, state %q: %d jobs; want %d", tc.build, f.State, len(seen), tc.jobs)
		}
		for i, id := range seen {
			if id != numbered(byte('k'+tc.build), tc.jobs-1-i) {
				t.Fatalf("build %d: job %d from the end is %v", tc.build, i, id)
			}
		}
	}
}
