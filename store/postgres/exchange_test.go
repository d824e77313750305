package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
)

// The way to the server costs more than what is done there: a commit is one exchange, or two if it has to read what
// this owner has not written; so is a lookup. What is read by its key is one.
func TestExchangesWithTheServer(t *testing.T) {
	t.Parallel()
	address := database(t)
	s, err := postgres.Open(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }() //nolint:errcheck // its database goes away
	id := func(n int64) job.ID { return job.ID{0: 'j', 15: byte(n)} }
	build := job.ID{0: 'b'}
	number, at := uint64(0), job.Time(1e15)
	commit := func(changes ...job.Change) func() error {
		return func() error {
			number++
			at += 1000
			return s.Commit(t.Context(), &queue.Batch{
				Number: number, At: at, Changes: changes, Answers: []queue.Answer{{Request: id(int64(100 + number)), Reply: []byte("a")}},
			})
		}
	}
	lookup := func(q queue.Query) func() error {
		return func() error { _, err := s.Lookup(t.Context(), &q); return err }
	}
	added := func(n int64) job.Change {
		return job.JobAdded{Record: job.Record{Seq: n, At: at, Spec: job.Spec{ID: id(n), Channel: "main", Kind: "k", Name: "n"}}}
	}
	attempt := job.Attempt{Number: 1, Token: job.Token{1}, Worker: "w"}
	started := func(n int64) job.Change { return job.JobStarted{Job: id(n), Seq: n, Attempt: attempt} }
	ended := func(n int64) job.Change {
		a := job.AttemptEnd{Attempt: attempt, At: at, Outcome: job.Succeeded, Result: []byte("r")}
		return job.JobEnded{Job: id(n), Seq: n, End: job.End{At: at, Outcome: job.Succeeded}, Attempt: &a, Result: a.Result}
	}
	series := job.Series{Channel: "main", Kind: "k", Name: "n"}
	learned := job.DurationLearned{Series: series, Took: 5}
	before := int64(0)
	reopen := func() error {
		if err := s.Close(); err != nil {
			return err
		}
		s, err = postgres.Open(t.Context(), address, postgres.Options{})
		before = 0
		return err
	}
	for _, step := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"the first commit, which reads the head", commit(), 2},
		{"a submission asks for its series, and for more", lookup(queue.Query{
			Took: []job.Series{series}, Jobs: []job.ID{id(9)}, Requests: []job.ID{id(8)}, Builds: []job.ID{build},
			Cached: []job.Identity{{Key: "k"}}, Kept: []job.Likeness{{Key: "k"}}, Leases: []job.Lease{{Job: id(9)}},
		}), 1},
		{"jobs come, with a build", commit(added(1), added(2), job.BuildAdded{BuildRecord: job.BuildRecord{Seq: 3, Build: job.Build{ID: build}}}), 1},
		{"jobs start", commit(started(1), started(2)), 1},
		{"a job ends", commit(ended(1), learned), 1},
		{"a series that is known", lookup(queue.Query{Took: []job.Series{series}}), 0},
		{"a job ends, and its build", commit(ended(2), learned, job.BuildEnded{Build: build, Outcome: job.Succeeded}), 2},
		{"jobs that have left memory, with their results", lookup(queue.Query{Jobs: []job.ID{id(1), id(2)}, Took: []job.Series{series}}), 2},
		{"jobs by their ids", func() error {
			_, err := s.Jobs(t.Context(), queue.JobFilter{IDs: []job.ID{id(1), id(2)}, Args: true})
			return err
		}, 1},
		{"a payload", func() error { _, err := s.Payload(t.Context(), id(1)); return err }, 1},
		{"attempts", func() error { _, err := s.Attempts(t.Context(), id(1)); return err }, 1},
		{"the feed", func() error { _, err := s.Feed(t.Context(), 0, 10); return err }, 1},
		{"a job comes", commit(added(4)), 1},
		{"another owner", reopen, 0},
		{"it knows nothing yet", commit(started(4), learned, job.JobDeleted{Job: id(1)}, job.BuildDeleted{Build: build}), 2},
		{"it knows what it wrote", commit(ended(4), learned), 1},
	} {
		before = postgres.Exchanges(s)
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if got := postgres.Exchanges(s) - before; got != step.want {
			t.Errorf("%s: %d exchanges, want %d", step.what, got, step.want)
		}
	}
	// That there is nothing is no reason for another connection.
	for range 3 {
		if _, err := s.Payload(t.Context(), id(99)); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("the payload of no job: %v", err)
		}
		if _, err := s.Feed(t.Context(), 1<<40, 1); err != nil {
			t.Error(err)
		}
	}
	if n := postgres.Connections(s); n != 1 {
		t.Errorf("one after the other, they read with %d connections", n)
	}
	// What it believes is what is there: a job that has left memory has left.
	if err := commit(job.JobProgress{Job: id(4), Seq: 4, Result: []byte("more")})(); err == nil {
		t.Error("a job that has ended goes on: no error")
	}
	// And a store whose last batch was refused lets go at once.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := run(t, address, "UPDATE headrace.life SET beats = 0 WHERE beats = 0"); n != 1 {
		t.Error("the next owner waits for a sign of life of one that has closed its store")
	}
	if s, err = postgres.Open(t.Context(), address, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	found, err := s.Lookup(t.Context(), &queue.Query{Took: []job.Series{series}, Jobs: []job.ID{id(4)}})
	if err != nil || found.Took[series] != 5 || found.Jobs[id(4)] == nil {
		t.Error(fmt.Sprint(found, err))
	}
}
