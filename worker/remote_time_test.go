package worker

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// wire carries calls to a farm without a network, so that time may be virtual. It can be cut.
type wire struct {
	farm  *farm
	down  atomic.Bool
	calls atomic.Int64
	all   sync.WaitGroup
	// lose, if not nil, says of an answer whether it never comes; the call then waits for its end.
	lose func(answer []byte) bool
	slow atomic.Bool // each call takes a while
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.calls.Add(1)
	if w.down.Load() {
		return nil, errors.New("no route")
	}
	if w.slow.Load() {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	recorder, done := httptest.NewRecorder(), make(chan struct{})
	w.all.Go(func() {
		defer close(done)
		w.farm.ServeHTTP(recorder, r)
	})
	select {
	case <-done:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if w.down.Load() {
		return nil, errors.New("cut off")
	}
	if w.lose != nil && w.lose(recorder.Body.Bytes()) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return recorder.Result(), nil
}

// remoteAt starts a Runtime that speaks over a wire, with a handler for the kind k. It ends when stop is called.
func remoteAt(t *testing.T, f *farm, w *wire, work Handler) (stop func()) {
	t.Helper()
	home, err := OpenHome(t.TempDir(), "w")
	if err != nil {
		t.Fatal(err)
	}
	client := caller(t, "http://farm")
	client.HTTP.Transport = w
	remote := NewRemote(RemoteConfig{Client: client, Home: home})
	r := &Runtime{
		Source: remote, Handlers: map[string]Handler{"k": work}, Farewell: farewell,
		Worker: job.Worker{Name: "w", Channels: []string{""}, Slots: 2, Session: freshID()},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := remote.Run(context.Background()); err != nil {
			t.Error(err)
		}
	})
	all.Go(func() {
		if err := r.Run(ctx, ctx); err != nil {
			t.Error(err)
		}
	})
	return func() {
		cancel()
		all.Wait()
		w.all.Wait()
		if err := home.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A worker that cannot reach its server works on until the lease and the grace are over, and then stops; when the server is back, it works
// again, and what it says of the lost attempt does no harm.
func TestRemoteStopsItsAttemptsWhenItIsAwayTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(t)
		w := &wire{farm: f}
		began := make(chan time.Time, 8)
		stopped := make(chan time.Time, 8)
		stop := remoteAt(t, f, w, func(ctx context.Context, a *Attempt) job.Report {
			began <- time.Now()
			if a.Lease.Attempt > 1 {
				return job.Report{Outcome: job.Succeeded}
			}
			<-ctx.Done()
			stopped <- time.Now()
			return job.Report{Outcome: job.Cancelled}
		})
		id := submit(t, f.queue, job.Spec{Kind: "k"}, job.Limits{})
		<-began
		time.Sleep(10 * time.Minute) // It is renewed all the while.
		cut := time.Now()
		w.down.Store(true)
		before := w.calls.Load()
		away := (<-stopped).Sub(cut)
		if least, most := 2*job.DefaultTTL-job.DefaultTTL/3, 3*job.DefaultTTL; away < least || away > most {
			t.Errorf("it stopped after %v; want %v to %v", away, least, most)
		}
		// It asked again and again, but no more often than pauses of half the longest allow.
		if n := w.calls.Load() - before; n < 10 || n > int64(away/(longestPause/2))+20 {
			t.Errorf("%d calls in %v", n, away)
		}
		w.down.Store(false)
		rec, err := f.queue.AwaitJob(t.Context(), id)
		if err != nil || rec.End.Outcome != job.Succeeded || rec.Tally.Attempts != 2 || rec.Tally.Losses != 1 {
			t.Errorf("%+v, tally %+v, %v", rec.End, rec.Tally, err)
		}
		stop()
	})
}

