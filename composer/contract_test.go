package composer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

// The contract tests, contract_*_test.go, hold the queue to what the users of composer's interface rely on: for each group of upstream's
// suite there is a test of that name, with what the groups assert and what the interface says beyond that.

// parts are those of a group, each run on each backend with an empty queue of its own.
type parts map[string]func(t *testing.T, l *lab)

func (p parts) run(t *testing.T) {
	t.Parallel()
	for name, test := range p {
		t.Run(name, func(t *testing.T) { onEach(t, test) })
	}
}

// ask is what somebody asks Dequeue for; anywhere: DequeueAnyChannel.
type ask struct {
	worker          uuid.UUID
	types, channels []string
	anywhere        bool
}

// from asks for types in a channel, and anywhere in all of them.
func from(channel string, types ...string) ask { return ask{types: types, channels: []string{channel}} }

func anywhere(types ...string) ask { return ask{types: types, anywhere: true} }

// by is the same in the name of a worker.
func (a ask) by(worker uuid.UUID) ask {
	a.worker = worker
	return a
}

// handout is what somebody is given who asks.
type handout struct {
	ID, Token uuid.UUID
	Deps      []uuid.UUID
	Type      string
	Args      json.RawMessage
}

// answer is a job, or why there is none.
type answer struct {
	handout
	err error
}

func (l *lab) dequeueWithin(ctx context.Context, a ask) (g answer) {
	if a.anywhere {
		g.ID, g.Token, g.Deps, g.Type, g.Args, g.err = l.DequeueAnyChannel(ctx, a.worker, a.types)
	} else {
		g.ID, g.Token, g.Deps, g.Type, g.Args, g.err = l.Dequeue(ctx, a.worker, a.types, a.channels)
	}
	return g
}

// take gives who asks the next job, which must come.
func (l *lab) take(a ask) handout {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), soon)
	defer cancel()
	g := l.dequeueWithin(ctx, a)
	if g.err != nil {
		l.Fatalf("dequeue %q from %q: %v", a.types, a.channels, g.err)
	}
	return g.handout
}

// takes is take of a certain job.
func (l *lab) takes(a ask, want uuid.UUID) handout {
	l.Helper()
	g := l.take(a)
	if g.ID != want {
		l.Fatalf("dequeued %s of type %q, want %s", g.ID, g.Type, want)
	}
	return g
}

// takeByID gives a worker a certain job, which must be pending.
func (l *lab) takeByID(id, worker uuid.UUID) handout {
	l.Helper()
	g := l.dequeueByID(l.Context(), id, worker)
	if g.err != nil {
		l.Fatalf("dequeue %s: %v", id, g.err)
	}
	return g.handout
}

func (l *lab) dequeueByID(ctx context.Context, id, worker uuid.UUID) (g answer) {
	g.Token, g.Deps, g.Type, g.Args, g.err = l.DequeueByID(ctx, id, worker)
	if g.err == nil {
		g.ID = id
	}
	return g
}

// takesNothing checks that there is no job for who asks. As jobs go by age, one that was there would come before one of an own type that is
// enqueued now.
func (l *lab) takesNothing(a ask) {
	l.Helper()
	const own = "nothing-else"
	last := l.enqueue(own, own)
	a.types = append(slices.Clone(a.types), own)
	if !a.anywhere {
		a.channels = append(slices.Clone(a.channels), own)
	}
	if g := l.take(a); g.ID != last {
		l.Fatalf("dequeued %s of type %q, want nothing", g.ID, g.Type)
	}
	l.finish(last, nil)
	if err := l.DeleteJob(l.Context(), last); err != nil {
		l.Fatal(err)
	}
}

// timesOut checks that there is no job for who asks until a context with this time has ended.
func (l *lab) timesOut(within time.Duration, a ask) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), within)
	defer cancel()
	l.isTimeout(l.dequeueWithin(ctx, a))
	if ctx.Err() == nil {
		l.Error("it timed out before its context did")
	}
}

// isTimeout checks that nothing at all came before a context ended.
func (l *lab) isTimeout(g answer) {
	l.Helper()
	l.reports("dequeue", g.err, composer.ErrDequeueTimeout)
	l.isZero(g)
}

// isZero checks that an error comes without anything of a job.
func (l *lab) isZero(g answer) {
	l.Helper()
	if g.ID != uuid.Nil || g.Token != uuid.Nil || g.Deps != nil || g.Type != "" || g.Args != nil {
		l.Errorf("an error came with %+v", g)
	}
}

// waits has somebody ask, in the background, until there is a job or the test ends.
func (l *lab) waits(a ask) <-chan answer { return l.waitsWithin(l.Context(), a) }

