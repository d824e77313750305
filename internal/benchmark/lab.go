package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/sqlite"
)

// lab has what the measurements share: sizes, a folder, and a server that is started for the first who asks.
type lab struct {
	sizes
	dir   string
	kinds []kind
	graph string // file
	river string // folder of River's program
	// watched has the server count what each statement costs.
	watched bool
	// parts of the section server that are measured; "": all.
	parts string
	// profiles is a folder for those of the server's process; "": none are made.
	profiles string

	cluster *pgtest.Cluster
	program string // River's, once it is built
	made    int
}

// kind is a kind of store.
type kind string

const (
	onSQLite   kind = "SQLite"
	onPostgres kind = "PostgreSQL"
)

// has reports whether a kind is measured.
func (l *lab) has(k kind) bool {
	for _, other := range l.kinds {
		if other == k {
			return true
		}
	}
	return false
}

// place is where a store is kept. It can be opened again and again, by one at a time.
type place struct {
	kind    kind
	address string // a file or a URL
}

// place makes an empty one.
func (l *lab) place(ctx context.Context, k kind) (place, error) {
	l.made++
	if k == onSQLite {
		return place{k, filepath.Join(l.dir, fmt.Sprintf("store-%d.db", l.made))}, nil
	}
	c, err := l.server(ctx)
	if err != nil {
		return place{}, err
	}
	address, err := c.Create(ctx)
	return place{k, address}, err
}

// server gives the PostgreSQL server, which syncs each commit, unless next to nothing is measured.
func (l *lab) server(ctx context.Context) (*pgtest.Cluster, error) {
	if l.cluster == nil {
		opts := pgtest.Options{Durable: !l.hasty}
		if l.watched {
			opts.Settings = []string{"shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track=all", "pg_stat_statements.track_planning=on"}
		}
		c, err := pgtest.Start(ctx, opts)
		if err != nil {
			return nil, err
		}
		l.cluster = c
	}
	return l.cluster, nil
}

func (l *lab) close() error {
	if l.cluster == nil {
		return nil
	}
	return l.cluster.Stop()
}

// store is what a queue and a server need: with the lists of its history.
type store interface {
	queue.Store
	queue.History
	queue.Failures
}

func (p place) open(ctx context.Context) (store, error) {
	if p.kind == onSQLite {
		return sqlite.Open(ctx, p.address, sqlite.Options{})
	}
	return postgres.Open(ctx, p.address, postgres.Options{})
}

// engine is a queue that runs on a store.
type engine struct {
	*queue.Queue
	store store
	stop  context.CancelFunc
	run   sync.WaitGroup
	err   error
}

// start opens the store and runs a queue on it; it returns once the queue answers.
func start(ctx context.Context, p place) (*engine, error) {
	s, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	q, err := queue.Open(queue.Config{Store: s, History: s, GiveUp: true})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	e := &engine{Queue: q, store: s}
	owner, stop := context.WithCancel(ctx)
	e.stop = stop
	e.run.Go(func() { e.err = q.Run(owner) })
	if _, err := q.Channel(ctx, ""); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *engine) close() error {
	e.stop()
	e.run.Wait()
	return errors.Join(e.err, e.store.Close())
}

// fresh makes an empty place with an engine on it.
func (l *lab) fresh(ctx context.Context, k kind) (*engine, error) {
	p, err := l.place(ctx, k)
	if err != nil {
		return nil, err
	}
	return start(ctx, p)
}

// with runs f with an engine on the place, and closes it.
func with(ctx context.Context, p place, f func(*engine) error) error {
	e, err := start(ctx, p)
	if err != nil {
		return err
	}
	return errors.Join(f(e), e.close())
}
