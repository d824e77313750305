package postgres

import (
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
)

// buildRow is a row of the build table as the batch leaves it.
type buildRow struct {
	seq             int64
	stored, touched bool
	gone            bool
	record          *job.BuildRecord // of one that is added
	body            []byte
	priority        int32
	active, staged  bool
	outcome         int16
	ended           int64
}

type refKey struct {
	build int64
	job   job.ID
}

type refRow struct {
	job.Ref
	place int64
}

// applyBuild makes one change to a build.
func (t *batch) applyBuild(c job.Change) error {
	switch c := c.(type) {
	case job.BuildAdded:
		return t.addBuild(&c.BuildRecord)
	case job.BuildReferred:
		return t.refer(&c)
	case job.BuildSealed:
		return t.alterBuild(c.Build, func(r *buildRow) { r.staged = false })
	case job.BuildActivated:
		return t.alterBuild(c.Build, func(r *buildRow) { r.active = true })
	case job.BuildBumped:
		return t.alterBuild(c.Build, func(r *buildRow) { r.priority = c.Priority })
	case job.BuildEnded:
		return t.alterBuild(c.Build, func(r *buildRow) {
			r.outcome, r.ended, r.gone = int16(c.Outcome), int64(c.At), c.Erased
		})
	case job.BuildDeleted:
		return t.alterBuild(c.Build, func(r *buildRow) { r.gone = true })
	default:
		// The caller passes on those of builds alone.
	}
	return nil
}

func (t *batch) addBuild(r *job.BuildRecord) error {
	if old := t.builds[r.Build.ID]; old != nil {
		if !old.gone {
			return errState
		}
		t.flush() // the id is used again
	}
	t.head.seq = max(t.head.seq, r.Seq)
	t.builds[r.Build.ID] = &buildRow{
		seq: r.Seq, touched: true, record: r, body: t.kept(codec.AppendBuild(t.buf, &r.Build)),
		priority: r.Build.Priority, active: r.Active, staged: r.Staged, outcome: int16(r.Outcome), ended: int64(r.Ended),
	}
	return nil
}

func (t *batch) alterBuild(id job.ID, f func(*buildRow)) error {
	r := t.builds[id]
	if r == nil || r.gone {
		return errUnknownBuild
	}
	r.touched = true
	f(r)
	return nil
}

func (t *batch) refer(c *job.BuildReferred) error {
	b := t.builds[c.Build]
	if b == nil || b.gone {
		return errUnknownBuild
	}
	for i := range c.Refs {
		r := c.Refs[i]
		_, added := t.added[r.Job]
		_, stored := t.stored[r.Job]
		if !added && (!stored || t.dropped[r.Job]) {
			return errUnknownJob
		}
		k := refKey{b.seq, r.Job}
		if have := t.refs[k]; have != nil {
			have.Ref = r.Over(have.Ref)
		} else {
			t.refs[k] = &refRow{r, t.place}
			t.place++
		}
	}
	return nil
}
