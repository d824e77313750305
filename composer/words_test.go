package composer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/headrace/headrace/job"
)

// anyString draws what somebody may give for a type, a channel or an architecture.
func anyString() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 140), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{
			"", " ", "a b", "a\tb", "a\x00", "*", "%", "%2A", "%25", "%zz", "a%20b", "osbuild:x86_64", "org-日本", "\u2028", "\xff", "\ufffd",
			strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat(" ", 42), strings.Repeat(" ", 43),
		}),
	)
}

// at once is for what is there already.
func (l *lab) atOnce() (context.Context, context.CancelFunc) {
	return context.WithTimeout(l.Context(), soon)
}

// What one method takes for a type or a channel all take, and give back to the letter; what one refuses all refuse. To plant it:
// composer/words.go, word: leave "r <= ' ' ||" out.
func TestAnyTypeAndChannelIsTakenByAllOrNone(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		rapid.Check(t, func(t *rapid.T) {
			jobType, channel := anyString().Draw(t, "type"), anyString().Draw(t, "channel")
			id, err := l.Enqueue(jobType, nil, nil, channel)
			if err != nil {
				isRefused(t, l, jobType, channel, err)
				return
			}
			byID, err := l.Enqueue(jobType, nil, nil, channel)
			if err != nil {
				t.Fatal(err)
			}
			check := func(call, gotType, gotChannel string, err error) {
				if err != nil || gotType != jobType || gotChannel != channel {
					t.Fatalf("%s of a job of type %q in channel %q: %q in %q, %v", call, jobType, channel, gotType, gotChannel, err)
				}
			}
			gotType, _, _, gotChannel, err := l.Job(id)
			check("Job", gotType, gotChannel, err)
			gotType, gotChannel, _, _, _, _, _, _, _, err = l.JobStatus(id)
			check("JobStatus", gotType, gotChannel, err)
			_, _, gotType, _, err = l.DequeueByID(l.Context(), byID, uuid.Nil)
			check("DequeueByID", gotType, channel, err)
			ctx, cancel := l.atOnce()
			defer cancel()
			got, _, _, gotType, _, err := l.Dequeue(ctx, uuid.Nil, []string{jobType, jobType}, []string{channel})
			check("Dequeue", gotType, channel, err)
			if got != id {
				t.Fatalf("Dequeue of type %q in channel %q gives another job", jobType, channel)
			}
			for _, id := range []uuid.UUID{id, byID} {
				if _, err := l.RequeueOrFinishJob(id, 0, nil); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

// isRefused checks that what Enqueue refuses nobody takes.
func isRefused(t *rapid.T, l *lab, jobType, channel string, err error) {
	ctx, cancel := l.atOnce()
	defer cancel()
	_, _, _, _, _, again := l.Dequeue(ctx, uuid.Nil, []string{jobType}, []string{channel})
	for _, err := range []error{err, again} {
		var invalid *job.InvalidError
		if !errors.As(err, &invalid) {
			t.Fatalf("type %q in channel %q: %v, want *job.InvalidError", jobType, channel, err)
		}
	}
	if len(jobType) <= 42 && len(channel) <= 42 {
		t.Fatalf("type %q in channel %q is refused, though it is short: %v", jobType, channel, err)
	}
}

// A worker may have any channel and architecture, also after a restart, and each is what was said.
func TestAnyWorkerIsTaken(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		want := map[uuid.UUID]worker{}
		rapid.Check(t, func(t *rapid.T) {
			channel, arch := anyString().Draw(t, "channel"), anyString().Draw(t, "arch")
			id, err := l.InsertWorker(channel, arch)
			var invalid *job.InvalidError
			switch {
			case err == nil:
				want[id] = worker{ID: id, Channel: channel, Arch: arch}
			case !errors.As(err, &invalid) || len(channel) <= 42 && len(arch) <= 42:
				t.Fatalf("channel %q, architecture %q: %v", channel, arch, err)
			}
		})
		l.restart()
		list, err := l.Workers(always)
		if err != nil || len(list) != len(want) {
			t.Fatalf("there are %d workers, %v; want %d", len(list), err, len(want))
		}
		for _, w := range list {
			if w != want[w.ID] {
				t.Errorf("the worker is %+q, want %+q", w, want[w.ID])
			}
		}
	})
}

// The channel "*" is one like others: who asks for it is given nothing else, and not all who ask elsewhere are given its jobs.
func TestChannelStarIsNotAllChannels(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		other, id := l.enqueue("build", "other"), l.enqueue("build", "*")
		if got, _ := l.dequeue("build", "*"); got != id {
			t.Errorf("dequeued %s, want %s", got, id)
		}
		if got, _ := l.dequeue("build", "other"); got != other {
			t.Errorf("dequeued %s, want %s", got, other)
		}
	})
}

// Types count once, however often they are named.
func TestTypesThatAreNamedTwiceCountOnce(t *testing.T) {
	onEach(t, func(t *testing.T, l *lab) {
		var list []string
		for range 50 {
			list = append(list, "a", "b")
		}
		id := l.enqueue("b", "")
		ctx, cancel := l.atOnce()
		defer cancel()
		if got, _, _, _, _, err := l.Dequeue(ctx, uuid.Nil, list, []string{"", ""}); got != id || err != nil {
			t.Errorf("Dequeue gives %s, %v; want %s", got, err, id)
		}
	})
}
