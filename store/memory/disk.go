package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// Disk is what survives a crash. It belongs to the newest handle that Open gave.
type Disk struct {
	mu    sync.RWMutex
	epoch int // of the newest handle

	number uint64 // of the last batch
	at     job.Time
	seq    int64 // greatest ever given

	jobs     table[int64, *row]
	jobSeq   table[job.ID, int64]
	builds   table[job.ID, *build]
	refAt    table[refKey, int]           // place in the build's refs
	kept     table[job.Identity, []int64] // successes with a key, oldest first
	cached   table[job.Identity, []byte]
	took     table[job.Series, learned]
	workers  table[string, []byte]
	channels table[string, []byte]
	classes  table[job.Class, job.Time]
	settings table[settingKey, []byte]
	usage    table[slice, job.UsagePut]

	// feed holds the rounds after dropped, in order; answers are in the order in which they came.
	feed    []round
	dropped uint64
	answers map[job.ID][]byte
	asked   []asked
}

// row is a job. It is never changed once it is in the table.
type row struct {
	id   job.ID
	seq  int64
	at   job.Time
	spec []byte // encoded, without Args
	args []byte
	// needs names its dependencies beside the spec, as the edges of the other stores do: they outlive its damage.
	needs []job.ID

	state   state
	own     *job.Own
	staging job.ID // the build that it was made for
	tally   job.Tally
	wake    job.Time
	delay   int64
	run     *job.Attempt // while it runs
	ended   []ended      // by number
	worker  string       // of the attempt that ended with it
	end     *job.End
	held    bool
	open    bool

	result []byte

	// What cannot be read, beside the spec: what is stored of a live job, and how it ended.
	badLive, badEnd bool
}

// ended is an attempt that has ended.
type ended struct {
	job.AttemptEnd
	bad bool // it cannot be read
}

// state orders what job.State says, for filters.
type state uint8

const (
	blocked state = iota
	ready
	running
	done
)

// live reports whether Load gives the job.
func (r *row) live() bool { return r.state != done || r.held || r.open }

// build is a build with its references in the order in which they were made. What is behind the end of refs
// belongs to the newest build value alone.
type build struct {
	job.BuildRecord
	refs []job.Ref
	bad  bool // the parts that are no columns elsewhere cannot be read
}

type refKey struct{ build, job job.ID }

type settingKey struct{ space, name string }

type learned struct {
	took  int64
	count int64
}

type slice struct {
	channel, group string
	number         int64
}

type round struct {
	at      job.Time
	changes []byte // encoded
}

type asked struct {
	request job.ID
	at      job.Time
}

// NewDisk gives an empty disk.
func NewDisk() *Disk { return &Disk{answers: map[job.ID][]byte{}} }

// Open gives a handle on what is committed. Handles that were given before fail from now on with
// queue.ErrFenced, as if their process had died.
func (d *Disk) Open() *Store {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.epoch++
	return &Store{disk: d, epoch: d.epoch}
}

// Store is a handle on a Disk. It implements queue.Store and queue.History.
type Store struct {
	disk   *Disk
	epoch  int
	closed bool // guarded by disk.mu
}

var (
	_ queue.Store   = (*Store)(nil)
	_ queue.History = (*Store)(nil)
)

// New gives a handle on a disk of its own.
func New() *Store { return NewDisk().Open() }

var errClosed = errors.New("store is closed")

// usable is called with the disk's lock held.
func (s *Store) usable(ctx context.Context) error {
	switch {
	case s.epoch != s.disk.epoch:
		return queue.ErrFenced
	case s.closed:
		return errClosed
	}
	return ctx.Err()
}

// Commit implements queue.Store.
func (s *Store) Commit(ctx context.Context, b *queue.Batch) error {
	d := s.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return fmt.Errorf("commit batch %d: %w", b.Number, err)
	}
	if b.Number != d.number+1 {
		return fmt.Errorf("commit batch %d after %d: %w", b.Number, d.number, queue.ErrNumber)
	}
	changes, err := codec.AppendChanges(nil, b.Changes)
	if err != nil {
		return fmt.Errorf("commit batch %d: %v", b.Number, err)
	}
	seq := d.seq
	for _, c := range b.Changes {
		if err := d.apply(c); err != nil {
			d.seq = seq
			d.each(undoable.takeBack)
			return fmt.Errorf("commit batch %d: %T: %v", b.Number, c, err)
		}
	}
	d.each(undoable.keep)
	d.feed = append(d.feed, round{b.At, changes})
	d.answer(b)
	d.prune(b)
	d.number, d.at = b.Number, b.At
	return nil
}

type undoable interface {
	keep()
	takeBack()
}

func (d *Disk) each(f func(undoable)) {
	for _, t := range []undoable{
		&d.jobs, &d.jobSeq, &d.builds, &d.refAt, &d.kept, &d.cached, &d.took, &d.workers, &d.channels, &d.classes, &d.settings, &d.usage,
	} {
		f(t)
	}
}

func (d *Disk) answer(b *queue.Batch) {
	for _, a := range b.Answers {
		if _, ok := d.answers[a.Request]; !ok {
			d.answers[a.Request] = append([]byte{}, a.Reply...)
			d.asked = append(d.asked, asked{a.Request, b.At})
		}
	}
}

func (d *Disk) prune(b *queue.Batch) {
	for i := 0; i < queue.FeedPortion && d.feed[0].at < b.At.Add(-queue.FeedRetention); i++ {
		d.feed[0] = round{}
		d.feed = d.feed[1:]
		d.dropped++
	}
	n := queue.AnswerPortion + 2*len(b.Answers)
	for ; n > 0 && len(d.asked) > 0 && d.asked[0].at < b.At.Add(-queue.AnswerRetention); n-- {
		delete(d.answers, d.asked[0].request)
		d.asked = d.asked[1:]
	}
	if first := queue.FirstSlice(b.At); first > queue.FirstSlice(d.at) {
		for k := range d.usage.rows {
			if k.number < first {
				delete(d.usage.rows, k)
			}
		}
	}
}

// Committed implements queue.Store.
func (s *Store) Committed(ctx context.Context, number uint64) (bool, error) {
	s.disk.mu.RLock()
	defer s.disk.mu.RUnlock()
	if err := s.usable(ctx); err != nil {
		return false, fmt.Errorf("look for batch %d: %w", number, err)
	}
	return number <= s.disk.number, nil
}

// Close implements queue.Store. The disk keeps what is committed.
func (s *Store) Close() error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	s.closed = true
	return nil
}
