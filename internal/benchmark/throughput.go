package main

import (
	"context"
	"errors"
	"fmt"
)

// lifecycles measures enqueue, lease and finish with several numbers of callers.
func lifecycles(ctx context.Context, l *lab) (section, error) {
	s := section{
		title: "Lifecycles",
		note: "Enqueue, lease, finish: each durable before it is answered; args and result of 100 bytes, durations learned, history kept. " +
			"Each caller is a producer and a worker with one slot.",
	}
	bars := map[kind]float64{onSQLite: 15_000, onPostgres: 8_000}
	aims := map[kind]float64{onSQLite: 25_000, onPostgres: 12_000}
	for _, k := range l.kinds {
		for _, callers := range l.callers {
			list, err := l.repeat(ctx, k, func(e *engine) (float64, error) { return rate(ctx, e, callers, l.window, lifecycle) })
			if err != nil {
				return s, err
			}
			row := figure{what: fmt.Sprintf("%s, %d callers", k, callers), value: list.text()}
			if callers == 512 {
				row.bar, row.met = fmt.Sprintf("%.0f/s (aim %.0f)", bars[k], aims[k]), list.median() >= bars[k]
			}
			s.rows = append(s.rows, row)
		}
	}
	return s, nil
}

// repeat measures a rate several times, each on a store of its own.
func (l *lab) repeat(ctx context.Context, k kind, measure func(*engine) (float64, error)) (rates, error) {
	var list rates
	for range l.rounds {
		e, err := l.fresh(ctx, k)
		if err != nil {
			return nil, err
		}
		r, err := measure(e)
		if err := errors.Join(err, e.close()); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// enqueues measures how fast jobs come in.
func enqueues(ctx context.Context, l *lab) (section, error) {
	s := section{title: "Enqueue", note: "Jobs a second, each durable before its caller is answered; nobody leases."}
	most := l.callers[len(l.callers)-1]
	for _, k := range l.kinds {
		for _, c := range []struct{ callers, jobs int }{{1, 1}, {most, 1}, {1, 1000}, {8, 1000}} {
			list, err := l.repeat(ctx, k, func(e *engine) (float64, error) {
				r, err := rate(ctx, e, c.callers, l.window, enqueue(c.jobs))
				return r * float64(c.jobs), err
			})
			if err != nil {
				return s, err
			}
			s.add(fmt.Sprintf("%s, %d callers, %d at once", k, c.callers, c.jobs), list.text())
		}
	}
	return s, nil
}

// drains measures how fast a worker with many slots runs what waits.
func drains(ctx context.Context, l *lab) (section, error) {
	s := section{
		title: "Drain",
		note:  fmt.Sprintf("Lease and finish of %d no-op jobs that wait, by one worker (package worker) with %d slots, until each end is durable.", l.drain, l.slots),
	}
	for _, k := range l.kinds {
		var took effort
		list, err := l.repeat(ctx, k, func(e *engine) (float64, error) { return l.drainN(ctx, e, k, l.drain, &took) })
		if err != nil {
			return s, err
		}
		s.add(string(k), list.text())
		s.add(string(k)+", processor time a job", took.text(k))
	}
	return s, nil
}

func (l *lab) drainOf(ctx context.Context, e *engine) (float64, error) {
	return l.drainN(ctx, e, onSQLite, l.drain, new(effort))
}

// drainN has n jobs made, then run, and adds what processor time the latter took.
func (l *lab) drainN(ctx context.Context, e *engine, k kind, n int, took *effort) (float64, error) {
	if err := stock(ctx, e, n); err != nil {
		return 0, err
	}
	over, err := l.spending(took, k, n)
	if err != nil {
		return 0, err
	}
	r, err := drain(ctx, e, n, l.slots)
	return r, errors.Join(err, over())
}
