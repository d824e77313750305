package main

import (
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/sched"
)

func TestWhySaysWhatAPauseIsFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		last attemptView
		want string
	}{
		"interrupts": {
			attemptView{Number: 4, Outcome: job.Aborted.String(), Detail: job.HandedBack.String(), Message: killedNote},
			progress.PauseAfterInterrupts,
		},
		"fault": {attemptView{Number: 4, Outcome: job.Aborted.String(), Message: "exit code 7"}, "after attempt 4: aborted: exit code 7"},
	} {
		a := answer{Attempts: []attemptView{{Number: 3}, c.last}}
		r := sched.Reason{What: sched.BacksOff, Until: time.Now()}
		a.plain(&r)
		if !strings.HasPrefix(r.Text, "waits until ") || !strings.HasSuffix(r.Text, ", "+c.want) {
			t.Errorf("%s: told as %q", name, r.Text)
		}
	}
}
