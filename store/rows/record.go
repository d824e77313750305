package rows

import (
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
)

// Record puts a job together, of a row with the columns: seq, id, at, channel, kind, name, [key], spec of the job; [state,
// wake, delay, attempt, held, open] of its live row; [tally], [own] of that or its end; [body, attempt] of its end; [body]
// of the newest attempt that ended before it; [outcome] of its end; [staging], unless the build is sealed.
//
// With an error the record still says what could be read. Of one whose newest ended attempt alone cannot be read, lost
// says so.
func Record(c Columns) (r *job.Record, lost, err error) {
	r, _, lost, err = record(c)
	return r, lost, err
}

// Listed puts together what queue.History's Jobs lists: Record's columns, and [args] if they are asked for.
func Listed(c Columns, args bool) (*job.Record, error) {
	r, _, _, err := record(c)
	if args {
		r.Spec.Args = c.Bytes()
	}
	return r, err
}

// record also says whether the newest attempt ended with the job.
func record(c Columns) (r *job.Record, inJob bool, lost, err error) {
	r = &job.Record{Seq: c.Int()}
	id := c.Bytes()
	r.At = job.Time(c.Int())
	channel, kind, name, key := c.Text(), c.Text(), c.Text(), c.Text()
	if spec := decoded(c.Bytes(), codec.DecodeSpec, &err); spec != nil {
		r.Spec = *spec
	}
	copy(r.Spec.ID[:], id)
	r.Spec.Channel, r.Spec.Kind, r.Spec.Name, r.Spec.Key = channel, kind, name, key
	state := c.Int()
	r.Running, r.Ready = state == running, state == ready
	r.Wake, r.Delay = job.Time(c.Int()), time.Duration(c.Int())
	r.Last = decoded(c.Bytes(), codec.DecodeAttempt, &err)
	r.Held, r.Open = c.Bool(), c.Bool()
	if tally := decoded(c.Bytes(), codec.DecodeTally, &err); tally != nil {
		r.Tally = *tally
	}
	r.Own = decoded(c.Bytes(), codec.DecodeOwn, &err)
	r.End = decoded(c.Bytes(), codec.DecodeEnd, &err)
	last, earlier := c.Bytes(), c.Bytes()
	if inJob = last != nil; !inJob {
		last = earlier
	}
	if outcome := job.Outcome(c.Int()); outcome != 0 && r.End == nil {
		r.End = &job.End{Outcome: outcome}
	}
	copy(r.Staging[:], c.Bytes())
	if r.Running {
		return r, false, nil, err
	}
	if r.LastEnd = decoded(last, codec.DecodeAttemptEnd, &lost); r.LastEnd != nil {
		a := r.LastEnd.Attempt
		r.Last = &a
	}
	return r, inJob, lost, err
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

// Build puts a build together, of a row with the columns: seq, id, at, priority, active, staged, outcome, ended, body. With
// an error the record still says what its columns said.
func Build(c Columns) (job.BuildRecord, error) {
	b := job.BuildRecord{Seq: c.Int()}
	id := c.Bytes()
	b.At = job.Time(c.Int())
	priority := int32(c.Int())
	b.Active, b.Staged = c.Bool(), c.Bool()
	b.Outcome, b.Ended = job.Outcome(c.Int()), job.Time(c.Int())
	v, err := codec.DecodeBuild(c.Bytes())
	b.Build = v
	copy(b.Build.ID[:], id)
	b.Build.Priority = priority
	return b, err
}

func reference(c Columns) (r job.Ref) {
	copy(r.Job[:], c.Bytes())
	r.Awaited, r.Optional, r.Priority = c.Bool(), c.Bool(), int32(c.Int())
	r.Limits = job.Limits{Timeout: time.Duration(c.Int()), Silence: time.Duration(c.Int())}
	r.Ended = job.Outcome(c.Int())
	return r
}

func readLearned(c Columns) learned { return learned{time.Duration(c.Int()), c.Int()} }

func readID(c Columns) (id job.ID) {
	copy(id[:], c.Bytes())
	return id
}
