package sqlite

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
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
	args          []rows.Value
	limit         int
	// often: it is asked again and again, so that its statement is kept.
	often bool
}

func (l *list) add(sql string, args ...rows.Value) {
	l.where = append(l.where, sql)
	l.args = append(l.args, args...)
}

func (l *list) ids(column string, ids []job.ID) error {
	switch len(ids) {
	case 0:
		return nil
	case 1:
		l.add(column+" = ?", ident(ids[0]))
		return nil
	}
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = hex.EncodeToString(id[:])
	}
	list, err := json.Marshal(all)
	if err != nil {
		return err
	}
	l.add(column+" IN (SELECT unhex(value) FROM json_each(?))", text(string(list)))
	return nil
}

func (l *list) before(seq int64) {
	if seq != 0 {
		l.add(l.seq+" < ?", number(seq))
	}
}

func (l *list) sql() string {
	sql := "SELECT " + l.columns + " FROM " + l.from
	if len(l.where) > 0 {
		sql += " WHERE " + strings.Join(l.where, " AND ")
	}
	return sql + " ORDER BY " + l.seq + " DESC LIMIT ?"
}

func (l *list) query(db *conn) *stmt {
	prepare := db.adhoc
	if l.often {
		prepare = db.kept
	}
	return prepare(l.sql()).bind(l.args...).bind(number(int64(l.limit)))
}

func number(v int64) rows.Value { return rows.Value{Kind: rows.Integer, Int: v} }

func ident(id job.ID) rows.Value { return rows.Value{Kind: rows.ID, ID: id} }

func text(v string) rows.Value { return rows.Value{Kind: rows.Text, Text: v} }

// reach is what is looked up of a filter before its list is made.
type reach struct {
	// most: the build has a good part of all jobs, or the prefix of all names.
	mostOf, mostNamed bool
	since, until      int64 // seqs; 0: no bound
}

func (l *list) within(r reach, at string, after, until job.Time) {
	if after != 0 {
		l.add(l.seq+" >= ?", number(r.since))
		l.add(at+" >= ?", number(int64(after)))
	}
	if until != 0 {
		l.add(l.seq+" < ?", number(r.until))
		l.add(at+" < ?", number(int64(until)))
	}
}

// prefix adds the condition on a name. It leads unless something else does, or nearly all names begin so.
func (l *list) prefix(column, prefix string, leads bool) {
	plus := "+"
	if leads {
		plus = ""
		l.add(column + " <> ''")
	}
	l.add(plus+column+" >= ?", text(prefix))
	if end, ok := rows.PrefixEnd(prefix); ok {
		l.add(plus+column+" < ?", text(end))
	}
}

// lead is the table from which a list of jobs starts, and the indexed column by which it finds its rows there; none: it
// goes back through the table.
type lead struct{ table, column string }

// leadTo gives what leads to the fewest jobs, which the engine of SQLite would guess.
func leadTo(f *queue.JobFilter, r reach) lead {
	state, stated := rows.StateNumber(f.State)
	unfinished, ended := stated && rows.Unfinished(state), stated || f.Outcome != 0 || f.Worker != ""
	switch {
	case len(f.IDs) > 0, !f.Build.IsZero() && !r.mostOf:
		return lead{"job", "id"}
	case f.Key != "":
		return lead{"job", "key"}
	case f.Name != "":
		return lead{"job", "name"}
	case f.Prefix != "" && !r.mostNamed:
		return lead{"job", prefixed}
	case unfinished:
		return lead{"live", ""}
	case f.Outcome != 0 && f.Outcome != job.Succeeded:
		return lead{"ended", "outcome"}
	case f.Worker != "":
		return lead{"ended", "worker"}
	case f.Channel != "":
		return lead{"job", "channel"}
	case f.Kind != "" && f.Kind != usualKind:
		return lead{"job", "kind"}
	case ended:
		return lead{"ended", ""}
	}
	return lead{"job", ""}
}

