package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// A page is at most this long.
const (
	defaultLimit = 100
	maxLimit     = 10_000
)

func pageLimit(n int) int {
	if n <= 0 {
		return defaultLimit
	}
	return min(n, maxLimit)
}

// conditions gathers the part of a query that depends on what is asked for.
type conditions struct {
	where []string
	args  []any
}

// add adds a condition; a ? in it stands for v.
func (c *conditions) add(sql string, v any) {
	c.args = append(c.args, v)
	c.where = append(c.where, strings.Replace(sql, "?", fmt.Sprintf("$%d", len(c.args)), 1))
}

// text adds a condition on a column unless any text will do.
func (c *conditions) text(column, v string) {
	if v != "" {
		c.add(column+" = ?", escaped(v))
	}
}

// page gives a list, newest first by column seq, below before.
func (c *conditions) page(list, seq string, before int64, limit int) string {
	if before != 0 {
		c.add(seq+" < ?", before)
	}
	if len(c.where) > 0 {
		list += " WHERE " + strings.Join(c.where, " AND ")
	}
	return fmt.Sprintf("%s ORDER BY %s DESC LIMIT %d", list, seq, pageLimit(limit))
}

var stateNumbers = map[string]int16{
	job.Blocked{}.String(): blocked, job.Ready{}.String(): ready, job.Running{}.String(): running, job.Done{}.String(): done,
}

// Jobs implements queue.History.
func (r *Reader) Jobs(ctx context.Context, f queue.JobFilter) ([]job.Record, error) {
	state, ok := stateNumbers[f.State]
	if !ok && f.State != "" {
		return nil, nil
	}
	// The order is that of the smallest table that has all: what is unfinished, what has ended, or all jobs.
	list, seq := " FROM headrace.job j LEFT JOIN headrace.live l ON l.seq = j.seq LEFT JOIN headrace.ended e ON e.seq = j.seq", "j.seq"
	var c conditions
	switch {
	case ok && state != done:
		list, seq = " FROM headrace.live l JOIN headrace.job j ON j.seq = l.seq LEFT JOIN headrace.ended e ON e.seq = l.seq", "l.seq"
		c.add("l.state = ?", state)
	case ok || f.Outcome != 0:
		list, seq = " FROM headrace.ended e JOIN headrace.job j ON j.seq = e.seq LEFT JOIN headrace.live l ON l.seq = e.seq", "e.seq"
	}
	if f.Outcome != 0 {
		// In the text, for the index that leaves out successes.
		c.where = append(c.where, fmt.Sprintf("e.outcome = %d", f.Outcome))
	}
	if !f.Build.IsZero() {
		c.add("j.id IN (SELECT r.job FROM headrace.build b JOIN headrace.build_ref r ON r.build = b.seq WHERE b.id = ?)", uuid(f.Build))
	}
	if len(f.IDs) > 0 {
		c.add("j.id = ANY(?)", uuids(f.IDs))
	}
	if len(f.IDs) == 0 && f.Build.IsZero() {
		c.where = append(c.where, "(j.staging IS NULL OR NOT EXISTS (SELECT 1 FROM headrace.build WHERE id = j.staging AND staged))")
	}
	c.text("j.channel", f.Channel)
	c.text("j.kind", f.Kind)
	c.text("j.name", f.Name)
	c.text("j.key", f.Key)
	sql := c.page("SELECT "+recordColumns+list, seq, f.Before, f.Limit)
	var found []job.Record
	var w row
	err := r.query(ctx, func() { found = nil }, func(rows pgx.Rows) error {
		if err := w.scan(rows); err != nil {
			return err
		}
		if rec, err := w.read(); err == nil {
			found = append(found, *rec)
		}
		return nil
	}, sql, c.args...)
	if err != nil {
		return nil, r.fail("list jobs", err)
	}
	return found, nil
}

