package composer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
)

// insist keeps the examples short: a program would return the error.
func insist(err error) {
	if err != nil {
		panic(err)
	}
}

// A checkout of osbuild-composer uses the queue as it is: with its own Worker, its own errors and its own interface.
func Example() {
	// What its package jobqueue declares; the interface is cut down to what this server uses.
	type Worker struct {
		ID      uuid.UUID
		Channel string
		Arch    string
	}
	type JobQueue interface {
		Enqueue(jobType string, args any, dependencies []uuid.UUID, channel string) (uuid.UUID, error)
		Dequeue(ctx context.Context, workerID uuid.UUID, jobTypes, channels []string) (
			uuid.UUID, uuid.UUID, []uuid.UUID, string, json.RawMessage, error,
		)
		RequeueOrFinishJob(id uuid.UUID, maxRetries uint64, result any) (bool, error)
		CancelJob(id uuid.UUID) error
		Workers(olderThan time.Duration) ([]Worker, error)
	}
	errNotExist, errNotRunning := errors.New("job does not exist"), errors.New("job is not running")

	// The store. For PostgreSQL: postgres.Open(ctx, "postgres://composer@db.example/headrace", postgres.Options{}).
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "composer")
	insist(err)
	defer os.RemoveAll(dir) //nolint:errcheck // the folder is temporary
	store, err := sqlite.Open(ctx, filepath.Join(dir, "jobs.db"), sqlite.Options{})
	insist(err)

	// The engine. It runs beside the server.
	engine, err := queue.Open(queue.Config{Store: store, History: store})
	insist(err)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(running) }()

	// The queue, in place of fsjobqueue.New or dbjobqueue.New.
	var jobs JobQueue = composer.New[Worker](engine, store, composer.Errors{NotExist: errNotExist, NotRunning: errNotRunning})

	asked, err := jobs.Enqueue("depsolve", map[string]string{"package": "vim"}, nil, "org-1")
	insist(err)
	id, _, _, jobType, args, err := jobs.Dequeue(ctx, uuid.Nil, []string{"depsolve"}, []string{"org-1"})
	insist(err)
	fmt.Println(id == asked, jobType, string(args))
	_, err = jobs.RequeueOrFinishJob(id, 0, map[string]int{"packages": 212})
	insist(err)
	fmt.Println(errors.Is(jobs.CancelJob(id), errNotRunning), errors.Is(jobs.CancelJob(uuid.New()), errNotExist))

	// First the engine, then the store: Run returns when what it has begun is stored.
	stop()
	insist(<-ended)
	insist(store.Close())
	// Output:
	// true depsolve {"package":"vim"}
	// true true
}
