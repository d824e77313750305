package progress

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// stuck is a display that shows nothing until it is let go.
type stuck struct {
	let   chan struct{}
	mu    sync.Mutex
	shown []string
}

func (s *stuck) Event(e Event) {
	<-s.let
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = append(s.shown, e.(Notice).Text)
}

func (s *stuck) Line(int, []byte) {}

func (s *stuck) Run(ctx context.Context) { <-ctx.Done() }

func TestRelayKeepsNobodyWaitingAndTheOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &stuck{let: make(chan struct{})}
		r := NewRelay(d)
		var want []string
		tell := func(n int) {
			for range n {
				want = append(want, fmt.Sprint(len(want)))
				r.Event(Notice{Text: want[len(want)-1]})
			}
		}
		tell(3) // also before it runs
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		synctest.Wait()
		r.Room() // One is with the display, and few wait.
		tell(relayed + 1)
		roomy := false
		running.Go(func() { r.Room(); roomy = true })
		synctest.Wait()
		if roomy {
			t.Error("there is room for ever more events that nobody sees")
		}
		close(d.let)
		synctest.Wait()
		if !roomy {
			t.Error("no room, though all has been shown")
		}
		tell(2)
		stop()
		running.Wait()
		tell(2) // also when it has run
		if !slices.Equal(d.shown, want) {
			t.Errorf("%d events shown, or in another order; want %d", len(d.shown), len(want))
		}
	})
}
