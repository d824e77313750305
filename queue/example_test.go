package queue_test

import (
	"context"
	"fmt"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
)

// open starts a queue on a store in memory, and gives a function that stops it.
func open() (*queue.Queue, func()) {
	s := memory.New()
	q, err := queue.Open(queue.Config{Store: s, History: s})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := q.Run(ctx); err != nil {
			panic(err)
		}
	}()
	return q, func() { cancel(); <-done }
}

// A graph is one submission: jobs that name each other, and a build that wants some of them.
func ExampleQueue_Submit() {
	q, stop := open()
	defer stop()
	ctx := context.Background()

	compile, test := q.NewID(), q.NewID()
	receipt, err := q.Submit(ctx, queue.Submission{
		Build: &job.Build{Name: "nightly"},
		Jobs: []job.Spec{
			{ID: compile, Name: "compile", Kind: "shell", Args: []byte("make")},
			{ID: test, Name: "test", Kind: "shell", Args: []byte("make test"), Needs: []job.Need{{Job: compile}}},
		},
		Refs: []job.Ref{{Job: test}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	worker := job.Worker{Name: "w1", Channels: []string{""}, Kinds: []string{"shell"}, Slots: 1, Session: q.NewID()}
	if err := q.Register(ctx, worker); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		got, err := q.Lease(ctx, worker.Name, worker.Session, 1, 0)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("run %s: %s\n", got[0].Spec.Name, got[0].Spec.Args)
		if err := q.Finish(ctx, job.Report{Lease: got[0].Lease, Outcome: job.Succeeded}); err != nil {
			fmt.Println(err)
			return
		}
	}
	build, err := q.AwaitBuild(ctx, receipt.Build)
	fmt.Println(build.Build.Name, build.Outcome, err)
	// Output:
	// run compile: make
	// run test: make test
	// nightly succeeded <nil>
}
