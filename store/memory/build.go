package memory

import (
	"maps"
	"slices"

	"github.com/headrace/headrace/job"
)

// applyBuild makes one change to a build, or none and an error if it is impossible.
func (d *Disk) applyBuild(c job.Change) error {
	switch c := c.(type) {
	case job.BuildAdded:
		if _, ok := d.builds.get(c.Build.ID); ok {
			return errExists
		}
		d.seq = max(d.seq, c.Seq)
		d.builds.put(c.Build.ID, &build{BuildRecord: copyBuild(&c.BuildRecord)})
	case job.BuildReferred:
		return d.alterBuild(c.Build, func(b *build) error { return d.refer(b, c.Refs) })
	case job.BuildSealed:
		return d.alterBuild(c.Build, func(b *build) error { b.Staged = false; return nil })
	case job.BuildActivated:
		return d.alterBuild(c.Build, func(b *build) error { b.Active = true; return nil })
	case job.BuildBumped:
		return d.alterBuild(c.Build, func(b *build) error { b.Build.Priority = c.Priority; return nil })
	case job.BuildEnded:
		if c.Erased {
			return d.dropBuild(c.Build)
		}
		return d.alterBuild(c.Build, func(b *build) error { b.Outcome, b.Ended = c.Outcome, c.At; return nil })
	case job.BuildDeleted:
		return d.dropBuild(c.Build)
	default:
		// The caller passes on those of builds alone.
	}
	return nil
}

// alterBuild gives f a copy of the build, and puts it back unless f refuses.
func (d *Disk) alterBuild(id job.ID, f func(*build) error) error {
	old, ok := d.builds.get(id)
	if !ok {
		return errUnknownBuild
	}
	b := *old
	if err := f(&b); err != nil {
		return err
	}
	d.builds.put(id, &b)
	return nil
}

// refer adds references; where one job is referred to again, the newer one is put over the older.
func (d *Disk) refer(b *build, refs []job.Ref) error {
	for _, r := range refs {
		if _, ok := d.jobSeq.get(r.Job); !ok {
			return errUnknownJob
		}
		key := refKey{b.Build.ID, r.Job}
		if i, ok := d.refAt.get(key); ok {
			b.refs = slices.Clone(b.refs) // others read the older list
			b.refs[i] = r.Over(b.refs[i])
			continue
		}
		d.refAt.put(key, len(b.refs))
		b.refs = append(b.refs, r)
	}
	return nil
}

// unrefer is told that a job goes.
func (d *Disk) unrefer(r *row) {
	for id, b := range d.builds.rows {
		i, ok := d.refAt.get(refKey{id, r.id})
		if !ok {
			continue
		}
		n := *b
		n.refs = slices.Clone(b.refs)
		if r.end != nil {
			n.refs[i].Ended = r.end.Outcome
		} else {
			n.refs = slices.Delete(n.refs, i, i+1)
			d.refAt.drop(refKey{id, r.id})
			for i := i; i < len(n.refs); i++ {
				d.refAt.put(refKey{id, n.refs[i].Job}, i)
			}
		}
		d.builds.put(id, &n)
	}
}

func (d *Disk) dropBuild(id job.ID) error {
	b, ok := d.builds.get(id)
	if !ok {
		return errUnknownBuild
	}
	for _, r := range b.refs {
		d.refAt.drop(refKey{id, r.Job})
	}
	d.builds.drop(id)
	return nil
}

// now gives the reference with how the job has ended by now.
func (d *Disk) now(r job.Ref) job.Ref {
	if seq, ok := d.jobSeq.get(r.Job); ok {
		r.Ended = 0
		if row := d.jobs.rows[seq]; row.end != nil {
			r.Ended = row.end.Outcome
		}
	}
	return r
}

func (d *Disk) refs(b *build) []job.Ref {
	var refs []job.Ref
	for _, r := range b.refs {
		refs = append(refs, d.now(r))
	}
	return refs
}

func copyBuild(r *job.BuildRecord) job.BuildRecord {
	v := *r
	v.Build.Labels = maps.Clone(r.Build.Labels)
	if len(v.Build.Labels) == 0 {
		v.Build.Labels = nil
	}
	return v
}
