package composer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

// moment is for a call that has to wait until its context ends.
const moment = 20 * time.Millisecond

func TestContractDequeueNilAndEmptyChannels(t *testing.T) {
	onEach(t, func(_ *testing.T, l *lab) {
		ids := []uuid.UUID{l.enqueue("build", "org-1"), l.enqueue("build", "")}
		types, channels := []string{"build"}, []string{"org-1", ""}
		for _, a := range []ask{
			{types: types},
			{types: types, channels: []string{}},
			{channels: channels},
			{channels: channels, types: []string{}},
			{},
			{anywhere: true},
			{anywhere: true, types: []string{}},
		} {
			l.timesOut(moment, a)
		}
		for _, id := range ids {
			l.isState(id, "pending", "")
		}
		l.takes(from("", "build"), ids[1])
		l.takes(from("org-1", "build"), ids[0])
	})
}

func TestContractJobTypes(t *testing.T) {
	parts{"types": typesAreToldApart, "exact": typesAreExact, "canceled": func(t *testing.T, l *lab) {
		one, two := l.enqueue("one", "org-1"), l.enqueue("two", "org-1")
		l.takes(from("org-1", "two"), two)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l.isTimeout(l.dequeueWithin(ctx, from("org-1", "one", "two")))
		l.isTimeout(l.dequeueWithin(ctx, anywhere("one", "two")))
		l.isState(one, "pending", "")
		l.takes(from("org-1", "one"), one)
	}}.run(t)
}

func typesAreToldApart(_ *testing.T, l *lab) {
	one, two := l.enqueue("one", "org-1"), l.enqueue("two", "org-1")
	three := l.enqueue("three", "org-1")
	again := l.enqueue("one", "org-1")
	g := l.takes(from("org-1", "two"), two)
	l.same("what is given out", g, handout{ID: two, Token: g.Token, Type: "two", Args: []byte("null")})
	if s := l.isState(two, "running", ""); s.Type != "two" || s.Channel != "org-1" {
		l.Errorf("it is of type %q in %q", s.Type, s.Channel)
	}
	l.takesNothing(from("org-1", "two"))
	l.finish(two, nil)
	l.takes(from("org-1", "three", "two", "one", "one"), one)
	l.takes(from("org-1", "one", "three"), three)
	l.takes(from("org-1", "one", "three"), again)
	l.takesNothing(from("org-1", "one", "two", "three"))
}

func typesAreExact(_ *testing.T, l *lab) {
	id := l.enqueue("osbuild:x86_64", "org-1")
	l.takesNothing(from("org-1", "osbuild", "osbuild:", "OSBUILD:X86_64", "osbuild:x86_6", "%", "*", ".*", "osbuild:aarch64"))
	l.takesNothing(anywhere("osbuild", "*"))
	l.takes(from("org-1", "osbuild", "osbuild:x86_64"), id)
}

func TestContractMultipleWorkers(t *testing.T) {
	onEach(t, func(_ *testing.T, l *lab) {
		w := l.inserts("org-1", "x86_64")
		waiter, other := l.waits(from("org-1", "octopus")), l.waits(from("org-1", "octopus").by(w.ID))
		l.callsWait(2)
		for range 3 { // whoever else comes is served meanwhile
			id := l.enqueue("clownfish", "org-1")
			g := l.takes(from("org-1", "clownfish"), id)
			if string(g.Args) != "null" {
				l.Errorf("no arguments came back as %q, want null", g.Args)
			}
			l.works("update", l.UpdateJobResult(id, "half"))
			l.RefreshHeartbeat(g.Token)
			l.finish(id, nil)
			l.reports("cancel", l.CancelJob(id), composer.ErrNotRunning)
		}
		l.hasWorkers(w)
		select {
		case g := <-waiter:
			l.Fatalf("who waits for an octopus was given %+v", g)
		case g := <-other:
			l.Fatalf("who waits for an octopus was given %+v", g)
		default:
		}
		ids := []uuid.UUID{l.enqueue("octopus", "org-1"), l.enqueue("octopus", "org-1")}
		one, two := l.served(waiter), l.served(other)
		l.same("what was given out", sorted(one.ID, two.ID), sorted(ids...))
		for _, g := range []handout{one, two} {
			l.same("what was given out", g, handout{ID: g.ID, Token: g.Token, Type: "octopus", Args: []byte("null")})
			l.resolves(g.Token, g.ID)
		}
		l.reports("delete the worker", l.DeleteWorker(w.ID), composer.ErrActiveJobs)
	})
}

