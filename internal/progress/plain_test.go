package progress

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/job"
)

func TestWaitIsToldWithItsReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		e    JobWaiting
		want string
	}{
		"interrupts": {
			JobWaiting{Attempt: 4, Outcome: "aborted", Detail: job.HandedBack.String(), Message: "headrace was killed while it ran"},
			" (attempt 5), " + PauseAfterInterrupts + "\n",
		},
		"fault": {JobWaiting{Attempt: 1, Outcome: "aborted", Message: "exit code 7"}, " (attempt 2 after aborted: exit code 7), as an earlier run set it\n"},
	} {
		var b bytes.Buffer
		c.e.Name, c.e.Until = "w", time.Now()
		NewPlain(NewOutput(&b), Options{}).Event(c.e)
		if text := b.String(); !strings.HasPrefix(text, "wait   w: waits until ") || !strings.HasSuffix(text, c.want) {
			t.Errorf("%s: told as %q", name, text)
		}
	}
}
