package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/headrace/headrace/queue"
)

// three are the rates that are measured in several circumstances, one after the other.
func (l *lab) three(ctx context.Context, e *engine) (lives, drained, enqueued float64, err error) {
	most := l.callers[len(l.callers)-1]
	if lives, err = rate(ctx, e, most, l.window, lifecycle); err != nil {
		return 0, 0, 0, err
	}
	if drained, err = l.drainOf(ctx, e); err != nil {
		return 0, 0, 0, err
	}
	enqueued, err = rate(ctx, e, most, l.window, enqueue(1))
	return lives, drained, enqueued, err
}

// newThree are the three rates on a store that is new.
func (l *lab) newThree(ctx context.Context, k kind) (r [3]float64, err error) {
	e, err := l.fresh(ctx, k)
	if err != nil {
		return r, err
	}
	r[0], r[1], r[2], err = l.three(ctx, e)
	return r, errors.Join(err, e.close())
}

// tell adds the three rates as a share of what they were before.
func (l *lab) tell(s *section, when string, before, now [3]float64) {
	most := l.callers[len(l.callers)-1]
	for i, what := range []string{fmt.Sprintf("lifecycles, %d callers", most), "drain", fmt.Sprintf("enqueue, %d callers", most)} {
		s.add(when+": "+what, fmt.Sprintf("%.0f/s; before: %.0f/s (%+.0f %%)", now[i], before[i], 100*(now[i]/before[i]-1)))
	}
}

