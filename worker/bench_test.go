package worker

import (
	"context"
	"os/exec"
	"testing"

	"github.com/headrace/headrace/job"
)

// BenchmarkExecuteTrue is the cost of an attempt whose command does nothing; BenchmarkPlainTrue that of the
// same command without a supervisor, control group and log.
func BenchmarkExecuteTrue(b *testing.B) {
	for _, net := range nets {
		b.Run(net.name, func(b *testing.B) {
			for b.Loop() {
				e := Executor{noCgroup: net.noCgroup}
				r := e.Execute(context.Background(), Command{Argv: []string{"true"}}, NewLogWriter(discard{}), nil)
				if r.Outcome != job.Succeeded {
					b.Fatal(r.Outcome, r.Message)
				}
			}
		})
	}
}

func BenchmarkPlainTrue(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}
