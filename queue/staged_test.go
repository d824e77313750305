package queue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
	"github.com/headrace/headrace/store/memory"
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

// Rule 3: somebody cancels the build while its pieces come in: the submission fails, and leaves nothing.
func TestStagedBuildCancelledBetweenPieces(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		l.commit = func(b *queue.Batch) error {
			if added, ok := b.Changes[0].(job.BuildAdded); ok {
				go func() { l.check(l.CancelBuild(t.Context(), added.Build.ID, false)) }()
				synctest.Wait() // it stands in line before the next piece
			}
			return nil
		}
		r, err := l.Submit(t.Context(), large(l.Queue, 5000))
		var again *queue.RetryError
		if !errors.As(err, &again) {
			t.Errorf("the submission was told %v, want a *RetryError", err)
		}
		l.commit = nil
		recs, err := l.Store.Jobs(t.Context(), queue.JobFilter{})
		if err != nil || len(recs) != 0 {
			t.Errorf("%d jobs are left of build %s, %v", len(recs), r.Build, err)
		}
		if r, err = l.Submit(t.Context(), large(l.Queue, 5000)); err != nil || len(r.Jobs) != 5000 {
			t.Errorf("again: %d jobs, %v", len(r.Jobs), err)
		}
	})
}

// The same between the last piece and the seal.
func TestStagedBuildCancelledBeforeTheSeal(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		pieces := 0
		l.commit = func(b *queue.Batch) error {
			if _, ok := b.Changes[len(b.Changes)-1].(job.BuildReferred); !ok {
				return nil
			}
			if pieces++; pieces == 2 {
				build := b.Changes[len(b.Changes)-1].(job.BuildReferred).Build
				go func() { l.check(l.CancelBuild(t.Context(), build, false)) }()
				synctest.Wait()
			}
			return nil
		}
		_, err := l.Submit(t.Context(), large(l.Queue, 3000))
		var again *queue.RetryError
		if !errors.As(err, &again) || pieces != 2 {
			t.Errorf("after %d pieces the submission was told %v, want a *RetryError", pieces, err)
		}
	})
}

// Rule 1: a success that the first piece reuses is deleted before the last, which needs it, comes: the caller may ask again,
// and then it is run. So may one whose job the first piece joined, if that ended and was deleted meanwhile.
func TestStagedBuildWhoseReusedJobIsDeletedBetweenPieces(t *testing.T) {
	t.Parallel()
	for _, joins := range []bool{false, true} {
		t.Run(fmt.Sprintf("joins=%t", joins), func(t *testing.T) {
			t.Parallel()
			inLab(t, func(t *testing.T, l *lab) {
				const jobs = 9000 // many pieces, so that there is time enough between the first and the last
				w := l.worker("w", 1)
				earlier := l.submit(job.Spec{Key: "a"})
				a := l.lease(w)
				if !joins {
					l.must(l.succeed(a.Lease))
				}
				ask := func() queue.Submission {
					s := large(l.Queue, jobs)
					for i := range s.Jobs {
						s.Jobs[i].Needs = nil
					}
					s.Jobs[0].Key, s.Jobs[0].Reuse = "a", true
					s.Jobs[jobs-1].Needs = []job.Need{{Job: s.Jobs[0].ID}}
					return s
				}
				l.commit = func(b *queue.Batch) error {
					if _, ok := b.Changes[0].(job.BuildAdded); ok {
						go func() {
							if joins {
								l.check(l.succeed(a.Lease))
							}
							l.check(l.DeleteJob(t.Context(), earlier.ID))
						}()
						synctest.Wait() // it stands in line before the next piece
					}
					return nil
				}
				_, err := l.Submit(t.Context(), ask())
				var again *queue.RetryError
				if !errors.As(err, &again) || errors.Is(err, queue.ErrNotFound) {
					t.Errorf("the submission was told %v, want a *RetryError", err)
				}
				synctest.Wait() // what was made goes over several rounds
				l.commit = nil
				if recs, err := l.Store.Jobs(t.Context(), queue.JobFilter{}); err != nil || len(recs) != 0 {
					t.Errorf("%d jobs are left, %v", len(recs), err)
				}
				r, err := l.Submit(t.Context(), ask())
				if err != nil || len(r.Jobs) != jobs || r.Jobs[0].How != job.Created {
					t.Errorf("again: %d jobs, %v", len(r.Jobs), err)
				}
			})
		})
	}
}