// Builds implements queue.History.
func (r *Reader) Builds(ctx context.Context, f queue.BuildFilter) ([]job.BuildRecord, error) {
	c := conditions{where: []string{"NOT b.staged"}}
	if f.Live {
		c.where = append(c.where, "b.outcome = 0")
	}
	c.text("b.name", f.Name)
	if len(f.IDs) > 0 {
		c.add("b.id = ANY(?)", uuids(f.IDs))
	}
	sql := c.page("SELECT "+buildColumns+" FROM headrace.build b", "b.seq", f.Before, f.Limit)
	var found []job.BuildRecord
	err := r.query(ctx, func() { found = nil }, func(rows pgx.Rows) error {
		b, bad, err := readBuild(rows)
		if err == nil && bad == nil {
			found = append(found, b)
		}
		return err
	}, sql, c.args...)
	if err != nil {
		return nil, r.fail("list builds", err)
	}
	return found, nil
}

// Refs implements queue.History.
func (r *Reader) Refs(ctx context.Context, build job.ID) ([]job.Ref, error) {
	const sql = `SELECT ` + refColumns + ` JOIN headrace.build b ON b.seq = r.build WHERE b.id = $1 ORDER BY r.place`
	var refs []job.Ref
	err := r.query(ctx, func() { refs = nil }, func(rows pgx.Rows) error {
		ref, err := readRef(rows)
		refs = append(refs, ref)
		return err
	}, sql, uuid(build))
	if err != nil {
		return nil, r.fail("list references of build "+build.String(), err)
	}
	return refs, nil
}

// Attempts implements queue.History.
func (r *Reader) Attempts(ctx context.Context, id job.ID) ([]job.AttemptEnd, error) {
	// A late finish stands where the engine had judged the same attempt before.
	const sql = `SELECT a.body, a.result, 0 FROM headrace.job j JOIN headrace.attempt a ON a.seq = j.seq WHERE j.id = $1
		UNION ALL SELECT e.attempt, CASE WHEN r.same THEN r.job ELSE r.attempt END, 1
		FROM headrace.job j JOIN headrace.ended e ON e.seq = j.seq LEFT JOIN headrace.result r ON r.seq = j.seq
		WHERE j.id = $1 AND e.attempt IS NOT NULL ORDER BY 3`
	var ended []job.AttemptEnd
	err := r.query(ctx, func() { ended = nil }, func(rows pgx.Rows) error {
		var body, result []byte
		var last int
		if err := rows.Scan(&body, &result, &last); err != nil {
			return err
		}
		a, err := codec.DecodeAttemptEnd(body)
		if err != nil {
			return err
		}
		a.Result = result
		ended = filed(ended, a)
		return nil
	}, sql, uuid(id))
	if err != nil {
		return nil, r.fail("list attempts of job "+id.String(), err)
	}
	return ended, nil
}

// filed puts an attempt in its place by number; one of the same number gives way.
func filed(list []job.AttemptEnd, a job.AttemptEnd) []job.AttemptEnd {
	i := len(list)
	for i > 0 && list[i-1].Number > a.Number {
		i--
	}
	if i > 0 && list[i-1].Number == a.Number {
		list[i-1] = a
		return list
	}
	list = append(list, job.AttemptEnd{})
	copy(list[i+1:], list[i:])
	list[i] = a
	return list
}

// Payload implements queue.History.
func (r *Reader) Payload(ctx context.Context, id job.ID) (queue.Payload, error) {
	var p queue.Payload
	const sql = `SELECT j.args, r.job FROM headrace.job j LEFT JOIN headrace.result r ON r.seq = j.seq WHERE j.id = $1`
	err := r.anew(ctx, func() error { return r.pool.QueryRow(ctx, sql, uuid(id)).Scan(&p.Args, &p.Result) })
	if errors.Is(err, pgx.ErrNoRows) {
		err = queue.ErrNotFound
	}
	if err != nil {
		return queue.Payload{}, r.fail(fmt.Sprintf("read payload of job %s", id), err)
	}
	return p, nil
}

// Dependents implements queue.History.
func (r *Reader) Dependents(ctx context.Context, id job.ID) ([]job.ID, error) {
	const sql = `SELECT j.id FROM headrace.edge d JOIN headrace.job j ON j.seq = d.dependent WHERE d.dep = $1 ORDER BY d.dependent`
	var ids []job.ID
	err := r.query(ctx, func() { ids = nil }, func(rows pgx.Rows) error {
		var v pgtype.UUID
		err := rows.Scan(&v)
		ids = append(ids, v.Bytes)
		return err
	}, sql, uuid(id))
	if err != nil {
		return nil, r.fail("list dependents of job "+id.String(), err)
	}
	return ids, nil
}
