package composer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// resolves checks of which job a token is good; uuid.Nil: of none.
func (s *stage) resolves(token, want uuid.UUID) {
	s.Helper()
	if id, _ := s.IdFromToken(token); id != want {
		s.Errorf("the token is that of %s, want %s", id, want)
	}
}

// A worker hears of the cancel, and says that its job is over, before CancelJob returns: its token is good no more. To plant it:
// composer/stopped.go, begin: leave "&& !c.over" out.
func TestTokenEndsThoughItsWorkerIsFasterThanTheCancel(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(s *stage, id, token uuid.UUID) error{
		"by its job": func(s *stage, id, _ uuid.UUID) error { _, err := s.RequeueOrFinishJob(id, 0, nil); return err },
		"by its token": func(s *stage, _, token uuid.UUID) error {
			_, err := s.RequeueOrFinishToken(token, 0, 0, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			id := s.enqueue("build")
			token := s.pick(id, uuid.Nil)
			s.between.after = next("CancelJob", "", func() error {
				s.resolves(token, id)
				s.gives("to finish it", ends(s, id, token), ErrCanceled)
				return nil
			})
			s.gives("CancelJob", s.CancelJob(id), nil)
			s.resolves(token, uuid.Nil)
			if len(s.stopped.begun) > 0 {
				t.Errorf("being cancelled are %v", s.stopped.begun)
			}
		})
	}
}

// A job is cancelled after its worker was found to have it, and before it has finished it: the worker is told, and its token is good no more.
// To plant it: composer/running.go, conclude: leave q.stopped.over out.
func TestTokenEndsThoughTheCancelIsFasterThanItsWorker(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, silent := range []bool{false, true} {
		id := s.enqueue("build")
		token := s.pick(id, uuid.Nil)
		s.between.before = next("Finish", "", func() error { s.gives("CancelJob", s.CancelJob(id), nil); return nil })
		if silent {
			_, err := s.RequeueOrFinishToken(token, 1, 0, nil)
			s.gives("RequeueOrFinishToken of the watchdog", err, ErrCanceled)
			s.resolves(token, id) // its worker is still to learn of it
			continue
		}
		_, err := s.RequeueOrFinishToken(token, 0, 0, nil)
		s.gives("RequeueOrFinishToken", err, ErrCanceled)
		s.resolves(token, uuid.Nil)
	}
}

// A job is requeued, and maybe given out again, just before it is cancelled: what was stopped is the attempt that ran then, if any, and its
// token alone stays good for its worker. To plant it: composer/jobqueue.go, CancelJob: take the lease by q.engine.LeaseOf before it cancels.
func TestCancelKeepsTheTokenOfTheAttemptThatItStops(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, again := range []bool{false, true} {
		id := s.enqueue("build")
		first := s.pick(id, uuid.Nil)
		var second uuid.UUID
		s.between.before = next("CancelJob", "", func() error {
			if requeued, err := s.RequeueOrFinishJob(id, 9, nil); !requeued || err != nil {
				t.Errorf("requeued %t, %v", requeued, err)
			}
			if again {
				second = s.pick(id, uuid.Nil)
			}
			return nil
		})
		s.gives("CancelJob", s.CancelJob(id), nil)
		s.resolves(first, uuid.Nil)
		if !again {
			continue
		}
		if _, ok := s.stopped.job(second); !ok {
			t.Error("the token of the attempt that was stopped ends with its lease")
		}
	}
}

// A job of the worker is requeued, taken by another and cancelled while the worker is deleted: that is no job of its, and whoever has it is to
// learn of the cancel. To plant it: composer/roster.go, leave: leave the case of another worker out.
func TestDeleteWorkerLeavesAloneWhatAnotherHas(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, cancelled := range []bool{false, true} {
		w, other := s.insert(), s.insert()
		id := s.enqueue("build")
		s.pick(id, w)
		var token uuid.UUID
		s.between.after = next("Workers", "", func() error {
			if requeued, err := s.RequeueOrFinishJob(id, 9, nil); !requeued || err != nil {
				t.Errorf("requeued %t, %v", requeued, err)
			}
			token = s.pick(id, other)
			if cancelled {
				s.gives("CancelJob", s.CancelJob(id), nil)
			}
			return nil
		})
		s.gives("DeleteWorker", s.DeleteWorker(w), nil)
		s.resolves(token, id)
	}
}

func (s *stage) insert() uuid.UUID {
	s.Helper()
	id, err := s.InsertWorker("", "x86_64")
	if err != nil {
		s.Fatal(err)
	}
	return id
}

// A worker is deleted just before it is registered for what it asks for: it does not come back, also if the answer to that is lost. To plant it:
// composer/roster.go, as: leave r.trim after r.enter out.
func TestWorkerThatIsDeletedAsItIsRegisteredDoesNotComeBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, answer := range []error{nil, errLostAnswer} {
		w := s.insert()
		id := s.enqueue("build")
		s.between.before = next("Register", "", func() error { s.gives("DeleteWorker", s.DeleteWorker(w), nil); return nil })
		s.between.after = next("Register", "", func() error { return answer })
		s.pick(id, w)
		views, err := s.between.engine.Workers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range views {
			if owner, _ := parse(views[i].Name); owner == w {
				t.Errorf("%s is still there", views[i].Name)
			}
		}
	}
}

