package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/sched"
	"github.com/headrace/headrace/store/memory"
)

// While a round is being stored the next is decided. Nobody may be told of either before it is stored, and what rests on a round
// that could not be stored must go with it.

// eagerly runs a test in a lab whose queue decides each command as it comes.
func eagerly(t *testing.T, test func(*testing.T, *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, bench: &bench{Store: memory.New()}, budget: eager}
		l.open()
		l.start()
		test(t, l)
		l.stop()
	})
}

func TestDecidesWhileARoundIsStored(t *testing.T) {
	t.Parallel()
	eagerly(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		l.submit(job.Spec{})
		a := l.lease(w)
		l.overlapped(
			func() { l.submit(job.Spec{}) },
			func() {
				errs, err := l.Heartbeat(t.Context(), queue.Beat{Lease: a.Lease})
				if err = errors.Join(append(errs, err)...); err != nil {
					t.Error(err)
				}
				select {
				case l.gate <- struct{}{}: // the round is still being stored, and goes on now
				default:
					t.Error("the heartbeat was answered once the round was stored")
				}
			},
		)
	})
}

func TestNobodyIsToldBeforeBothRoundsAreStored(t *testing.T) {
	t.Parallel()
	eagerly(t, func(t *testing.T, l *lab) {
		ctx := queue.WithRequest(t.Context(), l.NewID())
		l.gate = make(chan struct{})
		var told atomic.Int32
		var ids [4]job.ID
		submit := func(ctx context.Context, i int, s job.Spec) func() {
			s.Kind = "k"
			return func() {
				r, err := l.Submit(ctx, queue.Submission{Jobs: []job.Spec{s}})
				l.check(err)
				if err == nil {
					ids[i] = r.Jobs[0].ID
				}
				told.Add(1)
			}
		}
		first := l.NewID()
		all := l.inOrder([]func(){
			submit(ctx, 0, job.Spec{ID: first, Name: "first"}),
			submit(ctx, 1, job.Spec{ID: first, Name: "first"}), // the same once more
			submit(t.Context(), 2, job.Spec{Name: "second", Needs: []job.Need{{Job: first}}}),
			func() {
				if err := l.CancelJob(t.Context(), first, job.ID{}, false, ""); !errors.As(err, new(*job.NeededError)) {
					t.Errorf("the cancel of what is needed was told %v", err)
				}
				told.Add(1)
			},
		})
		for i, want := range []int32{0, 1, 4} {
			if n := told.Load(); n != want || l.Round() != uint64(i) {
				t.Errorf("%d were told with %d rounds stored, want %d with %d", n, l.Round(), want, i)
			}
			if i < 2 {
				l.gate <- struct{}{}
				synctest.Wait()
			}
		}
		all.Wait()
		if ids[0] != first || ids[1] != first {
			t.Errorf("the request and its repeat made %s and %s", ids[0], ids[1])
		}
	})
}

func TestWhatRestsOnALostRoundIsLostWithIt(t *testing.T) {
	t.Parallel()
	eagerly(t, func(t *testing.T, l *lab) {
		broken := errors.New("broken")
		l.commit = func(*queue.Batch) error { return broken }
		first, second := l.NewID(), l.NewID()
		var errs [3]error
		submit := func(i int, s job.Spec) func() {
			s.Kind = "k"
			return func() { _, errs[i] = l.Submit(t.Context(), queue.Submission{Jobs: []job.Spec{s}}) }
		}
		l.overlapped(
			submit(0, job.Spec{ID: first}),
			submit(1, job.Spec{ID: second, Needs: []job.Need{{Job: first}}}),
			func() { errs[2] = l.CancelJob(t.Context(), second, job.ID{}, false, "") },
		)
		for i, err := range errs {
			if !errors.As(err, new(*queue.RetryError)) || !errors.Is(err, broken) {
				t.Errorf("command %d was told %v", i, err)
			}
		}
		l.commit = nil
		l.submit(job.Spec{ID: first})
		recs, err := l.Store.Jobs(t.Context(), queue.JobFilter{})
		l.must(err)
		if len(recs) != 1 || recs[0].Spec.ID != first {
			t.Errorf("%d jobs are stored, want the one that was sent again", len(recs))
		}
	})
}

