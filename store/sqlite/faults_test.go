package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

func openFile(t *testing.T) (*Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // a test may have closed it
	return s, path
}

func bulk(first, n int) []job.Change {
	var changes []job.Change
	for i := first; i < first+n; i++ {
		r := job.Record{Seq: int64(i), Spec: job.Spec{ID: job.ID{byte(i >> 16), byte(i >> 8), byte(i), 1}, Args: make([]byte, 2000)}}
		changes = append(changes, job.JobAdded{Record: r})
	}
	return changes
}

func count(t *testing.T, s *Store) (n int) {
	t.Helper()
	if _, err := s.Load(t.Context(), func(job.Change) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// A commit that the medium refuses says what and where, leaves nothing, and the store works on once it can.
func TestCommitThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, fault, repair, want string
		told                      Fault
	}{
		{"disk full", "PRAGMA max_page_count = 100", "PRAGMA max_page_count = 1000000", "full", Full},
		{"read-only", "PRAGMA query_only = 1", "PRAGMA query_only = 0", "readonly", Denied},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, path := openFile(t)
			ctx := t.Context()
			if err := s.Commit(ctx, &queue.Batch{Number: 1, Changes: bulk(1, 5)}); err != nil {
				t.Fatal(err)
			}
			if err := s.w.script(c.fault); err != nil {
				t.Fatal(err)
			}
			b := &queue.Batch{Number: 2, Changes: bulk(10, 1000)}
			for range 2 {
				err := s.Commit(ctx, b)
				if err == nil {
					t.Fatal("commit: no error")
				}
				var at *FileError
				if !errors.As(err, &at) || at.Fault != c.told {
					t.Errorf("commit: %v; want one with fault %d", err, c.told)
				}
				for _, want := range []string{"batch 2", path, c.want} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("commit: %v; want an error that says %q", err, want)
					}
				}
				if ok, err := s.Committed(ctx, 2); ok || err != nil {
					t.Errorf("Committed(2) = %v, %v; want false", ok, err)
				}
				if n := count(t, s); n != 5 {
					t.Errorf("%d jobs after the failed commit, want 5", n)
				}
			}
			if err := s.w.script(c.repair); err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(ctx, b); err != nil {
				t.Errorf("commit after the repair: %v", err)
			}
			if n := count(t, s); n != 1005 {
				t.Errorf("%d jobs after the repair, want 1005", n)
			}
		})
	}
}