// The owner dies while a large build comes in, and the next while it gives that up: nothing of it is ever seen.
func TestStagedBuildLeavesNothingAfterTwoCrashes(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		die := func(after int) func(*queue.Batch) error {
			return func(*queue.Batch) error {
				if after--; after < 0 {
					return queue.ErrFenced
				}
				return nil
			}
		}
		crash := func() {
			if err := <-l.done; !errors.Is(err, queue.ErrFenced) {
				t.Errorf("Run: %v", err)
			}
			l.open()
		}
		l.commit = die(5)
		if _, err := l.Submit(t.Context(), large(l.Queue, 30_000)); err == nil {
			t.Error("the submission succeeded")
		}
		crash()
		listed, err := l.Store.Jobs(t.Context(), queue.JobFilter{})
		if err != nil || len(listed) != 0 {
			t.Errorf("%d jobs of a staged build are listed, %v", len(listed), err)
		}
		l.commit = die(1)
		l.start()
		crash()
		l.commit = nil
		l.start()
		synctest.Wait()
		listed, err = l.Store.Jobs(t.Context(), queue.JobFilter{})
		if err != nil || len(listed) != 0 {
			t.Errorf("%d jobs are left, %v", len(listed), err)
		}
	})
}

// The owner dies before or after any commit of a large submission, and the next in the middle of giving that up: what was made is
// gone, from memory and from the rows, what was joined stays, and the same ids may be asked for again.
func TestStagedBuildIsErasedAtTheLoadAfterACrash(t *testing.T) {
	t.Parallel()
	const size, stage = 10, 3
	for death := 2; death <= 9; death++ { // the first commit is that of the piece with the build; one more before: the joined job
		t.Run(fmt.Sprint(death), func(t *testing.T) {
			t.Parallel()
			inLab(t, func(t *testing.T, l *lab) {
				l.stop()
				l.stage, l.budget = stage, 2
				l.open()
				l.start()
				shared := l.submit(job.Spec{Key: "shared"})
				s := large(l.Queue, size)
				s.Jobs[1].Key = "shared"
				ids := make([]job.ID, 0, size)
				for _, j := range s.Jobs {
					if j.Key == "" {
						ids = append(ids, j.ID)
					}
				}
				left := death / 2
				die := func(*queue.Batch) error {
					if left--; left == 0 {
						return queue.ErrFenced
					}
					return nil
				}
				if death%2 == 0 {
					l.commit = die
				} else {
					l.committed = die
				}
				r, err := l.Submit(t.Context(), s)
				if l.commit, l.committed = nil, nil; left > 0 {
					t.Fatalf("the submission took fewer than %d commits: %v", death/2, err)
				}
				<-l.done
				l.open()
				l.committed = func(*queue.Batch) error { return queue.ErrFenced }
				l.start()
				synctest.Wait()
				if l.committed = nil; len(l.done) > 0 {
					<-l.done
					l.open()
					l.start()
					synctest.Wait()
				}
				recs, failed := l.Store.Jobs(t.Context(), queue.JobFilter{IDs: ids})
				l.must(failed)
				complete := len(recs) == len(ids)
				if !complete && len(recs) != 0 {
					t.Errorf("%d of %d jobs are left", len(recs), len(ids))
				}
				kept := map[bool]int{true: size, false: 1}[complete]
				l.must(l.Inspect(t.Context(), func(m *job.Machine, _ *sched.Scheduler) {
					if _, ok := m.Job(shared.ID); !ok || m.Len() != kept {
						t.Errorf("%d jobs are in memory, want %d; the one that was there before: %t", m.Len(), kept, ok)
					}
				}))
				if complete {
					if err == nil {
						t.Errorf("the owner died, and the submission was told %v", r)
					}
					return
				}
				builds, failed := l.Store.Builds(t.Context(), queue.BuildFilter{})
				l.must(failed)
				again, failed := l.Submit(t.Context(), s)
				if len(builds) != 0 || failed != nil || len(again.Jobs) != size || again.Jobs[1].ID != shared.ID {
					t.Errorf("%d builds are left; asked for again: %v, %v", len(builds), again, failed)
				}
			})
		})
	}
}

// While one piece is being stored the next is decided, and no further one: that is what may be lost at once.
func TestStagedSubmissionIsAPieceAhead(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		l.stop()
		l.stage, l.budget = 3, 64 // so that a piece is worth a look of its own
		l.open()
		l.start()
		looked := 0 // Each piece asks whether its ids are in use.
		l.lookup = func() error { looked++; return nil }
		l.gate = make(chan struct{})
		told := make(chan error, 1)
		go func() {
			_, err := l.Submit(t.Context(), large(l.Queue, 12))
			told <- err
		}()
		for stored := range 4 {
			synctest.Wait()
			if want := min(stored+2, 4); looked != want {
				t.Errorf("%d pieces are stored, and %d decided, want %d", stored, looked, want)
			}
			l.gate <- struct{}{}
		}
		close(l.gate)
		l.must(<-told)
		l.gate = nil
	})
}

