package job

import (
	"slices"
	"testing"
)

func (l *lab) stage(build ID, jobs ...Spec) []Submitted {
	l.t.Helper()
	changes, reply, err := l.m.Submit(l.now, &Submission{Build: &Build{ID: build}, Staged: true, Jobs: jobs}, nil)
	l.must(changes, err)
	return reply
}

// A staged build keeps what it has joined, also when those that it belonged to give it up, until it is complete itself.
func TestStagedBuildKeepsWhatItJoined(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	spec := l.spec("shared")
	spec.Key = "shared"
	first, second, third := l.id(), l.id(), l.id()
	if _, err := l.submit(Build{ID: first}, []Spec{spec}); err != nil {
		t.Fatal(err)
	}
	for _, b := range []ID{second, third} {
		again := spec
		again.ID = l.id()
		if r := l.stage(b, again); r[0].How != Joined {
			t.Fatalf("the staged build was told %v", r[0].How)
		}
	}
	check := func(what string, kept bool) {
		t.Helper()
		if _, ok := l.m.Job(spec.ID); ok != kept {
			t.Errorf("%s: in memory %t, want %t", what, ok, kept)
		}
		l.m.Touched(func(*Job) {})
		l.m.Moved(func(string) {})
		if err := l.m.Check(l.now); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	l.must(l.m.CancelBuild(l.now, first, false))
	check("the first build was cancelled", true)
	l.must(l.m.CancelBuild(l.now, second, false))
	check("one staged build was given up", true)
	l.must(l.m.Seal(third))
	check("the other is complete and does not want it", false)
	if slices.Contains(l.list, Change(JobDeleted{spec.ID})) {
		t.Error("the history of a complete build's job was erased")
	}
}

// After a crash, what was made for a build that was never complete leaves no trace, whether that build was already given up or
// not. What nobody needs any more for another reason does.
func TestOrphansOfAStagedBuildLeaveNoTrace(t *testing.T) {
	t.Parallel()
	l := &lab{t: t, now: 1}
	l.m = New(l.now)
	live, gone := l.id(), l.id()
	orphan, staged, wanted, other := l.spec("orphan"), l.spec("staged"), l.spec("wanted"), l.spec("other")
	for _, c := range []Change{
		BuildAdded{BuildRecord{Build: Build{ID: live}, Seq: 1, Staged: true}},
		JobAdded{Record{Spec: orphan, Seq: 2, Staging: gone}},
		JobAdded{Record{Spec: staged, Seq: 3, Staging: live}},
		JobAdded{Record{Spec: wanted, Seq: 4, Staging: gone, Own: &Own{}}},
		JobAdded{Record{Spec: other, Seq: 5}},
	} {
		if err := l.m.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	l.m.Loaded(l.now)
	l.must(l.m.CancelBuild(l.now, live, false))
	var erased []ID
	for _, c := range l.list {
		if d, ok := c.(JobDeleted); ok {
			erased = append(erased, d.Job)
		}
	}
	slices.SortFunc(erased, func(a, b ID) int { return slices.Compare(a[:], b[:]) })
	if want := []ID{orphan.ID, staged.ID}; !slices.Equal(erased, want) {
		t.Errorf("erased %v, want %v", erased, want)
	}
	if _, ok := l.m.Job(wanted.ID); !ok || l.m.Len() != 1 {
		t.Errorf("%d are left, the one that stands for itself: %t", l.m.Len(), ok)
	}
}