// waitsWithin is waits with a context that may end before the test does.
func (l *lab) waitsWithin(ctx context.Context, a ask) <-chan answer {
	c, done := make(chan answer, 1), make(chan struct{})
	go func() {
		defer close(done)
		c <- l.dequeueWithin(ctx, a)
	}()
	l.Cleanup(func() { <-done })
	return c
}

// callsWait waits until so many calls wait for a job.
func (l *lab) callsWait(want int) {
	l.Helper()
	l.comesTo(fmt.Sprintf("%d calls wait for a job", want), func() bool {
		list, err := l.engine.Workers(l.Context())
		if err != nil {
			l.Fatal(err)
		}
		n := 0
		for i := range list {
			n += list[i].Waits
		}
		return n == want
	})
}

// served gives what somebody who waits is given, which must come.
func (l *lab) served(c <-chan answer) handout {
	l.Helper()
	select {
	case g := <-c:
		if g.err != nil {
			l.Fatalf("who waited was told: %v", g.err)
		}
		return g.handout
	case <-time.After(soon):
		l.Fatal("who waited was given nothing")
	}
	panic("unreachable")
}

// comesTo waits for what is going to hold.
func (l *lab) comesTo(what string, holds func() bool) {
	l.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(soon); !holds(); <-tick.C {
		if time.Now().After(end) {
			l.Fatalf("it does not come to this: %s", what)
		}
	}
}

// reports checks what a call reports, by ==, as composer does.
func (l *lab) reports(call string, err, want error) {
	l.Helper()
	if any(err) != any(want) { // not errors.Is: composer does not unwrap
		l.Errorf("%s: %v, want %v", call, err, want)
	}
}

// fails checks that a call reports anything.
func (l *lab) fails(call string, err error) {
	l.Helper()
	if err == nil {
		l.Errorf("%s: it worked, want an error", call)
	}
}

// works checks that a call reports nothing.
func (l *lab) works(call string, err error) {
	l.Helper()
	if err != nil {
		l.Fatalf("%s: %v", call, err)
	}
}

// isState checks where a job is, its result, "" where there must be none, and that its times fit.
func (l *lab) isState(id uuid.UUID, state, result string) status {
	l.Helper()
	s := l.status(id)
	if s.state() != state || s.Result != result {
		l.Errorf("the job is %v; want it %s, result %q", s, state, result)
	}
	started := state == "running" || state == "finished" || state == "canceled" && !s.Started.IsZero()
	finished := state == "finished"
	switch {
	case s.Queued.IsZero() || s.Queued.After(time.Now()):
		l.Errorf("it was queued at %v", s.Queued)
	case started != !s.Started.IsZero() || started && s.Started.Before(s.Queued):
		l.Errorf("it is %s, was queued at %v and started at %v", state, s.Queued, s.Started)
	case finished != !s.Finished.IsZero() || finished && s.Finished.Before(s.Started):
		l.Errorf("it is %s, was started at %v and finished at %v", state, s.Started, s.Finished)
	}
	return s
}

// ends tells RequeueOrFinishJob that the attempt is over, which must be granted.
func (l *lab) ends(id uuid.UUID, maxRetries uint64, result any, requeued bool) {
	l.Helper()
	got, err := l.RequeueOrFinishJob(id, maxRetries, result)
	if err != nil || got != requeued {
		l.Fatalf("requeue or finish: requeued %t, %v; want %t", got, err, requeued)
	}
}

// mayNotEnd checks that RequeueOrFinishJob refuses, whatever it is told.
func (l *lab) mayNotEnd(id uuid.UUID, want error) {
	l.Helper()
	for _, retries := range []uint64{0, 1, 1000} {
		requeued, err := l.RequeueOrFinishJob(id, retries, "late")
		l.reports("requeue or finish", err, want)
		if requeued {
			l.Error("it was requeued in spite of that")
		}
	}
}

// resolves checks that a token is good and stands for a job.
func (l *lab) resolves(token, id uuid.UUID) {
	l.Helper()
	if got, err := l.IdFromToken(token); got != id || err != nil {
		l.Errorf("the token stands for %s, %v; want %s", got, err, id)
	}
}

// isGone checks that a token is good no more.
func (l *lab) isGone(token uuid.UUID) {
	l.Helper()
	id, err := l.IdFromToken(token)
	l.reports("the token", err, composer.ErrNotExist)
	if id != uuid.Nil {
		l.Errorf("the token stands for %s, want nothing", id)
	}
	if list := l.Heartbeats(0); slices.Contains(list, token) {
		l.Error("the token's heartbeat is still looked at")
	}
}

// same checks that two values are equal; nil and empty are.
func (l *lab) same(what string, got, want any) {
	l.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), asText); diff != "" {
		l.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// asText compares and shows JSON as such, not as one byte after another.
var asText = cmp.Transformer("text", func(m json.RawMessage) string { return string(m) })

// sorted gives ids in an order that has no meaning.
func sorted(ids ...uuid.UUID) []uuid.UUID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return ids
}
