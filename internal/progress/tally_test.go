package progress

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/headrace/headrace/job"
)

// What a display keeps must not grow with the jobs that follow from one failure, nor what it does ten times a second.
func TestManyFailuresAreCountedAndFewKept(t *testing.T) {
	t.Parallel()
	const followers, own = 10_000, 3
	var out bytes.Buffer
	p := NewPlain(NewOutput(&out), Options{Quiet: true})
	p.Event(RunStarted{Name: "n", Jobs: followers + own})
	for i := range followers {
		p.Event(ended(i, job.DependencyFailed))
	}
	for i := range own {
		p.Event(ended(followers+i, job.Failed))
	}
	if n := len(p.t.failed.own) + len(p.t.failed.following); n > 2*failuresListed {
		t.Errorf("%d failures are kept", n)
	}
	out.Reset()
	p.Event(RunEnded{Outcome: "failed", Code: 1, Unfinished: new(int)})
	_, list, _ := strings.Cut(out.String(), "did not succeed:\n")
	lines := strings.Split(strings.TrimSuffix(list, "\n"), "\n")
	if len(lines) != failuresListed+1 {
		t.Fatalf("%d lines; want %d\n%s", len(lines), failuresListed+1, list)
	}
	for i, line := range lines[:failuresListed] {
		want := fmt.Sprintf("job-%d", i-own)
		if i < own {
			want = fmt.Sprintf("job-%d", followers+i)
		}
		if f := strings.Fields(line); f[0] != want {
			t.Errorf("line %d is of %s; want %s: what failed by itself first", i, f[0], want)
		}
	}
	if want := fmt.Sprintf("  and %d more", followers+own-failuresListed); lines[failuresListed] != want {
		t.Errorf("last %q; want %q", lines[failuresListed], want)
	}
}
