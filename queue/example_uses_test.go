package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
)

// check keeps the examples short: a program would return the error.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// register makes a worker of kind shell known, and gives a function that takes its next job.
func register(q *queue.Queue, name string) func() queue.Assignment {
	ctx := context.Background()
	w := job.Worker{Name: name, Channels: []string{""}, Kinds: []string{"shell"}, Slots: 4, Session: q.NewID()}
	check(q.Register(ctx, w))
	return func() queue.Assignment {
		got, err := q.Lease(ctx, name, w.Session, 1, 0)
		check(err)
		return got[0]
	}
}

// A program that wants a queue inside opens one on a store and runs it beside its own work; here everything is in memory, and
// package store/sqlite keeps it in a file. Run returns when its context ends; what is stored is there at the next start.
func Example() {
	disk := memory.NewDisk() // with a file this would be its path
	ctx := context.Background()

	run := func(f func(q *queue.Queue)) {
		s := disk.Open()
		q, err := queue.Open(queue.Config{Store: s, History: s})
		check(err)
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- q.Run(ctx) }()
		f(q)
		cancel()
		check(<-done)
		check(s.Close())
	}

	var build job.ID
	run(func(q *queue.Queue) {
		id := q.NewID()
		receipt, err := q.Submit(ctx, queue.Submission{
			Build: &job.Build{Name: "release"},
			Jobs:  []job.Spec{{ID: id, Name: "package", Kind: "shell"}},
			Refs:  []job.Ref{{Job: id}},
		})
		check(err)
		build = receipt.Build
	})
	run(func(q *queue.Queue) {
		a := register(q, "w1")()
		check(q.Finish(ctx, job.Report{Lease: a.Lease, Outcome: job.Succeeded}))
		b, err := q.AwaitBuild(ctx, build)
		check(err)
		fmt.Println(b.Build.Name, b.Outcome)
	})
	// Output: release succeeded
}

// Cancelling a build drops what waits and tells the workers of what runs. Such a worker stops, and confirms by Finish.
func ExampleQueue_CancelBuild() {
	q, stop := open()
	defer stop()
	ctx := context.Background()
	next := register(q, "w1")

	id := q.NewID()
	receipt, err := q.Submit(ctx, queue.Submission{
		Build: &job.Build{Name: "nightly"},
		Jobs:  []job.Spec{{ID: id, Name: "long", Kind: "shell"}},
		Refs:  []job.Ref{{Job: id}},
	})
	check(err)
	a := next()

	check(q.CancelBuild(ctx, receipt.Build, false))
	<-a.Stop
	err = q.Finish(ctx, job.Report{Lease: a.Lease, Outcome: job.Cancelled})
	fmt.Println("the worker is told:", errors.Is(err, job.ErrLeaseLost))
	rec, err := q.AwaitJob(ctx, id)
	check(err)
	fmt.Println(rec.Spec.Name, rec.End.Outcome)
	// Output:
	// the worker is told: true
	// long cancelled
}

// Done is never left: whoever wants a failed build again submits it again. Jobs with a key and Reuse that have succeeded
// are not run again; the rest is.
func ExampleQueue_Submit_retry() {
	q, stop := open()
	defer stop()
	ctx := context.Background()
	next := register(q, "w1")

	submit := func() job.ID {
		compile, test := q.NewID(), q.NewID()
		receipt, err := q.Submit(ctx, queue.Submission{
			Build: &job.Build{Name: "nightly"},
			Jobs: []job.Spec{
				{ID: compile, Name: "compile", Kind: "shell", Key: "compile", Reuse: true},
				{ID: test, Name: "test", Kind: "shell", Key: "test", Reuse: true, Needs: []job.Need{{Job: compile}}},
			},
			Refs: []job.Ref{{Job: test}},
		})
		check(err)
		for i, name := range []string{"compile", "test"} {
			fmt.Println(name, receipt.Jobs[i].How)
		}
		return receipt.Build
	}
	finish := func(o job.Outcome) {
		a := next()
		fmt.Println("run", a.Spec.Name)
		check(q.Finish(ctx, job.Report{Lease: a.Lease, Outcome: o}))
	}

	build := submit()
	finish(job.Succeeded)
	finish(job.Failed)
	b, err := q.AwaitBuild(ctx, build)
	check(err)
	fmt.Println("build", b.Outcome)

	build = submit()
	finish(job.Succeeded)
	b, err = q.AwaitBuild(ctx, build)
	check(err)
	fmt.Println("build", b.Outcome)
	// Output:
	// compile created
	// test created
	// run compile
	// run test
	// build failed
	// compile reused
	// test created
	// run test
	// build succeeded
}

