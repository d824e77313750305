package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "composer:", err)
		os.Exit(1)
	}
}

// run has the story happen on a store in a temporary folder.
func run(out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "composer")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	open := func() (store, error) {
		// In PostgreSQL: postgres.Open(ctx, "postgres://composer@db.example/headrace", postgres.Options{}).
		return sqlite.Open(context.Background(), filepath.Join(dir, "jobs.db"), sqlite.Options{})
	}

	var left remains
	err = during(open, out, func(ctx context.Context, s *server) error {
		left, err = firstLife(ctx, s)
		return err
	})
	if err != nil {
		return err
	}
	return during(open, out, func(ctx context.Context, s *server) error { return secondLife(ctx, s, left) })
}

// store is what every backend gives.
type store interface {
	queue.Store
	queue.History
}

// registered is declared as composer's Worker is.
type registered struct {
	ID      uuid.UUID
	Channel string
	Arch    string
}

// during has a server live for as long as f takes: it opens the store and runs the engine, and ends in the reverse order. What f is
// given ends early if the engine does.
func during(open func() (store, error), out io.Writer, f func(context.Context, *server) error) error {
	st, err := open()
	if err != nil {
		return err
	}
	engine, err := queue.Open(queue.Config{Store: st, History: st})
	if err != nil {
		return errors.Join(err, st.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		defer stop()
		ended <- engine.Run(ctx)
	}()

	jobs := composer.New[registered](engine, st, composer.Errors{}) // its errors are the package's own
	err = f(ctx, &server{composes: jobs, watched: jobs, workers: jobs, out: out})

	stop()
	return errors.Join(err, <-ended, st.Close())
}
