package composer_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

func TestContractCancel(t *testing.T) {
	parts{
		"unknown": func(_ *testing.T, l *lab) {
			l.reports("cancel", l.CancelJob(uuid.Nil), composer.ErrNotExist)
			l.reports("cancel", l.CancelJob(uuid.New()), composer.ErrNotExist)
		},
		"pending": canceledPendingJobNeverRuns, "running": canceledRunningJobKeepsItsStart, "finished": finishedJobIsNotCanceled,
		"blocked": canceledBlockedJobNeverRuns, "released": canceledJobReleasesItsDependents,
	}.run(t)
}

func canceledPendingJobNeverRuns(_ *testing.T, l *lab) {
	id := l.enqueue("build", "org-1")
	l.works("cancel", l.CancelJob(id))
	s := l.stayCanceled(id, "")
	if !s.Started.IsZero() {
		l.Errorf("it was started at %v", s.Started)
	}
	l.takesNothing(from("org-1", "build"))
	l.takesNothing(anywhere("build"))
	l.isState(id, "canceled", "")
}

// stayCanceled checks that nothing becomes of a job that was canceled.
func (l *lab) stayCanceled(id uuid.UUID, result string) status {
	l.Helper()
	l.isState(id, "canceled", result)
	l.works("cancel it again", l.CancelJob(id))
	l.reports("update", l.UpdateJobResult(id, "late"), composer.ErrCanceled)
	l.mayNotEnd(id, composer.ErrCanceled)
	l.reports("fail", l.FailJob(id, "late"), composer.ErrCanceled)
	g := l.dequeueByID(l.Context(), id, uuid.Nil)
	l.reports("dequeue it", g.err, composer.ErrNotPending)
	l.isZero(g)
	return l.isState(id, "canceled", result)
}

func canceledRunningJobKeepsItsStart(_ *testing.T, l *lab) {
	id := l.enqueue("build", "org-1")
	token := l.takes(from("org-1", "build"), id).Token
	started := l.status(id).Started
	l.works("cancel", l.CancelJob(id))
	l.works("cancel it again", l.CancelJob(id))
	l.isState(id, "canceled", "")
	l.resolves(token, id) // so that its worker learns of it
	l.reports("update", l.UpdateJobResult(id, "late"), composer.ErrCanceled)
	l.reports("fail", l.FailJob(id, "late"), composer.ErrCanceled)
	l.resolves(token, id)
	l.mayNotEnd(id, composer.ErrCanceled)
	l.isGone(token)
	if s := l.stayCanceled(id, ""); !s.Started.Equal(started) {
		l.Errorf("it was started at %v, and at %v before it was canceled", s.Started, started)
	}
	l.takesNothing(from("org-1", "build"))
}

func finishedJobIsNotCanceled(_ *testing.T, l *lab) {
	id := l.enqueue("build", "org-1")
	l.takes(from("org-1", "build"), id)
	l.finish(id, []int{1, 2})
	l.reports("cancel", l.CancelJob(id), composer.ErrNotRunning)
	l.reports("cancel", l.CancelJob(id), composer.ErrNotRunning)
	l.isState(id, "finished", "[1,2]")
}

func canceledBlockedJobNeverRuns(_ *testing.T, l *lab) {
	first := l.enqueue("build", "org-1")
	second := l.enqueue("build", "org-1", first)
	l.works("cancel", l.CancelJob(second))
	l.takes(from("org-1", "build"), first)
	l.finish(first, nil)
	l.takesNothing(from("org-1", "build"))
	l.stayCanceled(second, "")
}

func canceledJobReleasesItsDependents(_ *testing.T, l *lab) {
	pending, running := l.enqueue("build", "org-1"), l.enqueue("build", "org-1")
	second := l.enqueue("check", "org-1", pending, running)
	l.takeByID(running, uuid.Nil)
	waiter := l.waits(from("org-1", "check"))
	l.callsWait(1)
	l.works("cancel", l.CancelJob(pending))
	l.isState(second, "pending", "")
	l.works("cancel", l.CancelJob(running))
	if g := l.served(waiter); g.ID != second {
		l.Errorf("dequeued %s, want %s", g.ID, second)
	}
	l.takes(anywhere("check"), l.enqueue("check", "org-1", pending)) // of what was canceled before
}

func TestContractRequeue(t *testing.T) {
	parts{
		"refused": func(_ *testing.T, l *lab) {
			l.mayNotEnd(uuid.Nil, composer.ErrNotExist)
			l.mayNotEnd(uuid.New(), composer.ErrNotExist)
			id := l.enqueue("build", "org-1")
			l.mayNotEnd(id, composer.ErrNotRunning)
			blocked := l.enqueue("check", "org-1", id)
			l.mayNotEnd(blocked, composer.ErrNotRunning)
			l.isState(id, "pending", "")
			l.takes(from("org-1", "build"), id)
			l.finish(id, "done")
			l.mayNotEnd(id, composer.ErrNotRunning)
			l.isState(id, "finished", `"done"`)
		},
		"again": requeuedJobRunsAnew, "order": requeuedJobGoesBehindWhatWaits, "wakes": requeuedJobIsGivenToWhoWaits,
	}.run(t)
}

