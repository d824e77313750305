package rows

import (
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// Nothing is what a Lookup has found before it begins.
func Nothing() *queue.Found {
	return &queue.Found{
		Facts: job.Facts{
			Jobs: map[job.ID]*job.Record{}, Ended: map[job.Lease]*job.AttemptEnd{}, Kept: map[job.Likeness]job.ID{}, Cached: map[job.Identity]*job.FailureCached{},
			Took: map[job.Series]time.Duration{}, Builds: map[job.ID]*job.BuildRecord{},
		},
		Answers: map[job.ID][]byte{},
	}
}

// Lookup adds to f what queue.Store's Lookup finds: with one question, and one more for the results of jobs.
func Lookup(t Tables, q *queue.Query, f *queue.Found) error {
	l := lookup{q: q, f: f}
	if err := t.ReadAll(append(l.ended(), l.jobs(), l.builds(), l.answers(), l.kept(), l.cached(), l.took())...); err != nil {
		return err
	}
	return t.ReadAll(l.results()...)
}

type lookup struct {
	q *queue.Query
	f *queue.Found
	// Jobs whose last attempts' results stand with the job, and with the attempt.
	own, earlier []*job.Record
}

func idents(ids []job.ID) []Value {
	keys := make([]Value, len(ids))
	for i := range ids {
		keys[i] = ident(ids[i])
	}
	return keys
}

func (l *lookup) jobs() Ask {
	return Ask{SettledJob, 1, idents(l.q.Jobs), func(i int, c Columns) error {
		r, inJob, _, err := record(c)
		if err != nil {
			return nil
		}
		l.f.Jobs[l.q.Jobs[i]] = r
		switch {
		case r.LastEnd == nil:
		case inJob:
			l.own = append(l.own, r)
		default:
			l.earlier = append(l.earlier, r)
		}
		return nil
	}}
}

// results finds those of the last attempts of the jobs that were found.
func (l *lookup) results() []Ask {
	own, earlier := make([]Value, 0, len(l.own)), make([]Value, 0, 2*len(l.earlier))
	for _, r := range l.own {
		own = append(own, number(r.Seq))
	}
	for _, r := range l.earlier {
		earlier = append(earlier, number(r.Seq), number(r.LastEnd.Number))
	}
	return []Ask{
		{LastResult, 1, own, func(i int, c Columns) error { l.own[i].LastEnd.Result = c.Bytes(); return nil }},
		{AttemptResult, 2, earlier, func(i int, c Columns) error { l.earlier[i].LastEnd.Result = c.Bytes(); return nil }},
	}
}

// ended finds attempts that ended before their jobs or with them; the latter stand over the former, as in a late finish.
func (l *lookup) ended() []Ask {
	take := func(i int, c Columns) error {
		lease := l.q.Leases[i]
		e, err := codec.DecodeAttemptEnd(c.Bytes())
		if err == nil && e.Number == lease.Attempt && e.Token == lease.Token {
			e.Result = nil
			l.f.Ended[lease] = &e
		}
		return nil
	}
	numbered, named := make([]Value, 0, 2*len(l.q.Leases)), make([]Value, 0, len(l.q.Leases))
	for i := range l.q.Leases {
		lease := &l.q.Leases[i]
		numbered = append(numbered, ident(lease.Job), number(lease.Attempt))
		named = append(named, ident(lease.Job))
	}
	return []Ask{{AttemptEnd, 2, numbered, take}, {EndedAttempt, 1, named, take}}
}

func (l *lookup) builds() Ask {
	return Ask{EndedBuild, 1, idents(l.q.Builds), func(i int, c Columns) error {
		if b, err := Build(c); err == nil {
			l.f.Builds[l.q.Builds[i]] = &b
		}
		return nil
	}}
}

func (l *lookup) answers() Ask {
	return Ask{GetAnswer, 1, idents(l.q.Requests), func(i int, c Columns) error {
		l.f.Answers[l.q.Requests[i]] = c.Append([]byte{})
		return nil
	}}
}

// kept finds the newest success of each likeness. Nearly always it is the first that is looked at.
func (l *lookup) kept() Ask {
	keys := make([]Value, 0, 5*len(l.q.Kept))
	for i := range l.q.Kept {
		k := l.q.Kept[i].Identity()
		keys = append(keys, text(k.Key), text(k.Kind), text(k.Channel), number(job.Succeeded), number(int64(queue.KeptMost)))
	}
	return Ask{Kept, 5, keys, func(i int, c Columns) error {
		k := l.q.Kept[i]
		if _, ok := l.f.Kept[k]; ok {
			return nil
		}
		id := readID(c)
		s, err := codec.DecodeSpec(c.Bytes())
		s.Channel, s.Kind = k.Class.Channel, k.Class.Kind // which the row has beside the spec
		if err == nil && s.Class() == k.Class {
			l.f.Kept[k] = id
		}
		return nil
	}}
}

func (l *lookup) cached() Ask {
	keys := make([]Value, 0, 3*len(l.q.Cached))
	for _, k := range l.q.Cached {
		keys = append(keys, text(k.Channel), text(k.Kind), text(k.Key))
	}
	return Ask{Failure, 3, keys, func(i int, c Columns) error {
		if v, err := codec.DecodeFailure(c.Bytes()); err == nil {
			l.f.Cached[l.q.Cached[i]] = &v
		}
		return nil
	}}
}

func (l *lookup) took() Ask {
	keys := make([]Value, 0, 3*len(l.q.Took))
	for _, k := range l.q.Took {
		keys = append(keys, text(k.Channel), text(k.Kind), text(k.Name))
	}
	return Ask{Took, 3, keys, func(i int, c Columns) error {
		l.f.Took[l.q.Took[i]] = readLearned(c).took
		return nil
	}}
}

// Rounds reads what queue.Store's Feed gives, with one question.
func Rounds(t Tables, after uint64, limit int) ([]queue.Round, error) {
	var page *queue.FeedPage
	headless, wanted := ErrHeadless, false
	err := t.ReadAll(
		Ask{GetHead, 0, nil, func(_ int, c Columns) error {
			h := readHead(c)
			page, headless = queue.NewFeedPage(after, h.Dropped, h.Number, limit), nil
			wanted = page.More()
			return nil
		}},
		Ask{Feed, 2, []Value{number(after), number(int64(max(limit, 0)))}, func(_ int, c Columns) error {
			if !wanted {
				return ErrEnough
			}
			r := queue.Round{Number: uint64(c.Int()), At: job.Time(c.Int())}
			var unreadable error
			if page.More() {
				r.Changes, unreadable = codec.DecodeChanges(c.Bytes())
			}
			page.Add(r, unreadable)
			return nil
		}},
	)
	if err == nil {
		err = headless
	}
	if err != nil {
		return nil, err
	}
	return page.End()
}

// ReadRefs reads what queue.History's Refs gives.
func ReadRefs(t Tables, build job.ID) ([]job.Ref, error) {
	var seq []Value
	err := t.Read(GetBuild, 1, []Value{ident(build)}, func(_ int, c Columns) error {
		seq = []Value{number(c.Int())}
		return nil
	})
	if err != nil || seq == nil {
		return nil, err
	}
	var refs []job.Ref
	err = t.Read(Refs, 1, seq, func(_ int, c Columns) error {
		refs = append(refs, reference(c))
		return nil
	})
	return refs, err
}

// ReadAttempts reads what queue.History's Attempts gives.
func ReadAttempts(t Tables, id job.ID) ([]job.AttemptEnd, error) {
	var ended []job.AttemptEnd
	take := func(_ int, c Columns) error {
		a, err := codec.DecodeAttemptEnd(c.Bytes())
		if err != nil {
			return nil
		}
		a.Result = c.Bytes()
		// A late finish stands where the engine had judged the same attempt before.
		if n := len(ended); n > 0 && ended[n-1].Number == a.Number {
			ended = ended[:n-1]
		}
		ended = append(ended, a)
		return nil
	}
	key := []Value{ident(id)}
	err := t.ReadAll(Ask{Attempts, 1, key, take}, Ask{EndedAttempt, 1, key, take})
	return ended, err
}

// ReadPayload reads what queue.History's Payload gives.
func ReadPayload(t Tables, id job.ID) (queue.Payload, error) {
	var p queue.Payload
	err := queue.ErrNotFound
	if fault := t.Read(Payload, 1, []Value{ident(id)}, func(_ int, c Columns) error {
		p, err = queue.Payload{Args: c.Bytes(), Result: c.Bytes()}, nil
		return nil
	}); fault != nil {
		err = fault
	}
	return p, err
}

// ReadDependents reads what queue.History's Dependents gives.
func ReadDependents(t Tables, id job.ID) ([]job.ID, error) {
	var ids []job.ID
	err := t.Read(Dependents, 1, []Value{ident(id)}, func(_ int, c Columns) error {
		ids = append(ids, readID(c))
		return nil
	})
	return ids, err
}
