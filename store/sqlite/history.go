package sqlite

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
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

// conditions gathers the part of a query that depends on what is asked for.
type conditions struct {
	where []string
	args  []any // int64, string or []byte
}

func (c *conditions) add(sql string, args ...any) {
	c.where = append(c.where, sql)
	c.args = append(c.args, args...)
}

// text adds a condition on a column unless any text will do.
func (c *conditions) text(column, v string) {
	if v != "" {
		c.add(column+" = ?", v)
	}
}

func (c *conditions) ids(column string, ids []job.ID) error {
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
	c.add(column+" IN (SELECT unhex(value) FROM json_each(?))", string(list))
	return nil
}

// build adds the condition that a job is one of the build's, unless the build is zero. Its jobs do not come in the order of the
// list. So there are two ways: to find them all and sort, for each page; or to go along the list and ask of each job. The
// second is right where a build has a good part of all jobs: listing a million by the first would sort them 500 times.
// few: it is the first.
func (c *conditions) build(db *conn, id job.ID, limit int) (few bool, err error) {
	if id.IsZero() {
		return false, nil
	}
	all, err := db.number(`SELECT seq FROM head`) // About as many as there are jobs, if none was deleted.
	if err != nil {
		return false, err
	}
	// To sort all for each page takes size * size / limit steps, to go along the list as many as it has jobs.
	enough := int64(math.Sqrt(float64(all)*float64(limit))) + 1
	var seq, size int64
	err = each(db.query(qBuildSize).blob(id[:]).int(enough), func(q *stmt) error {
		seq, size = q.readInt(), q.readInt()
		return nil
	})
	if err != nil {
		return false, err
	}
	if few = size < enough; few {
		c.add("j.id IN (SELECT r.job FROM build_ref r WHERE r.build = ?)", seq)
	} else {
		c.add("EXISTS (SELECT 1 FROM build_ref r WHERE r.build = ? AND r.job = j.id)", seq)
	}
	return few, nil
}

// page prepares a list, newest first by column seq, below before.
func (c *conditions) page(db *conn, list, seq string, before int64, limit int) *stmt {
	if before != 0 {
		c.add(seq+" < ?", before)
	}
	if len(c.where) > 0 {
		list += " WHERE " + strings.Join(c.where, " AND ")
	}
	q := db.adhoc(list + " ORDER BY " + seq + " DESC LIMIT ?")
	for _, a := range c.args {
		switch a := a.(type) {
		case int64:
			q.int(a)
		case string:
			q.string(a)
		case []byte:
			q.blob(a)
		}
	}
	return q.int(int64(limit))
}

var stateNumbers = map[string]int64{
	job.Blocked{}.String(): blocked, job.Ready{}.String(): ready, job.Running{}.String(): running, job.Done{}.String(): done,
}

// Jobs implements queue.History.
func (r *Reader) Jobs(ctx context.Context, f queue.JobFilter) ([]job.Record, error) {
	if _, ok := stateNumbers[f.State]; !ok && f.State != "" {
		return nil, nil
	}
	var found []job.Record
	err := r.long(ctx, func(db *conn) error {
		q, err := listJobs(db, "SELECT "+recordColumns, f)
		if err != nil {
			return err
		}
		return each(q, func(q *stmt) error {
			if rec, err := readRecord(q); err == nil {
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

// listJobs prepares the selection of the jobs that f asks for.
func listJobs(db *conn, selection string, f queue.JobFilter) (*stmt, error) {
	state, ok := stateNumbers[f.State]
	// The outermost table is the smallest that has all: what is unfinished, what has ended, or all jobs.
	list, seq := " FROM job j LEFT JOIN live l ON l.seq = j.seq LEFT JOIN ended e ON e.seq = j.seq", "j.seq"
	var c conditions
	switch {
	case ok && state != done:
		list, seq = " FROM live l CROSS JOIN job j ON j.seq = l.seq LEFT JOIN ended e ON e.seq = l.seq", "l.seq"
		c.add("l.state = ?", state)
	case ok || f.Outcome != 0:
		list, seq = " FROM ended e CROSS JOIN job j ON j.seq = e.seq LEFT JOIN live l ON l.seq = e.seq", "e.seq"
	}
	if f.Outcome != 0 {
		c.add("e.outcome = ?", int64(f.Outcome))
	}
	few, err := c.build(db, f.Build, pageLimit(f.Limit))
	if err != nil {
		return nil, err
	}
	if len(f.IDs) > 0 || few || f.Key != "" {
		list = strings.Replace(list, "CROSS JOIN", "JOIN", 1) // these lead to fewer jobs still
	}
	if err := c.ids("j.id", f.IDs); err != nil {
		return nil, err
	}
	if len(f.IDs) == 0 && f.Build.IsZero() {
		c.add("NOT EXISTS (SELECT 1 FROM build WHERE id = j.staging AND staged = 1)")
	}
	c.text("j.channel", f.Channel)
	c.text("j.kind", f.Kind)
	c.text("j.name", f.Name)
	c.text("j.key", f.Key)
	return c.page(db, selection+list, seq, f.Before, pageLimit(f.Limit)), nil
}

// Builds implements queue.History.
func (r *Reader) Builds(ctx context.Context, f queue.BuildFilter) ([]job.BuildRecord, error) {
	var c conditions
	c.add("b.staged = 0")
	if f.Live {
		c.add("b.outcome = 0")
	}
	c.text("b.name", f.Name)
	if err := c.ids("b.id", f.IDs); err != nil {
		return nil, r.fail("list builds", err)
	}
	var found []job.BuildRecord
	err := r.long(ctx, func(db *conn) error {
		q := c.page(db, "SELECT "+buildColumns+" FROM build b", "b.seq", f.Before, pageLimit(f.Limit))
		return each(q, func(q *stmt) error {
			if b, err := readBuild(q); err == nil {
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
			return err
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
