package memory

import (
	"errors"
	"slices"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
)

var (
	errUnknownJob   = errors.New("no such job")
	errUnknownBuild = errors.New("no such build")
	errExists       = errors.New("exists already")
	errState        = errors.New("not possible in the job's state")
	errLeft         = errors.New("the job has left memory")
)

// apply makes one change, or none and an error if it is impossible.
func (d *Disk) apply(c job.Change) error {
	switch c := c.(type) {
	case job.BuildAdded, job.BuildReferred, job.BuildSealed, job.BuildActivated, job.BuildBumped, job.BuildEnded,
		job.BuildDeleted:
		return d.applyBuild(c)
	case job.JobAdded:
		return d.add(&c.Record)
	case job.JobDeleted:
		return d.remove(c.Job)
	case job.JobKept:
		return d.alter(c.Seq, func(r *row) error { r.own = clone(&c.Own); return nil })
	case job.JobReleased:
		return d.alter(c.Seq, func(r *row) error { return r.move(ready) })
	case job.JobBlocked:
		return d.alter(c.Seq, func(r *row) error { return r.move(blocked) })
	case job.JobStarted:
		return d.alter(c.Seq, func(r *row) error { return r.start(c) })
	case job.JobRetried:
		return d.alter(c.Seq, func(r *row) error { return r.retry(c) })
	case job.JobEnded:
		return d.finish(c)
	case job.JobFreed:
		return d.alter(c.Seq, func(r *row) error { return r.lower(&r.held) })
	case job.JobSettled:
		return d.alter(c.Seq, func(r *row) error { return r.lower(&r.open) })
	case job.JobProgress:
		return d.alter(c.Seq, func(r *row) error { return r.progress(c.Result) })
	case job.WorkerPut:
		d.workers.put(c.Worker.Name, codec.AppendWorker(nil, &c.Worker))
	case job.WorkerRemoved:
		d.workers.drop(c.Name)
	case job.ClassMarked:
		if d.classes.put(c.Class, c.Since); c.Since == 0 {
			d.classes.drop(c.Class)
		}
	case job.ChannelPut:
		d.channels.put(c.Channel.Name, codec.AppendChannel(nil, &c.Channel))
	case job.SettingPut:
		d.settings.put(settingKey{c.Space, c.Name}, codec.AppendSetting(nil, &c.Setting))
	case job.SettingRemoved:
		d.settings.drop(settingKey{c.Space, c.Name})
	case job.UsagePut:
		d.usage.put(slice{c.Channel, c.Group, c.Slice}, c)
	case job.DurationLearned:
		old, _ := d.took.get(c.Series)
		took := job.Learn(time.Duration(old.took), old.count, c.Took)
		d.took.put(c.Series, learned{int64(took), old.count + 1})
	case job.FailureCached:
		d.cached.put(c.Identity, codec.AppendFailure(nil, &c))
	case job.FailureCleared:
		d.cached.drop(c.Identity)
	}
	return nil
}

func (d *Disk) add(r *job.Record) error {
	if _, ok := d.jobSeq.get(r.Spec.ID); ok {
		return errExists
	}
	if _, ok := d.jobs.get(r.Seq); ok {
		return errExists
	}
	n := &row{
		id: r.Spec.ID, seq: r.Seq, at: r.At,
		spec: codec.AppendSpec(nil, &r.Spec), args: copied(r.Spec.Args),
		own: clone(r.Own), staging: r.Staging, tally: r.Tally, wake: r.Wake, delay: int64(r.Delay),
		end: clone(r.End), held: r.Held, open: r.Open,
	}
	for i := range r.Spec.Needs {
		n.needs = append(n.needs, r.Spec.Needs[i].Job)
	}
	if r.LastEnd != nil {
		n.ended = []ended{{AttemptEnd: copyAttemptEnd(r.LastEnd)}}
	}
	switch {
	case r.End != nil:
		n.state, n.wake, n.delay = done, 0, 0
		if r.LastEnd != nil {
			n.worker = r.LastEnd.Worker
		}
	case r.Running:
		n.state, n.run = running, copyAttempt(r.Last)
	}
	d.seq = max(d.seq, r.Seq)
	d.jobSeq.put(n.id, n.seq)
	d.jobs.put(n.seq, n)
	return d.keepSuccess(n)
}

