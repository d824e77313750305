package rows

import (
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
)

// buildRow is a row of the build table as the batch leaves it.
type buildRow struct {
	seq     int64
	touched bool
	// added: the whole record, of a build that the batch has added and not written yet.
	added *job.BuildRecord

	priority       int32
	active, staged bool
	outcome        job.Outcome
	ended          job.Time
}

type refKey struct {
	build int64
	job   job.ID
}

type refRow struct {
	build, place int64
	job.Ref
}

// applyBuild makes one change to a build.
func (b *Batch) applyBuild(c job.Change) error {
	switch c := c.(type) {
	case job.BuildAdded:
		return b.addBuild(&c.BuildRecord)
	case job.BuildReferred:
		return b.refer(&c)
	case job.BuildSealed:
		return b.alterBuild(c.Build, func(r *buildRow) { r.staged = false })
	case job.BuildActivated:
		return b.alterBuild(c.Build, func(r *buildRow) { r.active = true })
	case job.BuildBumped:
		return b.alterBuild(c.Build, func(r *buildRow) { r.priority = c.Priority })
	case job.BuildEnded:
		if c.Erased {
			return b.dropBuild(c.Build)
		}
		return b.alterBuild(c.Build, func(r *buildRow) { r.outcome, r.ended = c.Outcome, c.At })
	case job.BuildDeleted:
		return b.dropBuild(c.Build)
	default:
		// The caller passes on those of builds alone.
	}
	return nil
}

func (b *Batch) addBuild(r *job.BuildRecord) error {
	if b.buildAt[r.Build.ID] != unread {
		return errExists
	}
	b.head.Seq = max(b.head.Seq, r.Seq)
	b.buildAt[r.Build.ID] = len(b.builds)
	b.builds = append(b.builds, buildRow{
		seq: r.Seq, touched: true, added: r, priority: r.Build.Priority, active: r.Active, staged: r.Staged,
		outcome: r.Outcome, ended: r.Ended,
	})
	return nil
}

// build finds the row of a build.
func (b *Batch) build(id job.ID) (*buildRow, error) {
	i := b.buildAt[id]
	if i == unread {
		return nil, errUnknownBuild
	}
	return &b.builds[i], nil
}

func (b *Batch) alterBuild(id job.ID, f func(*buildRow)) error {
	r, err := b.build(id)
	if err != nil {
		return err
	}
	r.touched = true
	f(r)
	return nil
}

// refer gathers references; where one job is referred to again, the newer one is put over the older.
func (b *Batch) refer(c *job.BuildReferred) error {
	build, err := b.build(c.Build)
	if err != nil {
		return err
	}
	for i := range c.Refs {
		r := &c.Refs[i]
		if _, ok := b.applied(r.Job); !ok && !b.known[r.Job] {
			return errUnknownJob
		}
		key := refKey{build.seq, r.Job}
		if i, ok := b.refAt[key]; ok {
			b.refs[i].Ref = r.Over(b.refs[i].Ref)
			continue
		}
		b.refAt[key] = len(b.refs)
		b.refs = append(b.refs, refRow{build.seq, b.place, *r})
		b.place++
	}
	return nil
}

func (b *Batch) dropBuild(id job.ID) error {
	if err := b.drop(); err != nil {
		return err
	}
	r, err := b.build(id)
	if err != nil {
		return err
	}
	b.buildAt[id] = unread
	if err := b.put(DropRefs, number(r.seq)); err != nil {
		return err
	}
	return b.put(DropBuild, number(r.seq))
}

func (b *Batch) flushBuilds() error {
	for i := range b.builds {
		r := &b.builds[i]
		if !r.touched {
			continue
		}
		r.touched = false
		var err error
		if a := r.added; a != nil {
			r.added = nil
			err = b.put(AddBuild, number(r.seq), ident(a.Build.ID), number(a.At), text(a.Build.Name), number(r.priority),
				boolean(r.active), boolean(r.staged), number(r.outcome), number(r.ended), blob(codec.AppendBuild(nil, &a.Build)))
		} else {
			err = b.put(PutBuild, number(r.priority), boolean(r.active), boolean(r.staged), number(r.outcome), number(r.ended),
				number(r.seq))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *Batch) flushRefs() error {
	for i := range b.refs {
		r := &b.refs[i]
		err := b.put(PutRef, number(r.build), ident(r.Job), number(r.place), boolean(r.Awaited), boolean(r.Optional),
			number(r.Priority), number(r.Limits.Timeout), number(r.Limits.Silence), number(r.Ended))
		if err != nil {
			return err
		}
	}
	return nil
}
