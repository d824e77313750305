package rows

import (
	"cmp"
	"slices"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
)

// liveRow is a row of the live table as the batch leaves it.
type liveRow struct {
	seq     int64
	stored  bool // the table has one
	touched bool
	gone    bool // the job was deleted
	added   bool // by this batch

	state, wake, delay int64
	attempt            []byte
	tally, own         []byte // nil: zero
	held, open         bool

	progress []byte      // not written yet
	outcome  job.Outcome // by which it ended in this batch
}

func (r *liveRow) needed() bool { return !r.gone && (r.state != done || r.held || r.open) }

// addJob writes what never changes of a job at once.
func (b *Batch) addJob(r *job.Record) error {
	if b.at[r.Seq] != unread {
		return errState
	}
	s := r.Spec
	s.ID, s.Channel, s.Kind, s.Name, s.Key = job.ID{}, "", "", "", ""
	var staging Value // null: none
	if !r.Staging.IsZero() {
		staging = ident(r.Staging)
	}
	from := len(b.buf)
	spec := b.kept(codec.AppendSpec(b.buf, &s))
	err := b.put(AddJob, number(r.Seq), ident(r.Spec.ID), number(r.At), text(r.Spec.Channel), text(r.Spec.Kind),
		text(r.Spec.Name), name(r.Spec.Key), blob(spec), bytes(r.Spec.Args), staging)
	b.buf = b.buf[:from]
	if err != nil {
		return err
	}
	for i := range r.Spec.Needs {
		if err := b.put(AddEdge, ident(r.Spec.Needs[i].Job), number(r.Seq)); err != nil {
			return err
		}
	}
	b.head.Seq = max(b.head.Seq, r.Seq)
	b.added[r.Spec.ID] = drop{seq: r.Seq, needs: r.Spec.Needs} // as ahead, unless one of that id has gone since
	row := liveRow{
		seq: r.Seq, touched: true, added: true, wake: int64(r.Wake), delay: int64(r.Delay),
		own: b.own(r.Own), held: r.Held, open: r.Open,
	}
	if r.Tally != (job.Tally{}) || r.LastEnd != nil {
		row.tally = b.tally(&r.Tally)
	}
	if r.Running {
		row.state, row.attempt = running, b.kept(codec.AppendAttempt(b.buf, r.Last))
	}
	switch {
	case r.End != nil:
		if err := b.finish(&row, &job.JobEnded{Seq: r.Seq, End: *r.End, Attempt: r.LastEnd, Held: r.Held, Open: r.Open}); err != nil {
			return err
		}
	case r.LastEnd != nil:
		if err := b.closeAttempt(r.Seq, r.LastEnd); err != nil {
			return err
		}
	}
	b.at[r.Seq] = len(b.live)
	b.live = append(b.live, row)
	return nil
}

// tally is never nil: a row without one is that of a job that never ran, and has no attempts.
func (b *Batch) tally(v *job.Tally) []byte {
	return b.kept(codec.AppendTally(b.buf, v))
}

func (b *Batch) own(o *job.Own) []byte {
	if o == nil {
		return nil
	}
	return b.kept(codec.AppendOwn(b.buf, o))
}

// row finds the row of a job that is in memory.
func (b *Batch) rowOf(seq int64) (*liveRow, error) {
	if i := b.at[seq]; i != unread && b.live[i].needed() {
		return &b.live[i], nil
	}
	return nil, errLeft
}

// applyLive makes a change of a job that is in memory.
func (b *Batch) applyLive(c job.Change) error {
	switch c := c.(type) {
	case job.JobKept:
		return b.alter(c.Seq, func(r *liveRow) error { r.own = b.own(&c.Own); return nil })
	case job.JobReleased:
		return b.alter(c.Seq, func(r *liveRow) error { return r.move(ready) })
	case job.JobBlocked:
		return b.alter(c.Seq, func(r *liveRow) error { return r.move(blocked) })
	case job.JobStarted:
		return b.alter(c.Seq, func(r *liveRow) error { return b.start(r, &c) })
	case job.JobRetried:
		return b.alter(c.Seq, func(r *liveRow) error { return b.retry(r, &c) })
	case job.JobEnded:
		return b.alter(c.Seq, func(r *liveRow) error { return b.finish(r, &c) })
	case job.JobFreed:
		return b.alter(c.Seq, func(r *liveRow) error { r.held = false; return r.in(done) })
	case job.JobSettled:
		return b.alter(c.Seq, func(r *liveRow) error { r.open = false; return r.in(done) })
	case job.JobProgress:
		return b.alter(c.Seq, func(r *liveRow) error { return b.progress(r, c.Result) })
	default:
		// The caller passes on those of jobs alone.
	}
	return nil
}

