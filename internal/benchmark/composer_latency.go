package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

// dequeueOne gives the job that is pending to the worker, and how long that took.
func (d door) dequeueOne(ctx context.Context, w, want uuid.UUID, jobType string) (time.Duration, error) {
	began := time.Now()
	id, _, _, _, _, err := d.Dequeue(ctx, w, []string{jobType}, []string{tenant})
	took := time.Since(began)
	if err == nil && id != want {
		err = fmt.Errorf("job %s was handed out, want %s", id, want)
	}
	return took, err
}

// one enqueues, dequeues and finishes a job, and gives how long all of it took, and Dequeue alone.
func (d door) one(ctx context.Context, w uuid.UUID) (whole, dequeue time.Duration, err error) {
	began := time.Now()
	id, err := d.Enqueue(image, doorArgs, nil, tenant)
	if err != nil {
		return 0, 0, err
	}
	if dequeue, err = d.dequeueOne(ctx, w, id, image); err != nil {
		return 0, 0, err
	}
	if err := d.finish(id); err != nil {
		return 0, 0, err
	}
	return time.Since(began), dequeue, d.ended([]uuid.UUID{id})
}

// laden is a queue that many jobs are in.
type laden struct {
	door
	what   string
	worker uuid.UUID
	took   sample
}

// load fills composer's queue, and gives a worker of it.
func (l *lab) load(ctx context.Context, k kind, pending, finished int) (q *laden, err error) {
	e, err := l.fresh(ctx, k)
	if err != nil {
		return nil, err
	}
	q = &laden{door: newDoor(e), what: fmt.Sprintf("%d pending", pending)}
	if _, err := q.enqueue(crowd, pending, foreign); err != nil {
		return q, err
	}
	if finished > 0 {
		q.what = fmt.Sprintf("%d finished", finished)
		ids, err := q.enqueue(crowd, finished, image)
		if err != nil {
			return q, err
		}
		_, given, err := q.work(ctx, make([]uuid.UUID, crowd), finished, image) // by nobody in particular, so that no queue has more workers than another
		if err := errors.Join(err, given.check(ids)); err != nil {
			return q, err
		}
	}
	ids, err := q.hire(1)
	if err != nil {
		return q, err
	}
	q.worker = ids[0]
	_, _, err = q.one(ctx, q.worker) // the first call makes the worker known
	return q, err
}

// behind measures Dequeue of a job that is pending while many are that nobody serves, or have finished.
func (l *lab) behind(ctx context.Context, k kind, s *section) (err error) {
	var queues []*laden
	defer func() {
		for _, q := range queues {
			err = errors.Join(err, q.engine.close())
		}
	}()
	last := len(l.door.pending) - 1
	for i := range last + 2 {
		pending, finished := 0, l.door.finished
		if i <= last {
			pending, finished = l.door.pending[i], 0
		}
		q, err := l.load(ctx, k, pending, finished)
		if q != nil {
			queues = append(queues, q)
		}
		if err != nil {
			return err
		}
	}
	runtime.GC()
	for turn := 0; turn < l.door.turns; turn += turnSize {
		for _, q := range queues {
			for range min(turnSize, l.door.turns-turn) {
				_, took, err := q.one(ctx, q.worker)
				if err != nil {
					return err
				}
				q.took = append(q.took, took)
			}
		}
	}
	for i, q := range queues {
		value := q.took.span()
		if i == last {
			value += "; upstream " + upstreams[k].pending
		}
		s.add(fmt.Sprintf("%s, dequeue, %s", k, q.what), value)
	}
	ratio := float64(queues[last].took.at(0.5)) / float64(queues[0].took.at(0.5))
	s.judge(fmt.Sprintf("%s, median behind %s over %s", k, queues[last].what, queues[0].what), fmt.Sprintf("%.2f", ratio), "1.2", ratio <= 1.2)
	return nil
}

// herd measures one job among many workers that wait for another type.
func (l *lab) herd(ctx context.Context, k kind, s *section) error {
	return l.onDoor(ctx, k, func(d door) error {
		if _, err := d.enqueue(crowd, l.door.foreign, foreign); err != nil {
			return err
		}
		ids, err := d.hire(1 + l.door.idle)
		if err != nil {
			return err
		}
		if _, _, err := d.one(ctx, ids[0]); err != nil {
			return err
		}
		var took sample
		err = d.beside(ctx, ids[1:], "osbuild:ppc64le", func() error {
			for range l.door.turns {
				whole, _, err := d.one(ctx, ids[0])
				if err != nil {
					return err
				}
				took = append(took, whole)
			}
			return d.waiting(ctx, l.door.idle)
		})
		if err != nil {
			return err
		}
		s.judge(fmt.Sprintf("%s, herd of %d", k, l.door.idle), took.span()+"; upstream "+upstreams[k].herd, "5 ms", took.at(0.5) < 5*time.Millisecond)
		return nil
	})
}