func TestContractMultipleWorkersSingleJobType(t *testing.T) {
	parts{"wait": eachWaiterHasItsOwnJob, "order": func(_ *testing.T, l *lab) {
		var ids []uuid.UUID
		for range 20 {
			ids = append(ids, l.enqueue("clownfish", "org-1"))
		}
		one, two := l.inserts("org-1", "x86_64"), l.inserts("org-1", "aarch64")
		for i, id := range ids {
			who := []uuid.UUID{one.ID, two.ID, uuid.Nil, uuid.New()}[i%4]
			l.takes(from("org-1", "clownfish").by(who), id)
		}
	}}.run(t)
}

func eachWaiterHasItsOwnJob(_ *testing.T, l *lab) {
	const many = 5
	var waiters []<-chan answer
	for i := range many {
		a := from("org-1", "clownfish")
		if i%2 == 1 {
			a = a.by(l.inserts("org-1", "x86_64").ID)
		}
		waiters = append(waiters, l.waits(a))
	}
	l.callsWait(many)
	var ids []uuid.UUID
	for range many {
		ids = append(ids, l.enqueue("clownfish", "org-1"))
	}
	l.allServed(waiters, ids)
}

// allServed checks that each of those who wait is given one of the jobs, each job once, and ends them.
func (l *lab) allServed(waiters []<-chan answer, ids []uuid.UUID) {
	l.Helper()
	var got []uuid.UUID
	tokens := map[uuid.UUID]bool{}
	for _, w := range waiters {
		g := l.served(w)
		got = append(got, g.ID)
		tokens[g.Token] = true
		l.resolves(g.Token, g.ID)
	}
	l.same("what was given out", sorted(got...), sorted(ids...))
	if len(tokens) != len(ids) {
		l.Errorf("%d jobs have %d tokens", len(ids), len(tokens))
	}
	for _, id := range ids {
		l.finish(id, "done")
		l.isState(id, "finished", `"done"`)
	}
	l.same("heartbeats", l.Heartbeats(0), []uuid.UUID(nil))
}

func TestContractTimeout(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		w := l.inserts("org-1", "x86_64")
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 { // without a job, and with one
			for _, a := range []ask{from("org-1", "build"), anywhere("build"), from("org-1", "build").by(w.ID), anywhere("build").by(uuid.New())} {
				l.isTimeout(l.dequeueWithin(canceled, a))
				a.types = []string{"other"}
				l.timesOut(moment, a)
			}
			l.enqueue("build", "org-1")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := l.waitsWithin(ctx, from("org-1", "other"))
		l.callsWait(1)
		cancel()
		l.isTimeout(<-ended)
		l.callsWait(0)

		first := l.take(from("org-1", "build"))
		second := l.take(from("org-1", "build"))
		l.same("heartbeats", len(l.Heartbeats(-time.Second)), 2)
		l.isTimeout(l.dequeueByID(canceled, first.ID, w.ID))
		l.ends(second.ID, 1, nil, true)
		l.isTimeout(l.dequeueByID(canceled, second.ID, w.ID))
		l.isState(second.ID, "pending", "")
		l.works("delete a worker who was given nothing", l.DeleteWorker(w.ID))
	})
}

