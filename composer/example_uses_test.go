package composer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
)

// openJobs gives a queue whose engine runs on a store in memory, and a function that stops it.
func openJobs() (*composer.JobQueue[worker], func()) {
	s := memory.New()
	engine, err := queue.Open(queue.Config{Store: s, History: s})
	insist(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	return composer.New[worker](engine, s, composer.Errors{}), func() {
		cancel()
		insist(<-ended)
		insist(s.Close())
	}
}

// takeJob gives the next job of a type to nobody in particular.
func takeJob(jobs *composer.JobQueue[worker], jobType string) (id, token uuid.UUID) {
	id, token, _, _, _, err := jobs.Dequeue(context.Background(), uuid.Nil, []string{jobType}, []string{""})
	insist(err)
	return id, token
}

// A job that is requeued waits behind the others. Once it was requeued maxRetries times it has finished instead, with the result
// that is given then.
func ExampleJobQueue_RequeueOrFinishJob() {
	jobs, stop := openJobs()
	defer stop()

	crasher, err := jobs.Enqueue("osbuild:x86_64", "crasher", nil, "")
	insist(err)
	_, err = jobs.Enqueue("osbuild:x86_64", "another", nil, "")
	insist(err)

	const maxRetries = 1
	for range 3 {
		id, _ := takeJob(jobs, "osbuild:x86_64")
		_, args, _, _, err := jobs.Job(id)
		insist(err)
		retries := uint64(0)
		if id == crasher {
			retries = maxRetries
		}
		requeued, err := jobs.RequeueOrFinishJob(id, retries, map[string]string{"ended": "by the server"})
		insist(err)
		fmt.Println(string(args), "requeued:", requeued)
	}
	_, _, result, _, _, _, _, _, _, err := jobs.JobStatus(crasher)
	insist(err)
	fmt.Println(string(result))
	// Output:
	// "crasher" requeued: true
	// "another" requeued: false
	// "crasher" requeued: false
	// {"ended":"by the server"}
}

// While a job runs its result is what its worker last said of it. If the attempt is lost, so is that.
func ExampleJobQueue_UpdateJobResult() {
	jobs, stop := openJobs()
	defer stop()

	_, err := jobs.Enqueue("osbuild:x86_64", nil, nil, "")
	insist(err)
	show := func(id uuid.UUID) {
		_, _, result, _, started, finished, _, _, _, err := jobs.JobStatus(id)
		insist(err)
		fmt.Printf("started: %t, finished: %t, result: %q\n", !started.IsZero(), !finished.IsZero(), string(result))
	}

	id, _ := takeJob(jobs, "osbuild:x86_64")
	insist(jobs.UpdateJobResult(id, map[string]int{"done": 1, "total": 2}))
	show(id)
	_, err = jobs.RequeueOrFinishJob(id, 2, nil)
	insist(err)
	show(id)

	takeJob(jobs, "osbuild:x86_64")
	show(id)
	_, err = jobs.RequeueOrFinishJob(id, 0, map[string]bool{"success": true})
	insist(err)
	show(id)
	// Output:
	// started: true, finished: false, result: "{\"done\":1,\"total\":2}"
	// started: false, finished: false, result: ""
	// started: true, finished: false, result: ""
	// started: true, finished: true, result: "{\"success\":true}"
}

// A watchdog requeues what was not heard of for too long. It goes by token, and says how long is too long: so it does nothing to a
// worker that was heard of after the list was made, nor to whoever has the job by then.
func ExampleJobQueue_Heartbeats() {
	jobs, stop := openJobs()
	defer stop()
	jobError := map[string]any{"job_error": map[string]any{"id": 27, "reason": "no heartbeat"}}

	_, err := jobs.Enqueue("osbuild:x86_64", nil, nil, "")
	insist(err)
	id, token := takeJob(jobs, "osbuild:x86_64")

	// The worker is heard of: it is left alone.
	jobs.RefreshHeartbeat(token)
	_, err = jobs.RequeueOrFinishToken(token, time.Hour, 2, jobError)
	fmt.Println("heard of within the hour:", errors.Is(err, composer.ErrRunning))

	// The worker is silent. A server looks every 30 seconds for those that were for 2 minutes; here it is soon.
	const silent = time.Millisecond
	look := time.NewTicker(silent)
	defer look.Stop()
	var lost []uuid.UUID
	for len(lost) == 0 {
		<-look.C
		lost = jobs.Heartbeats(silent)
	}
	for _, t := range lost {
		requeued, err := jobs.RequeueOrFinishToken(t, silent, 2, jobError)
		fmt.Println("silent, requeued:", requeued, err)
	}

	// Another takes the job; what the first says comes too late, and changes nothing.
	again, _ := takeJob(jobs, "osbuild:x86_64")
	_, err = jobs.RequeueOrFinishToken(token, 0, 0, "late")
	fmt.Println(again == id, errors.Is(err, composer.ErrNotExist))
	// Output:
	// heard of within the hour: true
	// silent, requeued: true <nil>
	// true true
}

// The jobs of a compose are a group, which each of them names.
func ExampleJobQueue_EnqueueGroup() {
	jobs, stop := openJobs()
	defer stop()

	compose := uuid.New()
	depsolve, err := jobs.EnqueueGroup("depsolve", nil, nil, "", compose)
	insist(err)
	image, err := jobs.EnqueueGroup("osbuild:x86_64", nil, []uuid.UUID{depsolve}, "", compose)
	insist(err)
	alone, err := jobs.Enqueue("depsolve", nil, nil, "")
	insist(err)

	for _, id := range []uuid.UUID{depsolve, image, alone} {
		group, err := jobs.GroupID(id)
		insist(err)
		fmt.Println(group == compose, group == uuid.Nil)
	}
	// Output:
	// true false
	// true false
	// false true
}

// What is older than the retention goes, but a graph goes whole: nothing of one whose last job is not old enough, or not finished.
func ExampleJobQueue_Expire() {
	jobs, stop := openJobs()
	defer stop()
	ctx := context.Background()

	depsolve, err := jobs.Enqueue("depsolve", nil, nil, "")
	insist(err)
	image, err := jobs.Enqueue("osbuild:x86_64", nil, []uuid.UUID{depsolve}, "")
	insist(err)
	takeJob(jobs, "depsolve")
	_, err = jobs.RequeueOrFinishJob(depsolve, 0, nil)
	insist(err)

	// A server says time.Now().Add(-composer.Retention), once a day.
	before := time.Now().Add(time.Hour)
	expire := func(dry bool) {
		n, err := jobs.Expire(ctx, before, dry)
		insist(err)
		left, err := jobs.AllRootJobIDs(ctx)
		insist(err)
		fmt.Printf("dry: %t, jobs: %d, graphs left: %d\n", dry, n, len(left))
	}
	expire(true) // the image waits to be built
	expire(false)
	takeJob(jobs, "osbuild:x86_64")
	_, err = jobs.RequeueOrFinishJob(image, 0, nil)
	insist(err)
	expire(true)
	expire(false)
	// Output:
	// dry: true, jobs: 0, graphs left: 1
	// dry: false, jobs: 0, graphs left: 1
	// dry: true, jobs: 2, graphs left: 1
	// dry: false, jobs: 2, graphs left: 0
}