// A worker is given a job while it is deleted, and so it stays: then it still learns that another of its was cancelled. To plant it:
// composer/roster.go, leave: remove the idle ones after the leases are confirmed.
func TestDeletionThatComesTooLateConfirmsNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	w := s.insert()
	id := s.enqueue("first")
	token := s.pick(id, w)
	s.gives("CancelJob", s.CancelJob(id), nil)
	waits := make(chan struct{})
	s.between.before = func(call, about string) error {
		if owner, _ := parse(about); call == "Lease" && owner == w {
			waits <- struct{}{}
		}
		return nil
	}
	got := make(chan uuid.UUID, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		id, _, _, _, _, err := s.Dequeue(ctx, w, []string{"second"}, []string{""})
		if err != nil {
			t.Error(err)
		}
		got <- id
	}()
	for range 2 { // by the first call it finds that it has to be registered
		<-waits
	}
	given := false
	s.between.before = func(call, _ string) error {
		if given || call != "Finish" && call != "RemoveWorker" {
			return nil
		}
		given = true
		want := s.enqueue("second")
		if id := <-got; id != want {
			t.Errorf("given %s, want %s", id, want)
		}
		return nil
	}
	s.gives("DeleteWorker", s.DeleteWorker(w), ErrActiveJobs)
	s.resolves(token, id)
}

// What a caller was just given is handed back, as it has not been told of it yet while another looks for what nobody was told of: it asks
// again, and is given the job, which is pending. To plant it: composer/handouts.go, given: job.ErrNotReady if it must be one job and may not be
// told.
func TestJobThatIsHandedBackUnderwayIsGivenAllTheSame(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first, second := s.enqueue("build"), s.enqueue("build")
	ctx, cancel := context.WithCancel(t.Context())
	s.between.after = next("Take", "", func() error { cancel(); return errLostAnswer })
	_, _, _, _, err := s.DequeueByID(ctx, first, uuid.Nil)
	s.gives("DequeueByID whose context ends", err, ErrDequeueTimeout)

	s.between.before = next("Finish", "", func() error { return errLostAnswer }) // it cannot be handed back yet
	s.between.after = next("Take", "", func() error { s.Heartbeats(0); return nil })
	token := s.pick(second, uuid.Nil)
	s.resolves(token, second)
	s.pick(first, uuid.Nil)
}

// A worker is deleted while somebody else is about to, who is refused: it is there still, and neither is told otherwise. To plant it:
// composer/roster.go, dismiss: Errors.WorkerNotExist for one that is leaving.
func TestWorkerThatIsNotDeletedAfterAllExists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		w := s.insert()
		s.pick(s.enqueue("build"), w)
		second := make(chan error, 1)
		s.between.before = next("Workers", "", func() error {
			go func() { second <- s.DeleteWorker(w) }()
			synctest.Wait()
			return nil
		})
		s.gives("DeleteWorker", s.DeleteWorker(w), ErrActiveJobs)
		s.gives("DeleteWorker at the same time", <-second, ErrActiveJobs)
	})
}

// While one who ends an attempt does not come to an end, those who wait for that end when they say, however many there are. To plant it:
// composer/running.go, ends: "<-other" for wait.behind.
func TestNobodyWaitsForLongBehindOneWhoEndsAnAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		id := s.enqueue("build")
		s.pick(id, uuid.Nil)
		stuck, told := make(chan struct{}), make(chan error, 4)
		s.between.before = next("Finish", "", func() error { <-stuck; return nil })
		end := func() { _, err := s.RequeueOrFinishJob(id, 0, nil); told <- err }
		go end()
		synctest.Wait()
		start := time.Now()
		for range 3 {
			go end()
		}
		for range 3 {
			var again *queue.RetryError
			if err := <-told; !errors.As(err, &again) {
				t.Errorf("told %v, want to try again", err)
			}
		}
		if took := time.Since(start); took != Patience {
			t.Errorf("they waited for %v, want %v", took, Patience)
		}
		close(stuck)
		<-told // the first, whose time is over, too
	})
}

// A worker says that its cancelled job is over, while the engine does not answer: it is told so, and not that all is done. To plant it:
// composer/running.go, RequeueOrFinishToken: "if !ok" for whatever err is.
func TestWorkerOfACancelledJobIsNotFreeUntilTheEngineAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		id := s.enqueue("build")
		token := s.pick(id, uuid.Nil)
		s.gives("CancelJob", s.CancelJob(id), nil)
		s.between.before = func(call, _ string) error {
			if call == "LeaseBy" {
				return errLostAnswer
			}
			return nil
		}
		_, err := s.RequeueOrFinishToken(token, 0, 0, nil)
		var again *queue.RetryError
		if !errors.As(err, &again) {
			t.Errorf("told %v, want to try again", err)
		}
		s.between.before = nil
		_, err = s.RequeueOrFinishToken(token, 0, 0, nil)
		s.gives("RequeueOrFinishToken", err, ErrCanceled)
		if _, err := s.between.engine.LeaseBy(t.Context(), job.Token(token)); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("the engine knows its lease still, %v", err)
		}
	})
}