// One that is away for less goes on as if nothing had been.
func TestRemoteIsAwayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(t)
		w := &wire{farm: f}
		began, let := make(chan struct{}, 8), make(chan struct{})
		stop := remoteAt(t, f, w, func(ctx context.Context, _ *Attempt) job.Report {
			began <- struct{}{}
			select {
			case <-let:
				return job.Report{Outcome: job.Succeeded}
			case <-ctx.Done():
				return job.Report{Outcome: job.Cancelled}
			}
		})
		id := submit(t, f.queue, job.Spec{Kind: "k"}, job.Limits{})
		<-began
		for range 5 {
			w.down.Store(true)
			time.Sleep(50 * time.Second)
			w.down.Store(false)
			time.Sleep(20 * time.Second)
		}
		close(let)
		rec, err := f.queue.AwaitJob(t.Context(), id)
		if err != nil || rec.End.Outcome != job.Succeeded || rec.Tally.Attempts != 1 {
			t.Errorf("%+v, tally %+v, %v", rec.End, rec.Tally, err)
		}
		stop()
	})
}

// A worker that has nothing more to tell ends, also if its server ended just before.
func TestRemoteEndsWhenTheServerHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(t)
		w := &wire{farm: f}
		stop := remoteAt(t, f, w, func(context.Context, *Attempt) job.Report { return job.Report{Outcome: job.Succeeded} })
		id := submit(t, f.queue, job.Spec{Kind: "k"}, job.Limits{})
		if rec, err := f.queue.AwaitJob(t.Context(), id); err != nil || rec.End.Outcome != job.Succeeded {
			t.Fatalf("%+v, %v", rec.End, err)
		}
		time.Sleep(time.Minute)
		w.down.Store(true)
		began := time.Now()
		stop()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it ended after %v", took)
		}
	})
}

// A worker is told to end while the answer that starts a job is on its way: it asks once more before it signs off, hears of the job, and hands
// it back. Else the job would wait for a lease of which nobody knows, and be charged for it.
func TestRemoteThatEndsHandsBackWhatItHasNotHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(t)
		var lost atomic.Int64
		w := &wire{farm: f, lose: func(answer []byte) bool {
			return bytes.Contains(answer, []byte(`"start":[`)) && lost.Add(1) == 1
		}}
		stop := remoteAt(t, f, w, func(context.Context, *Attempt) job.Report { return job.Report{Outcome: job.Succeeded} })
		synctest.Wait()
		id := submit(t, f.queue, job.Spec{Kind: "k"}, job.Limits{})
		synctest.Wait()
		if lost.Load() != 1 {
			t.Fatalf("%d answers were lost, want that with the start", lost.Load())
		}
		w.slow.Store(true) // so that it has to wait for what it asks
		stop()
		if held, err := f.queue.LeaseOf(t.Context(), id); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("the job is held by %+v, %v", held, err)
		}
		attempts, err := f.store.Attempts(t.Context(), id)
		if err != nil || len(attempts) != 1 || attempts[0].Detail != job.HandedBack {
			t.Errorf("its attempts are %+v, %v; want one that was handed back", attempts, err)
		}
	})
}

// A server that holds no call, as one that is about to end, is not flooded.
func TestRemoteDoesNotFloodAServerThatHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(t)
		w := &wire{farm: f}
		stop := remoteAt(t, f, w, func(context.Context, *Attempt) job.Report { return job.Report{Outcome: job.Succeeded} })
		id := submit(t, f.queue, job.Spec{Kind: "k"}, job.Limits{})
		if _, err := f.queue.AwaitJob(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		f.closing()
		before := w.calls.Load()
		time.Sleep(time.Minute)
		if n := w.calls.Load() - before; n > 60 {
			t.Errorf("%d calls in a minute", n)
		}
		stop()
	})
}

