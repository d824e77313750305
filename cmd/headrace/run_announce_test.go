package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/internal/progress"
)

// Somebody who starts a million jobs sees nothing of them for a minute or more.
func TestManyJobsAreForewarnedOf(t *testing.T) {
	t.Parallel()
	for jobs, want := range map[int]string{
		0: "", manyJobs - 1: "", manyJobs: "note   50000 jobs: the first starts when all are looked up and stored, which takes a while\n",
	} {
		var out bytes.Buffer
		s := &session{
			work:  &work{Graph: &graph.Graph{Jobs: make([]graph.Job, jobs)}},
			relay: progress.NewRelay(progress.NewPlain(progress.NewOutput(&out), progress.Options{})),
		}
		s.forewarn()
		over, end := context.WithCancel(t.Context())
		end()
		s.relay.Run(over)
		if out.String() != want {
			t.Errorf("%d jobs: %q; want %q", jobs, &out, strings.TrimSpace(want))
		}
	}
}

// Who follows the events of a run is told of its end also when it was interrupted before any job could start. How many are left
// for the next run is not known then: earlier ones may have done them.
func TestInterruptedBeforeTheStartIsToldAsAnEnd(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		display func(*progress.Output) progress.Display
		want    string
	}{
		{
			func(out *progress.Output) progress.Display { return progress.NewJSON(out) },
			`"event":"run-ended","outcome":"interrupted","exit_code":130,"seconds":SPAN,"counts":{},"reused":0}` + "\n",
		},
		{
			func(out *progress.Output) progress.Display { return progress.NewPlain(out, progress.Options{}) },
			"\ninterrupted in SPAN: no job was started\nthe next run goes on with what is left\n",
		},
	} {
		for _, m := range []*monitor{nil, {left: 3}} { // before the jobs are stored, and before they are told
			var out bytes.Buffer
			ctx, stop := context.WithCancelCause(t.Context())
			stop(errInterrupted)
			s := &session{
				work: &work{Graph: &graph.Graph{Jobs: make([]graph.Job, 3)}}, relay: progress.NewRelay(tc.display(progress.NewOutput(&out))),
				ctx: ctx, monitor: m,
			}
			over, end := context.WithCancel(t.Context())
			end()
			s.relay.Run(over)
			code, err := s.conclude(time.Now(), ctx.Err())
			told := regexp.MustCompile(`("seconds":|in )[0-9.]+(µs|ms|s)?`).ReplaceAllString(out.String(), "${1}SPAN")
			if code != exitInterrupted || err != nil || !strings.HasSuffix(told, tc.want) {
				t.Errorf("code %d, %v, told %q; want %q at its end", code, err, told, tc.want)
			}
		}
	}
}
