package sqlite

import (
	"cmp"
	"slices"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
)

// The numbers by which the live table names states.
const (
	blocked int64 = iota
	ready
	running
	done
)

// liveRow is a row of the live table as the batch leaves it.
type liveRow struct {
	seq     int64
	stored  bool // the table has one
	touched bool
	gone    bool // the job was deleted

	state, wake, delay int64
	attempt            []byte
	tally, own         []byte // nil: zero
	held, open         bool
}

func (r *liveRow) needed() bool { return !r.gone && (r.state != done || r.held || r.open) }

// addJob writes what never changes of a job at once.
func (t *batch) addJob(r *job.Record) error {
	if _, ok := t.at[r.Seq]; ok {
		return errState
	}
	s := r.Spec
	s.ID, s.Channel, s.Kind, s.Name, s.Key = job.ID{}, "", "", "", ""
	var staging []byte // null: none
	if !r.Staging.IsZero() {
		staging = r.Staging[:]
	}
	from := len(t.buf)
	spec := t.kept(codec.AppendSpec(t.buf, &s))
	err := t.c.query(qAddJob).int(r.Seq).blob(r.Spec.ID[:]).int(int64(r.At)).
		string(r.Spec.Channel).string(r.Spec.Kind).string(r.Spec.Name).text(r.Spec.Key).blob(spec).bytes(r.Spec.Args).
		bytes(staging).run()
	t.buf = t.buf[:from]
	if err != nil {
		return err
	}
	for _, n := range r.Spec.Needs {
		if err := t.c.query(qAddEdge).blob(n.Job[:]).int(r.Seq).run(); err != nil {
			return err
		}
	}
	t.head.seq = max(t.head.seq, r.Seq)
	t.added[r.Spec.ID] = true
	row := liveRow{
		seq: r.Seq, touched: true, wake: int64(r.Wake), delay: int64(r.Delay),
		tally: t.tally(&r.Tally), own: t.own(r.Own), held: r.Held, open: r.Open,
	}
	if r.Running {
		row.state, row.attempt = running, t.kept(codec.AppendAttempt(t.buf, r.Last))
	}
	switch {
	case r.End != nil:
		if err := t.finish(&row, &job.JobEnded{Seq: r.Seq, End: *r.End, Attempt: r.LastEnd, Held: r.Held, Open: r.Open}); err != nil {
			return err
		}
	case r.LastEnd != nil:
		if err := t.closeAttempt(r.Seq, r.LastEnd); err != nil {
			return err
		}
	}
	t.at[r.Seq] = len(t.rows)
	t.rows = append(t.rows, row)
	return nil
}

func (t *batch) tally(v *job.Tally) []byte {
	if *v == (job.Tally{}) {
		return nil
	}
	return t.kept(codec.AppendTally(t.buf, v))
}

func (t *batch) own(o *job.Own) []byte {
	if o == nil {
		return nil
	}
	return t.kept(codec.AppendOwn(t.buf, o))
}

// live finds the row of a job that is in memory.
func (t *batch) live(seq int64) (*liveRow, error) {
	if i, ok := t.at[seq]; ok {
		if r := &t.rows[i]; r.needed() {
			return r, nil
		}
		return nil, errLeft
	}
	q := t.c.query(qLive).int(seq)
	ok, err := q.next()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errLeft
	}
	r := liveRow{seq: seq, stored: true, state: q.readInt(), wake: q.readInt(), delay: q.readInt()}
	r.attempt, r.tally, r.own = t.read(q), t.read(q), t.read(q)
	r.held, r.open = q.readBool(), q.readBool()
	t.at[seq] = len(t.rows)
	t.rows = append(t.rows, r)
	return &t.rows[len(t.rows)-1], q.done()
}

// read takes the next column into the batch's memory; nil for null.
func (t *batch) read(q *stmt) []byte {
	if q.readNull() {
		return nil
	}
	return t.kept(q.appendBytes(t.buf))
}

// applyLive makes a change of a job that is in memory.
func (t *batch) applyLive(c job.Change) error {
	switch c := c.(type) {
	case job.JobKept:
		return t.alter(c.Seq, func(r *liveRow) error { r.own = t.own(&c.Own); return nil })
	case job.JobReleased:
		return t.alter(c.Seq, func(r *liveRow) error { return r.move(ready) })
	case job.JobBlocked:
		return t.alter(c.Seq, func(r *liveRow) error { return r.move(blocked) })
	case job.JobStarted:
		return t.alter(c.Seq, func(r *liveRow) error { return t.start(r, &c) })
	case job.JobRetried:
		return t.alter(c.Seq, func(r *liveRow) error { return t.retry(r, &c) })
	case job.JobEnded:
		return t.alter(c.Seq, func(r *liveRow) error { return t.finish(r, &c) })
	case job.JobFreed:
		return t.alter(c.Seq, func(r *liveRow) error { r.held = false; return r.in(done) })
	case job.JobSettled:
		return t.alter(c.Seq, func(r *liveRow) error { r.open = false; return r.in(done) })
	case job.JobProgress:
		return t.alter(c.Seq, func(r *liveRow) error { return t.progress(r, c.Result) })
	default:
		// The caller passes on those of jobs alone.
	}
	return nil
}