// prefixed stands for the column name where a prefix leads there.
const prefixed = "name prefix"

// usualKind is the kind that has no index, since nearly all jobs are of it where any is.
const usualKind = "command"

// partial has the terms that name the indexes which do not have all rows.
var partial = map[string]string{
	"name": "j.name <> ''", "channel": "j.channel <> ''", "kind": "j.kind <> '" + usualKind + "'",
	"outcome": "e.outcome <> " + strconv.Itoa(int(job.Succeeded)), "worker": "e.worker IS NOT NULL",
}

// equal adds a condition on a column of a list of jobs. A plus keeps the engine from any index but the one that leads.
func (l *list) equal(to lead, table, column string, v rows.Value) {
	if column != to.column {
		l.add("+"+table+"."+column+" = ?", v)
		return
	}
	l.add(table+"."+column+" = ?", v)
	if term := partial[column]; term != "" {
		l.add(term)
	}
}

// listJobs gives the list for a filter whose State, if it has one, there is.
func listJobs(f *queue.JobFilter, r reach) (*list, error) {
	to := leadTo(f, r)
	l := &list{columns: recordColumns, seq: "j.seq", limit: queue.PageLimit(f.Limit)}
	if f.Args {
		l.columns += ", j.args"
	}
	live, ended := "LEFT", "LEFT" // a CROSS JOIN keeps the order of the tables
	state, stated := rows.StateNumber(f.State)
	if stated && rows.Unfinished(state) {
		live = "CROSS"
		l.add("l.state = ?", number(state))
	}
	if stated && !rows.Unfinished(state) || f.Outcome != 0 || f.Worker != "" {
		ended = "CROSS"
	}
	switch to.table {
	case "live":
		l.seq, l.from = "l.seq", "live l CROSS JOIN job j ON j.seq = l.seq "+ended+" JOIN ended e ON e.seq = l.seq"
	case "ended":
		l.seq, l.from = "e.seq", "ended e CROSS JOIN job j ON j.seq = e.seq "+live+" JOIN live l ON l.seq = e.seq"
	default:
		l.from = "job j " + live + " JOIN live l ON l.seq = j.seq " + ended + " JOIN ended e ON e.seq = j.seq"
	}
	if f.Outcome != 0 {
		l.equal(to, "e", "outcome", number(int64(f.Outcome)))
	}
	if f.Worker != "" {
		l.equal(to, "e", "worker", text(f.Worker))
	}
	switch {
	case f.Build.IsZero():
	case r.mostOf:
		l.add("EXISTS (SELECT 1 FROM build b JOIN build_ref r ON r.build = b.seq WHERE b.id = ? AND r.job = j.id)", ident(f.Build))
	default:
		l.add("j.id IN (SELECT r.job FROM build b JOIN build_ref r ON r.build = b.seq WHERE b.id = ?)", ident(f.Build))
	}
	if err := l.ids("j.id", f.IDs); err != nil {
		return nil, err
	}
	if len(f.IDs) == 0 && f.Build.IsZero() {
		l.add("NOT EXISTS (SELECT 1 FROM build WHERE id = j.staging AND staged = 1)")
	}
	for _, c := range []struct{ column, v string }{
		{"key", f.Key}, {"name", f.Name}, {"channel", f.Channel}, {"kind", f.Kind},
	} {
		if c.v != "" {
			l.equal(to, "j", c.column, text(c.v))
		}
	}
	if f.Prefix != "" {
		l.prefix("j.name", f.Prefix, to.column == prefixed)
	}
	l.within(r, "j.at", f.After, f.Until)
	l.before(f.Before)
	l.often = len(f.IDs) == 1 && len(l.args) == 1
	return l, nil
}

