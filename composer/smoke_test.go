package composer_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
)

type worker struct {
	ID      uuid.UUID
	Channel string
	Arch    string
}

func TestSmoke(t *testing.T) {
	s := memory.New()
	e, err := queue.Open(queue.Config{Store: s, History: s})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- e.Run(ctx) }()
	defer func() { cancel(); <-done }()
	q := composer.New[worker](e, s, composer.Errors{})
	a, err := q.Enqueue("osbuild:x86_64", map[string]int{"a": 1}, nil, "org-1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := q.Enqueue("koji", nil, []uuid.UUID{a, a}, "org-1")
	if err != nil {
		t.Fatal(err)
	}
	w, err := q.InsertWorker("org-1", "x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		id, token, deps, typ, args, err := q.Dequeue(ctx, w, []string{"osbuild:x86_64", "koji"}, []string{"org-1"})
		t.Log(id == a, token, deps, typ, string(args), err)
		t.Log(q.UpdateJobResult(id, "half"))
		t.Log(q.JobStatus(id))
		if i == 0 {
			t.Log(q.RequeueOrFinishJob(id, 1, nil))
			t.Log(q.JobStatus(id))
			id, token, deps, typ, args, err := q.Dequeue(ctx, w, []string{"osbuild:x86_64", "koji"}, []string{"org-1"})
			t.Log(id == a, token, deps, typ, string(args), err)
			t.Log(q.JobStatus(id))
		}
		t.Log(q.IdFromToken(token))
		t.Log(q.Heartbeats(0))
		t.Log(q.DeleteWorker(w))
		t.Log(q.RequeueOrFinishJob(id, 1, "all"))
		t.Log(q.JobStatus(id))
	}
	t.Log(q.AllRootJobIDs(ctx))
	t.Log(q.Expire(ctx, time.Now().Add(time.Hour), true))
	t.Log(q.DeleteJob(ctx, b))
	t.Log(q.Job(a))
	t.Log(q.DeleteWorker(w), q.DeleteWorker(w))
}
