package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/rows"
)

// list is a query for a page of records, newest first.
type list struct {
	columns, from string
	seq           string // the column that orders it
	where         []string
	params        [][]byte
	limit         int
	name          string // by which it is prepared, as the same is asked again and again; "": it is not
}

// add adds a condition; a ? in it stands for the parameter.
func (l *list) add(sql string, param []byte) {
	l.params = append(l.params, param)
	l.where = append(l.where, strings.Replace(sql, "?", fmt.Sprintf("$%d", len(l.params)), 1))
}

// text adds a condition on a column unless any text will do.
func (l *list) text(column, v string) {
	if v != "" {
		l.add(column+" = ?::text", []byte(escaped(v)))
	}
}

func (l *list) ids(name string, ids []job.ID) {
	if len(ids) == 0 {
		return
	}
	var array column
	for _, id := range ids {
		array.add(&rows.Value{Kind: rows.ID, ID: id})
	}
	l.add(name+" = ANY(?::uuid[])", array.wire(oidUUID))
}

// prefix adds the condition on a name that it begins so.
func (l *list) prefix(column, prefix string) {
	if prefix == "" {
		return
	}
	prefix = escaped(prefix)
	l.where = append(l.where, column+" <> ''") // for the index that leaves those out
	l.add(column+" >= ?::text", []byte(prefix))
	if end, ok := rows.PrefixEnd(prefix); ok {
		l.add(column+" < ?::text", []byte(end))
	}
}

// within adds the bounds of the moment. The seqs that they stand for are found once, by halving: see the function of that name.
func (l *list) within(at, since string, after, until job.Time) {
	if after != 0 {
		l.add(l.seq+" >= (SELECT headrace."+since+"(?::bigint))", number(int64(after)))
		l.add(at+" >= ?::bigint", number(int64(after)))
	}
	if until != 0 {
		l.add(l.seq+" < (SELECT headrace."+since+"(?::bigint))", number(int64(until)))
		l.add(at+" < ?::bigint", number(int64(until)))
	}
}

func (l *list) before(seq int64) {
	if seq != 0 {
		l.add(l.seq+" < ?::bigint", number(seq))
	}
}

func (l *list) sql() string {
	sql := "SELECT " + l.columns + " FROM " + l.from
	if len(l.where) > 0 {
		sql += " WHERE " + strings.Join(l.where, " AND ")
	}
	return fmt.Sprintf("%s ORDER BY %s DESC LIMIT $%d::bigint", sql, l.seq, len(l.params)+1)
}

// listJobs gives the list for a filter whose State, if it has one, there is.
func listJobs(f *queue.JobFilter) *list {
	// The order is that of the smallest table that has all: what is unfinished, what has ended, or all jobs.
	l := &list{columns: recordColumns, seq: "j.seq", limit: queue.PageLimit(f.Limit)}
	l.from = "headrace.job j LEFT JOIN headrace.live l ON l.seq = j.seq LEFT JOIN headrace.ended e ON e.seq = j.seq"
	if f.Args {
		l.columns += ", j.args"
	}
	state, stated := rows.StateNumber(f.State)
	switch {
	case stated && rows.Unfinished(state):
		l.seq, l.from = "l.seq", "headrace.live l JOIN headrace.job j ON j.seq = l.seq LEFT JOIN headrace.ended e ON e.seq = l.seq"
		l.add("l.state = ?::bigint", number(state))
	case stated || f.Outcome != 0 || f.Worker != "":
		l.seq, l.from = "e.seq", "headrace.ended e JOIN headrace.job j ON j.seq = e.seq LEFT JOIN headrace.live l ON l.seq = e.seq"
	}
	if f.Outcome != 0 {
		// In the text, for the index that leaves out successes.
		l.where = append(l.where, fmt.Sprintf("e.outcome = %d", f.Outcome))
	}
	l.text("e.worker", f.Worker)
	l.from += sealed
	if !f.Build.IsZero() {
		l.add("j.id IN (SELECT r.job FROM headrace.build b JOIN headrace.build_ref r ON r.build = b.seq WHERE b.id = ?::uuid)", f.Build[:])
	}
	l.ids("j.id", f.IDs)
	if len(f.IDs) == 0 && f.Build.IsZero() {
		l.where = append(l.where, "(j.staging IS NULL OR NOT EXISTS (SELECT 1 FROM headrace.build WHERE id = j.staging AND staged))")
	}
	l.text("j.key", f.Key)
	l.text("j.name", f.Name)
	l.text("j.channel", f.Channel)
	l.text("j.kind", f.Kind)
	l.prefix("j.name", f.Prefix)
	l.within("j.at", "job_since", f.After, f.Until)
	l.before(f.Before)
	if len(f.IDs) > 0 && len(l.where) == 1 && f.State == "" { // of one state, it may be another without a condition more
		l.name = fmt.Sprintf("jobs_by_id_%t", f.Args)
	}
	return l
}

