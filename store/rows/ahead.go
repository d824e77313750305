package rows

import (
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// keys gathers what a batch has to read before it can be applied, so that each kind is one question, however far the
// database is.
type keys struct {
	live, builds, jobs, drops, took []Value
	series                          []job.Series // those of took
}

// readAhead reads the head, what the changes name and the batch does not make itself, and what may be too old to be kept:
// all at once, however far the database is.
func (b *Batch) readAhead(v *queue.Batch) error {
	k := &b.keys
	k.live, k.builds, k.jobs, k.drops, k.took = k.live[:0], k.builds[:0], k.jobs[:0], k.drops[:0], k.took[:0]
	k.series = k.series[:0]
	for _, c := range v.Changes {
		b.name(c)
	}
	rounds, answers := v.At.Add(-queue.FeedRetention), v.At.Add(-queue.AnswerRetention)
	headless := true
	err := b.t.ReadAll(
		Ask{GetHead, 0, nil, func(_ int, c Columns) error {
			headless = false
			b.head = readHead(c)
			return nil
		}},
		Ask{GetLive, 1, k.live, b.readLive},
		Ask{GetBuild, 1, k.builds, b.readBuild},
		Ask{HasJob, 1, k.jobs, func(i int, _ Columns) error {
			b.known[k.jobs[i].ID] = true
			return nil
		}},
		Ask{GetDropped, 1, k.drops, b.readDrop},
		Ask{Took, 3, k.took, func(i int, c Columns) error {
			b.took[k.series[i]] = readLearned(c)
			return nil
		}},
		Ask{OldRounds, 1, []Value{number(int64(queue.FeedPortion))}, b.oldRounds.readBefore(rounds)},
		Ask{OldAnswers, 1, []Value{number(int64(queue.AnswerPortion + 2*len(v.Answers)))}, b.oldAnswers.readBefore(answers)},
	)
	if err == nil && headless {
		err = ErrHeadless
	}
	return err
}

// portion is the first few rows of a list that lie before a moment.
type portion struct {
	last int64 // the last of them
	any  bool
}

// readBefore finds them. The list is in the order of its making, so what follows a row that is not old is not looked at.
func (p *portion) readBefore(moment job.Time) func(int, Columns) error {
	return func(_ int, c Columns) error {
		n, at := c.Int(), c.Int()
		if job.Time(at) >= moment {
			return ErrEnough
		}
		p.last, p.any = n, true
		return nil
	}
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

func (b *Batch) readLive(i int, c Columns) error {
	seq := b.keys.live[i].Int
	r := liveRow{seq: seq, stored: true, state: c.Int(), wake: c.Int(), delay: c.Int()}
	r.attempt, r.tally, r.own = b.readBlob(c), b.readBlob(c), b.readBlob(c)
	r.held, r.open = c.Bool(), c.Bool()
	b.at[seq] = len(b.live)
	b.live = append(b.live, r)
	return nil
}

// readBlob takes the next column into the batch's memory; nil for null.
func (b *Batch) readBlob(c Columns) []byte {
	if c.Null() {
		return nil
	}
	return b.kept(c.Append(b.buf))
}

func (b *Batch) readBuild(i int, c Columns) error {
	r := buildRow{seq: c.Int(), priority: int32(c.Int()), active: c.Bool(), staged: c.Bool()}
	r.outcome, r.ended = job.Outcome(c.Int()), job.Time(c.Int())
	b.buildAt[b.keys.builds[i].ID] = len(b.builds)
	b.builds = append(b.builds, r)
	return nil
}

func (b *Batch) readDrop(i int, c Columns) error {
	d := drop{seq: c.Int()}
	// What an unreadable spec names stays behind as edges that lead to no job.
	if s, err := codec.DecodeSpec(c.Bytes()); err == nil {
		d.needs = s.Needs
	}
	d.outcome = job.Outcome(c.Int())
	b.drops[b.keys.drops[i].ID] = d
	return nil
}