// Why tells what holds a job back, for people by Text and for programs by What.
func ExampleQueue_Why() {
	q, stop := open()
	defer stop()
	ctx := context.Background()
	register(q, "w1")

	id := q.NewID()
	_, err := q.Submit(ctx, queue.Submission{Jobs: []job.Spec{
		{ID: id, Name: "vm-test", Kind: "shell", Features: []string{"kvm"}},
	}})
	check(err)
	e, err := q.Why(ctx, id)
	check(err)
	text, _, _ := strings.Cut(e.Reasons[0].Text, "; it ends")
	fmt.Println(e.Name, "is", e.State)
	fmt.Println(e.Reasons[0].What+":", text)
	// Output:
	// vm-test is Ready
	// unsupported: no known worker could run it; the nearest, w1, lacks feature kvm
}

// The feed tells all that happens, in order and without a gap. A watcher keeps the number of the last round that it
// has dealt with, and goes on from there, also after a restart.
func ExampleQueue_Watch() {
	q, stop := open()
	defer stop()
	ctx := context.Background()
	next := register(q, "w1")
	from := q.Round()

	_, err := q.Submit(ctx, queue.Submission{Jobs: []job.Spec{{Name: "hello", Kind: "shell"}}})
	check(err)
	a := next()
	check(q.Finish(ctx, job.Report{Lease: a.Lease, Outcome: job.Succeeded}))

	seen := errors.New("seen enough")
	err = q.Watch(ctx, from, func(r queue.Round) error {
		for _, c := range r.Changes {
			switch c := c.(type) {
			case job.JobAdded:
				fmt.Println("added", c.Spec.Name)
			case job.JobStarted:
				fmt.Println("started on", c.Attempt.Worker)
			case job.JobEnded:
				fmt.Println("ended", c.End.Outcome)
				return seen
			default:
				// Not what this example shows.
			}
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// added hello
	// started on w1
	// ended succeeded
	// seen enough
}

// Typed arguments and results: both sides declare the kind once.
func ExampleKind() {
	type resizeArgs struct {
		Image string
		Width int
	}
	type resizeResult struct{ Height int }
	resize := queue.NewKind[resizeArgs, resizeResult]("resize")

	q, stop := open()
	defer stop()
	ctx := context.Background()

	spec, err := resize.Spec("thumbnail", resizeArgs{"cat.png", 120})
	check(err)
	receipt, err := q.Submit(ctx, queue.Submission{Jobs: []job.Spec{spec}})
	check(err)

	// The worker's side.
	w := job.Worker{Name: "w1", Channels: []string{""}, Kinds: []string{resize.Name()}, Slots: 1, Session: q.NewID()}
	check(q.Register(ctx, w))
	got, err := q.Lease(ctx, w.Name, w.Session, 1, 0)
	check(err)
	args, err := resize.Args(got[0])
	check(err)
	fmt.Println("resize", args.Image, "to", args.Width)
	report, err := resize.Report(got[0].Lease, resizeResult{Height: 90})
	check(err)
	check(q.Finish(ctx, report))

	result, err := resize.Await(ctx, q, receipt.Jobs[0].ID)
	check(err)
	fmt.Println("height", result.Height)
	// Output:
	// resize cat.png to 120
	// height 90
}

// A caller that does not know whether its command arrived sends it again under the same request id: it happens once, and the
// repeat gets the first answer.
func ExampleWithRequest() {
	q, stop := open()
	defer stop()
	ctx := queue.WithRequest(context.Background(), q.NewID())

	s := queue.Submission{Jobs: []job.Spec{{Name: "once", Kind: "shell", NotBefore: job.At(time.Now().Add(time.Hour))}}}
	first, err := q.Submit(ctx, s)
	check(err)
	again, err := q.Submit(ctx, s)
	check(err)
	fmt.Println(first.Jobs[0] == again.Jobs[0])
	// Output: true
}
