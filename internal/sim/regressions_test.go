package sim

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
	"github.com/headrace/headrace/store/memory"
)

// Faults that the simulator found, each told in as few steps as it takes.

// bed is an engine on a disk of its own, for one story.
type bed struct {
	t    *testing.T
	disk *memory.Disk
	*queue.Queue
	store  *store
	stop   func()
	ids    byte
	budget int // of a round
}

// story plays f in a bubble.
func story(t *testing.T, f func(t *testing.T, b *bed)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, disk: memory.NewDisk()}
		b.open()
		defer func() { b.stop() }()
		f(t, b)
	})
}

func (b *bed) open() {
	b.store = &store{Store: b.disk.Open()}
	q, err := queue.Open(queue.Config{Store: b.store, History: b.store.Store, RoundBudget: b.budget})
	b.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	b.Queue, b.stop = q, func() { cancel(); <-ended }
}

// restart replaces the owner.
func (b *bed) restart() {
	b.stop()
	b.open()
}

// meet lets the store go wrong, after it has let so many commits pass.
func (b *bed) meet(f fault, spare int) {
	synctest.Wait()
	b.store.armed, b.store.spare = f, spare
	b.store.turns.Add(1)
}

// pass lets time pass in the synctest bubble.
func (b *bed) pass(d time.Duration) { time.Sleep(d) }

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) id() job.ID {
	b.ids++
	return job.ID{b.ids}
}

// submit asks for jobs, for a build if it is given.
func (b *bed) submit(build *job.Build, refs []job.Ref, jobs ...job.Spec) {
	b.t.Helper()
	for i := range jobs {
		jobs[i].Kind = "k"
	}
	_, err := b.Submit(b.t.Context(), queue.Submission{Build: build, Jobs: jobs, Refs: refs})
	b.must(err)
}

func (b *bed) worker(name string, slots int32) job.Worker {
	b.t.Helper()
	w := job.Worker{Name: name, Channels: []string{""}, Kinds: []string{"k"}, Slots: slots, Session: b.id()}
	b.must(b.Register(b.t.Context(), w))
	return w
}

// lease takes what the worker gets at once.
func (b *bed) lease(w job.Worker, want int) []queue.Assignment {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Millisecond)
	defer cancel()
	got, err := b.Lease(ctx, w.Name, w.Session, want, 0)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		b.t.Fatal(err)
	}
	return got
}

// state gives where a job is in memory, "" if it is not.
func (b *bed) state(id job.ID) (state string) {
	b.t.Helper()
	b.must(b.Inspect(b.t.Context(), func(m *job.Machine, _ *sched.Scheduler) {
		if j, ok := m.Job(id); ok {
			state = j.State().String()
		}
	}))
	return state
}

func TestStoppedAttemptFreesItsConcurrencyKey(t *testing.T) {
	story(t, func(t *testing.T, b *bed) {
		first, second, gate := b.id(), b.id(), job.Gate{Key: "key", Limit: 1}
		b.submit(nil, nil, job.Spec{ID: first, Gate: gate}, job.Spec{ID: second, Gate: gate})
		w := b.worker("w", 2)
		a := b.lease(w, 1)[0]
		b.must(b.CancelJob(t.Context(), first, job.ID{}, false, ""))
		if err := b.Finish(t.Context(), job.Report{Lease: a.Lease, Outcome: job.Cancelled}); !errors.Is(err, job.ErrLeaseLost) {
			t.Fatalf("the confirmation was answered %v", err)
		}
		if got := b.lease(w, 1); len(got) != 1 || got[0].Lease.Job != second {
			t.Errorf("the next job of the key did not start: %v", got)
		}
	})
}

func TestParkedJobGetsTheTurnOfOneThatLeaves(t *testing.T) {
	story(t, func(t *testing.T, b *bed) {
		ids, gate := []job.ID{b.id(), b.id(), b.id()}, job.Gate{Key: "key", Limit: 1}
		for _, id := range ids {
			b.submit(nil, nil, job.Spec{ID: id, Gate: gate})
		}
		w := b.worker("w", 2)
		a := b.lease(w, 1)[0]
		b.lease(w, 1) // parks the others
		b.must(b.Finish(t.Context(), job.Report{Lease: a.Lease, Outcome: job.Succeeded}))
		b.must(b.CancelJob(t.Context(), ids[1], job.ID{}, false, ""))
		if got := b.lease(w, 1); len(got) != 1 || got[0].Lease.Job != ids[2] {
			t.Errorf("the parked job did not start: %v", got)
		}
	})
}

