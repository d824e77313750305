package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// build asks for a build of these jobs, which have names alone unless more is said.
func (l *keepingLab) build(name string, jobs ...job.Spec) queue.Receipt {
	l.t.Helper()
	var refs []job.Ref
	for i := range jobs {
		if jobs[i].ID.IsZero() {
			jobs[i].ID = l.queue.NewID()
		}
		jobs[i].Kind = "k"
		refs = append(refs, job.Ref{Job: jobs[i].ID, Optional: strings.HasPrefix(jobs[i].Name, "optional")})
	}
	r, err := l.queue.Submit(l.t.Context(), queue.Submission{Build: &job.Build{Name: name}, Jobs: jobs, Refs: refs})
	l.must(err)
	return r
}

// finish has so many jobs run and succeed.
func (l *keepingLab) finish(n int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	for range n {
		got, err := l.queue.Lease(ctx, "w", l.session, 1, 0)
		l.must(err)
		l.must(l.queue.Finish(l.t.Context(), job.Report{Lease: got[0].Lease, Outcome: job.Succeeded}))
	}
}

// left gives the names of the builds and jobs that the history has.
func (l *keepingLab) left() (builds, jobs []string) {
	l.t.Helper()
	b, err := l.store.Builds(l.t.Context(), queue.BuildFilter{})
	l.must(err)
	for i := range b {
		builds = append(builds, b[i].Build.Name)
	}
	j, err := l.store.Jobs(l.t.Context(), queue.JobFilter{})
	l.must(err)
	for i := range j {
		jobs = append(jobs, j[i].Spec.Name)
	}
	slices.Sort(builds)
	slices.Sort(jobs)
	return builds, jobs
}

// A build that ended long ago goes with its jobs. What another build refers to stays, and so does what has not ended, what can still be
// read by what has not ended, and a build with any of these; they go when their time has come.
func TestBuildsAreKeptForATime(t *testing.T) {
	t.Parallel()
	inKeepingLab(t, 0, func(t *testing.T, l *keepingLab) {
		l.build("old", job.Spec{Name: "alone"}, job.Spec{Name: "shared", Key: "shared", Reuse: true})
		read := l.build("read", job.Spec{Name: "read"})
		tomorrow := job.At(time.Now().Add(26 * time.Hour))
		half := l.build("half", job.Spec{Name: "target"}, job.Spec{Name: "optional", NotBefore: tomorrow})
		l.build("late", job.Spec{Name: "late", Needs: []job.Need{{Job: half.Jobs[1].ID}}}) // so that it is not cancelled with its build
		l.finish(4)
		l.elapse(2 * time.Hour)
		l.build("young", job.Spec{Name: "shared", Key: "shared", Reuse: true})
		// What waits for another day needs a result of one of the old ones.
		l.build("waits", job.Spec{Name: "waits", NotBefore: tomorrow, Needs: []job.Need{{Job: read.Jobs[0].ID}}})
		l.builds = 3 * time.Hour
		stop := l.serve()
		defer func() { stop() }()
		l.elapse(30 * time.Minute)
		want := func(when string, builds, jobs []string) {
			t.Helper()
			if b, j := l.left(); !slices.Equal(b, builds) || !slices.Equal(j, jobs) {
				t.Errorf("%s there are the builds %q and the jobs %q, want %q and %q", when, b, j, builds, jobs)
			}
		}
		want("too early", []string{"half", "late", "old", "read", "waits", "young"}, []string{"alone", "late", "optional", "read", "shared", "target", "waits"})
		l.elapse(2 * time.Hour)
		want("after three hours", []string{"half", "late", "read", "waits", "young"}, []string{"late", "optional", "read", "shared", "waits"})
		l.elapse(20 * time.Hour)
		want("after a day", []string{"half", "late", "read", "waits"}, []string{"late", "optional", "read", "waits"})
		l.elapse(4 * time.Hour)
		l.finish(3)
		l.elapse(2 * time.Hour)
		want("two hours after the last ended", []string{"late", "waits"}, []string{"late", "waits"})
		l.elapse(2 * time.Hour)
		want("at the end", nil, nil)
	})
}

// What is interrupted goes on, and what is in the way of nothing is no reason to stop.
func TestRetirementGoesOn(t *testing.T) {
	t.Parallel()
	inKeepingLab(t, 0, func(t *testing.T, l *keepingLab) {
		s, err := New(Config{Queue: l.queue, History: l.store, Failures: l.store})
		l.must(err)
		jobs := make([]job.Spec, 30)
		for i := range jobs {
			jobs[i].Name = "j"
		}
		r := l.build("large", jobs...)
		l.finish(len(jobs))
		// As if it had been interrupted in between.
		l.must(l.queue.DeleteJob(t.Context(), r.Jobs[7].ID))
		l.elapse(time.Hour)
		gone, err := s.retireBuilds(t.Context(), job.At(time.Now()))
		if builds, left := l.left(); err != nil || gone != 1 || len(builds)+len(left) != 0 {
			t.Errorf("%d are gone, %v; left %v and %v", gone, err, builds, left)
		}
		broken := errors.New("broken")
		s.History = brokenRefs{l.store, broken}
		l.build("another", job.Spec{Name: "k"})
		l.finish(1)
		l.elapse(time.Hour)
		if _, err := s.retireBuilds(t.Context(), job.At(time.Now())); !errors.Is(err, broken) {
			t.Errorf("a store that is broken: %v", err)
		}
		if builds, left := l.left(); len(builds) != 1 || len(left) != 1 {
			t.Errorf("left %v and %v, want all", builds, left)
		}
	})
}

// brokenRefs is a history that cannot tell the references of a build.
type brokenRefs struct {
	queue.History
	err error
}

// Refs implements queue.History.
func (b brokenRefs) Refs(context.Context, job.ID) ([]job.Ref, error) { return nil, b.err }
