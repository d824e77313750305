package queue_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

type sumArgs struct {
	Terms []int `json:"terms"`
}

var sum = queue.NewKind[sumArgs, int]("sum")

// adder runs a worker for kind sum until ctx ends: it adds, and fails for no terms at all.
func adder(t *testing.T, q *queue.Queue) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	w := job.Worker{Name: "adder", Channels: []string{""}, Kinds: []string{sum.Name()}, Slots: 1, Session: q.NewID()}
	if err := q.Register(ctx, w); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		for {
			got, err := q.Lease(ctx, w.Name, w.Session, 1, 0)
			if err != nil {
				return
			}
			args, err := sum.Args(got[0])
			total := 0
			for _, n := range args.Terms {
				total += n
			}
			report, _ := sum.Report(got[0].Lease, total)
			if err != nil || len(args.Terms) == 0 {
				report = job.Report{Lease: got[0].Lease, Outcome: job.Failed, Message: "nothing to add"}
			}
			if err := q.Finish(ctx, report); err != nil {
				t.Errorf("finish: %v", err)
			}
		}
	}()
}

func TestTypedArgumentsAndResultsMakeTheRoundTrip(t *testing.T) {
	t.Parallel()
	q, stop := open()
	t.Cleanup(stop)
	adder(t, q)
	ctx := t.Context()
	good, err := sum.Spec("good", sumArgs{[]int{1, 2, 39}})
	if err != nil {
		t.Fatal(err)
	}
	bad, err := sum.Spec("bad", sumArgs{})
	if err != nil {
		t.Fatal(err)
	}
	good.ID, bad.ID = q.NewID(), q.NewID()
	heir, err := sum.Spec("heir", sumArgs{[]int{1}})
	if err != nil {
		t.Fatal(err)
	}
	heir.ID, heir.Needs = q.NewID(), []job.Need{{Job: bad.ID}}
	if _, err := q.Submit(ctx, queue.Submission{Jobs: []job.Spec{good, bad, heir}}); err != nil {
		t.Fatal(err)
	}
	if n, err := sum.Await(ctx, q, good.ID); n != 42 || err != nil {
		t.Errorf("await: %d, %v; want 42", n, err)
	}
	for _, id := range []job.ID{bad.ID, heir.ID} {
		_, err := sum.Await(ctx, q, id)
		var end *queue.EndError
		if !errors.As(err, &end) || end.Job != id {
			t.Fatalf("await of what does not succeed: %v, want how it ended", err)
		}
	}
	_, err = sum.Result(ctx, q.History, heir.ID)
	if err == nil || !strings.Contains(err.Error(), "as job "+bad.ID.String()+" ended failed") {
		t.Errorf("result of a dependent: %v, want it to name the root", err)
	}
	if n, err := sum.Result(ctx, q.History, good.ID); n != 42 || err != nil {
		t.Errorf("result: %d, %v; want 42", n, err)
	}
}

func TestTypedErrorsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	q, stop := open()
	t.Cleanup(stop)
	ctx := t.Context()
	open, err := sum.Spec("waits", sumArgs{})
	if err != nil {
		t.Fatal(err)
	}
	open.ID = q.NewID()
	if _, err := q.Submit(ctx, queue.Submission{Jobs: []job.Spec{open}}); err != nil {
		t.Fatal(err)
	}
	if _, err := sum.Result(ctx, q.History, open.ID); !errors.Is(err, queue.ErrUnfinished) {
		t.Errorf("result of what waits: %v, want ErrUnfinished", err)
	}
	if _, err := sum.Result(ctx, q.History, q.NewID()); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("result of nothing: %v, want ErrNotFound", err)
	}
	floats := queue.NewKind[float64, float64]("floats")
	for field, check := range map[string]func() error{
		"args":   func() error { _, err := floats.Spec("x", math.NaN()); return err },
		"result": func() error { _, err := floats.Report(job.Lease{}, math.Inf(1)); return err },
		"kind":   func() error { _, err := floats.Args(queue.Assignment{Spec: job.Spec{Kind: "sum"}}); return err },
		"args ": func() error {
			_, err := sum.Args(queue.Assignment{Spec: job.Spec{Kind: "sum", Args: []byte("[")}})
			return err
		},
		"kind ": func() error { _, err := floats.Result(ctx, q.History, open.ID); return err },
	} {
		var invalid *job.InvalidError
		if err := check(); !errors.As(err, &invalid) || invalid.Field != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	big := queue.NewKind[string, string]("big")
	var invalid *job.InvalidError
	if _, err := big.Spec("x", strings.Repeat("x", job.MaxArgs)); !errors.As(err, &invalid) {
		t.Errorf("arguments over the limit: %v", err)
	}
}