// alter gives f a copy of a job that is in memory, and puts it back unless f refuses.
func (d *Disk) alter(seq int64, f func(*row) error) error {
	old, ok := d.jobs.get(seq)
	if !ok {
		return errUnknownJob
	}
	if !old.live() {
		return errLeft
	}
	r := *old
	if err := f(&r); err != nil {
		return err
	}
	d.jobs.put(seq, &r)
	return nil
}

func (r *row) move(to state) error {
	if r.state > ready {
		return errState
	}
	r.state = to
	return nil
}

func (r *row) start(c job.JobStarted) error {
	if r.state > ready {
		return errState
	}
	r.state, r.run, r.tally.Attempts = running, copyAttempt(&c.Attempt), c.Attempt.Number
	return nil
}

func (r *row) retry(c job.JobRetried) error {
	if r.state != running {
		return errState
	}
	r.state, r.run, r.tally, r.wake, r.delay = blocked, nil, c.Tally, c.Wake, int64(c.Delay)
	r.close(&c.Attempt)
	return nil
}

// close files an ended attempt. A late finish replaces the end that the engine had judged.
func (r *row) close(a *job.AttemptEnd) {
	at, found := slices.BinarySearchFunc(r.ended, a.Number, func(e ended, n int32) int { return int(e.Number - n) })
	r.ended = slices.Clone(r.ended)
	if found {
		r.ended[at] = ended{AttemptEnd: copyAttemptEnd(a)}
		return
	}
	r.ended = slices.Insert(r.ended, at, ended{AttemptEnd: copyAttemptEnd(a)})
}

func (r *row) progress(result []byte) error {
	if r.state != running {
		return errState
	}
	if len(result) > 0 {
		r.result = copied(result)
	}
	return nil
}

func (d *Disk) finish(c job.JobEnded) error {
	return d.alter(c.Seq, func(r *row) error {
		if r.state == done {
			return errState
		}
		r.state, r.run, r.wake, r.delay = done, nil, 0, 0
		r.end, r.held, r.open = clone(&c.End), c.Held, c.Open
		if c.Attempt != nil {
			r.worker = c.Attempt.Worker
			r.close(c.Attempt)
		}
		if len(c.Result) > 0 {
			r.result = copied(c.Result)
		}
		return d.keepSuccess(r)
	})
}

// lower takes down one of the flags that keep a Done job in memory.
func (r *row) lower(flag *bool) error {
	if r.state != done {
		return errState
	}
	*flag = false
	return nil
}

// keepSuccess files a success under its identity. A spec that cannot be read serves nobody.
func (d *Disk) keepSuccess(r *row) error {
	if r.end == nil || r.end.Outcome != job.Succeeded {
		return nil
	}
	s, err := codec.DecodeSpec(r.spec)
	if err != nil || s.Key == "" {
		return nil
	}
	old, _ := d.kept.get(s.Identity())
	seqs := append(slices.Clone(old), r.seq)
	slices.Sort(seqs)
	d.kept.put(s.Identity(), seqs)
	return nil
}

// remove forgets a job. References to one that had ended stay, and say how.
func (d *Disk) remove(id job.ID) error {
	seq, ok := d.jobSeq.get(id)
	if !ok {
		return errUnknownJob
	}
	r, _ := d.jobs.get(seq)
	d.jobs.drop(seq)
	d.jobSeq.drop(id)
	d.unrefer(r)
	s, err := codec.DecodeSpec(r.spec)
	if err != nil {
		return nil
	}
	seqs, ok := d.kept.get(s.Identity())
	if !ok {
		return nil
	}
	seqs = slices.DeleteFunc(slices.Clone(seqs), func(v int64) bool { return v == seq })
	if d.kept.put(s.Identity(), seqs); len(seqs) == 0 {
		d.kept.drop(s.Identity())
	}
	return nil
}

func copied(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return slices.Clone(b)
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func copyAttempt(a *job.Attempt) *job.Attempt {
	v := *a
	v.Groups = slices.Clone(a.Groups)
	return &v
}

func copyAttemptEnd(a *job.AttemptEnd) job.AttemptEnd {
	v := *a
	v.Groups, v.Result = slices.Clone(a.Groups), copied(a.Result)
	return v
}