// beside runs f while these workers wait for a type of which there is no job.
func (d door) beside(ctx context.Context, idle []uuid.UUID, jobType string, f func() error) error {
	over, stop := context.WithCancel(ctx)
	defer stop()
	return together(1+len(idle), 1+len(idle), func(i int) error {
		if i == 0 {
			defer stop()
			if err := d.waiting(ctx, len(idle)); err != nil {
				return err
			}
			return f()
		}
		id, _, _, _, _, err := d.Dequeue(over, idle[i-1], []string{jobType}, []string{tenant})
		if errors.Is(err, composer.ErrDequeueTimeout) {
			return nil
		}
		stop()
		return errors.Join(err, fmt.Errorf("an idle worker was given job %s", id))
	})
}

// wakeUps measures how long after Enqueue was called a worker has the job that waited for it.
func (l *lab) wakeUps(ctx context.Context, k kind, s *section) error {
	return l.onDoor(ctx, k, func(d door) error {
		ids, err := d.hire(1)
		if err != nil {
			return err
		}
		if _, _, err := d.one(ctx, ids[0]); err != nil {
			return err
		}
		var took, sync sample
		const turn = 50
		for done := 0; done < l.door.turns; done += turn {
			c, err := calibrate(l.dir)
			if err != nil {
				return err
			}
			sync = append(sync, c.sync...)
			for range min(turn, l.door.turns-done) {
				t, err := d.wakeUp(ctx, ids[0])
				if err != nil {
					return err
				}
				took = append(took, t)
			}
		}
		bar := sync.at(0.5)*3/2 + 300*time.Microsecond
		s.judge(string(k)+", wake-up", took.span()+"; upstream "+upstreams[k].wake, "1.5 fsyncs and 0.3 ms: "+round(bar), took.at(0.5) < bar)
		s.add(string(k)+", wake-up: an append of 4 KiB with fsync meanwhile", sync.span())
		return nil
	})
}

// wakeUp enqueues a job for which a worker waits, and has it finished.
func (d door) wakeUp(ctx context.Context, w uuid.UUID) (time.Duration, error) {
	over, stop := context.WithCancel(ctx)
	defer stop()
	var began, woken time.Time
	var enqueued, given uuid.UUID
	err := together(2, 2, func(i int) (err error) {
		defer func() {
			if err != nil {
				stop()
			}
		}()
		if i == 0 {
			given, _, _, _, _, err = d.Dequeue(over, w, []string{image}, []string{tenant})
			woken = time.Now()
			return err
		}
		if err := d.waiting(over, 1); err != nil {
			return err
		}
		began = time.Now()
		enqueued, err = d.Enqueue(image, doorArgs, nil, tenant)
		return err
	})
	if err != nil {
		return 0, err
	}
	if given != enqueued {
		return 0, fmt.Errorf("job %s was handed out, want %s", given, enqueued)
	}
	if err := d.finish(given); err != nil {
		return 0, err
	}
	return woken.Sub(began), d.ended([]uuid.UUID{given})
}

// reopen measures how long a store with many pending jobs takes from its opening to the first answer, and to the first job.
func (l *lab) reopen(ctx context.Context, k kind, s *section) error {
	p, err := l.place(ctx, k)
	if err != nil {
		return err
	}
	pending := l.door.pending[len(l.door.pending)-1]
	var oldest []uuid.UUID
	err = with(ctx, p, func(e *engine) (err error) {
		d := newDoor(e)
		if oldest, err = d.enqueue(1, l.rounds, image); err == nil {
			_, err = d.enqueue(crowd, pending-l.rounds, image)
		}
		return err
	})
	if err != nil {
		return err
	}
	var opened, first sample
	for _, want := range oldest {
		runtime.GC()
		began := time.Now()
		err := with(ctx, p, func(e *engine) error {
			opened = append(opened, time.Since(began))
			d := newDoor(e)
			if _, err := d.dequeueOne(ctx, uuid.Nil, want, image); err != nil {
				return err
			}
			first = append(first, time.Since(began))
			return errors.Join(d.finish(want), d.ended([]uuid.UUID{want}))
		})
		if err != nil {
			return err
		}
	}
	const bar = 1500 * time.Millisecond
	s.judge(fmt.Sprintf("%s, open with %d pending, to the first answer", k, pending), opened.span()+"; upstream "+upstreams[k].open, bar.String(), opened.at(0.5) < bar)
	s.judge(fmt.Sprintf("%s, open with %d pending, to the first job dequeued", k, pending), first.span(), bar.String(), first.at(0.5) < bar)
	return nil
}
