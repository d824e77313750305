package rows

import (
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
)

// keys gathers what a batch has to read before it can be applied, so that each kind is one question, however far the
// database is.
type keys struct {
	live, builds, jobs, drops, took []Value
	series                          []job.Series // those of took
}

// readAhead reads what the changes name and the batch does not make itself.
func (b *Batch) readAhead(changes []job.Change) error {
	k := &b.keys
	k.live, k.builds, k.jobs, k.drops, k.took = k.live[:0], k.builds[:0], k.jobs[:0], k.drops[:0], k.took[:0]
	k.series = k.series[:0]
	for _, c := range changes {
		b.name(c)
	}
	if err := b.readLive(); err != nil {
		return err
	}
	if err := b.readBuilds(); err != nil {
		return err
	}
	err := b.read(HasJob, 1, k.jobs, func(i int, _ Columns) error {
		b.known[k.jobs[i].ID] = true
		return nil
	})
	if err != nil {
		return err
	}
	err = b.read(GetDropped, 1, k.drops, func(i int, c Columns) error {
		d := drop{seq: c.Int()}
		// What an unreadable spec names stays behind as edges that lead to no job.
		if s, err := codec.DecodeSpec(c.Bytes()); err == nil {
			d.needs = s.Needs
		}
		d.outcome = job.Outcome(c.Int())
		b.drops[k.drops[i].ID] = d
		return nil
	})
	if err != nil {
		return err
	}
	return b.read(Took, 3, k.took, func(i int, c Columns) error {
		b.took[k.series[i]] = readLearned(c)
		return nil
	})
}

// read asks unless there is nothing to ask.
func (b *Batch) read(q Query, width int, keys []Value, f func(int, Columns) error) error {
	if len(keys) == 0 {
		return nil
	}
	return b.t.Read(q, width, keys, f)
}

// unread is the place of what is named and not found, or not made yet.
const unread = -1

// name gathers what one change names.
func (b *Batch) name(c job.Change) {
	switch c := c.(type) {
	case job.JobAdded:
		if _, ok := b.at[c.Seq]; !ok {
			b.at[c.Seq] = unread
		}
		b.added[c.Spec.ID] = drop{seq: c.Seq, needs: c.Spec.Needs}
	case job.JobKept:
		b.nameLive(c.Seq)
	case job.JobReleased:
		b.nameLive(c.Seq)
	case job.JobBlocked:
		b.nameLive(c.Seq)
	case job.JobStarted:
		b.nameLive(c.Seq)
	case job.JobRetried:
		b.nameLive(c.Seq)
	case job.JobEnded:
		b.nameLive(c.Seq)
	case job.JobFreed:
		b.nameLive(c.Seq)
	case job.JobSettled:
		b.nameLive(c.Seq)
	case job.JobProgress:
		b.nameLive(c.Seq)
	case job.JobDeleted:
		if _, ok := b.added[c.Job]; !ok {
			b.keys.drops = append(b.keys.drops, ident(c.Job))
		}
	case job.DurationLearned:
		if _, ok := b.took[c.Series]; !ok {
			b.took[c.Series] = learned{}
			b.keys.series = append(b.keys.series, c.Series)
			b.keys.took = append(b.keys.took, text(c.Series.Channel), text(c.Series.Kind), text(c.Series.Name))
		}
	default:
		b.nameBuild(c)
	}
}

func (b *Batch) nameBuild(c job.Change) {
	var id job.ID
	switch c := c.(type) {
	case job.BuildAdded:
		if _, ok := b.buildAt[c.Build.ID]; !ok {
			b.buildAt[c.Build.ID] = unread
		}
		return
	case job.BuildReferred:
		id = c.Build
		for i := range c.Refs {
			if _, ok := b.added[c.Refs[i].Job]; !ok {
				b.keys.jobs = append(b.keys.jobs, ident(c.Refs[i].Job))
			}
		}
	case job.BuildSealed:
		id = c.Build
	case job.BuildActivated:
		id = c.Build
	case job.BuildBumped:
		id = c.Build
	case job.BuildEnded:
		id = c.Build
	case job.BuildDeleted:
		id = c.Build
	default:
		return // The others name nothing that has to be read.
	}
	if _, ok := b.buildAt[id]; !ok {
		b.buildAt[id] = unread
		b.keys.builds = append(b.keys.builds, ident(id))
	}
}

func (b *Batch) nameLive(seq int64) {
	if _, ok := b.at[seq]; !ok {
		b.at[seq] = unread
		b.keys.live = append(b.keys.live, number(seq))
	}
}

func (b *Batch) readLive() error {
	return b.read(GetLive, 1, b.keys.live, func(i int, c Columns) error {
		seq := b.keys.live[i].Int
		r := liveRow{seq: seq, stored: true, state: c.Int(), wake: c.Int(), delay: c.Int()}
		r.attempt, r.tally, r.own = b.readBlob(c), b.readBlob(c), b.readBlob(c)
		r.held, r.open = c.Bool(), c.Bool()
		b.at[seq] = len(b.live)
		b.live = append(b.live, r)
		return nil
	})
}

// readBlob takes the next column into the batch's memory; nil for null.
func (b *Batch) readBlob(c Columns) []byte {
	if c.Null() {
		return nil
	}
	return b.kept(c.Append(b.buf))
}

func (b *Batch) readBuilds() error {
	return b.read(GetBuild, 1, b.keys.builds, func(i int, c Columns) error {
		r := buildRow{seq: c.Int(), priority: int32(c.Int()), active: c.Bool(), staged: c.Bool()}
		r.outcome, r.ended = job.Outcome(c.Int()), job.Time(c.Int())
		b.buildAt[b.keys.builds[i].ID] = len(b.builds)
		b.builds = append(b.builds, r)
		return nil
	})
}