func requeuedJobRunsAnew(_ *testing.T, l *lab) {
	before := l.enqueue("before", "org-1")
	l.finish(l.take(anywhere("before")).ID, nil)
	id, err := l.Enqueue("build", parcel{Name: "x"}, []uuid.UUID{before}, "org-1")
	l.works("enqueue", err)
	after := l.enqueue("after", "org-1", id)
	first := l.takes(from("org-1", "build"), id)
	l.works("update", l.UpdateJobResult(id, "half"))
	began := l.isState(id, "running", `"half"`)
	l.ends(id, 1, "lost", true)

	l.isGone(first.Token)
	s := l.isState(id, "pending", "")
	l.reports("update", l.UpdateJobResult(id, "late"), composer.ErrNotRunning)
	l.mayNotEnd(id, composer.ErrNotRunning)
	second := l.takes(from("org-1", "build"), id)
	if second.Token == first.Token || second.Token == uuid.Nil {
		l.Error("it has no token of its own")
	}
	l.resolves(second.Token, id)
	l.isGone(first.Token)
	first.Token = second.Token
	l.same("what is given out", second, first)
	again := l.isState(id, "running", "")
	if !again.Queued.Equal(began.Queued) || !s.Queued.Equal(began.Queued) || !again.Started.After(began.Started) {
		l.Errorf("it was queued at %v, now %v; started at %v, now %v", began.Queued, again.Queued, began.Started, again.Started)
	}
	l.same("dependents", again.Dependents, []uuid.UUID{after})
	l.isState(after, "pending", "")
	l.finish(id, "done")
	l.isState(id, "finished", `"done"`)
	l.takes(anywhere("after"), after)
}

func requeuedJobGoesBehindWhatWaits(_ *testing.T, l *lab) {
	a := from("org-1", "build")
	crasher, second, third := l.enqueue("build", "org-1"), l.enqueue("build", "org-1"), l.enqueue("build", "org-1")
	l.takes(a, crasher)
	l.ends(crasher, 5, nil, true)
	l.takes(a, second)
	l.takes(a, third)
	l.takes(a, crasher)
}

func requeuedJobIsGivenToWhoWaits(_ *testing.T, l *lab) {
	id := l.enqueue("build", "org-1")
	token := l.take(anywhere("build")).Token
	waiter := l.waits(from("org-1", "build"))
	l.callsWait(1)
	l.ends(id, 1, nil, true)
	if g := l.served(waiter); g.ID != id || g.Token == token {
		l.Errorf("dequeued %+v, want %s by another token than %s", g, id, token)
	}
}

func TestContractRequeueLimit(t *testing.T) {
	onEach(t, func(_ *testing.T, l *lab) {
		a := from("org-1", "build")
		for _, limit := range []uint64{0, 1, 3} {
			id := l.enqueue("build", "org-1")
			for range limit {
				l.takes(a, id)
				l.ends(id, limit, "lost", true)
				l.isState(id, "pending", "")
			}
			l.takes(a, id)
			l.ends(id, limit, "given up", false)
			l.isState(id, "finished", `"given up"`)
			l.takesNothing(a)
		}
		id := l.enqueue("build", "org-1")
		for range 2 {
			l.takes(a, id)
			l.ends(id, math.MaxUint64, nil, true)
		}
		l.takes(a, id)
		l.ends(id, 1, "beyond the limit already", false)
		l.isState(id, "finished", `"beyond the limit already"`)
	})
}

func TestContractUpdateJobResult(t *testing.T) {
	onEach(t, func(_ *testing.T, l *lab) {
		l.reports("update no job", l.UpdateJobResult(uuid.Nil, "x"), composer.ErrNotExist)
		l.reports("update an unknown job", l.UpdateJobResult(uuid.New(), "x"), composer.ErrNotExist)
		id := l.enqueue("build", "org-1")
		l.reports("update a pending job", l.UpdateJobResult(id, "x"), composer.ErrNotRunning)
		l.isState(id, "pending", "")
		token := l.takes(from("org-1", "build"), id).Token
		began := l.isState(id, "running", "")
		for _, c := range []struct {
			result any
			want   string
		}{
			{parcel{Name: "first"}, `{"name":"first","count":0}`},
			{json.RawMessage(`{"kept":  1.0}`), `{"kept":  1.0}`},
			{nil, "null"},
			{"last", `"last"`},
		} {
			l.works("update", l.UpdateJobResult(id, c.result))
			s := l.isState(id, "running", c.want)
			began.Result = s.Result
			l.same("what else is known of it", s, began)
			l.resolves(token, id)
		}
		l.finish(id, "done")
		l.isState(id, "finished", `"done"`)
		l.reports("update a finished job", l.UpdateJobResult(id, "late"), composer.ErrNotRunning)
		l.isState(id, "finished", `"done"`)

		id = l.enqueue("build", "org-1")
		l.takes(anywhere("build"), id)
		l.works("update", l.UpdateJobResult(id, "half"))
		l.finish(id, nil)
		l.isState(id, "finished", "null")
	})
}

