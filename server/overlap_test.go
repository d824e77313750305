package server_test

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/server"
	"github.com/headrace/headrace/store/memory"
)

// slow is a store that takes its time to store a start.
type slow struct {
	*memory.Store
	at, let chan struct{} // closed when a start is to be stored, and when it may be
	once    sync.Once
}

// Commit implements queue.Store.
func (s *slow) Commit(ctx context.Context, b *queue.Batch) error {
	for _, c := range b.Changes {
		if _, ok := c.(job.JobStarted); ok {
			s.once.Do(func() { close(s.at) })
			<-s.let
		}
	}
	return s.Store.Commit(ctx, b)
}

// A call is answered after those of its session that came before it have done what they do: so it tells of all that these were given. Else a
// worker which has died, and says by its next process that it is over, would be thought to have nothing.
func TestCallTellsOfWhatAnEarlierOneIsJustGiven(t *testing.T) {
	t.Parallel()
	store := &slow{Store: memory.New(), at: make(chan struct{}), let: make(chan struct{})}
	q, err := queue.Open(queue.Config{Store: store, History: store})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{Queue: q, History: store, Failures: store, Open: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := q.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	web := httptest.NewServer(s.Handler())
	defer func() {
		s.Close()
		web.Close()
		cancel()
		all.Wait()
	}()
	if _, err := q.Workers(ctx); err != nil { // It answers once it has loaded.
		t.Fatal(err)
	}
	c, err := api.NewClient(web.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	w := &syncer{lab: &lab{Client: c, t: t}, name: "w", session: newID(), spec: spec(1)}
	w.sync(api.Sync{Number: 1})
	dead, die := context.WithCancel(ctx)
	defer die()
	all.Go(func() {
		_, _ = c.Sync(dead, "w", &api.Sync{Version: api.ProtocolVersion, Session: w.session, Number: 2, Want: 1, WaitSeconds: 20}) // Its caller is dying.
	})
	submitted := make(chan struct{})
	all.Go(func() {
		defer close(submitted)
		if _, err := c.Submit(ctx, &api.Submission{BuildSpec: api.BuildSpec{Name: "b"}, Jobs: []api.JobSpec{{Name: "j"}}}); err != nil {
			t.Errorf("submit: %v", err)
		}
	})
	<-store.at
	die()
	told := make(chan api.SyncReply, 1)
	all.Go(func() { told <- w.sync(api.Sync{Number: 3}) })
	var reply api.SyncReply
	select {
	case reply = <-told:
		close(store.let)
	case <-time.After(100 * time.Millisecond): // It waits, as it should.
		close(store.let)
		reply = <-told
	}
	<-submitted
	if len(reply.Start) != 1 {
		t.Errorf("told %+v, want what the call before was given", reply)
	}
}
