package composer

import (
	"encoding/binary"
	"testing"

	"github.com/headrace/headrace/job"
)

// Of attempts that were cancelled no more are remembered than there is room for, also if nobody ever asks. To plant it: composer/stopped.go,
// add: leave s.trim() out.
func TestCancelledAttemptsAreForgotten(t *testing.T) {
	t.Parallel()
	s := newStopped()
	for n := range uint64(3 * stoppedMost) {
		var l job.Lease
		binary.BigEndian.PutUint64(l.Job[8:], n+1)
		binary.BigEndian.PutUint64(l.Token[8:], n+1)
		s.begin(l.Job)(l)
	}
	if len(s.byToken) > stoppedMost+1 || len(s.byJob) > stoppedMost+1 || len(s.order) > stoppedMost+1 || len(s.begun) > 0 {
		t.Errorf("%d tokens, %d jobs and %d in order are kept, want at most %d; %d are being cancelled", len(s.byToken), len(s.byJob), len(s.order), stoppedMost, len(s.begun))
	}
}
