package sqlite

import (
	"context"
	"errors"
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
			id := b.Build.ID
			l.head.Corrupt = append(l.head.Corrupt, queue.Corrupt{Table: "build", Key: id.String(), Build: id, Seq: b.Seq, Err: err})
			b = job.BuildRecord{Seq: b.Seq, At: b.At, Active: b.Active, Staged: b.Staged, Build: job.Build{ID: id}}
		}
		found(&b)
		return l.fn(job.BuildAdded{BuildRecord: b})
	})
}

func (l *loading) jobs() error {
	return each(l.c.query(qLiveJobs), func(q *stmt) error {
		r, lost, err := readRecord(q)
		if lost != nil {
			l.corrupt("attempt", r.Spec.ID.String(), lost)
			r.Held = r.Held && r.Last != nil
		}
		if err != nil {
			v := queue.Corrupt{Table: "job", Key: r.Spec.ID.String(), Job: r.Spec.ID, Seq: r.Seq, Err: err}
			r = standIn(r)
			if r.End != nil {
				v.Job = job.ID{}
			}
			l.head.Corrupt = append(l.head.Corrupt, v)
		}
		return l.fn(job.JobAdded{Record: *r})
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

// readRecord reads recordColumns. With an error the record still says what could be read. Of one whose newest ended attempt
// alone cannot be read, lost says so.
func readRecord(q *stmt) (r *job.Record, lost, err error) {
	r = &job.Record{Seq: q.readInt()}
	id := q.readBytes()
	r.At = job.Time(q.readInt())
	channel, kind, name, key := q.readString(), q.readString(), q.readString(), q.readString()
	if spec := decoded(q.readBytes(), codec.DecodeSpec, &err); spec != nil {
		r.Spec = *spec
	}
	copy(r.Spec.ID[:], id)
	r.Spec.Channel, r.Spec.Kind, r.Spec.Name, r.Spec.Key = channel, kind, name, key
	state := q.readInt()
	r.Running, r.Ready = state == running, state == ready
	r.Wake, r.Delay = job.Time(q.readInt()), time.Duration(q.readInt())
	r.Last = decoded(q.readBytes(), codec.DecodeAttempt, &err)
	r.Held, r.Open = q.readBool(), q.readBool()
	if tally := decoded(q.readBytes(), codec.DecodeTally, &err); tally != nil {
		r.Tally = *tally
	}
	r.Own = decoded(q.readBytes(), codec.DecodeOwn, &err)
	r.End = decoded(q.readBytes(), codec.DecodeEnd, &err)
	last, earlier := q.readBytes(), q.readBytes()
	if last == nil {
		last = earlier
	}
	if outcome := job.Outcome(q.readInt()); outcome != 0 && r.End == nil {
		r.End = &job.End{Outcome: outcome}
	}
	copy(r.Staging[:], q.readBytes())
	if r.Running {
		return r, nil, err
	}
	if r.LastEnd = decoded(last, codec.DecodeAttemptEnd, &lost); r.LastEnd != nil {
		a := r.LastEnd.Attempt
		r.Last = &a
	}
	return r, lost, err
}

// decoded gives nil for a column that is null, and for one that cannot be read, of which the first goes to first.
func decoded[T any](b []byte, decode func([]byte) (T, error), first *error) *T {
	if b == nil {
		return nil
	}
	v, err := decode(b)
	if err != nil {
		if *first == nil {
			*first = err
		}
		return nil
	}
	return &v
}

// readBuild reads buildColumns. With an error the record still says what its columns said.
func readBuild(q *stmt) (job.BuildRecord, error) {
	b := job.BuildRecord{Seq: q.readInt()}
	id := q.readBytes()
	b.At = job.Time(q.readInt())
	priority := int32(q.readInt())
	b.Active, b.Staged = q.readBool(), q.readBool()
	b.Outcome, b.Ended = job.Outcome(q.readInt()), job.Time(q.readInt())
	v, err := codec.DecodeBuild(q.readBytes())
	b.Build = v
	copy(b.Build.ID[:], id)
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
