package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
)

// listening is an owner, and a reader in front of a network.
func listening(t *testing.T) (*postgres.Store, *postgres.Listener, *pgtest.Proxy) {
	t.Helper()
	address := database(t)
	p, err := pgtest.Shared(t).Proxy()
	if err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := postgres.OpenReadOnly(t.Context(), p.URL(pgtest.Name(address)))
	if err != nil {
		t.Fatal(err)
	}
	l := r.Listen()
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), r.Close(), s.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, l, p
}

func commit(t *testing.T, s *postgres.Store, number uint64) {
	t.Helper()
	if err := s.Commit(t.Context(), &queue.Batch{Number: number}); err != nil {
		t.Fatal(err)
	}
}

func next(t *testing.T, l *postgres.Listener, after, want uint64) {
	t.Helper()
	if n, err := l.Next(t.Context(), after); n != want || err != nil {
		t.Fatalf("after round %d comes %d (%v), want %d", after, n, err, want)
	}
}

func TestListenerHearsOfEachRound(t *testing.T) {
	t.Parallel()
	s, l, p := listening(t)
	commit(t, s, 1)
	commit(t, s, 2)
	next(t, l, 0, 2)
	for n := uint64(2); n < 5; n++ {
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			next(t, l, n, n+1)
		}()
		commit(t, s, n+1)
		<-heard
		p.Cut() // the next one hears on another connection
	}
}

// Q20 (Oban #832, River #1579: a notifier that was dead in silence had jobs wait until a restart): nothing rests on notifications.
// Where none arrives, though the connection lives, the listener finds out for itself.
func TestQ20ListenerWithDeadNotifierGoesOn(t *testing.T) {
	t.Parallel()
	s, l, _ := listening(t)
	commit(t, s, 1)
	next(t, l, 0, 1)
	if err := postgres.Deafen(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	before := postgres.Looks(l)
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		next(t, l, 1, 2)
	}()
	// Once it has looked, only another look can tell it.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for postgres.Looks(l) == before {
		<-tick.C
	}
	commit(t, s, 2)
	<-heard
}

func TestListenerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	_, l, _ := listening(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Next(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
}
