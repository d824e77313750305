package memory

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

func numbered(n int) (id job.ID) {
	id[0] = 1
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

// referredOneByOne makes a build of n jobs that are referred to one after the other, each in a batch of its own.
func referredOneByOne(t *testing.T, n int) *Store {
	t.Helper()
	s := New()
	commit := func(changes ...job.Change) {
		t.Helper()
		if err := s.Commit(t.Context(), &queue.Batch{Number: s.disk.number + 1, Changes: changes}); err != nil {
			t.Fatal(err)
		}
	}
	build := job.Build{ID: numbered(0)}
	commit(job.BuildAdded{BuildRecord: job.BuildRecord{Build: build, Seq: 1}})
	for i := 1; i <= n; i++ {
		commit(
			job.JobAdded{Record: job.Record{Spec: job.Spec{ID: numbered(i), Kind: "k"}, Seq: int64(i + 1)}},
			job.BuildReferred{Build: build.ID, Refs: []job.Ref{{Job: numbered(i)}}},
		)
	}
	return s
}

// A build that grows job by job costs as much for the last one as for the first: neither are the older references copied,
// nor looked at. It allocates in peace, so that it runs alone.
func TestReferenceCostsTheSameHoweverManyThereAre(t *testing.T) {
	const few, factor = 1000, 8
	allocated := func(n int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		referredOneByOne(t, n)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	one := allocated(few)
	if many := allocated(few * factor); many > 2*factor*one {
		t.Errorf("%d references took %d bytes, %d took %d", few, one, few*factor, many)
	}

	s := referredOneByOne(t, few)
	b := *s.disk.builds.rows[numbered(0)]
	b.refs = make([]job.Ref, few) // whoever looks through them finds nothing
	s.disk.builds.rows[numbered(0)] = &b
	again := job.BuildReferred{Build: numbered(0), Refs: []job.Ref{{Job: numbered(few / 2), Priority: 7}}}
	if err := s.Commit(t.Context(), &queue.Batch{Number: s.disk.number + 1, Changes: []job.Change{again}}); err != nil {
		t.Fatal(err)
	}
	refs := s.disk.builds.rows[numbered(0)].refs
	if len(refs) != few || refs[few/2-1].Priority != 7 {
		t.Errorf("the reference was not found by its job: there are %d, and in its place is %+v", len(refs), refs[few/2-1])
	}
}
