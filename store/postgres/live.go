package postgres

import (
	"cmp"
	"errors"
	"slices"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
)

var (
	errUnknownJob   = errors.New("no such job")
	errUnknownBuild = errors.New("no such build")
	errState        = errors.New("not possible in the job's state")
	errLeft         = errors.New("the job is unknown or has left memory")
)

// The numbers by which the live table names states.
const (
	blocked int16 = iota
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

	state       int16
	wake, delay int64
	attempt     []byte
	tally, own  []byte // nil: zero
	held, open  bool
}

func (r *liveRow) needed() bool { return !r.gone && (r.state != done || r.held || r.open) }

// alter makes a change to the row of a job that is in memory.
func (t *batch) alter(seq int64, f func(*liveRow) error) error {
	r, ok := t.rows[seq]
	if !ok || !r.needed() {
		return errLeft
	}
	r.touched = true
	return f(r)
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

func (r *liveRow) in(state int16) error {
	if r.state != state {
		return errState
	}
	return nil
}

func (r *liveRow) move(to int16) error {
	if r.state > ready {
		return errState
	}
	r.state = to
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

func (t *batch) start(r *liveRow, c *job.JobStarted) error {
	if r.state > ready {
		return errState
	}
	var tally job.Tally
	if r.tally != nil {
		var err error
		if tally, err = codec.DecodeTally(r.tally); err != nil {
			return err
		}
	}
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
	t.closeAttempt(c.Seq, &c.Attempt)
	return nil
}

// closeAttempt files an attempt that ended before its job.
func (t *batch) closeAttempt(seq int64, a *job.AttemptEnd) {
	v := *a
	v.Result = nil
	t.attempts[attemptKey{seq, a.Number}] = attemptRow{t.kept(codec.AppendAttemptEnd(t.buf, &v)), a.Result}
}

func (t *batch) finish(r *liveRow, c *job.JobEnded) error {
	if r.state == done {
		return errState
	}
	r.state, r.wake, r.delay, r.attempt, r.held, r.open = done, 0, 0, nil, c.Held, c.Open
	e := endedRow{seq: c.Seq, outcome: int16(c.End.Outcome), body: t.kept(codec.AppendEnd(t.buf, &c.End)), tally: r.tally, own: r.own}
	if c.Attempt != nil {
		v := *c.Attempt
		v.Result = nil
		e.attempt = t.kept(codec.AppendAttemptEnd(t.buf, &v))
	}
	t.ended = append(t.ended, e)
	t.outcomes[c.Seq] = c.End.Outcome
	var last []byte
	if c.Attempt != nil {
		last = c.Attempt.Result
	}
	if len(c.Result) == 0 && len(last) == 0 {
		return nil
	}
	v := resultRow{job: c.Result, attempt: last}
	if v.same = slices.Equal(c.Result, last); v.same {
		v.attempt = nil
	}
	if len(v.job) == 0 {
		v.job = t.results[c.Seq].job // what an attempt reported before
	}
	t.results[c.Seq] = v
	return nil
}

func (t *batch) progress(r *liveRow, result []byte) error {
	if err := r.in(running); err != nil || len(result) == 0 {
		return err
	}
	v := t.results[r.seq]
	v.job = result
	t.results[r.seq] = v
	return nil
}

// addJob gathers what never changes of a job, and its live row.
func (t *batch) addJob(r *job.Record) error {
	if _, ok := t.rows[r.Seq]; ok {
		return errState
	}
	if t.dropped[r.Spec.ID] {
		t.flush() // the id, or a place, is used again
	}
	s := r.Spec
	s.ID, s.Channel, s.Kind, s.Name, s.Key, s.Args = job.ID{}, "", "", "", "", nil
	t.added[r.Spec.ID] = jobFound{seq: r.Seq, needs: r.Spec.Needs}
	delete(t.dropped, r.Spec.ID)
	t.jobs = append(t.jobs, jobRow{record: r, spec: t.kept(codec.AppendSpec(t.buf, &s))})
	t.head.seq = max(t.head.seq, r.Seq)
	row := &liveRow{
		seq: r.Seq, touched: true, wake: int64(r.Wake), delay: int64(r.Delay),
		tally: t.tally(&r.Tally), own: t.own(r.Own), held: r.Held, open: r.Open,
	}
	if r.Running {
		row.state, row.attempt = running, t.kept(codec.AppendAttempt(t.buf, r.Last))
	}
	t.rows[r.Seq] = row
	switch {
	case r.End != nil:
		return t.finish(row, &job.JobEnded{Seq: r.Seq, End: *r.End, Attempt: r.LastEnd, Held: r.Held, Open: r.Open})
	case r.LastEnd != nil:
		t.closeAttempt(r.Seq, r.LastEnd)
	}
	return nil
}

// dropJob takes a job out. References to one that had ended stay, and say how.
func (t *batch) dropJob(id job.ID) error {
	found, ok := t.added[id]
	if !ok {
		found, ok = t.stored[id]
	}
	if !ok || t.dropped[id] {
		return errUnknownJob
	}
	if outcome, ok := t.outcomes[found.seq]; ok {
		found.outcome = outcome
	}
	found.id = id
	t.drops = append(t.drops, found)
	t.dropped[id] = true
	delete(t.added, id)
	if r, ok := t.rows[found.seq]; ok {
		r.gone, r.touched = true, true
	}
	return nil
}

// liveRows gives those that were touched, in the order of the table.
func (t *batch) liveRows() []*liveRow {
	rows := make([]*liveRow, 0, len(t.rows))
	for _, r := range t.rows {
		if r.touched {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *liveRow) int { return cmp.Compare(a.seq, b.seq) })
	return rows
}
