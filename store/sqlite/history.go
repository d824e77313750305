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

// lead is the table from which a list of jobs starts, and the indexed column by which it finds its rows there; none: it
// goes back through the table.
type lead struct{ table, column string }

// leadTo gives what leads to the fewest jobs, which the engine of SQLite would guess.
func leadTo(f *queue.JobFilter, most bool) lead {
	state, stated := rows.StateNumber(f.State)
	unfinished, ended := stated && rows.Unfinished(state), stated || f.Outcome != 0
	switch {
	case len(f.IDs) > 0, !f.Build.IsZero() && !most:
		return lead{"job", "id"}
	case f.Key != "":
		return lead{"job", "key"}
	case f.Name != "":
		return lead{"job", "name"}
	case unfinished:
		return lead{"live", ""}
	case f.Outcome != 0 && f.Outcome != job.Succeeded:
		return lead{"ended", "outcome"}
	case f.Channel != "":
		return lead{"job", "channel"}
	case f.Kind != "" && f.Kind != usualKind:
		return lead{"job", "kind"}
	case ended:
		return lead{"ended", ""}
	}
	return lead{"job", ""}
}

// usualKind is the kind that has no index, since nearly all jobs are of it where any is.
const usualKind = "command"

// partial has the terms that name the indexes which do not have all rows.
var partial = map[string]string{
	"name": "j.name <> ''", "channel": "j.channel <> ''", "kind": "j.kind <> '" + usualKind + "'",
	"outcome": "e.outcome <> " + strconv.Itoa(int(job.Succeeded)),
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

// listJobs gives the list for a filter whose State, if it has one, there is. most: its Build has a good part of all jobs.
func listJobs(f *queue.JobFilter, most bool) (*list, error) {
	to := leadTo(f, most)
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
	if stated && !rows.Unfinished(state) || f.Outcome != 0 {
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
	switch {
	case f.Build.IsZero():
	case most:
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
	l.before(f.Before)
	l.often = len(f.IDs) == 1 && len(l.args) == 1
	return l, nil
}

// most reports whether the build of a filter has a good part of all jobs. They do not come in the order of the list, so there
// are two ways: to find them all and sort, for each page; or to go along the list and ask of each job. To sort a million
// for each of 500 pages would take for ever: the first takes size * size / limit steps in all, the second as many as there
// are jobs.
func (db *conn) most(f *queue.JobFilter) (most bool, err error) {
	if f.Build.IsZero() {
		return false, nil
	}
	head, err := rows.ReadHead(db)
	if err != nil {
		return false, err
	}
	// The greatest seq is about as many as there are jobs, if none was deleted.
	enough := int64(math.Sqrt(float64(head.Seq)*float64(queue.PageLimit(f.Limit)))) + 1
	q := db.query(qBuildSize).bind(ident(f.Build), number(enough))
	return most, q.each(func() error {
		most = q.Int() >= enough
		return nil
	})
}

// listBuilds gives the list for a filter.
func listBuilds(f *queue.BuildFilter) (*list, error) {
	l := &list{columns: buildColumns, from: "build b", seq: "b.seq", limit: queue.PageLimit(f.Limit)}
	l.add("b.staged = 0")
	if f.Live {
		l.add("b.outcome = 0")
	}
	switch {
	case f.Name == "":
	case f.Live, len(f.IDs) > 0: // these lead to fewer
		l.add("+b.name = ?", text(f.Name))
	default:
		l.add("b.name = ? AND b.name <> ''", text(f.Name))
	}
	if err := l.ids("b.id", f.IDs); err != nil {
		return nil, err
	}
	l.before(f.Before)
	return l, nil
}

// Jobs implements queue.History.
func (r *Reader) Jobs(ctx context.Context, f queue.JobFilter) ([]job.Record, error) {
	if _, ok := rows.StateNumber(f.State); !ok && f.State != "" {
		return nil, nil
	}
	var found []job.Record
	err := r.long(ctx, func(db *conn) error {
		most, err := db.most(&f)
		if err != nil {
			return err
		}
		l, err := listJobs(&f, most)
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
	l, err := listBuilds(&f)
	if err == nil {
		err = r.long(ctx, func(db *conn) error {
			q := l.query(db)
			return q.each(func() error {
				if b, err := rows.Build(q); err == nil {
					found = append(found, b)
				}
				return nil
			})
		})
	}
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
