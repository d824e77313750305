package composer_test

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

// The methods of upstream's interface at its main branch of 2026-08-21, in groups, for no interface here is so wide.
var (
	_ jobs     = (*composer.JobQueue[worker])(nil)
	_ dequeuer = (*composer.JobQueue[worker])(nil)
	_ running  = (*composer.JobQueue[worker])(nil)
	_ workers  = (*composer.JobQueue[worker])(nil)
)

type jobs interface {
	Enqueue(jobType string, args any, dependencies []uuid.UUID, channel string) (uuid.UUID, error)
	JobStatus(id uuid.UUID) (
		jobType, channel string, result json.RawMessage, queued, started, finished time.Time, canceled bool,
		deps, dependents []uuid.UUID, err error,
	)
	Job(id uuid.UUID) (jobType string, args json.RawMessage, dependencies []uuid.UUID, channel string, err error)
	CancelJob(id uuid.UUID) error
	FailJob(id uuid.UUID, result any) error
	DeleteJob(ctx context.Context, id uuid.UUID) error
}

type dequeuer interface {
	Dequeue(ctx context.Context, workerID uuid.UUID, jobTypes, channels []string) (
		uuid.UUID, uuid.UUID, []uuid.UUID, string, json.RawMessage, error,
	)
	DequeueAnyChannel(ctx context.Context, workerID uuid.UUID, jobTypes []string) (
		uuid.UUID, uuid.UUID, []uuid.UUID, string, json.RawMessage, error,
	)
	DequeueByID(ctx context.Context, id, workerID uuid.UUID) (uuid.UUID, []uuid.UUID, string, json.RawMessage, error)
	AllRootJobIDs(ctx context.Context) ([]uuid.UUID, error)
}

type running interface {
	UpdateJobResult(id uuid.UUID, result any) error
	RequeueOrFinishJob(id uuid.UUID, maxRetries uint64, result any) (bool, error)
	IdFromToken(token uuid.UUID) (uuid.UUID, error) //nolint:revive,staticcheck // the name is composer's
	Heartbeats(olderThan time.Duration) []uuid.UUID
	RefreshHeartbeat(token uuid.UUID)
}

type workers interface {
	InsertWorker(channel, arch string) (uuid.UUID, error)
	UpdateWorkerStatus(workerID uuid.UUID) error
	Workers(olderThan time.Duration) ([]worker, error)
	DeleteWorker(workerID uuid.UUID) error
}