func TestWhyOfAParkedJobDoesNotPanic(t *testing.T) {
	story(t, func(t *testing.T, b *bed) {
		ids, gate := []job.ID{b.id(), b.id()}, job.Gate{Key: "key", Limit: 1}
		b.submit(nil, nil, job.Spec{ID: ids[0], Gate: gate}, job.Spec{ID: ids[1], Gate: gate})
		w := b.worker("w", 2)
		b.lease(w, 1)
		b.lease(w, 1)
		e, err := b.Why(t.Context(), ids[1])
		b.must(err)
		if len(e.Reasons) == 0 || e.Reasons[0].What != sched.KeyFull {
			t.Errorf("why gives %+v, want the concurrency key", e.Reasons)
		}
	})
}

func TestNewSessionIsServedAndTheOldOneIsTold(t *testing.T) {
	story(t, func(t *testing.T, b *bed) {
		old := b.worker("w", 1)
		answer := make(chan error, 1)
		q := b.Queue
		go func() {
			_, err := q.Lease(context.Background(), old.Name, old.Session, 1, 0)
			answer <- err
		}()
		synctest.Wait()
		b.pass(2 * job.DefaultTTL)
		fresh := b.worker("w", 1)
		if err := <-answer; !errors.Is(err, job.ErrWorkerLive) {
			t.Errorf("the old session was told %v", err)
		}
		b.submit(nil, nil, job.Spec{ID: b.id()})
		if got := b.lease(fresh, 1); len(got) != 1 {
			t.Error("the new session was given nothing")
		}
	})
}

func TestOrderEdgeToALaterJobLifts(t *testing.T) {
	story(t, func(t *testing.T, b *bed) {
		dependent, dependency := b.id(), b.id()
		b.submit(&job.Build{}, []job.Ref{{Job: dependent, Priority: 7}, {Job: dependency}},
			job.Spec{ID: dependent, Needs: []job.Need{{Job: dependency, Policy: job.Order}}}, job.Spec{ID: dependency})
		b.restart()
		b.must(b.Inspect(t.Context(), func(m *job.Machine, _ *sched.Scheduler) {
			if j, _ := m.Job(dependency); j.Priority() != 7 {
				t.Errorf("the dependency has priority %d, want 7", j.Priority())
			}
		}))
	})
}

func TestSiblingOfACancelledTargetRunsOn(t *testing.T) {
	story(t, func(t *testing.T, b *bed) {
		target, sibling := b.id(), b.id()
		b.submit(&job.Build{ID: b.id()}, []job.Ref{{Job: sibling, Optional: true}, {Job: target}},
			job.Spec{ID: sibling}, job.Spec{ID: target})
		b.lease(b.worker("w", 1), 1)
		b.must(b.CancelJob(t.Context(), target, job.ID{}, true, ""))
		if s := b.state(sibling); s != "Running" {
			t.Errorf("the sibling is %q, want Running", s)
		}
	})
}

func TestAnotherEndThanTheOneToldIsRefused(t *testing.T) {
	story(t, func(t *testing.T, b *bed) {
		b.submit(nil, nil, job.Spec{ID: b.id(), Retry: job.Retry{Failures: 1}})
		a := b.lease(b.worker("w", 1), 1)[0]
		b.must(b.Finish(t.Context(), job.Report{Lease: a.Lease, Outcome: job.Failed}))
		err := b.Finish(t.Context(), job.Report{Lease: a.Lease, Outcome: job.Succeeded})
		if !errors.Is(err, job.ErrLeaseLost) {
			t.Errorf("the second end was answered %v, want lease lost", err)
		}
	})
}

func TestLeaseRunsOutOnceTheEngineJudgesAgain(t *testing.T) {
	story(t, func(t *testing.T, b *bed) {
		id, c := b.id(), job.DefaultChannel("")
		c.CallerJudges = true
		b.must(b.SetChannel(t.Context(), c))
		b.submit(nil, nil, job.Spec{ID: id})
		b.lease(b.worker("w", 1), 1)
		c.CallerJudges = false
		b.must(b.SetChannel(t.Context(), c))
		b.pass(2 * job.DefaultTTL)
		if s := b.state(id); s != "Ready" {
			t.Errorf("the job is %q, want Ready again", s)
		}
	})
}