// What the Remote relies on in the answers: an older one than was heeded is disregarded, a start that is known is not taken again, and of
// two attempts of one job the older is to stop.
func TestRemoteDisregardsWhatIsOutOfDate(t *testing.T) {
	t.Parallel()
	home, err := OpenHome(t.TempDir(), "w")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = home.Close() })
	r := NewRemote(RemoteConfig{Client: caller(t, "http://farm"), Home: home})
	r.leasing, r.room = true, 4
	id := freshID()
	start := func(attempt int32) api.Start {
		return api.Start{Lease: api.Lease{Job: id, Attempt: attempt, Token: freshID().String()}, Kind: "k", TTL: 60}
	}
	first, second := start(1), start(2)
	r.heed(2, &api.SyncReply{Start: []api.Start{first}})
	r.heed(1, &api.SyncReply{Stop: []api.Stop{{Job: id, Attempt: 1}}})
	r.heed(3, &api.SyncReply{Start: []api.Start{first}})
	if len(r.parked) != 1 || r.parked[0].stopping {
		t.Fatalf("parked %d, %+v", len(r.parked), r.parked)
	}
	r.heed(4, &api.SyncReply{Superseded: true, Start: []api.Start{second}})
	if len(r.parked) != 1 {
		t.Error("a superseded answer was heeded")
	}
	r.heed(5, &api.SyncReply{Start: []api.Start{second}})
	if len(r.parked) != 2 || !r.parked[0].stopping || r.parked[1].stopping {
		t.Fatalf("parked %+v", r.parked)
	}
	s, _ := r.statement(0)
	if len(s.Running) != 1 || s.Running[0].Attempt != 2 || s.Want != 2 {
		t.Errorf("stated %+v, want %d", s.Running, s.Want)
	}
	for i := range r.parked {
		r.ended(&job.Report{Lease: r.parked[i].Lease, Outcome: job.Aborted})
	}
	if s, news := r.statement(0); len(s.Finished) != 1 || s.Finished[0].Attempt != 1 || news == r.news {
		t.Errorf("stated %+v; want the older, and that there is more", s.Finished)
	}
	r.heed(8, &api.SyncReply{Acknowledged: []api.Acknowledged{{Job: id, Attempt: 1, Problem: api.ProblemOf(job.ErrLeaseLost)}}})
	if s, news := r.statement(0); len(s.Finished) != 1 || s.Finished[0].Attempt != 2 || news != r.news {
		t.Errorf("stated %+v; want the newer, and no more", s.Finished)
	}
}

// Without a Lease that waits, nothing is wanted, and what is given all the same is handed back.
func TestRemoteHandsBackWhatIsNotTaken(t *testing.T) {
	t.Parallel()
	home, err := OpenHome(t.TempDir(), "w")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = home.Close() })
	r := NewRemote(RemoteConfig{Client: caller(t, "http://farm"), Home: home})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := r.Lease(ctx, "w", freshID(), 1, 0); len(got) > 0 || !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v", got, err)
	}
	start := api.Start{Lease: api.Lease{Job: freshID(), Attempt: 1, Token: freshID().String()}, Kind: "k", TTL: 60}
	r.closed()
	r.heed(1, &api.SyncReply{Start: []api.Start{start}})
	s, _ := r.statement(0)
	if len(s.Finished) != 1 || s.Finished[0].Detail != job.HandedBack.String() || s.Want != 0 {
		t.Errorf("stated %+v, want %d", s.Finished, s.Want)
	}
}

// Errors are for good, or not.
func TestFatalErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err          error
		first, later bool
	}{
		{&queue.RetryError{Cause: errors.New("x")}, false, false},
		{api.ProblemOf(&queue.RetryError{Cause: errors.New("x")}), false, false},
		{api.ProblemOf(job.ErrWorkerLive), true, true},
		{api.ProblemOf(api.ErrUnauthorized), true, true},
		{api.ProblemOf(api.ErrForbidden), true, true},
		{api.ProblemOf(api.ErrVersion), true, true},
		{api.ProblemOf(job.ErrSignedOff), false, false},
		{api.ProblemOf(job.ErrNotFound), false, false},
		{api.ProblemOf(api.ErrInternal), false, false},
		{api.ProblemOf(api.ErrTooMany), false, false},
		{api.Invalid("body.worker.slots", "want less"), true, false},
		{api.Plain(http.StatusNotFound, "who?"), true, false},
		{context.DeadlineExceeded, false, false},
	} {
		if first, later := fatal(tt.err, false), fatal(tt.err, true); first != tt.first || later != tt.later {
			t.Errorf("%v: for good %v at first, %v later; want %v, %v", tt.err, first, later, tt.first, tt.later)
		}
	}
}
