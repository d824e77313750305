package progress

import (
	"context"
	"sync"
)

// Relay passes events on to a Display in the order in which they come. Who tells one need not wait until it is shown: a
// terminal may be stopped, and a pipe be read slowly.
type Relay struct {
	to   Display
	news chan struct{} // has an element when events has grown

	mu     sync.Mutex
	room   sync.Cond
	events []Event
	// direct: Run has returned, and events are shown where they are told.
	direct bool
}

// relayed is how many events may wait to be shown before Room makes who tells them wait.
const relayed = 50_000

// NewRelay gives a Relay to a display.
func NewRelay(to Display) *Relay {
	r := &Relay{to: to, news: make(chan struct{}, 1)}
	r.room.L = &r.mu
	return r
}

// Event takes an event, to be shown after those before it. Any goroutine may call it; it waits for nobody until Run has
// returned, and then until the event is shown.
func (r *Relay) Event(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.direct {
		r.to.Event(e)
		return
	}
	r.events = append(r.events, e)
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// Room waits while so many events have not been shown that no more should be told.
func (r *Relay) Room() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.events) > relayed && !r.direct {
		r.room.Wait()
	}
}

// Line implements Display.
func (r *Relay) Line(index int, text []byte) { r.to.Line(index, text) }

// Run implements Display. It returns when all that was told has been shown.
func (r *Relay) Run(ctx context.Context) {
	showing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var display sync.WaitGroup
	display.Go(func() { r.to.Run(showing) })
	for ctx.Err() == nil {
		select {
		case <-r.news:
			r.pass()
		case <-ctx.Done():
		}
	}
	r.pass()
	stop()
	display.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		r.to.Event(e)
	}
	r.events, r.direct = nil, true
	r.room.Broadcast()
}

// pass shows what has been told.
func (r *Relay) pass() {
	for {
		r.mu.Lock()
		events := r.events
		r.events = nil
		r.room.Broadcast()
		r.mu.Unlock()
		if len(events) == 0 {
			return
		}
		for _, e := range events {
			r.to.Event(e)
		}
	}
}
