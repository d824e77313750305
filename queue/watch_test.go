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

// A commit happened, and its owner could not learn that before it stepped down: whoever watches is told by the next.
func TestWatchIsToldAfterTheOwnerSteppedDown(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		l.worker("w", 1)
		seen := make(chan uint64, 10)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		from := l.Round()
		go func() {
			ended <- l.Watch(ctx, from, func(r queue.Round) error { seen <- r.Number; return nil })
		}()
		synctest.Wait()
		l.ask = func() error { return errHiccup }
		l.committed = func(*queue.Batch) error { return errHiccup }
		_, err := l.Submit(t.Context(), queue.Submission{Jobs: []job.Spec{{Kind: "k"}}})
		var again *queue.RetryError
		if !errors.As(err, &again) {
			t.Errorf("the submission was told %v, want a *RetryError", err)
		}
		l.ask, l.committed = nil, nil
		<-time.After(time.Minute) // to load anew
		synctest.Wait()
		if len(seen) == 0 {
			t.Errorf("the store is at round %d, and who watched from %d saw nothing", l.Round(), from)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// Many stand at the same place: the store is read once for all of them, whoever of them gives up meanwhile.
func TestWatchersOfOnePlaceShareWhatIsRead(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		const watchers, rounds = 50, 5
		ctx, cancel := context.WithCancel(t.Context())
		from := l.Round()
		ends := make(chan error, watchers)
		seen := make([][]uint64, watchers)
		for i := range watchers {
			of, give := ctx, func() {}
			if i%10 == 0 {
				of, give = context.WithCancel(ctx)
			}
			go func() {
				ends <- l.Watch(of, from, func(r queue.Round) error {
					seen[i] = append(seen[i], r.Number)
					if len(seen[i]) == 2 {
						give()
					}
					return nil
				})
			}()
		}
		synctest.Wait()
		for range rounds {
			if _, err := l.Submit(t.Context(), queue.Submission{Jobs: kindK(1)}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		// One comes late, and begins where the others began.
		var late []uint64
		enough := errors.New("enough")
		err := l.Watch(ctx, from, func(r queue.Round) error {
			if late = append(late, r.Number); len(late) == rounds {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || late[0] != from+1 || late[rounds-1] != from+rounds {
			t.Errorf("who came late saw %v after %d, and was told %v", late, from, err)
		}
		cancel()
		for range watchers {
			if err := <-ends; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		for i, list := range seen {
			for k, n := range list {
				if n != from+uint64(k)+1 {
					t.Errorf("watcher %d saw rounds %v after %d", i, list, from)
					break
				}
			}
			if want := rounds; i%10 != 0 && len(list) != want || len(list) < 2 {
				t.Errorf("watcher %d saw %d rounds, want %d", i, len(list), want)
			}
		}
	})
}

func TestWatchFromAPlaceThatIsNotThere(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		l.worker("w", 1)
		err := l.Watch(t.Context(), l.Round()+1, func(queue.Round) error { return nil })
		if !errors.Is(err, queue.ErrFeedAhead) {
			t.Errorf("told %v, want %v", err, queue.ErrFeedAhead)
		}
		// A watcher may begin before the owner has loaded: its place counts then.
		from := l.Round()
		l.stop()
		l.open()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Watch(ctx, from, func(queue.Round) error { return nil }) }()
		synctest.Wait()
		l.start()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a watcher from before the load was told %v", err)
		}
	})
}

// Leases are bounded in a round, and the rest follows in the next without anything else happening.
func TestManyLeasesTakeMoreRoundsThanOne(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		const count = 9000
		w := l.worker("w", 2*count)
		if _, err := l.Submit(t.Context(), queue.Submission{Jobs: kindK(count)}); err != nil {
			t.Fatal(err)
		}
		most, leased := 0, 0
		between := func(f func()) {
			l.must(l.Inspect(t.Context(), func(*job.Machine, *sched.Scheduler) { f() }))
		}
		between(func() {
			l.commit = func(b *queue.Batch) error {
				most = max(most, len(b.Changes))
				return nil
			}
		})
		got := make(chan int, 3)
		for range 3 {
			go func() {
				list, err := l.Lease(t.Context(), w.Name, w.Session, count, 0)
				l.check(err)
				got <- len(list)
			}()
		}
		for range 3 {
			leased += <-got
		}
		between(func() { l.commit = nil })
		if leased != count || most > 5000 {
			t.Errorf("%d leased, want %d; a round of %d changes", leased, count, most)
		}
	})
}

