package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// loading is one Load under way.
type loading struct {
	c    *conn
	fn   func(job.Change) error
	head queue.Head
}

// Load implements queue.Store.
func (r *Reader) Load(ctx context.Context, fn func(job.Change) error) (queue.Head, error) {
	var l loading
	var refused error // by fn: given back as it is
	err := r.long(ctx, func(c *conn) error {
		l = loading{c: c, fn: func(v job.Change) error {
			refused = fn(v)
			return refused
		}}
		return l.run()
	})
	switch {
	case refused != nil:
		return queue.Head{}, refused
	case err != nil:
		return queue.Head{}, r.fail("load", err)
	}
	return l.head, nil
}

func (l *loading) run() error {
	h, err := readHead(l.c)
	if err != nil {
		return err
	}
	l.head = queue.Head{Number: h.number, Seq: h.seq}
	builds := map[int64]job.ID{}
	var order []int64
	for _, step := range []func() error{
		l.channels,
		l.classes,
		l.workers,
		func() error { return l.usage(h.at) },
		func() error {
			return l.builds(func(b *job.BuildRecord) {
				builds[b.Seq] = b.Build.ID
				order = append(order, b.Seq)
			})
		},
		l.jobs,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, seq := range order {
		refs, err := readRefs(l.c, seq)
		if err != nil {
			return err
		}
		if len(refs) == 0 {
			continue
		}
		if err := l.fn(job.BuildReferred{Build: builds[seq], Refs: refs}); err != nil {
			return err
		}
	}
	return nil
}

// each calls f at each row, and always lets go of the statement.
func each(q *stmt, f func(*stmt) error) error {
	for {
		more, err := q.next()
		if err != nil || !more {
			return err
		}
		if err := f(q); err != nil {
			return errors.Join(err, q.done())
		}
	}
}

func (l *loading) corrupt(table, key string, err error) {
	l.head.Corrupt = append(l.head.Corrupt, queue.Corrupt{Table: table, Key: key, Err: err})
}

func (l *loading) channels() error {
	return each(l.c.query(qChannels), func(q *stmt) error {
		name := q.readString()
		v, err := codec.DecodeChannel(q.readBytes())
		if err != nil {
			l.corrupt("channel", name, err)
			return nil
		}
		return l.fn(job.ChannelPut{Channel: v})
	})
}

func (l *loading) classes() error {
	return each(l.c.query(qClasses), func(q *stmt) error {
		k := job.Class{
			Channel: q.readString(), Kind: q.readString(), System: q.readString(), Features: q.readString(), Pin: q.readString(),
		}
		return l.fn(job.ClassMarked{Class: k, Since: job.Time(q.readInt())})
	})
}

func (l *loading) workers() error {
	return each(l.c.query(qWorkers), func(q *stmt) error {
		name := q.readString()
		v, err := codec.DecodeWorker(q.readBytes())
		if err != nil {
			l.corrupt("worker", name, err)
			return nil
		}
		return l.fn(job.WorkerPut{Worker: v})
	})
}

func (l *loading) usage(at job.Time) error {
	return each(l.c.query(qUsage).int(firstSlice(at)), func(q *stmt) error {
		u := job.UsagePut{Slice: q.readInt(), Channel: q.readString(), Group: q.readString()}
		u.Used = time.Duration(q.readInt())
		return l.fn(u)
	})
}

func (l *loading) builds(found func(*job.BuildRecord)) error {
	return each(l.c.query(qLiveBuilds), func(q *stmt) error {
		b, err := readBuild(q)
		if err != nil {
			l.corrupt("build", fmt.Sprint(b.Seq), err)
			return nil
		}
		found(&b)
		return l.fn(job.BuildAdded{BuildRecord: b})
	})
}

func (l *loading) jobs() error {
	return each(l.c.query(qLiveJobs), func(q *stmt) error {
		r, err := readRecord(q)
		if err != nil {
			l.head.Corrupt = append(l.head.Corrupt,
				queue.Corrupt{Table: "job", Key: r.Spec.ID.String(), Job: r.Spec.ID, Seq: r.Seq, Err: err})
			r = &job.Record{Spec: job.Spec{ID: r.Spec.ID}, Seq: r.Seq}
		}
		return l.fn(job.JobAdded{Record: *r})
	})
}

// readRecord reads recordColumns. With an error the record still says what its columns said.
func readRecord(q *stmt) (*job.Record, error) {
	r := &job.Record{Seq: q.readInt()}
	id := q.readBytes()
	r.At = job.Time(q.readInt())
	channel, kind, name, key := q.readString(), q.readString(), q.readString(), q.readString()
	spec, err := codec.DecodeSpec(q.readBytes())
	r.Spec = spec
	copy(r.Spec.ID[:], id)
	r.Spec.Channel, r.Spec.Kind, r.Spec.Name, r.Spec.Key = channel, kind, name, key
	if err != nil {
		return r, err
	}
	r.Running = q.readInt() == running
	r.Wake, r.Delay = job.Time(q.readInt()), time.Duration(q.readInt())
	attempt := q.readBytes()
	r.Held, r.Open = q.readBool(), q.readBool()
	tally, own, end, last, earlier := q.readBytes(), q.readBytes(), q.readBytes(), q.readBytes(), q.readBytes()
	if last == nil {
		last = earlier
	}
	if attempt != nil {
		last = nil
	}
	r.Last, err = optional(attempt, codec.DecodeAttempt, err)
	r.Own, err = optional(own, codec.DecodeOwn, err)
	r.End, err = optional(end, codec.DecodeEnd, err)
	r.LastEnd, err = optional(last, codec.DecodeAttemptEnd, err)
	if t, e := optional(tally, codec.DecodeTally, err); t != nil {
		r.Tally = *t
	} else {
		err = e
	}
	if r.LastEnd != nil {
		a := r.LastEnd.Attempt
		r.Last = &a
	}
	return r, err
}

// optional decodes a column that may be null. An error from before stays.
func optional[T any](b []byte, decode func([]byte) (T, error), before error) (*T, error) {
	if b == nil || before != nil {
		return nil, before
	}
	v, err := decode(b)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// readBuild reads buildColumns. With an error the record still says what its columns said.
func readBuild(q *stmt) (job.BuildRecord, error) {
	b := job.BuildRecord{Seq: q.readInt(), At: job.Time(q.readInt())}
	priority := int32(q.readInt())
	b.Active, b.Staged = q.readBool(), q.readBool()
	b.Outcome, b.Ended = job.Outcome(q.readInt()), job.Time(q.readInt())
	v, err := codec.DecodeBuild(q.readBytes())
	b.Build = v
	b.Build.Priority = priority
	return b, err
}

func readRefs(c *conn, build int64) ([]job.Ref, error) {
	var refs []job.Ref
	err := each(c.query(qRefs).int(build), func(q *stmt) error {
		var r job.Ref
		copy(r.Job[:], q.readBytes())
		r.Awaited, r.Optional, r.Priority = q.readBool(), q.readBool(), int32(q.readInt())
		r.Limits = job.Limits{Timeout: time.Duration(q.readInt()), Silence: time.Duration(q.readInt())}
		r.Ended = job.Outcome(q.readInt())
		refs = append(refs, r)
		return nil
	})
	return refs, err
}