// listBuilds gives the list for a filter.
func listBuilds(f *queue.BuildFilter) *list {
	l := &list{columns: buildColumns, from: "headrace.build b", seq: "b.seq", limit: queue.PageLimit(f.Limit), where: []string{"NOT b.staged"}}
	if f.Live {
		l.where = append(l.where, "b.outcome = 0")
	}
	if f.Outcome != 0 {
		l.where = append(l.where, fmt.Sprintf("b.outcome = %d", f.Outcome))
	}
	if !f.Job.IsZero() {
		l.add("b.seq IN (SELECT build FROM headrace.build_ref WHERE job = ?::uuid)", f.Job[:])
	}
	l.text("b.name", f.Name)
	l.prefix("b.name", f.Prefix)
	l.ids("b.id", f.IDs)
	l.within("b.at", "build_since", f.After, f.Until)
	l.before(f.Before)
	return l
}

// Jobs implements queue.History.
func (r *Reader) Jobs(ctx context.Context, f queue.JobFilter) (found []job.Record, err error) {
	if err := f.Check(); err != nil {
		return nil, r.fail("list jobs", err)
	}
	state, ok := rows.StateNumber(f.State)
	if !ok && f.State != "" || ok && rows.Unfinished(state) && f.Worker != "" {
		return nil, nil
	}
	l := listJobs(&f)
	read := r.read
	if l.name != "" {
		read = r.byKey
	}
	err = read(ctx, func(t *tables) error {
		found = nil
		return t.list(l, func(c rows.Columns) {
			if rec, err := rows.Listed(c, f.Args); err == nil {
				found = append(found, *rec)
			}
		})
	})
	if err != nil {
		return nil, r.fail("list jobs", err)
	}
	return found, nil
}

// Builds implements queue.History.
func (r *Reader) Builds(ctx context.Context, f queue.BuildFilter) (found []job.BuildRecord, err error) {
	if err := f.Check(); err != nil {
		return nil, r.fail("list builds", err)
	}
	l := listBuilds(&f)
	err = r.read(ctx, func(t *tables) error {
		found = nil
		return t.list(l, func(c rows.Columns) {
			if b, err := rows.Build(c); err == nil {
				found = append(found, b)
			}
		})
	})
	if err != nil {
		return nil, r.fail("list builds", err)
	}
	return found, nil
}

func (t *tables) list(l *list, f func(rows.Columns)) error {
	params := append(l.params, number(int64(l.limit)))
	t.send(request{name: l.name, sql: l.sql(), params: params, read: func(c *cells) error {
		f(c)
		return nil
	}})
	return t.exchange()
}

// Refs implements queue.History.
func (r *Reader) Refs(ctx context.Context, build job.ID) ([]job.Ref, error) {
	return ask(ctx, r, "list references of build", build, r.moment, rows.ReadRefs)
}

// Attempts implements queue.History.
func (r *Reader) Attempts(ctx context.Context, id job.ID) ([]job.AttemptEnd, error) {
	return ask(ctx, r, "list attempts of job", id, r.byKey, rows.ReadAttempts)
}

// Payload implements queue.History.
func (r *Reader) Payload(ctx context.Context, id job.ID) (queue.Payload, error) {
	return ask(ctx, r, "read payload of job", id, r.byKey, rows.ReadPayload)
}

// Dependents implements queue.History.
func (r *Reader) Dependents(ctx context.Context, id job.ID) ([]job.ID, error) {
	return ask(ctx, r, "list dependents of job", id, r.byKey, rows.ReadDependents)
}

// CachedFailures implements queue.Failures.
func (r *Reader) CachedFailures(ctx context.Context, f queue.FailureFilter) (found []job.FailureCached, err error) {
	err = r.moment(ctx, func(t *tables) (err error) {
		found, err = rows.ReadFailures(t, f)
		return err
	})
	if err != nil {
		return nil, r.fail("list cached failures", err)
	}
	return found, nil
}

// ask reads what there is about one job or build.
func ask[T any](
	ctx context.Context, r *Reader, what string, id job.ID,
	lend func(context.Context, func(*tables) error) error, read func(rows.Tables, job.ID) (T, error),
) (v T, err error) {
	err = lend(ctx, func(t *tables) (err error) {
		v, err = read(t, id)
		return err
	})
	if err != nil {
		var none T
		return none, r.fail(what+" "+id.String(), err)
	}
	return v, nil
}
