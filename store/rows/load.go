package rows

import (
	"context"
	"errors"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// Head is the row that says where a store stands.
type Head struct {
	Number  uint64
	At      job.Time
	Seq     int64
	Dropped uint64 // the newest round that the feed has lost
}

// ErrHeadless reports that a store does not say where it stands.
var ErrHeadless = errors.New("the head row is missing")

// ReadHead reads the head; ErrHeadless if there is none.
func ReadHead(t Tables) (Head, error) {
	var h Head
	err := ErrHeadless
	if fault := t.Read(GetHead, 0, nil, func(_ int, c Columns) error {
		h, err = readHead(c), nil
		return nil
	}); fault != nil {
		err = fault
	}
	return h, err
}

func readHead(c Columns) Head {
	return Head{uint64(c.Int()), job.Time(c.Int()), c.Int(), uint64(c.Int())}
}

// loading is one Load under way.
type loading struct {
	t    Tables
	head queue.Head
	live map[job.ID]job.Outcome // jobs that were read, and how they have ended

	ready   []job.Change // not on their way yet
	changes chan []job.Change
	refused chan struct{} // closed once no more is wanted
}

// Changes go from one goroutine to the other in portions, of which some may wait.
const (
	portionSize = 256
	portions    = 8
)

// errRefused ends the reading; it reaches nobody.
var errRefused = errors.New("no more is wanted")

// Load reads what queue.Store's Load gives, of one moment of the store. While fn takes in what was read, the next is read
// and decoded. It gives back the error of fn, or that of ctx, as it is, and calls fn no more after either.
func Load(ctx context.Context, t Tables, fn func(job.Change) error) (queue.Head, error) {
	l := loading{t: t, live: map[job.ID]job.Outcome{}, changes: make(chan []job.Change, portions), refused: make(chan struct{})}
	var read error
	go func() {
		defer close(l.changes)
		if read = l.run(); read == nil {
			read = l.send()
		}
	}()
	var refusal error
	for portion := range l.changes {
		for _, c := range portion {
			if refusal != nil {
				break
			}
			if refusal = fn(c); refusal == nil {
				refusal = ctx.Err()
			}
			if refusal != nil {
				close(l.refused)
			}
		}
	}
	if refusal != nil {
		return l.head, refusal
	}
	return l.head, read
}

func (l *loading) fn(c job.Change) error {
	if l.ready = append(l.ready, c); len(l.ready) < portionSize {
		return nil
	}
	return l.send()
}

func (l *loading) send() error {
	select {
	case l.changes <- l.ready:
		l.ready = make([]job.Change, 0, portionSize)
		return nil
	case <-l.refused:
		return errRefused
	}
}

func (l *loading) run() error {
	h, err := ReadHead(l.t)
	if err != nil {
		return err
	}
	l.head = queue.Head{Number: h.Number, Seq: h.Seq}
	var builds []job.ID
	var seqs []Value
	err = l.t.ReadAll(
		Ask{Channels, 0, nil, l.channel},
		Ask{Classes, 0, nil, l.class},
		Ask{Workers, 0, nil, l.worker},
		Ask{Settings, 0, nil, l.setting},
		Ask{Usage, 1, []Value{number(queue.FirstSlice(h.At))}, l.usage},
		Ask{LiveBuilds, 0, nil, func(_ int, c Columns) error {
			b := l.readBuild(c)
			builds = append(builds, b.Build.ID)
			seqs = append(seqs, number(b.Seq))
			return l.fn(job.BuildAdded{BuildRecord: b})
		}},
		Ask{LiveJobs, 0, nil, l.job},
	)
	if err != nil {
		return err
	}
	return l.refs(builds, seqs)
}

func (l *loading) corrupt(table, key string, err error) {
	l.head.Corrupt = append(l.head.Corrupt, queue.Corrupt{Table: table, Key: key, Err: err})
}

func (l *loading) channel(_ int, c Columns) error {
	name := c.Text()
	v, err := codec.DecodeChannel(c.Bytes())
	if err != nil {
		l.corrupt("channel", name, err)
		return nil
	}
	return l.fn(job.ChannelPut{Channel: v})
}

func (l *loading) class(_ int, c Columns) error {
	k := job.Class{Channel: c.Text(), Kind: c.Text(), System: c.Text(), Features: c.Text(), Pin: c.Text()}
	return l.fn(job.ClassMarked{Class: k, Since: job.Time(c.Int())})
}

func (l *loading) worker(_ int, c Columns) error {
	name := c.Text()
	v, err := codec.DecodeWorker(c.Bytes())
	if err != nil {
		l.corrupt("worker", name, err)
		return nil
	}
	return l.fn(job.WorkerPut{Worker: v})
}

func (l *loading) setting(_ int, c Columns) error {
	space, name := c.Text(), c.Text()
	v, err := codec.DecodeSetting(c.Bytes())
	if err != nil {
		l.corrupt("setting", space+"/"+name, err)
		return nil
	}
	return l.fn(job.SettingPut{Setting: v})
}

func (l *loading) usage(_ int, c Columns) error {
	u := job.UsagePut{Slice: c.Int(), Channel: c.Text(), Group: c.Text()}
	u.Used = time.Duration(c.Int())
	return l.fn(u)
}

// readBuild gives a live build, or what stands for it.
func (l *loading) readBuild(c Columns) job.BuildRecord {
	b, err := Build(c)
	if err != nil {
		id := b.Build.ID
		l.head.Corrupt = append(l.head.Corrupt, queue.Corrupt{Table: "build", Key: id.String(), Build: id, Seq: b.Seq, Err: err})
		b = job.BuildRecord{Seq: b.Seq, At: b.At, Active: b.Active, Staged: b.Staged, Build: job.Build{ID: id}}
	}
	return b
}

func (l *loading) job(_ int, c Columns) error {
	r, lost, err := Record(c)
	if lost != nil {
		l.corrupt("attempt", r.Spec.ID.String(), lost)
	}
	if err != nil {
		v := queue.Corrupt{Table: "job", Key: r.Spec.ID.String(), Job: r.Spec.ID, Seq: r.Seq, Err: err}
		r = standIn(r)
		if r.End != nil {
			v.Job = job.ID{}
		}
		l.head.Corrupt = append(l.head.Corrupt, v)
	}
	l.live[r.Spec.ID] = 0
	if r.End != nil {
		l.live[r.Spec.ID] = r.End.Outcome
	}
	return l.fn(job.JobAdded{Record: *r})
}

// refs gives each build its references. How the jobs that they name have ended is known of those that were just read; the store
// is asked of the others, after all references are read.
func (l *loading) refs(builds []job.ID, seqs []Value) error {
	var later []job.BuildReferred // from the first on of which a job is none that was just read
	var refs []job.Ref
	at, sure := 0, true
	give := func() error {
		if len(refs) == 0 {
			return nil
		}
		c, all := job.BuildReferred{Build: builds[at], Refs: refs}, sure
		refs, sure = nil, true
		if all && len(later) == 0 {
			return l.fn(c)
		}
		later = append(later, c)
		return nil
	}
	err := l.t.Read(LiveRefs, 1, seqs, func(key int, c Columns) error {
		if key != at {
			if err := give(); err != nil {
				return err
			}
			at = key
		}
		r := reference(c)
		if outcome, ok := l.live[r.Job]; ok {
			r.Ended = outcome
		} else {
			sure = false
		}
		refs = append(refs, r)
		return nil
	})
	if err == nil {
		err = give()
	}
	if err == nil {
		err = l.settle(later)
	}
	for i := 0; i < len(later) && err == nil; i++ {
		err = l.fn(later[i])
	}
	return err
}

// settle says of references how the jobs that they name have ended, of those that are still there.
func (l *loading) settle(builds []job.BuildReferred) error {
	var keys []Value
	var asked []*job.Ref
	for i := range builds {
		for k := range builds[i].Refs {
			r := &builds[i].Refs[k]
			if _, ok := l.live[r.Job]; !ok {
				keys, asked = append(keys, ident(r.Job)), append(asked, r)
			}
		}
	}
	return l.t.Read(JobOutcome, 1, keys, func(key int, c Columns) error {
		asked[key].Ended = job.Outcome(c.Int())
		return nil
	})
}

// standIn gives what the engine needs of a live job whose record cannot be read. One that is Done has nothing left
// to do but to tell its dependents and to be let go of.
func standIn(r *job.Record) *job.Record {
	v := &job.Record{Seq: r.Seq, Spec: job.Spec{ID: r.Spec.ID}}
	if r.End != nil {
		v.End, v.Open, v.Held, v.Last, v.LastEnd = r.End, r.Open, r.Held, r.Last, r.LastEnd
	}
	return v
}
