package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
)

// recordColumns are what readRecord reads: of job j, live l and ended e. The newest attempt that ended before
// its job is looked for by itself, since few jobs have one.
const recordColumns = `j.seq, j.id, j.at, j.channel, j.kind, j.name, coalesce(j.key, ''), j.spec,
	coalesce(l.state, -1), coalesce(l.wake, 0), coalesce(l.delay, 0), l.attempt, coalesce(l.held, false), coalesce(l.open, false),
	coalesce(l.tally, e.tally), coalesce(l.own, e.own),
	e.body, e.attempt, (SELECT body FROM headrace.attempt WHERE seq = j.seq ORDER BY number DESC LIMIT 1), coalesce(e.outcome, 0),
	CASE WHEN j.staging IS NOT NULL AND NOT EXISTS (SELECT 1 FROM headrace.build WHERE id = j.staging AND NOT staged) THEN j.staging END`

const buildColumns = `b.seq, b.id, b.at, b.priority, b.active, b.staged, b.outcome, b.ended, b.body`

const refColumns = `r.job, r.awaited, r.optional, r.priority, r.timeout, r.silence,
	CASE WHEN j.seq IS NULL THEN r.ended ELSE coalesce(e.outcome, 0) END
	FROM headrace.build_ref r LEFT JOIN headrace.job j ON j.id = r.job LEFT JOIN headrace.ended e ON e.seq = j.seq`

// row is the memory that records are read into, one after the other. What it gives out is not used again.
type row struct {
	id, staging               pgtype.UUID
	channel, kind, name, key  string
	spec, attempt, tally, own []byte
	end, ended, earlier       []byte
	at, wake, delay           int64
	state, outcome            int16
	fields                    []any
	record                    *job.Record
	seq                       int64
	held, open                bool
}

func (w *row) scan(rows pgx.Rows) error {
	if w.fields == nil {
		w.fields = []any{
			&w.seq, &w.id, &w.at, &w.channel, &w.kind, &w.name, &w.key, &w.spec,
			&w.state, &w.wake, &w.delay, &w.attempt, &w.held, &w.open, &w.tally, &w.own,
			&w.end, &w.ended, &w.earlier, &w.outcome, &w.staging,
		}
	}
	return rows.Scan(w.fields...)
}

// read gives the record of the row that was scanned. With an error the record still says what could be read.
func (w *row) read() (*job.Record, error) {
	r := &job.Record{Seq: w.seq, At: job.Time(w.at), Held: w.held, Open: w.open}
	var err error
	if spec := decoded(w.spec, codec.DecodeSpec, &err); spec != nil {
		r.Spec = *spec
	}
	r.Spec.ID = w.id.Bytes
	r.Spec.Channel, r.Spec.Kind, r.Spec.Name, r.Spec.Key = unescaped(w.channel), unescaped(w.kind), unescaped(w.name), unescaped(w.key)
	r.Running, r.Ready = w.state == running, w.state == ready
	r.Wake, r.Delay = job.Time(w.wake), time.Duration(w.delay)
	r.Last = decoded(w.attempt, codec.DecodeAttempt, &err)
	if tally := decoded(w.tally, codec.DecodeTally, &err); tally != nil {
		r.Tally = *tally
	}
	r.Own = decoded(w.own, codec.DecodeOwn, &err)
	r.End = decoded(w.end, codec.DecodeEnd, &err)
	if w.outcome != 0 && r.End == nil {
		r.End = &job.End{Outcome: job.Outcome(w.outcome)}
	}
	if w.staging.Valid {
		r.Staging = w.staging.Bytes
	}
	if r.Running {
		return r, err
	}
	last := w.ended
	if last == nil {
		last = w.earlier
	}
	if r.LastEnd = decoded(last, codec.DecodeAttemptEnd, &err); r.LastEnd != nil {
		a := r.LastEnd.Attempt
		r.Last = &a
	}
	return r, err
}

// decoded gives nil for a column that is null, and for one that cannot be read, of which the first goes to first.
func decoded[T any](b []byte, decode func([]byte) (T, error), first *error) *T {
	if b == nil {
		return nil
	}
	v, err := decode(b)
	if err != nil {
		if *first == nil {
			*first = err
		}
		return nil
	}
	return &v
}

// readBuild reads buildColumns. With bad set, the record still says what its columns said.
func readBuild(rows pgx.Rows) (b job.BuildRecord, bad, err error) {
	var (
		id       pgtype.UUID
		priority int32
		outcome  int16
		body     []byte
	)
	err = rows.Scan(&b.Seq, &id, (*int64)(&b.At), &priority, &b.Active, &b.Staged, &outcome, (*int64)(&b.Ended), &body)
	if err != nil {
		return b, nil, err
	}
	b.Outcome = job.Outcome(outcome)
	b.Build, bad = codec.DecodeBuild(body)
	b.Build.ID, b.Build.Priority = id.Bytes, priority
	return b, bad, nil
}

// readRef reads refColumns, after those in before.
func readRef(rows pgx.Rows, before ...any) (r job.Ref, err error) {
	var (
		id               pgtype.UUID
		timeout, silence int64
		ended            int16
	)
	err = rows.Scan(append(before, &id, &r.Awaited, &r.Optional, &r.Priority, &timeout, &silence, &ended)...)
	r.Job, r.Ended = id.Bytes, job.Outcome(ended)
	r.Limits = job.Limits{Timeout: time.Duration(timeout), Silence: time.Duration(silence)}
	return r, err
}
