package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
	"github.com/headrace/headrace/worker"
	"pgregory.net/rapid"
)

// The plan of a dry run names the jobs in the order in which a run starts them, if they take what the plan thinks.
func TestRunStartsJobsInTheOrderOfThePlan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w, took := drawWork(r)
		slots := rapid.IntRange(1, 4).Draw(r, "slots")
		plan := w.Plan(slots, func(i int) time.Duration { return took[i] }, nil)
		var want, got []string
		for _, s := range plan.Steps {
			want = append(want, fmt.Sprintf("%s at %v", w.Jobs[s.Job].Name, s.Start))
		}
		synctest.Test(t, func(t *testing.T) { got = play(t, w, took, slots) })
		if diff := cmp.Diff(want, got); diff != "" {
			r.Fatalf("plan and run differ (-plan +run):\n%s", diff)
		}
	})
}

// drawWork makes a graph at random, and how long its jobs take. It has no order needs: in a plan they lift a job for good, in a
// run until the dependent has ended, which may come first.
func drawWork(t *rapid.T) (*work, []time.Duration) {
	n := rapid.IntRange(1, 12).Draw(t, "jobs")
	var text strings.Builder
	text.WriteString("jobs:\n")
	for i := range n {
		needs := rapid.MapOfN(rapid.IntRange(0, n), rapid.SampledFrom([]job.Policy{job.Success, job.Finish}), 0, 3).Draw(t, "needs")
		fmt.Fprintf(&text, "  j%d: {run: x, priority: %d, exclusive: %t, needs: {", i,
			rapid.IntRange(0, 1).Draw(t, "priority"), rapid.IntRange(0, 4).Draw(t, "exclusive") == 0)
		for k := range i {
			if policy, ok := needs[k]; ok {
				fmt.Fprintf(&text, "j%d: %v, ", k, policy)
			}
		}
		text.WriteString("}}\n")
	}
	g, err := graph.Parse(strings.NewReader(text.String()), "g", graph.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	took := make([]time.Duration, n)
	for i := range took {
		took[i] = time.Duration(rapid.IntRange(1, 5).Draw(t, "took")) * time.Second
	}
	return &work{Graph: g, name: "g", keys: g.Keys()}, took
}

// play runs the work on a queue, in virtual time, and tells which jobs were started when.
func play(t *testing.T, w *work, took []time.Duration, slots int) (starts []string) {
	ctx, stop := context.WithCancel(t.Context())
	store := memory.New()
	q, err := queue.Open(queue.Config{Store: store, History: store})
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx) }()
	defer func() { stop(); must(t, <-done) }()
	here := job.Worker{Name: "w", Channels: []string{localChannel}, Kinds: []string{worker.CommandKind}, Slots: int32(slots), Session: q.NewID()}
	must(t, q.Register(ctx, here))
	s, err := w.submission(q.NewID, make([]bool, len(w.Jobs)), took, 0)
	must(t, err)
	_, err = q.Submit(ctx, s)
	must(t, err)
	type attempt struct {
		lease job.Lease
		end   time.Time
	}
	var running []attempt
	for began := time.Now(); len(starts) < len(w.Jobs) || len(running) > 0; {
		if len(running) < slots {
			// A moment is long enough: time passes when nobody has anything to do.
			soon, cancel := context.WithTimeout(ctx, time.Millisecond)
			got, err := q.Lease(soon, here.Name, here.Session, slots-len(running), 0)
			if soon.Err() == nil {
				must(t, err)
			}
			cancel()
			for _, a := range got {
				i := slices.IndexFunc(w.Jobs, func(j graph.Job) bool { return j.Name == a.Spec.Name })
				starts = append(starts, fmt.Sprintf("%s at %v", a.Spec.Name, time.Since(began).Truncate(time.Second)))
				running = append(running, attempt{a.Lease, time.Now().Truncate(time.Second).Add(took[i])})
			}
			if len(got) > 0 {
				continue
			}
		}
		if len(running) == 0 {
			t.Fatalf("nothing runs, and nothing can: %q", starts)
		}
		slices.SortStableFunc(running, func(a, b attempt) int { return a.end.Compare(b.end) })
		for end := running[0].end; len(running) > 0 && running[0].end.Equal(end); running = running[1:] {
			<-time.After(time.Until(end))
			must(t, q.Finish(ctx, job.Report{Lease: running[0].lease, Outcome: job.Succeeded}))
		}
	}
	return starts
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