// Whatever page of the file is spoilt, each call gives an answer or an error that names the file.
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	s, path := openFile(t)
	if err := s.Commit(t.Context(), &queue.Batch{Number: 1, Changes: bulk(1, 20)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for at := 0; at < len(whole); at += pageSize {
		spoilt := append([]byte(nil), whole...)
		for i := at; i < at+pageSize; i++ {
			spoilt[i] ^= 0x5a
		}
		where := filepath.Join(t.TempDir(), "db")
		if err := os.WriteFile(where, spoilt, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, err := range useAll(t.Context(), where) {
			if err == nil {
				continue
			}
			refused++
			if !strings.Contains(err.Error(), where) {
				t.Errorf("page %d: error %q does not name the file", at/pageSize, err)
			}
		}
	}
	if refused == 0 {
		t.Error("no damage was noticed")
	}
}

// useAll calls the methods of a store one after the other.
func useAll(ctx context.Context, path string) (errs []error) {
	s, err := Open(ctx, path, Options{Readers: 1})
	if err != nil {
		return []error{err}
	}
	id := job.ID{0, 0, 1, 1}
	_, err = s.Load(ctx, func(job.Change) error { return nil })
	errs = append(errs, err)
	_, err = s.Lookup(ctx, &queue.Query{
		Jobs: []job.ID{id}, Builds: []job.ID{id}, Requests: []job.ID{id}, Kept: []job.Likeness{{Key: "k"}},
		Cached: []job.Identity{{}}, Took: []job.Series{{}},
	})
	errs = append(errs, err)
	_, err = s.Feed(ctx, 0, 10)
	errs = append(errs, err)
	_, err = s.Jobs(ctx, queue.JobFilter{})
	errs = append(errs, err)
	_, err = s.Payload(ctx, id)
	errs = append(errs, err)
	_, err = s.Builds(ctx, queue.BuildFilter{})
	errs = append(errs, err)
	errs = append(errs, s.Commit(ctx, &queue.Batch{Number: 2, Changes: bulk(100, 3)}))
	return append(errs, s.Close())
}

// Rounds that are not there, though nothing dropped them, are a gap, too, also at the end.
func TestMissingRoundsAreAGap(t *testing.T) {
	t.Parallel()
	s, _ := openFile(t)
	for n := range uint64(8) {
		if err := s.Commit(t.Context(), &queue.Batch{Number: n + 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.w.script("DELETE FROM feed WHERE number IN (2, 3, 7, 8)"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after, next uint64
		rounds      int
	}{{0, 0, 1}, {1, 3, 0}, {2, 3, 0}, {3, 0, 3}, {6, 8, 0}, {7, 8, 0}, {8, 0, 0}} {
		rounds, err := s.Feed(t.Context(), c.after, 10)
		var gap *queue.FeedGapError
		if len(rounds) != c.rounds || (err != nil) != (c.next > 0) || err != nil && (!errors.As(err, &gap) || gap.Next != c.next) {
			t.Errorf("Feed(%d) = %v, %v; want %d rounds, a gap up to %d", c.after, rounds, err, c.rounds, c.next)
		}
	}
}

// Where the store stands is told by nothing else: without it, each call says what is wrong with which file.
func TestMissingHeadIsSaid(t *testing.T) {
	t.Parallel()
	s, path := openFile(t)
	if err := s.w.script("DELETE FROM head"); err != nil {
		t.Fatal(err)
	}
	_, load := s.Load(t.Context(), func(job.Change) error { return nil })
	_, committed := s.Committed(t.Context(), 1)
	_, feed := s.Feed(t.Context(), 0, 1)
	for i, err := range []error{load, committed, feed, s.Commit(t.Context(), &queue.Batch{Number: 1})} {
		var at *FileError
		if !errors.As(err, &at) || at.Fault != Damaged || at.Path != path {
			t.Errorf("call %d: %v, want one that says that the file is damaged", i, err)
		}
	}
}

// Where no file can be made beside the store and nobody writes, it is read as it is.
func TestFrozenFile(t *testing.T) {
	t.Parallel()
	s, path := openFile(t)
	if err := s.Commit(t.Context(), &queue.Batch{Number: 1, Changes: bulk(1, 20)}); err != nil {
		t.Fatal(err)
	}
	if unlogged(path) {
		t.Error("a store with a log is taken for one without")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !unlogged(path) {
		t.Error("a store that was closed is taken for one with a log")
	}
	odd := filepath.Join(filepath.Dir(path), "a ?#% b")
	if err := os.Rename(path, odd); err != nil {
		t.Fatal(err)
	}
	r := &Reader{path: odd}
	if err := r.connect(1, frozen); err != nil {
		t.Fatal(err)
	}
	list, err := r.Jobs(t.Context(), queue.JobFilter{})
	if err != nil || len(list) != 20 {
		t.Errorf("%d jobs (%v), want 20", len(list), err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 { // the store and its lock file
		t.Errorf("%d files beside the store (%v), want 2", len(entries), err)
	}
}

// A commit says what the schema says too: a state that cannot be is refused by the tables.
func TestTablesRefuseImpossibleStates(t *testing.T) {
	t.Parallel()
	s, _ := openFile(t)
	if err := s.Commit(t.Context(), &queue.Batch{Number: 1, Changes: bulk(1, 1)}); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"UPDATE live SET state = 2",                                    // running without an attempt
		"UPDATE live SET attempt = x'00'",                              // an attempt that does not run
		"UPDATE live SET state = 3",                                    // done, and nothing holds it
		"UPDATE live SET state = 4, open = 1",                          // no state
		"UPDATE live SET open = 1",                                     // open before it is done
		"INSERT INTO ended VALUES (1, 0, x'', null, null, null, null)", // ended without an outcome
		"UPDATE job SET id = x'01'",
		"INSERT INTO head VALUES (2, 0, 0, 0, 0)",
	} {
		if err := s.w.script(sql); err == nil {
			t.Errorf("%s: no error", sql)
		}
	}
}

// Seqs are never used twice, so rows that stayed would be seen by nobody, for ever.
func TestDeletedJobLeavesNoRows(t *testing.T) {
	t.Parallel()
	s, _ := openFile(t)
	id, need := job.ID{1}, job.ID{2}
	r := job.Record{Seq: 1, Spec: job.Spec{ID: id, Needs: []job.Need{{Job: need}, {Job: id}}}}
	a := job.AttemptEnd{Attempt: job.Attempt{Number: 1}, Outcome: job.Aborted, Result: []byte("a")}
	b := job.AttemptEnd{Attempt: job.Attempt{Number: 2}, Outcome: job.Failed, Result: []byte("b")}
	for i, changes := range [][]job.Change{
		{job.JobAdded{Record: r}, job.BuildAdded{BuildRecord: job.BuildRecord{Seq: 2, Build: job.Build{ID: id}}}},
		{
			job.BuildReferred{Build: id, Refs: []job.Ref{{Job: id}}},
			job.JobStarted{Job: id, Seq: 1, Attempt: a.Attempt},
			job.JobRetried{Job: id, Seq: 1, Attempt: a},
			job.JobStarted{Job: id, Seq: 1, Attempt: b.Attempt},
		},
		{job.JobEnded{Job: id, Seq: 1, End: job.End{Outcome: job.Failed}, Attempt: &b, Result: []byte("c"), Held: true}},
		{job.BuildEnded{Build: id, Outcome: job.Failed}, job.JobDeleted{Job: id}, job.BuildDeleted{Build: id}},
	} {
		if err := s.Commit(t.Context(), &queue.Batch{Number: uint64(i + 1), Changes: changes}); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []string{"job", "live", "ended", "attempt", "result", "edge", "build", "build_ref"} {
		if n, err := s.w.number("SELECT count(*) FROM " + table); n != 0 || err != nil {
			t.Errorf("%d rows of %s are left (%v)", n, table, err)
		}
	}
}

// However much is too old, one commit drops a little of it.
func TestOldRoundsGoInPortions(t *testing.T) {
	t.Parallel()
	s, _ := openFile(t)
	commit := func(n uint64, at job.Time) (first uint64) {
		t.Helper()
		b := &queue.Batch{Number: n, At: at, Answers: []queue.Answer{{Request: job.ID{byte(n)}}}}
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		oldest, err := s.w.number("SELECT min(number) FROM feed")
		if err != nil {
			t.Fatal(err)
		}
		return uint64(oldest)
	}
	const old = 3 * queue.FeedPortion
	for n := range uint64(old) {
		commit(n+1, 1)
	}
	later := job.Time(2).Add(queue.FeedRetention)
	for i, want := range []uint64{queue.FeedPortion + 1, 2*queue.FeedPortion + 1, old + 1, old + 1} {
		if got := commit(old+1+uint64(i), later); got != want {
			t.Errorf("commit %d leaves round %d as the oldest, want %d", i, got, want)
		}
	}
	if n, err := s.w.number("SELECT count(*) FROM answer"); n != 4 || err != nil {
		t.Errorf("%d answers are left (%v), want the 4 that are not old", n, err)
	}
}

// A killed process cannot show whether a power cut would lose anything; the settings do.
func TestCommitsAreSynced(t *testing.T) {
	t.Parallel()
	s, _ := openFile(t)
	mode, err := s.w.text("PRAGMA journal_mode")
	if err != nil || mode != "wal" {
		t.Errorf("journal_mode = %q, %v; want wal", mode, err)
	}
	sync, err := s.w.number("PRAGMA synchronous")
	if err != nil || sync != 2 {
		t.Errorf("synchronous = %d, %v; want 2, which is FULL", sync, err)
	}
}

func TestEngineThatLosesDataIsRefused(t *testing.T) {
	t.Parallel()
	for version, good := range map[string]bool{
		"3.49.2": false, "3.51.2": false, "3.51.3": true, "3.52.0": true, "3.54.1": true, "4.0.0": true, "2.99.99": false, "new": false,
	} {
		if err := checkVersion(version); (err == nil) != good {
			t.Errorf("version %s: %v", version, err)
		}
	}
}