func TestWorkerIsNotHandedWhatIsNotStored(t *testing.T) {
	t.Parallel()
	eagerly(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 4)
		var got []queue.Assignment
		var handed atomic.Bool
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			var err error
			got, err = l.Lease(t.Context(), w.Name, w.Session, 3, 0)
			l.check(err)
			handed.Store(true)
		}()
		synctest.Wait()
		l.gate = make(chan struct{})
		all := l.inOrder([]func(){func() { l.submit(job.Spec{}) }, func() { l.submit(job.Spec{}) }})
		if handed.Load() {
			t.Error("the worker was handed a job whose start was not stored")
		}
		l.gate <- struct{}{}
		<-asked
		if len(got) != 1 {
			t.Errorf("the worker was handed %d jobs, of which one is stored", len(got))
		}
		close(l.gate)
		all.Wait()
		if a := l.lease(w); a.Lease.Job == got[0].Lease.Job {
			t.Error("it was handed the same once more")
		}
	})
}

func TestWhoLooksSeesWhatIsStored(t *testing.T) {
	t.Parallel()
	eagerly(t, func(t *testing.T, l *lab) {
		looked := 0
		look := func() {
			l.check(l.Inspect(t.Context(), func(m *job.Machine, _ *sched.Scheduler) {
				looked = m.Len()
				if l.Round() != uint64(looked) {
					t.Errorf("%d jobs are seen after round %d", m.Len(), l.Round())
				}
			}))
		}
		submit := func() { l.submit(job.Spec{}) }
		l.gate = make(chan struct{})
		all := l.inOrder([]func(){submit, look})
		l.gate <- struct{}{}
		synctest.Wait()
		if looked != 1 {
			t.Errorf("%d jobs are seen, want one", looked)
		}
		submit2 := l.inOrder([]func(){submit, look, submit})
		l.gate <- struct{}{} // the look is of the round that comes now
		synctest.Wait()
		l.inOrder([]func(){submit})
		close(l.gate)
		all.Wait()
		submit2.Wait()
		synctest.Wait()
	})
}

func TestTwoSessionsInTwoRoundsOfWhichNoneIsStored(t *testing.T) {
	t.Parallel()
	eagerly(t, func(t *testing.T, l *lab) {
		var errs [2]error
		register := func(i int) func() {
			w := job.Worker{Name: "w", Channels: []string{""}, Kinds: []string{"k"}, Slots: 1, Session: l.NewID()}
			return func() { errs[i] = l.Register(t.Context(), w) }
		}
		l.overlapped(register(0), register(1))
		if errs[0] != nil || !errors.Is(errs[1], job.ErrWorkerLive) {
			t.Errorf("the sessions were told %v", errs)
		}
	})
}

// What was taken before the queue closes gets a true answer.
func TestCloseStoresWhatWasTaken(t *testing.T) {
	t.Parallel()
	eagerly(t, func(t *testing.T, l *lab) {
		l.gate = make(chan struct{})
		all := l.inOrder([]func(){func() { l.submit(job.Spec{}) }, func() { l.submit(job.Spec{}) }})
		l.cancel()
		synctest.Wait()
		close(l.gate)
		all.Wait()
		l.check(<-l.done)
		recs, err := l.Store.Jobs(t.Context(), queue.JobFilter{})
		l.must(err)
		if len(recs) != 2 {
			t.Errorf("%d jobs are stored", len(recs))
		}
		l.gate = nil
		l.open()
		l.start()
	})
}

// What falls due while the store does not answer is seen to as soon as it does, and the owner does not spin meanwhile.
func TestLeaseThatEndsWhileTheStoreHangs(t *testing.T) {
	t.Parallel()
	eagerly(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		j := l.submit(job.Spec{})
		l.lease(w)
		ttl := job.DefaultChannel("").TTL
		l.gate = make(chan struct{})
		<-time.After(ttl - time.Second)
		all := l.inOrder([]func(){func() { l.submit(job.Spec{}) }})
		<-time.After(2 * time.Second)
		close(l.gate)
		all.Wait()
		synctest.Wait()
		if r := l.record(j.ID); r.Running || r.Tally.Attempts != 1 {
			t.Errorf("the attempt whose lease ended runs: %t, attempts %d", r.Running, r.Tally.Attempts)
		}
	})
}
