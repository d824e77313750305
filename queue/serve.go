package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/headrace/headrace/internal/crash"
)

// serve works in rounds until ctx ends or the store gives up. While one round is being stored, the next takes and decides
// its commands: nobody is told of that before both are stored, and if the first cannot be, neither is the other.
func (q *Queue) serve(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var lost <-chan struct{} // never, where no other process can take the store
	if f, ok := q.Store.(Fenced); ok {
		lost = f.Lost()
	}
	for {
		calls, due := q.listen(timer)
		select {
		case <-ctx.Done():
			return q.finishAll(ctx)
		case <-lost:
			return q.abandon(ErrFenced)
		case err := <-q.stored:
			if err := q.land(err); err != nil {
				return err
			}
			if q.open != nil {
				q.take(nil)
			}
		case <-due:
			q.take(nil)
		case c := <-calls:
			q.take(c)
		}
		switch r := q.open; {
		case r == nil:
		case q.aloft == nil:
			if err := q.launch(ctx); err != nil {
				return err
			}
		case r.untouched >= q.RoundBudget/portions || r.full():
			r.work(ctx)
		}
	}
}

// portions is into how many a full round is divided that is decided while the one before is stored: of a few commands each would
// cost a lookup of its own, and to wait for all would be to wait for the store.
const portions = 64

// takeFor is how long a round takes commands while the one before is stored: they are all of its one moment.
const takeFor = 100 * time.Millisecond

// listen gives where the next commands come from, if any may come now, and what tells that something is due, or that no more may come.
func (q *Queue) listen(timer *time.Timer) (calls <-chan *call, due <-chan time.Time) {
	timer.Stop()
	// Who looks at the machine sees what is stored and no more.
	if q.aloft != nil && (len(q.aloft.looks) > 0 || q.open != nil && q.open.full()) {
		return nil, nil
	}
	at, ok := q.machine.Due()
	switch {
	case q.open != nil:
		// Then it is full. What falls due is not of its moment.
		at, ok = q.open.at.Now.Add(takeFor), true
	case q.behind && q.aloft == nil:
		at, ok = 0, true
	}
	if ok {
		timer.Reset(max(0, at.Sub(q.now())))
		due = timer.C
	}
	return q.calls, due
}

// full reports whether the round takes no more commands.
func (r *round) full() bool {
	return r.err != nil || r.took >= maxCalls || r.weight >= r.q.RoundBudget || r.q.now().Sub(r.at.Now) >= takeFor
}

// take has the open round take the commands that wait, beginning with c, if there is one.
func (q *Queue) take(c *call) {
	if q.open == nil {
		q.open = q.newRound()
		crash.Here(crash.RoundTaken)
	}
	r := q.open
	for {
		if c != nil {
			r.calls = append(r.calls, c)
			r.took++
			r.weight += max(c.weight, 1)
			r.untouched += max(c.weight, 1)
		}
		if r.full() {
			return
		}
		select {
		case c = <-q.calls:
		default:
			return
		}
	}
}

// work decides the commands that the round has taken.
func (r *round) work(ctx context.Context) {
	r.look(ctx)
	r.advance()
	for _, c := range r.calls {
		r.decide(c)
	}
	clear(r.calls)
	r.calls, r.untouched = r.calls[:0], 0
}

// launch ends the open round and has it stored. One that changed nothing is over at once.
func (q *Queue) launch(ctx context.Context) error {
	r := q.open
	q.open = nil
	r.work(ctx)
	r.match()
	if r.err != nil {
		err := fmt.Errorf("round %d: %w", q.number+1, r.err)
		r.finish(&RetryError{Cause: err})
		return err
	}
	if len(r.batch.Changes) == 0 && len(r.batch.Answers) == 0 {
		r.finish(nil)
		return nil
	}
	q.number++
	r.batch.Number, r.batch.At = q.number, r.at.Now
	q.Log.Debug("storing", "round", q.number, "changes", len(r.batch.Changes))
	crash.Here(crash.RoundDecided)
	q.aloft = r
	// A round under way is stored even while the queue closes: its callers get a true answer.
	go func() { q.stored <- q.persist(context.WithoutCancel(ctx), &r.batch) }()
	return nil
}

// land tells everybody what became of the round that was being stored. If it could not be, it takes along the one that
// is open.
func (q *Queue) land(err error) error {
	r := q.aloft
	q.aloft = nil
	if err != nil {
		err = fmt.Errorf("commit %d: %w", r.batch.Number, err)
		// Before anybody is told to try again: the round may have been stored, so what was true before it need not be true any more.
		q.leases.reset(nil)
		r.finish(&RetryError{Cause: err})
		return q.abandon(err)
	}
	crash.Here(crash.RoundCommitted)
	q.round.Store(r.batch.Number)
	q.leases.follow(r.batch.Changes)
	q.settings.follow(r.batch.Changes)
	r.finish(nil)
	q.tell()
	crash.Here(crash.RoundTold)
	return nil
}

// finishAll stores what was taken, and tells everybody.
func (q *Queue) finishAll(ctx context.Context) error {
	for {
		if q.aloft != nil {
			if err := q.land(<-q.stored); err != nil {
				return err
			}
		}
		if q.open == nil {
			return nil
		}
		if err := q.launch(ctx); err != nil {
			return err
		}
	}
}

// abandon refuses what was taken, and waits for what is being stored. It gives the reason back.
func (q *Queue) abandon(why error) error {
	if q.aloft != nil {
		_ = q.land(<-q.stored) // what could not be stored is abandoned for that reason
	}
	if r := q.open; r != nil {
		q.open = nil
		for _, c := range r.calls {
			c.answer(nil, &RetryError{Cause: why})
		}
		r.finish(&RetryError{Cause: why})
	}
	return why
}