func TestContractDequeueByID(t *testing.T) {
	parts{"basic": jobIsTakenOutOfTurn, "unfinished dependencies": func(_ *testing.T, l *lab) {
		first := l.enqueue("build", "org-1")
		second := l.enqueue("check", "org-1", first)
		l.isNotPending(second)
		l.takeByID(first, uuid.Nil)
		l.isNotPending(second)
		l.finish(first, nil)
		g := l.takeByID(second, uuid.Nil)
		l.same("what is given out", g, handout{ID: second, Token: g.Token, Deps: []uuid.UUID{first}, Type: "check", Args: []byte("null")})
	}, "non-pending": func(t *testing.T, l *lab) {
		id := l.enqueue("build", "org-1")
		token := l.takeByID(id, uuid.Nil).Token
		l.isNotPending(id)
		l.isState(id, "running", "")
		l.resolves(token, id)
		l.finish(id, "done")
		l.isNotPending(id)
		l.isState(id, "finished", `"done"`)
		canceled, failed := l.enqueue("build", "org-1"), l.enqueue("build", "org-1")
		l.works("cancel", l.CancelJob(canceled))
		l.isNotPending(canceled)
		l.works("fail", l.FailJob(failed, nil))
		l.isNotPending(failed)
		for _, id := range []uuid.UUID{uuid.Nil, uuid.New()} {
			g := l.dequeueByID(t.Context(), id, uuid.Nil)
			l.reports("dequeue an unknown job", g.err, composer.ErrNotExist)
			l.isZero(g)
		}
	}}.run(t)
}

// isNotPending checks that a job cannot be dequeued by its id.
func (l *lab) isNotPending(id uuid.UUID) {
	l.Helper()
	for _, who := range []uuid.UUID{uuid.Nil, uuid.New()} {
		g := l.dequeueByID(l.Context(), id, who)
		l.reports("dequeue by id", g.err, composer.ErrNotPending)
		l.isZero(g)
	}
}

func jobIsTakenOutOfTurn(_ *testing.T, l *lab) {
	w := l.inserts("org-1", "x86_64")
	first := l.enqueue("build", "org-1")
	id, err := l.Enqueue("build", parcel{Name: "x"}, nil, "org-2")
	l.works("enqueue", err)
	last := l.enqueue("build", "org-2")
	g := l.takeByID(id, w.ID)
	l.same("what is given out", g, handout{ID: id, Token: g.Token, Type: "build", Args: []byte(`{"name":"x","count":0}`)})
	l.isState(id, "running", "")
	l.resolves(g.Token, id)
	l.silent(0, g.Token)
	l.reports("delete its worker", l.DeleteWorker(w.ID), composer.ErrActiveJobs)
	l.takes(anywhere("build"), first)
	l.takes(anywhere("build"), last)
	l.ends(id, 1, nil, true)
	l.isGone(g.Token)
	l.takeByID(id, w.ID)
	l.ends(id, 1, "done", false)
	l.isState(id, "finished", `"done"`)
	l.takesNothing(anywhere("build"))
}

func TestContractMultipleChannels(t *testing.T) {
	parts{"two single": channelsAreToldApart, "one double": func(_ *testing.T, l *lab) {
		a := ask{types: []string{"build"}, channels: []string{"org-2", "org-1"}}
		var ids []uuid.UUID
		for _, channel := range []string{"org-1", "org-2", "org-1", "org-1", "org-2"} {
			l.enqueue("build", "org-3")
			ids = append(ids, l.enqueue("build", channel))
		}
		for _, id := range ids {
			l.takes(a, id)
		}
		l.takesNothing(a)
		waiter := l.waits(a)
		l.callsWait(1)
		last := l.enqueue("build", "org-1")
		l.same("what was given out", l.served(waiter).ID, last)
	}, "non-existing": func(_ *testing.T, l *lab) {
		ids := []uuid.UUID{l.enqueue("build", "org-1"), l.enqueue("build", "")}
		never := ask{types: []string{"build"}, channels: []string{"org-2", "org", "org-", "ORG-1", "%"}}
		l.timesOut(moment, never)
		l.takesNothing(never)
		waiter := l.waits(from("org-2", "build"))
		l.callsWait(1)
		for _, id := range ids {
			l.isState(id, "pending", "")
		}
		late := l.enqueue("build", "org-2")
		l.same("what was given out", l.served(waiter).ID, late)
		l.takes(from("", "build"), ids[1])
	}}.run(t)
}

