package rows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

var (
	errUnknownJob   = errors.New("no such job")
	errUnknownBuild = errors.New("no such build")
	errExists       = errors.New("exists already")
	errState        = errors.New("not possible in the job's state")
	errLeft         = errors.New("the job is unknown or has left memory")
)

// Batch makes the rows of one batch after the other. What a batch touches several times is gathered and written once. It
// uses its memory again; its zero value is ready.
type Batch struct {
	t    Tables
	head Head

	buf   []byte // what live rows point to
	live  []liveRow
	at    map[int64]int // place in live, by seq
	added map[job.ID]drop

	builds  []buildRow
	buildAt map[job.ID]int // place in builds
	known   map[job.ID]bool
	drops   map[job.ID]drop
	refs    []refRow
	refAt   map[refKey]int // place in refs

	channels map[string]*job.Channel
	workers  map[string]*job.Worker // nil: removed
	classes  map[job.Class]job.Time
	settings map[settingKey]*job.Setting // nil: removed
	usage    map[usageKey]time.Duration
	took     map[job.Series]learned
	failures map[job.Identity]*job.FailureCached // nil: cleared
	place    int64                               // of the next reference

	// dropping: only rows that go were written since the last flush.
	dropping bool

	oldRounds, oldAnswers portion

	feed []byte
	row  []Value
	keys keys
}

type settingKey struct{ space, name string }

type usageKey struct {
	slice          int64
	channel, group string
}

type learned struct {
	took  time.Duration
	count int64
}

// Write stores the batch in the tables. After an error the transaction has to be taken back.
func (b *Batch) Write(t Tables, v *queue.Batch) (err error) {
	b.reset(t, v)
	if err := b.readAhead(v); err != nil {
		return err
	}
	if v.Number != b.head.Number+1 {
		return fmt.Errorf("the last batch has number %d: %w", b.head.Number, queue.ErrNumber)
	}
	if b.feed, err = codec.AppendChanges(b.feed, v.Changes); err != nil {
		return err
	}
	for _, c := range v.Changes {
		if err := b.apply(c); err != nil {
			return fmt.Errorf("%T: %w", c, err)
		}
	}
	if err := b.flush(); err != nil {
		return err
	}
	if err := b.put(AddRound, number(v.Number), number(v.At), blob(b.feed)); err != nil {
		return err
	}
	for i := range v.Answers {
		if err := b.put(AddAnswer, ident(v.Answers[i].Request), number(v.At), blob(v.Answers[i].Reply)); err != nil {
			return err
		}
	}
	if err := b.prune(v); err != nil {
		return err
	}
	if err := b.put(PutHead, number(v.Number), number(v.At), number(b.head.Seq), number(b.head.Dropped)); err != nil {
		return err
	}
	return t.Flush()
}

func (b *Batch) reset(t Tables, v *queue.Batch) {
	if b.at == nil {
		b.at, b.added, b.buildAt, b.refAt = map[int64]int{}, map[job.ID]drop{}, map[job.ID]int{}, map[refKey]int{}
		b.known, b.drops = map[job.ID]bool{}, map[job.ID]drop{}
		b.channels, b.workers = map[string]*job.Channel{}, map[string]*job.Worker{}
		b.classes, b.failures = map[job.Class]job.Time{}, map[job.Identity]*job.FailureCached{}
		b.settings = map[settingKey]*job.Setting{}
		b.usage, b.took = map[usageKey]time.Duration{}, map[job.Series]learned{}
	}
	clear(b.at)
	clear(b.added)
	clear(b.live)
	clear(b.buildAt)
	clear(b.known)
	clear(b.drops)
	clear(b.took)
	b.forget()
	b.oldRounds, b.oldAnswers = portion{}, portion{}
	b.t, b.buf, b.live, b.builds, b.feed = t, b.buf[:0], b.live[:0], b.builds[:0], b.feed[:0]
	b.place, b.dropping = int64(v.Number)<<placeBits, false
}

// drop prepares for rows that go: what was gathered may be about them.
func (b *Batch) drop() error {
	if b.dropping {
		return nil
	}
	b.dropping = true
	return b.flush()
}

// forget lets go of what was gathered and is written.
func (b *Batch) forget() {
	clear(b.refAt)
	clear(b.channels)
	clear(b.workers)
	clear(b.classes)
	clear(b.settings)
	clear(b.usage)
	clear(b.failures)
	b.refs = b.refs[:0]
}

// placeBits leaves room for the references of one batch.
const placeBits = 24

// put writes one row.
func (b *Batch) put(q Query, row ...Value) error {
	b.row = append(b.row[:0], row...) // so that the arguments stay off the heap
	return b.t.Write(q, b.row)
}