// past measures the rates after very many jobs have finished, beside those of a store that is new.
func past(ctx context.Context, l *lab) (section, error) {
	s := section{
		title: fmt.Sprintf("After %d finished jobs", l.past),
		note: "Some jobs run through the queue; then their rows of jobs, ends and results are copied inside the database until there are so many (their rows in the " +
			"change feed, which is kept for a week, are not). Then PostgreSQL vacuums, as it would have meanwhile. The list is the newest hundred of one of a thousand names, the payload that of a job among the oldest.",
	}
	for _, k := range l.kinds {
		if err := l.pastOn(ctx, k, &s); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (l *lab) pastOn(ctx context.Context, k kind, s *section) error {
	before, err := l.newThree(ctx, k)
	if err != nil {
		return err
	}
	p, err := l.place(ctx, k)
	if err != nil {
		return err
	}
	// Few, and none that waits: the store differs from a new one by its past alone.
	err = with(ctx, p, func(e *engine) error {
		_, err := l.drainN(ctx, e, onSQLite, 100, new(effort))
		return err
	})
	if err != nil {
		return err
	}
	var after [3]float64
	began := time.Now()
	if k == onSQLite {
		err = multiplySQLite(p.address, l.past)
	} else {
		err = multiplyPostgres(ctx, p.address, l.past)
	}
	if err != nil {
		return err
	}
	s.add(string(k)+": filling", round(time.Since(began)))
	return with(ctx, p, func(e *engine) (err error) {
		if after[0], after[1], after[2], err = l.three(ctx, e); err != nil {
			return err
		}
		l.tell(s, string(k), before, after)
		list, payload, err := lookups(ctx, e, 20)
		if err != nil {
			return err
		}
		s.add(string(k)+": list", list.span())
		s.add(string(k)+": payload", payload.span())
		return nil
	})
}

// lookups reads the history, as people do.
func lookups(ctx context.Context, e *engine, n int) (lists, payloads sample, err error) {
	for i := range n {
		began := time.Now()
		got, err := e.store.Jobs(ctx, queue.JobFilter{Name: fmt.Sprintf("past-%d", i)})
		if err != nil || len(got) == 0 {
			return nil, nil, errors.Join(err, errors.New("no job of the past is listed"))
		}
		lists = append(lists, time.Since(began))
		began = time.Now()
		if _, err := e.store.Payload(ctx, got[len(got)-1].Spec.ID); err != nil {
			return nil, nil, err
		}
		payloads = append(payloads, time.Since(began))
	}
	return lists, payloads, nil
}

// multiplyPostgres copies the rows of the first job that succeeded, n times. What its rows say of the job itself, they say by
// the columns that are made anew here.
func multiplyPostgres(ctx context.Context, address string, n int) error {
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	var base, first int64
	err = c.QueryRow(ctx, "SELECT max(j.seq), min(e.seq) FROM headrace.job j LEFT JOIN headrace.ended e ON e.seq = j.seq AND e.outcome = 1").Scan(&base, &first)
	if err := errors.Join(err, c.Close(ctx)); err != nil {
		return err
	}
	steps := []string{
		fmt.Sprintf(`INSERT INTO headrace.job SELECT %d + i, (lpad(to_hex(1600000000000 + i / 10), 12, '0') || '70008000' || lpad(to_hex(i), 12, '0'))::uuid,
			at, channel, kind, 'past-' || (i %% 1000), key, spec, args, staging FROM headrace.job, generate_series(1, %d) AS i WHERE seq = %d`, base, n, first),
		fmt.Sprintf(`INSERT INTO headrace.ended SELECT %d + i, outcome, body, attempt, tally, own, worker FROM headrace.ended, generate_series(1, %d) AS i WHERE seq = %d;
			INSERT INTO headrace.result SELECT %[1]d + i, job, attempt, same FROM headrace.result, generate_series(1, %[2]d) AS i WHERE seq = %[3]d;
			UPDATE headrace.feed SET seq = %[1]d + %[2]d WHERE number = (SELECT max(number) FROM headrace.feed)`, base, n, first),
	}
	errs := make([]error, len(steps))
	var all sync.WaitGroup
	for i, sql := range steps {
		all.Go(func() {
			c, err := pgx.Connect(ctx, address)
			if err != nil {
				errs[i] = err
				return
			}
			_, err = c.Exec(ctx, sql)
			if err == nil {
				for _, table := range [][]string{{"job"}, {"ended", "result"}}[i] {
					_, vacuum := c.Exec(ctx, "VACUUM (ANALYZE, FREEZE) headrace."+table)
					err = errors.Join(err, vacuum)
				}
			}
			errs[i] = errors.Join(err, c.Close(ctx))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// multiplySQLite does the same to a file, without a log: the store opens it with one again.
func multiplySQLite(path string, n int) (err error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var base, first int64
	read := &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		base, first = s.ColumnInt64(0), s.ColumnInt64(1)
		return nil
	}}
	if err := sqlitex.ExecuteTransient(c, "SELECT (SELECT max(seq) FROM job), (SELECT min(seq) FROM ended WHERE outcome = 1)", read); err != nil {
		return err
	}
	const numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) "
	for _, pragma := range []string{"journal_mode = off", "synchronous = off", "cache_size = -262144"} {
		if err := sqlitex.ExecuteTransient(c, "PRAGMA "+pragma, &sqlitex.ExecOptions{ResultFunc: func(*sqlite.Stmt) error { return nil }}); err != nil {
			return err
		}
	}
	for _, sql := range []string{
		"INSERT INTO job (seq, id, at, channel, kind, name, key, spec, args, staging) " + numbers +
			`SELECT ?1 + i, unhex(printf('%012x70008000%012x', 1600000000000 + i / 10, i)), at, channel, kind, 'past-' || (i % 1000), key, spec, args, staging FROM n, job WHERE seq = ?3`,
		"INSERT INTO ended " + numbers + "SELECT ?1 + i, outcome, body, attempt, tally, own, worker FROM n, ended WHERE seq = ?3",
		"INSERT INTO result " + numbers + "SELECT ?1 + i, job, attempt, same FROM n, result WHERE seq = ?3",
		"UPDATE head SET seq = ?1 + ?2 WHERE ?3 > 0",
	} {
		if err := sqlitex.ExecuteTransient(c, sql, &sqlitex.ExecOptions{Args: []any{base, n, first}}); err != nil {
			return err
		}
	}
	return nil
}

// held measures the rates while others read for long, each within one transaction, so that nothing that dies meanwhile can
// be cleaned up.
func held(ctx context.Context, l *lab) (section, error) {
	s := section{
		title: "While three analytic queries hold a snapshot",
		note: fmt.Sprintf("PostgreSQL. Three sessions, each in one transaction (repeatable read), sum up the whole history every two seconds, for %s. The rates of lifecycles are those of the "+
			"first and of the last quarter of that time, the others are measured at its end.", l.held),
	}
	if !l.has(onPostgres) {
		return s, nil
	}
	p, err := l.place(ctx, onPostgres)
	if err != nil {
		return s, err
	}
	return s, with(ctx, p, func(e *engine) error { return l.heldOn(ctx, p, e, &s) })
}

func (l *lab) heldOn(ctx context.Context, p place, e *engine, s *section) error {
	var after [3]float64
	before, err := l.newThree(ctx, p.kind)
	if err != nil {
		return err
	}
	// Something to read.
	if _, err := l.drainOf(ctx, e); err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, 3)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = analyse(reading, p.address) })
	}
	most := l.callers[len(l.callers)-1]
	var early, late rates
	began := time.Now()
	for len(late) == 0 || time.Since(began) < l.held {
		r, err := rate(ctx, e, most, l.window, lifecycle)
		if err != nil {
			return err
		}
		since := time.Since(began)
		if len(early) == 0 || since < l.held/4 {
			early = append(early, r)
		}
		if since >= 3*l.held/4 {
			late = append(late, r)
		}
	}
	after[0] = late.median()
	if after[1], err = l.drainOf(ctx, e); err != nil {
		return err
	}
	if after[2], err = rate(ctx, e, most, l.window, enqueue(1)); err != nil {
		return err
	}
	stop()
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.add(fmt.Sprintf("lifecycles, %d callers, first quarter", most), early.text())
	s.add(fmt.Sprintf("lifecycles, %d callers, last quarter", most), late.text())
	l.tell(s, "at the end", before, after)
	return nil
}

// analyse reads within one transaction until ctx ends.
func analyse(ctx context.Context, address string) (err error) {
	whole := context.WithoutCancel(ctx)
	c, err := pgx.Connect(whole, address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(whole)) }()
	tx, err := c.BeginTx(whole, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		var jobs, size int64
		const sql = `SELECT count(*), coalesce(sum(length(e.body) + length(r.job)), 0) FROM headrace.job j
			LEFT JOIN headrace.live l ON l.seq = j.seq LEFT JOIN headrace.ended e ON e.seq = j.seq LEFT JOIN headrace.result r ON r.seq = j.seq`
		if err := tx.QueryRow(whole, sql).Scan(&jobs, &size); err != nil {
			return err
		}
		wait(ctx, time.After(2*time.Second))
	}
	return tx.Rollback(whole)
}
