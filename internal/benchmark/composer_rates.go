package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// doorRates measures how many jobs come in, and go out, in a second.
func (l *lab) doorRates(ctx context.Context, k kind, s *section) error {
	for _, producers := range l.door.producers {
		list, err := l.repeat(ctx, k, func(e *engine) (float64, error) { return enqueueRate(ctx, newDoor(e), producers, l.door.drain) })
		if err != nil {
			return err
		}
		s.add(fmt.Sprintf("%s, enqueue, %d producers", k, producers), list.text())
	}
	for _, workers := range l.door.workers {
		var took effort
		list, err := l.repeat(ctx, k, func(e *engine) (float64, error) { return l.drainDoor(ctx, newDoor(e), k, workers, &took) })
		if err != nil {
			return err
		}
		row := figure{what: fmt.Sprintf("%s, drain, %d workers", k, workers), value: list.text()}
		if workers == 64 {
			bar := map[kind]float64{onSQLite: 8000, onPostgres: 4000}[k]
			row.value += "; upstream " + upstreams[k].drain
			row.bar, row.met = fmt.Sprintf("%.0f/s", bar), list.median() >= bar
		}
		s.rows = append(s.rows, row)
		if workers == l.door.workers[len(l.door.workers)-1] {
			s.add(fmt.Sprintf("%s, drain, %d workers, processor time a job", k, workers), took.text(k))
		}
	}
	list, err := l.repeat(ctx, k, func(e *engine) (float64, error) { return graphRate(ctx, newDoor(e), l.door.graphs) })
	if err != nil {
		return err
	}
	s.add(fmt.Sprintf("%s, %d graphs, 8 workers", k, l.door.graphs), fmt.Sprintf("%s, %.0f graphs/s", list.text(), list.median()/graphSize))
	return nil
}

func enqueueRate(ctx context.Context, d door, producers, n int) (float64, error) {
	began := time.Now()
	ids, err := d.enqueue(producers, n, image)
	took := time.Since(began)
	if err != nil {
		return 0, err
	}
	roots, err := d.AllRootJobIDs(ctx)
	if err != nil {
		return 0, err
	}
	stored := ledger{}
	for _, id := range roots {
		stored[id]++
	}
	return float64(n) / took.Seconds(), stored.check(ids)
}

func (l *lab) drainDoor(ctx context.Context, d door, k kind, workers int, took *effort) (float64, error) {
	ids, err := d.enqueue(crowd, l.door.drain, image)
	if err != nil {
		return 0, err
	}
	hired, err := d.hire(workers)
	if err != nil {
		return 0, err
	}
	over, err := l.spending(took, k, len(ids))
	if err != nil {
		return 0, err
	}
	lasted, given, err := d.work(ctx, hired, len(ids), image)
	if err := errors.Join(err, over()); err != nil {
		return 0, err
	}
	return float64(len(ids)) / lasted.Seconds(), errors.Join(given.check(ids), d.ended(ids))
}

// graphSize is how many jobs a graph of graph has.
const graphSize = 13

// graph enqueues what composer does for a compose of ten images, and gives the ids in that order.
func (d door) graph() (ids []uuid.UUID, err error) {
	add := func(jobType string, needs ...uuid.UUID) {
		if err != nil {
			return
		}
		var id uuid.UUID
		if id, err = d.Enqueue(jobType, doorArgs, needs, tenant); err == nil {
			ids = append(ids, id)
		}
	}
	add("depsolve")
	add("image-builder-manifest", ids...)
	for range 10 {
		if err == nil {
			add(image, ids[1])
		}
	}
	if err == nil {
		add("koji-finalize", ids[2:]...)
	}
	return ids, err
}

// graphRate has eight workers run so many graphs that wait, and gives how many jobs they ran in a second.
func graphRate(ctx context.Context, d door, n int) (float64, error) {
	graphs := make([][]uuid.UUID, n)
	err := together(n, n, func(i int) (err error) {
		graphs[i], err = d.graph()
		return err
	})
	if err != nil {
		return 0, err
	}
	hired, err := d.hire(8)
	if err != nil {
		return 0, err
	}
	lasted, given, err := d.work(ctx, hired, n*graphSize, "depsolve", "image-builder-manifest", image, "koji-finalize")
	if err != nil {
		return 0, err
	}
	var all []uuid.UUID
	for _, ids := range graphs {
		all = append(all, ids...)
		if err := d.ended(ids); err != nil {
			return 0, err
		}
	}
	return float64(len(all)) / lasted.Seconds(), given.check(all)
}
