package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

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