// Of a large submission no more is copied at once than a piece, and what was stored is let go of. It is not parallel, as it looks at
// all that the process holds.
func TestStagedSubmissionHoldsTwoPiecesAtATime(t *testing.T) {
	const pieces, size = 32, 50
	args := make([]byte, 128<<10) // 200 MiB if each job had its own; what was submitted lately is cached up to 32 MiB
	inLab(t, func(t *testing.T, l *lab) {
		l.stop()
		l.stage = size
		l.open()
		l.start()
		s := large(l.Queue, pieces*size)
		for i := range s.Jobs {
			s.Jobs[i].Args = args
		}
		held := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before, most := held(), int64(0)
		l.commit = func(b *queue.Batch) error {
			for i, c := range b.Changes {
				if a, ok := c.(job.JobAdded); ok {
					a.Spec.Args = nil // the store is memory, too
					b.Changes[i] = a
				}
			}
			most = max(most, held()-before)
			return nil
		}
		_, err := l.Submit(t.Context(), s)
		l.must(err)
		if want := int64(80 << 20); most > want {
			t.Errorf("%d MiB were held, want at most %d", most>>20, want>>20)
		}
	})
}

// Who did not wait for the answer to a large submission and sends it again is not told that its jobs' ids are in use: by the first
// piece of the same submission, which is taken away in the rounds to come.
func TestLargeBuildThatWasGivenUpMayBeSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, bench: &bench{Store: memory.New()}, stage: 20, budget: eager}
		l.open()
		l.start()
		s := queue.Submission{Build: &job.Build{}}
		for range 600 {
			s.Jobs = append(s.Jobs, job.Spec{ID: l.NewID(), Kind: "k"})
		}
		s.Refs = []job.Ref{{Job: s.Jobs[0].ID}}
		request := queue.WithRequest(t.Context(), l.NewID())
		ctx, cancel := context.WithCancel(request)
		pieces := 0
		l.commit = func(*queue.Batch) error {
			if pieces++; pieces == 20 {
				cancel()
			}
			return nil
		}
		if _, err := l.Submit(ctx, s); !errors.Is(err, context.Canceled) {
			t.Errorf("the first call was told %v", err)
		}
		r, err := l.Submit(request, s)
		for tries := 0; errors.As(err, new(*queue.RetryError)) && tries < 100; tries++ {
			r, err = l.Submit(request, s)
		}
		l.must(err)
		if len(r.Jobs) != len(s.Jobs) || r.Jobs[0] != (job.Submitted{ID: s.Jobs[0].ID, How: job.Created}) {
			t.Errorf("the second made %d jobs, the first of them %+v", len(r.Jobs), r.Jobs[0])
		}
		if _, err := l.Submit(t.Context(), queue.Submission{Jobs: s.Jobs[:1]}); !errors.As(err, new(*job.InvalidError)) {
			t.Errorf("another with an id of the build was told %v", err)
		}
		l.stop()
	})
}

// A large submission that is refused stops nothing that others began: what it had joined runs on, also if nobody else needs it by then.
func TestStagedSubmissionThatIsRefusedStopsNothing(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 2)
		slow := job.Spec{ID: l.NewID(), Kind: "k", Key: "slow"}
		quick := job.Spec{ID: l.NewID(), Kind: "k", Key: "quick"}
		_, err := l.Submit(t.Context(), queue.Submission{
			Build: &job.Build{Name: "small"}, Jobs: []job.Spec{slow, quick},
			Refs: []job.Ref{{Job: quick.ID}, {Job: slow.ID, Optional: true}},
		})
		l.must(err)
		runs := map[job.ID]job.Lease{}
		for range 2 {
			got := l.lease(w)
			runs[got.Lease.Job] = got.Lease
		}
		l.must(l.succeed(runs[quick.ID])) // so has the build, and nobody needs the other any more
		s := large(l.Queue, 4500)
		s.Jobs[0].Key = "slow"
		s.Jobs[4499].Needs = []job.Need{{Job: l.NewID()}}
		if _, err := l.Submit(t.Context(), s); !errors.Is(err, queue.ErrNotFound) {
			t.Fatalf("%v, want ErrNotFound", err)
		}
		if err := l.succeed(runs[slow.ID]); err != nil {
			t.Errorf("what it had joined: %v", err)
		}
	})
}
