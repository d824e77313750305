package sqlite

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

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

// list is a query for a page of records, newest first.
type list struct {
	columns, from string
	seq           string // the column that orders it
	where         []string
	args          []any // int64, string or []byte
	limit         int
}

func (l *list) add(sql string, args ...any) {
	l.where = append(l.where, sql)
	l.args = append(l.args, args...)
}

func (l *list) ids(column string, ids []job.ID) error {
	if len(ids) == 0 {
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
	l.add(column+" IN (SELECT unhex(value) FROM json_each(?))", string(list))
	return nil
}

func (l *list) before(seq int64) {
	if seq != 0 {
		l.add(l.seq+" < ?", seq)
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
	q := db.adhoc(l.sql())
	for _, a := range l.args {
		switch a := a.(type) {
		case int64:
			q.int(a)
		case string:
			q.string(a)
		case []byte:
			q.blob(a)
		}
	}
	return q.int(int64(l.limit))
}

var stateNumbers = map[string]int64{
	job.Blocked{}.String(): blocked, job.Ready{}.String(): ready, job.Running{}.String(): running, job.Done{}.String(): done,
}

// lead is the table from which a list of jobs starts, and the indexed column by which it finds its rows there; none: it
// goes back through the table.
type lead struct{ table, column string }

// leadTo gives what leads to the fewest jobs, which the engine of SQLite would guess.
func leadTo(f *queue.JobFilter) lead {
	unfinished, ended := stateNumbers[f.State] != done && f.State != "", f.State != "" || f.Outcome != 0
	switch {
	case len(f.IDs) > 0, !f.Build.IsZero():
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
func (l *list) equal(to lead, table, column string, v any) {
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
func listJobs(f *queue.JobFilter) (*list, error) {
	to := leadTo(f)
	l := &list{columns: recordColumns, seq: "j.seq", limit: pageLimit(f.Limit)}
	live, ended := "LEFT", "LEFT" // a CROSS JOIN keeps the order of the tables
	state, stated := stateNumbers[f.State]
	if stated && state != done {
		live = "CROSS"
		l.add("l.state = ?", state)
	}
	if state == done || f.Outcome != 0 {
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
		l.equal(to, "e", "outcome", int64(f.Outcome))
	}
	if !f.Build.IsZero() {
		l.add("j.id IN (SELECT r.job FROM build b JOIN build_ref r ON r.build = b.seq WHERE b.id = ?)", f.Build[:])
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
			l.equal(to, "j", c.column, c.v)
		}
	}
	l.before(f.Before)
	return l, nil
}

// listBuilds gives the list for a filter.
func listBuilds(f *queue.BuildFilter) (*list, error) {
	l := &list{columns: buildColumns, from: "build b", seq: "b.seq", limit: pageLimit(f.Limit)}
	l.add("b.staged = 0")
	if f.Live {
		l.add("b.outcome = 0")
	}
	switch {
	case f.Name == "":
	case f.Live, len(f.IDs) > 0: // these lead to fewer
		l.add("+b.name = ?", f.Name)
	default:
		l.add("b.name = ? AND b.name <> ''", f.Name)
	}
	if err := l.ids("b.id", f.IDs); err != nil {
		return nil, err
	}
	l.before(f.Before)
	return l, nil
}

// Jobs implements queue.History.
func (r *Reader) Jobs(ctx context.Context, f queue.JobFilter) ([]job.Record, error) {
	if _, ok := stateNumbers[f.State]; !ok && f.State != "" {
		return nil, nil
	}
	var found []job.Record
	l, err := listJobs(&f)
	if err == nil {
		err = r.long(ctx, func(db *conn) error {
			return each(l.query(db), func(q *stmt) error {
				if rec, _, err := readRecord(q); err == nil {
					found = append(found, *rec)
				}
				return nil
			})
		})
	}
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
			return each(l.query(db), func(q *stmt) error {
				if b, err := readBuild(q); err == nil {
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
	var refs []job.Ref
	err := r.long(ctx, func(c *conn) error {
		var seq int64
		err := each(c.query(qBuildSeq).blob(build[:]), func(q *stmt) error { seq = q.readInt(); return nil })
		if err != nil || seq == 0 {
			return err
		}
		refs, err = readRefs(c, seq)
		return err
	})
	if err != nil {
		return nil, r.fail("list references of build "+build.String(), err)
	}
	return refs, nil
}

// Attempts implements queue.History.
func (r *Reader) Attempts(ctx context.Context, id job.ID) ([]job.AttemptEnd, error) {
	var ended []job.AttemptEnd
	take := func(q *stmt) error {
		a, err := codec.DecodeAttemptEnd(q.readBytes())
		if err != nil {
			return nil
		}
		a.Result = q.readBytes()
		// A late finish stands where the engine had judged the same attempt before.
		if n := len(ended); n > 0 && ended[n-1].Number == a.Number {
			ended = ended[:n-1]
		}
		ended = append(ended, a)
		return nil
	}
	err := r.long(ctx, func(c *conn) error {
		if err := each(c.query(qAttempts).blob(id[:]), take); err != nil {
			return err
		}
		return each(c.query(qEndedAttempt).blob(id[:]), take)
	})
	if err != nil {
		return nil, r.fail("list attempts of job "+id.String(), err)
	}
	return ended, nil
}

// Payload implements queue.History.
func (r *Reader) Payload(ctx context.Context, id job.ID) (queue.Payload, error) {
	var p queue.Payload
	found := false
	err := r.long(ctx, func(c *conn) error {
		return each(c.query(qPayload).blob(id[:]), func(q *stmt) error {
			p, found = queue.Payload{Args: q.readBytes(), Result: q.readBytes()}, true
			return nil
		})
	})
	if err == nil && !found {
		err = queue.ErrNotFound
	}
	if err != nil {
		return queue.Payload{}, r.fail(fmt.Sprintf("read payload of job %s", id), err)
	}
	return p, nil
}

// Dependents implements queue.History.
func (r *Reader) Dependents(ctx context.Context, id job.ID) ([]job.ID, error) {
	var ids []job.ID
	err := r.long(ctx, func(c *conn) error {
		return each(c.query(qDependents).blob(id[:]), func(q *stmt) error {
			var v job.ID
			copy(v[:], q.readBytes())
			ids = append(ids, v)
			return nil
		})
	})
	if err != nil {
		return nil, r.fail("list dependents of job "+id.String(), err)
	}
	return ids, nil
}
