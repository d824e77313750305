package queue_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
)

// large gives a submission that is too large for one round: each job needs the one before it.
func large(q *queue.Queue, n int) queue.Submission {
	s := queue.Submission{Build: &job.Build{Name: "large"}}
	for i := range n {
		spec := job.Spec{ID: q.NewID(), Name: fmt.Sprintf("job-%d", i), Kind: "k"}
		if i > 0 {
			spec.Needs = []job.Need{{Job: s.Jobs[i-1].ID}}
		}
		s.Jobs = append(s.Jobs, spec)
	}
	s.Refs = []job.Ref{{Job: s.Jobs[n-1].ID}}
	return s
}

// A large submission is made in many rounds; its request id counts for the whole of it.
func TestStagedSubmissionHappensOncePerRequest(t *testing.T) {
	t.Parallel()
	q, stop := open()
	defer stop()
	ctx := queue.WithRequest(t.Context(), q.NewID())
	first, err := q.Submit(ctx, large(q, 4500))
	if err != nil {
		t.Fatal(err)
	}
	again, err := q.Submit(ctx, large(q, 4500))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the repeat was told otherwise (-first +again):\n%s", diff)
	}
	builds, err := q.History.Builds(t.Context(), queue.BuildFilter{})
	if err != nil || len(builds) != 1 {
		t.Errorf("%d builds, %v; want 1", len(builds), err)
	}
}

// Two at once under one request: one happens, both get its answer, and nothing is left of the other.
func TestStagedSubmissionRacesItsRepeat(t *testing.T) {
	t.Parallel()
	q, stop := open()
	defer stop()
	ctx := queue.WithRequest(t.Context(), q.NewID())
	type told struct {
		receipt queue.Receipt
		err     error
	}
	answers := make(chan told)
	for range 2 {
		go func() {
			r, err := q.Submit(ctx, large(q, 4500))
			answers <- told{r, err}
		}()
	}
	a, b := <-answers, <-answers
	if a.err != nil || b.err != nil {
		t.Fatal(a.err, b.err)
	}
	if diff := cmp.Diff(a.receipt, b.receipt); diff != "" {
		t.Errorf("they were told different things:\n%s", diff)
	}
	var builds []job.BuildRecord
	err := q.Inspect(t.Context(), func(m *job.Machine, _ *sched.Scheduler) { builds = m.Builds() })
	if err != nil || len(builds) != 1 || builds[0].Build.ID != a.receipt.Build {
		t.Errorf("live builds %v, %v; want %s alone", builds, err, a.receipt.Build)
	}
}
