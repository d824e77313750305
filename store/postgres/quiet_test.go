package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
)

// Q18 (Hatchet #2538: idle polling burns processor time): with workers that wait and jobs that none of them can run, an owner asks the
// server for nothing, for however long.
func TestQ18AnIdleQueueAsksForNothing(t *testing.T) {
	t.Parallel()
	p := &place{address: database(t)}
	synctest.Test(t, func(t *testing.T) {
		s := p.Open(t).(*postgres.Store)
		q, err := queue.Open(queue.Config{Store: s, History: s})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ran, leased := make(chan error, 1), make(chan error, 1)
		go func() { ran <- q.Run(ctx) }()
		w := job.Worker{Name: "w", Channels: []string{"main"}, Kinds: []string{"test"}, Slots: 1, Session: q.NewID()}
		if err := q.Register(ctx, w); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Submit(ctx, queue.Submission{Jobs: []job.Spec{{Channel: "main", Kind: "another"}, {Channel: "main", Kind: "test", System: "of no worker"}}}); err != nil {
			t.Fatal(err)
		}
		go func() { _, err := q.Lease(ctx, w.Name, w.Session, 1, 0); leased <- err }()
		<-time.After(time.Second)
		before := postgres.Exchanges(s)
		<-time.After(10 * time.Minute)
		if n := postgres.Exchanges(s) - before; n > 0 {
			t.Errorf("in ten minutes without anything to do it asked the server %d times", n)
		}
		stop()
		<-leased
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Q19 (graphile #552: each notification takes a lock of the whole server at its commit) and Q21 (Oban #791: one of more than 8000 bytes fails
// its transaction): there is one a round, of the round's number alone, whatever is in the round.
func TestQ19Q21OneSmallNotificationARound(t *testing.T) {
	t.Parallel()
	address := database(t)
	s, err := postgres.Open(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // its database goes away
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
	if _, err := c.Exec(t.Context(), "LISTEN headrace"); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for n := uint64(1); n <= 3; n++ {
		b := &queue.Batch{Number: n}
		for i := range 100 {
			seq := int64(n)*100 + int64(i)
			spec := job.Spec{ID: pastID('q', int(seq)), Channel: "main", Kind: "test", Name: strings.Repeat("n", 100), Args: make([]byte, 10_000)}
			b.Changes = append(b.Changes, job.JobAdded{Record: job.Record{Seq: seq, Spec: spec}})
		}
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprint(n))
	}
	const last = "the last"
	run(t, address, "SELECT pg_notify('headrace', $1)", last)
	for {
		n, err := c.WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n.Payload == last {
			break
		}
		got = append(got, n.Payload)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("notified of %q, want %q", got, want)
	}
}

// Q22 (Oban #985: a trigger costs each insert, also where nobody uses what it does): there are none, and no rules either.
func TestQ22NothingIsDoneBehindAWrite(t *testing.T) {
	t.Parallel()
	const hidden = `SELECT FROM pg_class c WHERE relnamespace = 'headrace'::regnamespace AND (relhastriggers OR relhasrules)`
	if n := run(t, database(t), hidden); n != 0 {
		t.Errorf("%d tables have triggers or rules", n)
	}
}
