package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
)

// traffic is what an owner writes, on a server of its own that cleans up only when it is told to.
type traffic struct {
	t       *testing.T
	cluster *pgtest.Cluster
	address string
	s       *postgres.Store
	number  uint64
	at      job.Time
	seq     int64
	apart   time.Duration // between rounds
}

func newTraffic(t *testing.T, apart time.Duration) *traffic {
	t.Helper()
	c, err := pgtest.Start(t.Context(), pgtest.Options{Settings: []string{"autovacuum=off"}})
	if err != nil {
		t.Fatal(err)
	}
	f := &traffic{t: t, cluster: c, at: job.Time(1e15), apart: apart}
	t.Cleanup(func() {
		if f.s != nil {
			f.s.Close() //nolint:errcheck // its server goes away
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if f.address, err = c.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.s, err = postgres.Open(t.Context(), f.address, postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	return f
}

// commit stores changes as the next round.
func (f *traffic) commit(changes ...job.Change) {
	f.t.Helper()
	f.number++
	f.at = f.at.Add(f.apart)
	request := job.ID{0: 'r', 8: byte(f.number >> 24), 9: byte(f.number >> 16), 14: byte(f.number >> 8), 15: byte(f.number)}
	b := &queue.Batch{Number: f.number, At: f.at, Changes: changes, Answers: []queue.Answer{{Request: request, Reply: []byte("yes")}}}
	if err := f.s.Commit(f.t.Context(), b); err != nil {
		f.t.Fatal(err)
	}
}

// add gives so many new jobs.
func (f *traffic) add(jobs int) (added []job.Change, seqs []int64) {
	for range jobs {
		f.seq++
		added = append(added, job.JobAdded{Record: job.Record{Seq: f.seq, At: f.at, Spec: job.Spec{ID: trafficID(f.seq), Channel: "main", Kind: "command", Name: "n"}}})
		seqs = append(seqs, f.seq)
	}
	return added, seqs
}

func trafficID(n int64) job.ID { return pastID('t', int(n)) }

// live takes so many jobs through their life, in four rounds.
func (f *traffic) live(jobs int, outcome job.Outcome) {
	f.t.Helper()
	added, seqs := f.add(jobs)
	var ready, started, ended []job.Change
	for _, n := range seqs {
		attempt := job.Attempt{Number: 1, Token: job.Token(trafficID(n)), Worker: "w"}
		end := job.AttemptEnd{Attempt: attempt, At: f.at, Outcome: outcome, Result: []byte("r")}
		ready = append(ready, job.JobReleased{Job: trafficID(n), Seq: n})
		started = append(started, job.JobStarted{Job: trafficID(n), Seq: n, Attempt: attempt})
		ended = append(ended, job.JobEnded{Job: trafficID(n), Seq: n, End: job.End{At: f.at, Outcome: outcome}, Attempt: &end, Result: end.Result})
	}
	slice := int64(f.at) / int64(job.UsageSlice/time.Microsecond)
	ended = append(ended, job.DurationLearned{Series: job.Series{Channel: "main", Kind: "command", Name: "n"}, Took: time.Second},
		job.UsagePut{Channel: "main", Group: "g", Slice: slice, Used: time.Duration(f.seq)})
	for _, changes := range [][]job.Change{added, ready, started, ended} {
		f.commit(changes...)
	}
}

// ask asks the server for a number.
func (f *traffic) ask(sql string) (n int64) {
	f.t.Helper()
	c, err := pgx.Connect(f.t.Context(), f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
	if err := c.QueryRow(f.t.Context(), sql).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// looked is how many pages of tables and indexes the owner has looked at so far, and at how many entries of indexes, of which those
// of dead rows count, too.
func (f *traffic) looked() int64 {
	f.t.Helper()
	f.flush()
	return f.ask(`SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read + coalesce(toast_blks_hit + toast_blks_read, 0))::bigint
		+ (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE schemaname = 'headrace' AND relname <> 'life')
		FROM pg_statio_user_tables WHERE schemaname = 'headrace' AND relname <> 'life'`)
}

func (f *traffic) flush() {
	f.t.Helper()
	if err := postgres.Flush(f.t.Context(), f.s); err != nil {
		f.t.Fatal(err)
	}
}

// cost is what the owner looks at for some lives.
func (f *traffic) cost() int64 {
	f.t.Helper()
	before := f.looked()
	f.lives(50)
	return f.looked() - before
}

func (f *traffic) lives(n int) {
	f.t.Helper()
	for range n {
		f.live(3, job.Succeeded)
	}
}

// hold keeps a snapshot until it is let go of, as a long query would: what was rewritten since cannot be cleaned up.
func (f *traffic) hold() (letGo func()) {
	f.t.Helper()
	c, err := pgx.Connect(f.t.Context(), f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := c.Exec(f.t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM headrace.live", pgx.QueryExecModeSimpleProtocol); err != nil {
		f.t.Fatal(err)
	}
	return func() { c.Close(context.Background()) } //nolint:errcheck // its session goes away
}

// most fails unless a cost is about what it was.
func (f *traffic) most(what string, before, now int64) {
	f.t.Helper()
	f.t.Logf("%s: %d pages and entries, then %d", what, before, now)
	if now > before+before/5 {
		f.t.Errorf("%s: the same work looks at %d pages and entries, and at %d before", what, now, before)
	}
}

// updates gives how many rows of live were rewritten so far, and how many of these in their page, with no index told.
func (f *traffic) updates() (all, inPlace int64) {
	f.t.Helper()
	f.flush()
	const from = " FROM pg_stat_user_tables WHERE schemaname = 'headrace' AND relname = 'live'"
	return f.ask("SELECT n_tup_upd" + from), f.ask("SELECT n_tup_hot_upd" + from)
}

// Q14 (River #59; que ran a manual VACUUM every five minutes): a state that changes is written into its page, beside the room that was
// left there, and into no index. What is left of those that ended is used again after a vacuum, so that the table does not grow.
func TestQ14LiveRowsAreUpdatedInPlace(t *testing.T) {
	t.Parallel()
	f := newTraffic(t, time.Hour)
	f.lives(100)
	if all, inPlace := f.updates(); all != 600 || inPlace != all {
		t.Errorf("rounds of few jobs: %d of %d updates are in place, want all 600", inPlace, all)
	}
	f.live(1000, job.Succeeded)
	if all, inPlace := f.updates(); inPlace < all*7/10 {
		t.Errorf("with rounds that fill pages: %d of %d updates are in place, want most", inPlace, all)
	}
	const size = "SELECT pg_total_relation_size('headrace.live')"
	run(t, f.address, "VACUUM headrace.live")
	before := f.ask(size)
	for range 5 {
		f.live(1000, job.Succeeded)
		run(t, f.address, "VACUUM headrace.live")
	}
	if now := f.ask(size); now > 2*before {
		t.Errorf("the table of what is unfinished has grown from %d to %d bytes, and nothing is", before, now)
	}
}

// Q15 (PlanetScale 2026: three analytic queries took 69 to 87 % of the rate within a minute): whatever is dead and cannot be
// cleaned up, because somebody holds an old snapshot, a commit does not come past it.
func TestQ15ASnapshotThatIsHeldSlowsNothing(t *testing.T) {
	t.Parallel()
	// Rounds that are far apart have the feed, answers and usage become too old; those that are not change the same usage.
	for _, apart := range []time.Duration{time.Hour, time.Second} {
		t.Run(apart.String(), func(t *testing.T) {
			t.Parallel()
			f := newTraffic(t, apart)
			f.lives(150)
			before := f.cost()
			letGo := f.hold()
			defer letGo()
			f.lives(400)
			f.most("behind a snapshot", before, f.cost())
		})
	}
}

// Q16 (pg-boss #228: a fetch took 30 s among millions of rows): what a life costs does not depend on how many jobs wait, have ended or
// have failed.
func TestQ16ALifeCostsTheSameHoweverManyJobsThereAre(t *testing.T) {
	t.Parallel()
	f := newTraffic(t, time.Hour)
	wait := func(n int) {
		for range n {
			added, _ := f.add(1000)
			f.commit(added...)
		}
	}
	wait(1)
	f.lives(150)
	before := f.cost()
	wait(30)
	for range 10 {
		f.live(1000, job.Succeeded)
		f.live(1000, job.Failed)
	}
	f.lives(150)
	f.most("among 50,000 jobs", before, f.cost())
}