func kindK(n int) []job.Spec {
	specs := make([]job.Spec, n)
	for i := range specs {
		specs[i].Kind = "k"
	}
	return specs
}

// A round is stored after a watcher has read the feed and before it waits, and another while it joins: it sees both.
func TestWatchThatJoinsInTheMiddleOfARoundMissesNothing(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		l.worker("w", 1)
		from := l.Round()
		store, stored := make(chan struct{}), make(chan struct{})
		l.commit = func(*queue.Batch) error {
			stored <- struct{}{}
			<-store
			return nil
		}
		asked := make(chan struct{}, 2)
		ask := func() { l.submit(job.Spec{}); asked <- struct{}{} }
		go ask()
		<-stored // a round is under way
		seen := make(chan uint64, 10)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		reads := 0
		l.fed = func() {
			if reads++; reads == 1 {
				store <- struct{}{} // it is stored, and told once the owner is at its next round
				<-asked
				l.check(l.Inspect(ctx, func(*job.Machine, *sched.Scheduler) {}))
			}
		}
		go func() {
			ended <- l.Watch(ctx, from, func(r queue.Round) error { seen <- r.Number; return nil })
		}()
		synctest.Wait()
		if len(seen) != 1 {
			t.Errorf("the watcher saw %d rounds of 1", len(seen))
		}
		go ask()
		<-stored
		synctest.Wait()
		store <- struct{}{}
		synctest.Wait()
		for want := from + 1; want <= from+2; want++ {
			select {
			case n := <-seen:
				if n != want {
					t.Errorf("the watcher saw round %d, want %d", n, want)
				}
			default:
				t.Errorf("the watcher missed round %d", want)
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		l.commit, l.fed = nil, nil
	})
}

// Who waits for a build is answered when that has ended and that is stored, and not when the owner steps down in between.
func TestAwaitBuildIsAnsweredWhenTheEndIsStored(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		w := l.worker("w", 1)
		s := queue.Submission{Build: &job.Build{}, Jobs: []job.Spec{{ID: l.NewID(), Kind: "k"}}}
		s.Refs = []job.Ref{{Job: s.Jobs[0].ID}}
		r, err := l.Submit(t.Context(), s)
		l.must(err)
		a := l.lease(w)
		answers := make(chan job.BuildRecord, 2)
		impatient, giveUp := context.WithCancel(t.Context())
		go func() {
			if _, err := l.AwaitBuild(impatient, r.Build); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		await := func() {
			b, err := l.AwaitBuild(t.Context(), r.Build)
			l.check(err)
			answers <- b
		}
		go await()
		synctest.Wait()
		l.commit = func(*queue.Batch) error { return errHiccup } // until it steps down
		var again *queue.RetryError
		if err := l.succeed(a.Lease); !errors.As(err, &again) {
			t.Errorf("the worker was told %v, want a *RetryError", err)
		}
		l.commit = nil
		<-time.After(time.Minute)
		go await() // while the next owner knows of the build
		synctest.Wait()
		if len(answers) > 0 {
			t.Fatalf("answered %+v, and the end is not stored", <-answers)
		}
		giveUp() // which is nobody else's loss
		synctest.Wait()
		stored := false
		l.committed = func(*queue.Batch) error {
			if len(answers) > 0 {
				t.Error("answered before the end is told")
			}
			stored = true
			return nil
		}
		l.must(l.succeed(a.Lease))
		synctest.Wait()
		l.committed = nil
		if len(answers) != 2 || !stored {
			t.Fatalf("%d of 2 were answered", len(answers))
		}
		for range 2 {
			if b := <-answers; b.Outcome != job.Succeeded {
				t.Errorf("the build ended %s", b.Outcome)
			}
		}
	})
}