func (t *batch) alter(seq int64, f func(*liveRow) error) error {
	r, err := t.live(seq)
	if err != nil {
		return err
	}
	r.touched = true
	return f(r)
}

func (r *liveRow) in(state int64) error {
	if r.state != state {
		return errState
	}
	return nil
}

func (r *liveRow) move(to int64) error {
	if r.state > ready {
		return errState
	}
	r.state = to
	return nil
}

func (t *batch) start(r *liveRow, c *job.JobStarted) error {
	if r.state > ready {
		return errState
	}
	// One that cannot be read is zero, so that the job goes on.
	tally, _ := codec.DecodeTally(r.tally)
	tally.Attempts = c.Attempt.Number
	r.state, r.attempt, r.tally = running, t.kept(codec.AppendAttempt(t.buf, &c.Attempt)), t.tally(&tally)
	return nil
}

func (t *batch) retry(r *liveRow, c *job.JobRetried) error {
	if err := r.in(running); err != nil {
		return err
	}
	r.state, r.attempt = blocked, nil
	r.tally, r.wake, r.delay = t.tally(&c.Tally), int64(c.Wake), int64(c.Delay)
	return t.closeAttempt(c.Seq, &c.Attempt)
}

// closeAttempt files an attempt that ended before its job.
func (t *batch) closeAttempt(seq int64, a *job.AttemptEnd) error {
	v := *a
	v.Result = nil
	return t.c.query(qPutAttempt).int(seq).int(int64(a.Number)).blob(codec.AppendAttemptEnd(nil, &v)).bytes(a.Result).run()
}

func (t *batch) finish(r *liveRow, c *job.JobEnded) error {
	if r.state == done {
		return errState
	}
	r.state, r.wake, r.delay, r.attempt, r.held, r.open = done, 0, 0, nil, c.Held, c.Open
	from := len(t.buf)
	body := t.kept(codec.AppendEnd(t.buf, &c.End))
	var attempt []byte
	if c.Attempt != nil {
		v := *c.Attempt
		v.Result = nil
		attempt = t.kept(codec.AppendAttemptEnd(t.buf, &v))
	}
	err := t.c.query(qAddEnded).int(c.Seq).int(int64(c.End.Outcome)).blob(body).bytes(attempt).bytes(r.tally).bytes(r.own).run()
	t.buf = t.buf[:from]
	if err != nil {
		return err
	}
	var last []byte
	if c.Attempt != nil {
		last = c.Attempt.Result
	}
	if len(c.Result) == 0 && len(last) == 0 {
		return nil
	}
	same := slices.Equal(c.Result, last)
	if same {
		last = nil
	}
	return t.c.query(qPutResult).int(c.Seq).bytes(c.Result).bytes(last).bool(same).run()
}

func (t *batch) progress(r *liveRow, result []byte) error {
	if err := r.in(running); err != nil || len(result) == 0 {
		return err
	}
	return t.c.query(qPutProgress).int(r.seq).blob(result).run()
}

// flushLive writes the live rows that the batch leaves, in the order of the table.
func (t *batch) flushLive() error {
	slices.SortFunc(t.rows, func(a, b liveRow) int { return cmp.Compare(a.seq, b.seq) })
	for i := range t.rows {
		if err := t.putLive(&t.rows[i]); err != nil {
			return err
		}
	}
	t.rows = t.rows[:0]
	clear(t.at)
	return nil
}

func (t *batch) putLive(r *liveRow) error {
	q := qPutLive
	switch {
	case !r.touched:
		return nil
	case !r.needed():
		if !r.stored {
			return nil
		}
		return t.c.query(qDropLive).int(r.seq).run()
	case !r.stored:
		q = qAddLive
	}
	return t.c.query(q).int(r.state).int(r.wake).int(r.delay).bytes(r.attempt).bytes(r.tally).bytes(r.own).
		bool(r.held).bool(r.open).int(r.seq).run()
}

// dropJob removes all rows of a job. References to one that had ended stay, and say how.
func (t *batch) dropJob(id job.ID) error {
	if err := t.flushLive(); err != nil {
		return err
	}
	q := t.c.query(qJobToDrop).blob(id[:])
	ok, err := q.next()
	if err != nil {
		return err
	}
	if !ok {
		return errUnknownJob
	}
	seq, spec, outcome := q.readInt(), q.readBytes(), q.readInt()
	if err := q.done(); err != nil {
		return err
	}
	// What an unreadable spec names stays behind as edges that lead to no job.
	if s, err := codec.DecodeSpec(spec); err == nil {
		for _, n := range s.Needs {
			if err := t.c.query(qDropEdge).blob(n.Job[:]).int(seq).run(); err != nil {
				return err
			}
		}
	}
	for _, q := range []query{qDropLive, qDropEnded, qDropAttempts, qDropResult, qDropJob} {
		if err := t.c.query(q).int(seq).run(); err != nil {
			return err
		}
	}
	delete(t.added, id)
	if outcome == 0 {
		return t.c.query(qDropRefsTo).blob(id[:]).run()
	}
	return t.c.query(qEndRefsTo).int(outcome).blob(id[:]).run()
}
