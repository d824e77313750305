package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
)

// The caller changes what it gave as soon as Submit has returned: the job stays as it was asked for.
func TestSubmitKeepsNothingOfItsCaller(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		args := []byte("first")
		l.submit(job.Spec{Args: args})
		copy(args, "SECND")
		if got := l.lease(w); string(got.Spec.Args) != "first" {
			t.Errorf("the worker got %q", got.Spec.Args)
		}
	})
}

// Submit returns with ctx's error before the owner has read the submission; the race detector sees if it reads the caller's.
func TestSubmitThatGaveUpSharesNothing(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		in, out := make(chan struct{}), make(chan struct{})
		go func() {
			l.check(l.Inspect(t.Context(), func(*job.Machine, *sched.Scheduler) { close(in); <-out }))
		}()
		<-in
		spec := job.Spec{Kind: "k", Features: []string{"a"}, Needs: []job.Need{{Job: job.ID{1}, Policy: job.Order}}}
		build := &job.Build{Labels: map[string]string{"a": "b"}}
		refs := []job.Ref{{Job: job.ID{1}}}
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan error, 1)
		go func() {
			_, err := l.Submit(ctx, queue.Submission{Build: build, Jobs: []job.Spec{spec}, Refs: refs})
			told <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-told; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(out)
		<-time.After(time.Second) // the owner has read it by now, in virtual time, and nothing has told this goroutine so
		spec.Features[0], spec.Needs[0].Job, refs[0].Job, build.Labels["a"] = "x", job.ID{2}, job.ID{2}, "x"
	})
}

// What is made in one round is bounded.
func TestSubmitRefusesTooMuchWithoutABuild(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		_, err := l.Submit(t.Context(), queue.Submission{Jobs: make([]job.Spec, queue.MaxAlone+1)})
		var invalid *job.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "jobs" {
			t.Errorf("told %v, want a refusal that names jobs", err)
		}
	})
}