// reachJobs looks up, above all, whether the build of a filter has a good part of all jobs. They do not come in the order of the list, so there
// are two ways: to find them all and sort, for each page; or to go along the list and ask of each job. To sort a million
// for each of 500 pages would take for ever: the first takes size * size / limit steps in all, the second as many as there
// are jobs.
//
// So it is with names that begin in one way.
func (db *conn) reachJobs(f *queue.JobFilter) (r reach, err error) {
	if f.Build.IsZero() && f.Prefix == "" && f.After == 0 && f.Until == 0 {
		return r, nil
	}
	head, err := rows.ReadHead(db)
	if err != nil {
		return r, err
	}
	enough := enoughOf(head.Seq, f.Limit)
	if !f.Build.IsZero() {
		if r.mostOf, err = db.reaches(enough, qBuildSize, ident(f.Build)); err != nil {
			return r, err
		}
	}
	return r, db.reach(&r, head.Seq, enough, f.Prefix, qJobsNamed, f.After, f.Until, qJobAfter)
}

// reachBuilds is reachJobs for builds.
func (db *conn) reachBuilds(f *queue.BuildFilter) (r reach, err error) {
	if f.Prefix == "" && f.After == 0 && f.Until == 0 {
		return r, nil
	}
	head, err := rows.ReadHead(db)
	if err != nil {
		return r, err
	}
	return r, db.reach(&r, head.Seq, enoughOf(head.Seq, f.Limit), f.Prefix, qBuildsNamed, f.After, f.Until, qBuildAfter)
}

// enoughOf gives how many are a good part. The greatest seq is about as many as there are, if none was deleted.
func enoughOf(last int64, limit int) int64 {
	return int64(math.Sqrt(float64(last)*float64(queue.PageLimit(limit)))) + 1
}

// reaches reports whether a statement counts so many, which it takes last.
func (db *conn) reaches(enough int64, count rows.Query, of ...rows.Value) (yes bool, err error) {
	q := db.query(count).bind(of...).bind(number(enough))
	return yes, q.each(func() error {
		yes = q.Int() >= enough
		return nil
	})
}

