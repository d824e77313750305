package sqlite

import (
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
)

// applyBuild makes one change to a build.
func (t *batch) applyBuild(c job.Change) error {
	switch c := c.(type) {
	case job.BuildAdded:
		return t.addBuild(&c.BuildRecord)
	case job.BuildReferred:
		return t.refer(&c)
	case job.BuildSealed:
		return t.alterBuild(t.c.query(qSealBuild), c.Build)
	case job.BuildActivated:
		return t.alterBuild(t.c.query(qActivateBuild), c.Build)
	case job.BuildBumped:
		return t.alterBuild(t.c.query(qBumpBuild).int(int64(c.Priority)), c.Build)
	case job.BuildEnded:
		if c.Erased {
			return t.dropBuild(c.Build)
		}
		return t.alterBuild(t.c.query(qEndBuild).int(int64(c.Outcome)).int(int64(c.At)), c.Build)
	case job.BuildDeleted:
		return t.dropBuild(c.Build)
	default:
		// The caller passes on those of builds alone.
	}
	return nil
}

func (t *batch) addBuild(r *job.BuildRecord) error {
	t.head.seq = max(t.head.seq, r.Seq)
	return t.c.query(qAddBuild).int(r.Seq).blob(r.Build.ID[:]).int(int64(r.At)).string(r.Build.Name).
		int(int64(r.Build.Priority)).bool(r.Active).bool(r.Staged).int(int64(r.Outcome)).int(int64(r.Ended)).
		blob(codec.AppendBuild(nil, &r.Build)).run()
}

// alterBuild runs a statement whose last parameter is the build's id.
func (t *batch) alterBuild(q *stmt, id job.ID) error {
	if err := q.blob(id[:]).run(); err != nil {
		return err
	}
	if t.c.changed() == 0 {
		return errUnknownBuild
	}
	return nil
}

func (t *batch) buildSeq(id job.ID) (int64, error) {
	q := t.c.query(qBuildSeq).blob(id[:])
	ok, err := q.next()
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, errUnknownBuild
	}
	seq := q.readInt()
	return seq, q.done()
}

func (t *batch) refer(c *job.BuildReferred) error {
	build, err := t.buildSeq(c.Build)
	if err != nil {
		return err
	}
	for i := range c.Refs {
		r := &c.Refs[i]
		if err := t.known(r.Job); err != nil {
			return err
		}
		err := t.c.query(qAddRef).int(build).blob(r.Job[:]).int(t.place).bool(r.Awaited).bool(r.Optional).
			int(int64(r.Priority)).int(int64(r.Limits.Timeout)).int(int64(r.Limits.Silence)).int(int64(r.Ended)).run()
		if err != nil {
			return err
		}
		t.place++
	}
	return nil
}

// known reports an error unless there is such a job.
func (t *batch) known(id job.ID) error {
	if t.added[id] {
		return nil
	}
	q := t.c.query(qJobExists).blob(id[:])
	ok, err := q.next()
	if err != nil {
		return err
	}
	if !ok {
		return errUnknownJob
	}
	return q.done()
}

func (t *batch) dropBuild(id job.ID) error {
	seq, err := t.buildSeq(id)
	if err != nil {
		return err
	}
	if err := t.c.query(qDropRefs).int(seq).run(); err != nil {
		return err
	}
	return t.c.query(qDropBuild).int(seq).run()
}