func TestContractEscapedNullBytes(t *testing.T) {
	onEach(t, func(_ *testing.T, l *lab) {
		const text, escaped = "a\x00b", `"a\u0000b"`
		for _, v := range []any{text, json.RawMessage(escaped)} {
			id, err := l.Enqueue("build", v, nil, "org-1")
			l.works("enqueue", err)
			failed, err := l.Enqueue("build", v, nil, "org-2")
			l.works("enqueue", err)
			if g := l.takes(from("org-1", "build"), id); string(g.Args) != escaped {
				l.Errorf("the arguments are %s, want %s", g.Args, escaped)
			}
			l.works("update", l.UpdateJobResult(id, v))
			l.isState(id, "running", escaped)
			l.finish(id, v)
			l.isState(id, "finished", escaped)
			l.works("fail", l.FailJob(failed, v))
			l.isState(failed, "finished", escaped)
		}
	})
}

func TestContractHeartbeats(t *testing.T) {
	parts{"life": heartbeatsAreOfWhatRuns, "refresh": refreshedHeartbeatIsNew, "late": lateHeartbeatRevivesNothing}.run(t)
}

// silent waits until exactly these tokens were not heard of for longer than a time.
func (l *lab) silent(olderThan time.Duration, tokens ...uuid.UUID) {
	l.Helper()
	l.comesTo("the heartbeats are old", func() bool { return slices.Equal(sorted(l.Heartbeats(olderThan)...), sorted(tokens...)) })
	l.same("heartbeats of a day", l.Heartbeats(24*time.Hour), []uuid.UUID(nil))
}

func heartbeatsAreOfWhatRuns(_ *testing.T, l *lab) {
	l.same("heartbeats of nothing", l.Heartbeats(0), []uuid.UUID(nil))
	finishes, again := l.enqueue("build", "org-1"), l.enqueue("build", "org-2")
	stops := l.enqueue("build", "org-3")
	l.same("heartbeats of what waits", l.Heartbeats(0), []uuid.UUID(nil))
	one := l.takes(from("org-1", "build"), finishes).Token
	l.silent(0, one)
	l.silent(50*time.Millisecond, one)
	two := l.takes(anywhere("build"), again).Token
	three := l.takeByID(stops, uuid.Nil).Token
	l.silent(0, one, two, three)
	l.silent(50*time.Millisecond, one, two, three)
	l.finish(finishes, nil)
	l.silent(0, two, three)
	l.ends(again, 1, nil, true)
	l.silent(0, three)
	l.works("cancel", l.CancelJob(stops))
	l.mayNotEnd(stops, composer.ErrCanceled)
	l.same("heartbeats of what has ended", l.Heartbeats(0), []uuid.UUID(nil))
}

func refreshedHeartbeatIsNew(_ *testing.T, l *lab) {
	const old = 50 * time.Millisecond
	l.enqueue("build", "org-1")
	l.enqueue("build", "org-1")
	one, two := l.take(anywhere("build")).Token, l.take(anywhere("build")).Token
	l.silent(old, one, two)
	l.comesTo("it is looked at soon after the heartbeat", func() bool {
		began := time.Now()
		l.RefreshHeartbeat(one)
		list := l.Heartbeats(old)
		if time.Since(began) > old {
			return false // nobody knows how old it was
		}
		l.same("heartbeats that are old", list, []uuid.UUID{two})
		return true
	})
	l.silent(old, one, two)
}

func lateHeartbeatRevivesNothing(_ *testing.T, l *lab) {
	finished, requeued := l.enqueue("build", "org-1"), l.enqueue("build", "org-1")
	tokens := []uuid.UUID{uuid.Nil, uuid.New(), finished, l.take(anywhere("build")).Token, l.take(anywhere("build")).Token}
	l.finish(finished, nil)
	l.ends(requeued, 1, nil, true)
	for _, token := range tokens {
		l.RefreshHeartbeat(token)
		l.isGone(token)
	}
	l.same("heartbeats", l.Heartbeats(0), []uuid.UUID(nil))
	l.isState(finished, "finished", "null")
	l.isState(requeued, "pending", "")
}