// apply makes one change, or gathers it.
func (b *Batch) apply(c job.Change) error {
	if b.dropping {
		switch c.(type) {
		case job.JobDeleted, job.BuildDeleted:
			// More that goes.
		default:
			// What comes may have the id of what goes.
			b.dropping = false
			if err := b.t.Flush(); err != nil {
				return err
			}
		}
	}
	switch c := c.(type) {
	case job.BuildAdded, job.BuildReferred, job.BuildSealed, job.BuildActivated, job.BuildBumped, job.BuildEnded,
		job.BuildDeleted:
		return b.applyBuild(c)
	case job.JobAdded:
		return b.addJob(&c.Record)
	case job.JobDeleted:
		return b.dropJob(c.Job)
	case job.WorkerPut:
		b.workers[c.Worker.Name] = &c.Worker
	case job.WorkerRemoved:
		b.workers[c.Name] = nil
	case job.SettingPut:
		b.settings[settingKey{c.Space, c.Name}] = &c.Setting
	case job.SettingRemoved:
		b.settings[settingKey{c.Space, c.Name}] = nil
	case job.UsagePut:
		b.usage[usageKey{c.Slice, c.Channel, c.Group}] = c.Used
	case job.DurationLearned:
		old := b.took[c.Series]
		b.took[c.Series] = learned{job.Learn(old.took, old.count, c.Took), old.count + 1}
	case job.ChannelPut:
		b.channels[c.Channel.Name] = &c.Channel
	case job.ClassMarked:
		b.classes[c.Class] = c.Since
	case job.FailureCached:
		b.failures[c.Identity] = &c
	case job.FailureCleared:
		b.failures[c.Identity] = nil
	default:
		return b.applyLive(c)
	}
	return nil
}

// flush writes what was gathered.
func (b *Batch) flush() error {
	for _, write := range []func() error{
		b.flushLive, b.flushBuilds, b.flushRefs, b.flushPolicies, b.flushSettings, b.flushUsage, b.flushFailures, b.t.Flush,
	} {
		if err := write(); err != nil {
			return err
		}
	}
	b.forget()
	return nil
}

func (b *Batch) flushPolicies() error {
	for name, c := range b.channels {
		if err := b.put(PutChannel, text(name), blob(codec.AppendChannel(nil, c))); err != nil {
			return err
		}
	}
	for name, w := range b.workers {
		var err error
		if w == nil {
			err = b.put(DropWorker, text(name))
		} else {
			err = b.put(PutWorker, text(name), blob(codec.AppendWorker(nil, w)))
		}
		if err != nil {
			return err
		}
	}
	for k, since := range b.classes {
		var err error
		if since == 0 {
			err = b.put(DropClass, text(k.Channel), text(k.Kind), text(k.System), text(k.Features), text(k.Pin))
		} else {
			err = b.put(PutClass, text(k.Channel), text(k.Kind), text(k.System), text(k.Features), text(k.Pin), number(since))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *Batch) flushSettings() error {
	for k, s := range b.settings {
		var err error
		if s == nil {
			err = b.put(DropSetting, text(k.space), text(k.name))
		} else {
			err = b.put(PutSetting, text(k.space), text(k.name), blob(codec.AppendSetting(nil, s)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flushUsage writes durations whole each time: they are learned on.
func (b *Batch) flushUsage() error {
	for k, used := range b.usage {
		if err := b.put(PutUsage, number(k.slice), text(k.channel), text(k.group), number(used)); err != nil {
			return err
		}
	}
	for k, v := range b.took {
		if v.count == 0 {
			continue
		}
		if err := b.put(PutTook, text(k.Channel), text(k.Kind), text(k.Name), number(v.took), number(v.count)); err != nil {
			return err
		}
	}
	return nil
}

func (b *Batch) flushFailures() error {
	for i, f := range b.failures {
		var err error
		if f == nil {
			err = b.put(DropFailure, text(i.Channel), text(i.Kind), text(i.Key))
		} else {
			err = b.put(PutFailure, text(i.Channel), text(i.Kind), text(i.Key), blob(codec.AppendFailure(nil, f)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prune drops a portion of what is kept for a time only.
func (b *Batch) prune(v *queue.Batch) error {
	if p := b.oldRounds; p.any {
		b.head.Dropped = uint64(p.last)
		if err := b.put(DropRounds, number(p.last)); err != nil {
			return err
		}
	}
	if p := b.oldAnswers; p.any {
		if err := b.put(DropAnswers, number(p.last)); err != nil {
			return err
		}
	}
	if first := queue.FirstSlice(v.At); first > queue.FirstSlice(b.head.At) {
		return b.put(DropUsage, number(first))
	}
	return nil
}

// kept appends to the batch's memory and gives what was appended.
func (b *Batch) kept(v []byte) []byte {
	from := len(b.buf)
	b.buf = v
	return slices.Clip(v[from:])
}