func (db *conn) reach(r *reach, last, enough int64, prefix string, named rows.Query, after, until job.Time, next rows.Query) (err error) {
	if prefix != "" {
		end, ok := rows.PrefixEnd(prefix)
		if !ok {
			end = prefix + "\xff"
		}
		if r.mostNamed, err = db.reaches(enough, named, text(prefix), text(end)); err != nil {
			return err
		}
	}
	for _, bound := range []struct {
		at  job.Time
		seq *int64
	}{{after, &r.since}, {until, &r.until}} {
		if bound.at == 0 {
			continue
		}
		*bound.seq, err = rows.Since(bound.at, last, func(seq int64) (found int64, at job.Time, ok bool, err error) {
			q := db.query(next).bind(number(seq))
			err = q.each(func() error {
				found, at, ok = q.Int(), job.Time(q.Int()), true
				return nil
			})
			return found, at, ok, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// listBuilds gives the list for a filter.
func listBuilds(f *queue.BuildFilter, r reach) (*list, error) {
	l := &list{columns: buildColumns, from: "build b", seq: "b.seq", limit: queue.PageLimit(f.Limit)}
	l.add("b.staged = 0")
	if !f.Job.IsZero() {
		l.add("b.seq IN (SELECT build FROM build_ref WHERE job = ?)", ident(f.Job))
	}
	switch {
	case !f.Live:
	case f.Job.IsZero():
		l.add("b.outcome = 0")
	default:
		l.add("+b.outcome = 0")
	}
	few := f.Live || len(f.IDs) > 0 || !f.Job.IsZero()
	switch {
	case f.Name == "":
	case few: // these lead to fewer
		l.add("+b.name = ?", text(f.Name))
	default:
		l.add("b.name = ? AND b.name <> ''", text(f.Name))
	}
	if err := l.ids("b.id", f.IDs); err != nil {
		return nil, err
	}
	fewer := few || f.Name != ""
	byPrefix := f.Prefix != "" && !fewer && !r.mostNamed
	if f.Prefix != "" {
		l.prefix("b.name", f.Prefix, byPrefix)
	}
	switch {
	case f.Outcome == 0:
	case fewer, byPrefix, f.Outcome == job.Succeeded:
		l.add("+b.outcome = ?", number(int64(f.Outcome)))
	default:
		l.add("b.outcome = ? AND b.outcome > 1", number(int64(f.Outcome)))
	}
	l.within(r, "b.at", f.After, f.Until)
	l.before(f.Before)
	return l, nil
}

// Jobs implements queue.History.
func (r *Reader) Jobs(ctx context.Context, f queue.JobFilter) ([]job.Record, error) {
	if err := f.Check(); err != nil {
		return nil, r.fail("list jobs", err)
	}
	state, ok := rows.StateNumber(f.State)
	if !ok && f.State != "" || ok && rows.Unfinished(state) && f.Worker != "" {
		return nil, nil
	}
	var found []job.Record
	err := r.long(ctx, func(db *conn) error {
		reach, err := db.reachJobs(&f)
		if err != nil {
			return err
		}
		l, err := listJobs(&f, reach)
		if err != nil {
			return err
		}
		q := l.query(db)
		return q.each(func() error {
			if rec, err := rows.Listed(q, f.Args); err == nil {
				found = append(found, *rec)
			}
			return nil
		})
	})
	if err != nil {
		return nil, r.fail("list jobs", err)
	}
	return found, nil
}

// Builds implements queue.History.
func (r *Reader) Builds(ctx context.Context, f queue.BuildFilter) ([]job.BuildRecord, error) {
	var found []job.BuildRecord
	if err := f.Check(); err != nil {
		return nil, r.fail("list builds", err)
	}
	err := r.long(ctx, func(db *conn) error {
		reach, err := db.reachBuilds(&f)
		if err != nil {
			return err
		}
		l, err := listBuilds(&f, reach)
		if err != nil {
			return err
		}
		q := l.query(db)
		return q.each(func() error {
			if b, err := rows.Build(q); err == nil {
				found = append(found, b)
			}
			return nil
		})
	})
	if err != nil {
		return nil, r.fail("list builds", err)
	}
	return found, nil
}

// Refs implements queue.History.
func (r *Reader) Refs(ctx context.Context, build job.ID) ([]job.Ref, error) {
	return ask(ctx, r, "list references of build", build, rows.ReadRefs)
}

// Attempts implements queue.History.
func (r *Reader) Attempts(ctx context.Context, id job.ID) ([]job.AttemptEnd, error) {
	return ask(ctx, r, "list attempts of job", id, rows.ReadAttempts)
}

// Payload implements queue.History.
func (r *Reader) Payload(ctx context.Context, id job.ID) (queue.Payload, error) {
	return ask(ctx, r, "read payload of job", id, rows.ReadPayload)
}

// Dependents implements queue.History.
func (r *Reader) Dependents(ctx context.Context, id job.ID) ([]job.ID, error) {
	return ask(ctx, r, "list dependents of job", id, rows.ReadDependents)
}

// CachedFailures implements queue.Failures.
func (r *Reader) CachedFailures(ctx context.Context, f queue.FailureFilter) (found []job.FailureCached, err error) {
	err = r.long(ctx, func(db *conn) (err error) {
		found, err = rows.ReadFailures(db, f)
		return err
	})
	if err != nil {
		return nil, r.fail("list cached failures", err)
	}
	return found, nil
}

// ask reads what there is about one job or build.
func ask[T any](ctx context.Context, r *Reader, what string, id job.ID, read func(rows.Tables, job.ID) (T, error)) (v T, err error) {
	err = r.long(ctx, func(c *conn) (err error) {
		v, err = read(c, id)
		return err
	})
	if err != nil {
		var none T
		return none, r.fail(what+" "+id.String(), err)
	}
	return v, nil
}