func (b *Batch) alter(seq int64, f func(*liveRow) error) error {
	r, err := b.rowOf(seq)
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

func (b *Batch) start(r *liveRow, c *job.JobStarted) error {
	if r.state > ready {
		return errState
	}
	var tally job.Tally
	if r.tally != nil {
		// One that cannot be read is zero, so that the job goes on.
		tally, _ = codec.DecodeTally(r.tally)
	}
	tally.Attempts = c.Attempt.Number
	r.state, r.attempt, r.tally = running, b.kept(codec.AppendAttempt(b.buf, &c.Attempt)), b.tally(&tally)
	return nil
}

func (b *Batch) retry(r *liveRow, c *job.JobRetried) error {
	if err := r.in(running); err != nil {
		return err
	}
	r.state, r.attempt = blocked, nil
	r.tally, r.wake, r.delay = b.tally(&c.Tally), int64(c.Wake), int64(c.Delay)
	return b.closeAttempt(c.Seq, &c.Attempt)
}

// closeAttempt files an attempt that ended before its job.
func (b *Batch) closeAttempt(seq int64, a *job.AttemptEnd) error {
	v := *a
	v.Result = nil
	return b.put(PutAttempt, number(seq), number(a.Number), blob(codec.AppendAttemptEnd(nil, &v)), bytes(a.Result))
}

func (b *Batch) finish(r *liveRow, c *job.JobEnded) error {
	if r.state == done {
		return errState
	}
	r.state, r.wake, r.delay, r.attempt, r.held, r.open = done, 0, 0, nil, c.Held, c.Open
	r.outcome = c.End.Outcome
	from := len(b.buf)
	body := b.kept(codec.AppendEnd(b.buf, &c.End))
	var attempt []byte
	var worker Value // null: none
	if c.Attempt != nil {
		worker = name(c.Attempt.Worker)
		v := *c.Attempt
		v.Result = nil
		attempt = b.kept(codec.AppendAttemptEnd(b.buf, &v))
	}
	err := b.put(AddEnded, number(c.Seq), number(c.End.Outcome), blob(body), bytes(attempt), bytes(r.tally), bytes(r.own), worker)
	b.buf = b.buf[:from]
	if err != nil {
		return err
	}
	var last []byte
	if c.Attempt != nil {
		last = c.Attempt.Result
	}
	result := c.Result
	if len(result) == 0 {
		result = r.progress
	}
	r.progress = nil
	if len(result) == 0 && len(last) == 0 {
		return nil
	}
	same := slices.Equal(result, last)
	if same {
		last = nil
	}
	return b.put(PutResult, number(c.Seq), bytes(result), bytes(last), boolean(same))
}

func (b *Batch) progress(r *liveRow, result []byte) error {
	if err := r.in(running); err != nil || len(result) == 0 {
		return err
	}
	r.progress = result
	return nil
}

// flushLive writes the live rows that the batch leaves, in the order of the table.
func (b *Batch) flushLive() error {
	slices.SortFunc(b.live, func(a, b liveRow) int { return cmp.Compare(a.seq, b.seq) })
	for i := range b.live {
		r := &b.live[i]
		b.at[r.seq] = i
		if err := b.putLive(r); err != nil {
			return err
		}
	}
	return nil
}

func (b *Batch) putLive(r *liveRow) error {
	if !r.touched || r.gone {
		return nil
	}
	r.touched = false
	if r.progress != nil {
		if err := b.put(PutProgress, number(r.seq), blob(r.progress)); err != nil {
			return err
		}
		r.progress = nil
	}
	q, stored := PutLive, r.stored
	if !stored {
		q = AddLive
	}
	if r.stored = r.needed(); !r.stored {
		if !stored {
			return nil
		}
		return b.put(DropLive, number(r.seq))
	}
	return b.put(q, number(r.state), number(r.wake), number(r.delay), bytes(r.attempt), bytes(r.tally), bytes(r.own),
		boolean(r.held), boolean(r.open), number(r.seq))
}

// drop is what has to be known of a job that goes.
type drop struct {
	seq     int64
	needs   []job.Need
	outcome job.Outcome // 0: it had not ended
}

// dropJob removes all rows of a job. References to one that had ended stay, and say how.
func (b *Batch) dropJob(id job.ID) error {
	if err := b.drop(); err != nil {
		return err
	}
	d, ok := b.drops[id]
	if made, new := b.applied(id); new {
		d, ok = made, true
	}
	if !ok {
		return errUnknownJob
	}
	if i, ok := b.at[d.seq]; ok && i != unread {
		b.live[i].gone, b.live[i].stored = true, false
		if o := b.live[i].outcome; o != 0 {
			d.outcome = o
		}
	}
	delete(b.added, id)
	delete(b.drops, id)
	b.known[id] = false
	for i := range d.needs {
		if err := b.put(DropEdge, ident(d.needs[i].Job), number(d.seq)); err != nil {
			return err
		}
	}
	for _, q := range []Query{DropLive, DropEnded, DropAttempts, DropResult, DropJob} {
		if err := b.put(q, number(d.seq)); err != nil {
			return err
		}
	}
	if d.outcome == 0 {
		return b.put(DropRefsTo, ident(id))
	}
	return b.put(EndRefsTo, number(d.outcome), ident(id))
}

// applied finds a job that the batch has added before the change under way.
func (b *Batch) applied(id job.ID) (made drop, ok bool) {
	made, ok = b.added[id]
	if ok {
		i := b.at[made.seq]
		ok = i != unread && b.live[i].added
	}
	return made, ok
}