func channelsAreToldApart(_ *testing.T, l *lab) {
	one, two := l.waits(from("org-1", "build")), l.waits(from("org-2", "build"))
	l.callsWait(2)
	id := l.enqueue("build", "org-2")
	l.same("what was given out in the second", l.served(two).ID, id)
	l.same("its channel", l.status(id).Channel, "org-2")
	l.callsWait(1)
	id = l.enqueue("build", "org-1")
	l.same("what was given out in the first", l.served(one).ID, id)
	l.same("its channel", l.status(id).Channel, "org-1")
	first, second := l.enqueue("build", "org-1"), l.enqueue("build", "org-2")
	l.takes(from("org-2", "build"), second)
	l.takesNothing(from("org-2", "build"))
	l.takes(from("org-1", "build"), first)
}

func TestContractDequeueAnyChannel(t *testing.T) {
	parts{"three channels": func(_ *testing.T, l *lab) {
		var ids []uuid.UUID
		for _, channel := range []string{"org-2", "", "org-1", "org-2"} {
			ids = append(ids, l.enqueue("build", channel))
		}
		for _, id := range ids {
			g := l.takes(anywhere("build"), id)
			l.same("what is given out", g, handout{ID: id, Token: g.Token, Type: "build", Args: []byte("null")})
			l.resolves(g.Token, id)
		}
	}, "type filter": func(_ *testing.T, l *lab) {
		build, check := l.enqueue("build", "org-1"), l.enqueue("check", "org-2")
		last := l.enqueue("last", "org-1")
		l.takes(anywhere("check"), check)
		l.takesNothing(anywhere("check"))
		l.takes(anywhere("last", "build"), build)
		l.takes(anywhere("last", "build"), last)
	}, "timeout": func(_ *testing.T, l *lab) {
		l.timesOut(moment, anywhere("build"))
		id := l.enqueue("build", "org-1")
		l.timesOut(moment, anywhere("check"))
		l.isState(id, "pending", "")
	}, "no interference": thoseWhoWaitAnywhereTakeTheirOwn}.run(t)
}

func thoseWhoWaitAnywhereTakeTheirOwn(_ *testing.T, l *lab) {
	all, one, other := l.waits(anywhere("check")), l.waits(from("org-1", "build")), l.waits(from("org-2", "check"))
	l.callsWait(3)
	build := l.enqueue("build", "org-1")
	l.same("what was given out in the channel", l.served(one).ID, build)
	l.callsWait(2)
	check := l.enqueue("check", "org-new")
	l.same("what was given out anywhere", l.served(all).ID, check)
	l.callsWait(1)
	check = l.enqueue("check", "org-2")
	l.same("what was given out in the other channel", l.served(other).ID, check)

	first, second := l.enqueue("build", "org-1"), l.enqueue("build", "org-2")
	third := l.enqueue("build", "org-1")
	l.takes(from("org-2", "build"), second)
	l.takes(anywhere("build"), first)
	l.takes(from("org-1", "build"), third)
}

func TestContract100Dequeuers(t *testing.T) {
	parts{"same": func(_ *testing.T, l *lab) {
		l.servesMany(func(int) ask { return from("org-1", "octopus") })
	}, "all of them": func(_ *testing.T, l *lab) {
		l.servesMany(func(i int) ask {
			switch i % 4 {
			case 1:
				return anywhere("octopus")
			case 2:
				return ask{types: []string{"octopus"}, channels: []string{"org-1", fmt.Sprint("own-", i)}}
			case 3:
				return from("org-1", "octopus", fmt.Sprint("own-", i)).by(uuid.New())
			}
			return from("org-1", "octopus")
		})
	}}.run(t)
}

// servesMany has a hundred wait while others go about their business, and then serves them all.
func (l *lab) servesMany(asks func(i int) ask) {
	l.Helper()
	const many = 100
	var waiters []<-chan answer
	for i := range many {
		waiters = append(waiters, l.waits(asks(i)))
	}
	l.callsWait(many)
	for range 5 {
		id := l.enqueue("clownfish", "org-1")
		l.takes(from("org-1", "clownfish"), id)
		l.works("update", l.UpdateJobResult(id, "half"))
		l.isState(id, "running", `"half"`)
		l.finish(id, nil)
	}
	l.callsWait(many)
	var ids []uuid.UUID
	for range many {
		ids = append(ids, l.enqueue("octopus", "org-1"))
	}
	l.allServed(waiters, ids)
}