func TestLimitThroughADependentSurvivesARestart(t *testing.T) {
	story(t, func(t *testing.T, b *bed) {
		low, high := b.id(), b.id()
		b.submit(&job.Build{Limits: job.Limits{Timeout: time.Minute}}, []job.Ref{{Job: high}},
			job.Spec{ID: low}, job.Spec{ID: high, Needs: []job.Need{{Job: low}}})
		b.lease(b.worker("w", 1), 1)
		b.restart()
		b.must(b.Inspect(t.Context(), func(m *job.Machine, _ *sched.Scheduler) {
			if j, _ := m.Job(low); m.LimitsOf(j).Timeout != time.Minute {
				t.Errorf("the attempt has the limits %v", m.LimitsOf(j))
			}
		}))
	})
}

func TestGraceBeginsWhenAWorkerCanDoLess(t *testing.T) {
	story(t, func(t *testing.T, b *bed) {
		id := b.id()
		w := b.worker("w", 1)
		w.Systems = []string{"arm"}
		b.must(b.Register(t.Context(), w))
		b.submit(nil, nil, job.Spec{ID: id, System: "arm"})
		w.Systems = nil
		b.must(b.Register(t.Context(), w))
		b.pass(25 * time.Hour)
		if s := b.state(id); s != "" {
			t.Errorf("the job is %q, want it to have ended as unsupported", s)
		}
	})
}

func TestReusedKeyMayBeAskedForTwice(t *testing.T) {
	story(t, func(t *testing.T, b *bed) {
		b.submit(nil, nil, job.Spec{ID: b.id(), Key: "key"})
		a := b.lease(b.worker("w", 1), 1)[0]
		b.must(b.Finish(t.Context(), job.Report{Lease: a.Lease, Outcome: job.Succeeded}))
		twin := b.id()
		b.submit(nil, nil, job.Spec{ID: b.id(), Key: "key", Reuse: true}, job.Spec{ID: twin, Key: "key", Reuse: true},
			job.Spec{ID: b.id(), Needs: []job.Need{{Job: twin}}})
	})
}

func TestSecondReferenceMakesATargetAfterARestartToo(t *testing.T) {
	story(t, func(t *testing.T, b *bed) {
		id, build := b.id(), job.Build{ID: b.id()}
		other := b.id()
		b.submit(&build, []job.Ref{{Job: id, Optional: true}, {Job: id}, {Job: other}}, job.Spec{ID: id}, job.Spec{ID: other})
		b.must(b.CancelJob(t.Context(), id, job.ID{}, true, ""))
		b.restart()
		a := b.lease(b.worker("w", 1), 1)[0]
		b.must(b.Finish(t.Context(), job.Report{Lease: a.Lease, Outcome: job.Succeeded}))
		r, err := b.AwaitBuild(t.Context(), build.ID)
		b.must(err)
		if r.Outcome != job.Cancelled {
			t.Errorf("the build ended %s, want cancelled, as its target was", r.Outcome)
		}
	})
}

// The cancel of a large build takes several rounds. That it was to stop what runs is known in the first alone.
func TestCancelOverTheBudgetStopsAtOnceWhatRuns(t *testing.T) {
	for _, direct := range []bool{true, false} {
		t.Run(map[bool]string{true: "target", false: "dependency"}[direct], func(t *testing.T) {
			story(t, func(t *testing.T, b *bed) {
				b.budget = 1
				b.restart()
				w, build, running := b.worker("w", 1), job.Build{ID: b.id()}, b.id()
				jobs, refs := []job.Spec{{ID: running}}, []job.Ref(nil)
				if direct {
					refs = append(refs, job.Ref{Job: running})
				}
				for range 20 {
					id := b.id()
					jobs = append(jobs, job.Spec{ID: id, Needs: []job.Need{{Job: running}}})
					refs = append(refs, job.Ref{Job: id})
				}
				b.submit(&build, refs, jobs...)
				b.lease(w, 1)
				b.meet(diesBefore, 1)
				b.must(b.CancelBuild(t.Context(), build.ID, false))
				synctest.Wait()
				b.restart()
				if s := b.state(running); s != "Done" {
					t.Errorf("the attempt that nobody needs is %s after the owner went, want Done", s)
				}
				synctest.Wait()
				if s := b.state(jobs[20].ID); s != "" {
					t.Errorf("the last job of the build is %s", s)
				}
			})
		})
	}
}
