package storetest

import (
	"fmt"
	"testing"

	"github.com/headrace/headrace/job"
)

// What an attempt reported as progress stays until there is more, whoever stored it, and in however many batches.
func testProgress(t *testing.T, p *place) {
	const kinds = 8 // whether the first attempt reports, and the second, and whether the job ends with a result
	has := func(n int64, bit int) bool { return n>>bit&1 == 1 }
	seq := int64(0)
	for _, run := range []struct {
		what          string
		apart, reopen bool
	}{{"one batch", false, false}, {"batches", true, false}, {"batches of several owners", true, true}} {
		first := seq + 1
		seq += kinds
		var changes []job.Change
		for _, step := range []func(n, kind int64){
			func(n, _ int64) { changes = append(changes, added(n)) },
			func(n, _ int64) { changes = append(changes, job.JobReleased{Job: jobID(n), Seq: n}) },
			func(n, _ int64) { changes = append(changes, started(n, 1)) },
			func(n, kind int64) {
				if has(kind, 0) {
					changes = append(changes, job.JobProgress{Job: jobID(n), Seq: n, Result: []byte("first")})
				}
			},
			// A tally that says nothing: that it ran is known all the same.
			func(n, _ int64) {
				changes = append(changes, job.JobRetried{Job: jobID(n), Seq: n, Attempt: attemptEnd(1, job.Aborted, "")})
			},
			func(n, _ int64) { changes = append(changes, started(n, 2)) },
			func(n, kind int64) {
				if has(kind, 1) {
					changes = append(changes, job.JobProgress{Job: jobID(n), Seq: n, Result: []byte("second")})
				}
			},
			func(n, kind int64) {
				a := attemptEnd(2, job.Succeeded, "of the attempt")
				end := job.JobEnded{Job: jobID(n), Seq: n, End: job.End{Outcome: job.Succeeded}, Attempt: &a}
				if has(kind, 2) {
					end.Result = []byte("at the end")
				}
				changes = append(changes, end)
			},
		} {
			for kind := range int64(kinds) {
				step(first+kind, kind)
			}
			if run.apart {
				p.commit(t, changes...)
				changes = nil
			}
			if run.reopen {
				p.reopen(t)
			}
		}
		p.commit(t, changes...)
		for kind := range int64(kinds) {
			want := ""
			for bit, result := range []string{"first", "second", "at the end"} {
				if has(kind, bit) {
					want = result
				}
			}
			what := fmt.Sprintf("%s, %03b: result", run.what, kind)
			same(t, what, want, string(payload(t, p.Store, jobID(first+kind)).Result))
			same(t, what+" of the attempt", "of the attempt", string(attempts(t, p.Store, jobID(first+kind))[1].Result))
		}
	}
}
