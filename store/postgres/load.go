package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// loading is one Load under way.
type loading struct {
	ctx  context.Context
	tx   pgx.Tx
	fn   func(job.Change) error
	head queue.Head
}

// Load implements queue.Store.
func (r *Reader) Load(ctx context.Context, fn func(job.Change) error) (queue.Head, error) {
	var l loading
	var refused error // by fn: given back as it is
	err := r.moment(ctx, func(tx pgx.Tx) error {
		if l.fn != nil {
			return errHalfLoaded // fn cannot take back what it was given
		}
		l = loading{ctx: ctx, tx: tx, fn: func(v job.Change) error {
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

var errHalfLoaded = errors.New("the connection failed in the middle")

func (l *loading) run() error {
	h, err := readHead(l.ctx, l.tx)
	if err != nil {
		return err
	}
	l.head = queue.Head{Number: h.number, Seq: h.seq}
	builds := map[int64]job.ID{}
	for _, step := range []func() error{
		l.channels,
		l.classes,
		l.workers,
		func() error { return l.usage(h.at) },
		func() error { return l.builds(builds) },
		l.jobs,
		func() error { return l.refs(builds) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (l *loading) each(sql string, f func(pgx.Rows) error, args ...any) error {
	rows, err := l.tx.Query(l.ctx, sql, args...)
	return each(rows, err, func(rows pgx.Rows) error {
		// What has come already would go on for a while.
		if err := l.ctx.Err(); err != nil {
			return err
		}
		return f(rows)
	})
}

func (l *loading) corrupt(table, key string, err error) {
	l.head.Corrupt = append(l.head.Corrupt, queue.Corrupt{Table: table, Key: key, Err: err})
}

func (l *loading) channels() error {
	return l.each("SELECT name, body FROM headrace.channel ORDER BY name", func(rows pgx.Rows) error {
		var name string
		var body []byte
		if err := rows.Scan(&name, &body); err != nil {
			return err
		}
		v, err := codec.DecodeChannel(body)
		if err != nil {
			l.corrupt("channel", unescaped(name), err)
			return nil
		}
		return l.fn(job.ChannelPut{Channel: v})
	})
}

func (l *loading) classes() error {
	const sql = `SELECT channel, kind, system, features, pin, since FROM headrace.class ORDER BY channel, kind, system, features, pin`
	return l.each(sql, func(rows pgx.Rows) error {
		var k job.Class
		var since int64
		if err := rows.Scan(&k.Channel, &k.Kind, &k.System, &k.Features, &k.Pin, &since); err != nil {
			return err
		}
		for _, s := range []*string{&k.Channel, &k.Kind, &k.System, &k.Features, &k.Pin} {
			*s = unescaped(*s)
		}
		return l.fn(job.ClassMarked{Class: k, Since: job.Time(since)})
	})
}

func (l *loading) workers() error {
	return l.each("SELECT name, body FROM headrace.worker ORDER BY name", func(rows pgx.Rows) error {
		var name string
		var body []byte
		if err := rows.Scan(&name, &body); err != nil {
			return err
		}
		v, err := codec.DecodeWorker(body)
		if err != nil {
			l.corrupt("worker", unescaped(name), err)
			return nil
		}
		return l.fn(job.WorkerPut{Worker: v})
	})
}

func (l *loading) usage(at job.Time) error {
	const sql = `SELECT DISTINCT ON (slice, channel, grp) slice, channel, grp, used FROM headrace.usage WHERE slice >= $1
		ORDER BY slice, channel, grp, round DESC`
	return l.each(sql, func(rows pgx.Rows) error {
		var u job.UsagePut
		if err := rows.Scan(&u.Slice, &u.Channel, &u.Group, (*int64)(&u.Used)); err != nil {
			return err
		}
		u.Channel, u.Group = unescaped(u.Channel), unescaped(u.Group)
		return l.fn(u)
	}, firstSlice(at))
}

func (l *loading) builds(found map[int64]job.ID) error {
	return l.each("SELECT "+buildColumns+" FROM headrace.build b WHERE outcome = 0 ORDER BY seq", func(rows pgx.Rows) error {
		b, bad, err := readBuild(rows)
		if err != nil {
			return err
		}
		if bad != nil {
			l.corrupt("build", b.Build.ID.String(), bad)
			return nil
		}
		found[b.Seq] = b.Build.ID
		return l.fn(job.BuildAdded{BuildRecord: b})
	})
}

func (l *loading) jobs() error {
	const from = ` FROM headrace.live l JOIN headrace.job j ON j.seq = l.seq LEFT JOIN headrace.ended e ON e.seq = l.seq ORDER BY l.seq`
	var w row
	return l.each("SELECT "+recordColumns+from, func(rows pgx.Rows) error {
		if err := w.scan(rows); err != nil {
			return err
		}
		r, err := w.read()
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
// to do but to tell its dependents and to be let go of; without a readable attempt nobody could let go of it.
func standIn(r *job.Record) *job.Record {
	v := &job.Record{Seq: r.Seq, Spec: job.Spec{ID: r.Spec.ID}}
	if r.End != nil {
		v.End, v.Open, v.Last, v.LastEnd = r.End, r.Open, r.Last, r.LastEnd
		v.Held = r.Held && r.Last != nil
	}
	return v
}

// refs gives the references of the builds that were found, in the order of both.
func (l *loading) refs(builds map[int64]job.ID) error {
	const sql = `SELECT r.build, ` + refColumns + ` JOIN headrace.build b ON b.seq = r.build AND b.outcome = 0 ORDER BY r.build, r.place`
	var build int64
	var refs []job.Ref
	give := func() error {
		id, ok := builds[build]
		if !ok || len(refs) == 0 {
			return nil
		}
		list := refs
		refs = nil
		return l.fn(job.BuildReferred{Build: id, Refs: list})
	}
	err := l.each(sql, func(rows pgx.Rows) error {
		var of int64
		r, err := readRef(rows, &of)
		if err == nil && of != build {
			err = give()
			build, refs = of, nil
		}
		refs = append(refs, r)
		return err
	})
	if err != nil {
		return err
	}
	return give()
}

// firstSlice gives the oldest slice of usage that still counts at a moment.
func firstSlice(at job.Time) int64 {
	width := int64(job.UsageSlice / time.Microsecond)
	return int64(at)/width - int64(job.UsageWindow/job.UsageSlice) + 1
}
