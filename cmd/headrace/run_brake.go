package main

import (
	"context"
	"sync"

	"github.com/headrace/headrace/queue"
)

// brake keeps the engine from starting anything between the end of an attempt that did not succeed and the decision on
// what follows from that.
type brake struct {
	q    *queue.Queue
	mu   sync.Mutex
	held int
}

func (b *brake) hold(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held++; b.held == 1 {
		// If it cannot be stored, neither can the end of the attempt.
		_ = b.q.Pause(ctx, localChannel, "", true)
	}
}

func (b *brake) release(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == 0 {
		return
	}
	if b.held--; b.held == 0 {
		_ = b.q.Pause(ctx, localChannel, "", false)
	}
}
