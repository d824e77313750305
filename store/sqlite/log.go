package sqlite

import (
	"context"
	"os"
	"sync/atomic"
	"time"
)

// checkpointPages is how far the log grows before a commit copies it back into the file: 16 MiB. That commit takes
// the longer (25 ms here, with four times as much 75 ms), and the rate of all is the same from here on. Beside what syncs
// take anyway it does not show: with and without, one commit in a thousand took equally long.
const checkpointPages = 2048

// The log begins anew when all of it is copied back and nobody reads in it. Where reads overlap there is always one that
// began before the last commit, so that it never does, and grows without end (to 275 MiB in a minute, beside four that
// list). Once it has grown so far, reads that come are held back until those that are under way have ended; but not for
// longer than readPatience, as one of them may take its time.
const (
	logLimit     = 4 * checkpointPages * pageSize
	readPatience = time.Second
)

// hold keeps reads from beginning.
type hold struct {
	over  chan struct{}
	until time.Time
}

// gate is what reads pass.
type gate struct{ held atomic.Pointer[hold] }

// pass waits while reads are held back.
func (g *gate) pass(ctx context.Context) error {
	h := g.held.Load()
	if h == nil {
		return nil
	}
	patience := time.NewTimer(time.Until(h.until))
	defer patience.Stop()
	select {
	case <-h.over:
	case <-patience.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// open lets reads go on.
func (g *gate) open() {
	if h := g.held.Swap(nil); h != nil {
		close(h.over)
	}
}

// logKeeper sees to it that the log begins anew. It belongs to the one who writes.
type logKeeper struct {
	limit    int64 // the size from which on it sees to it
	patience time.Duration
	next     int64 // the size from which on it tries again; 0: limit
}

// keep is called after a commit. What goes wrong here leaves a longer log, and the next commit tries again.
func (k *logKeeper) keep(path string, c *conn, g *gate) {
	info, err := os.Stat(path + "-wal")
	if err != nil || info.Size() < max(k.limit, k.next) {
		if err == nil && info.Size() < k.limit {
			k.next = 0
		}
		return
	}
	h := g.held.Load()
	if h == nil {
		h = &hold{over: make(chan struct{}), until: time.Now().Add(k.patience)}
		g.held.Store(h)
	}
	whole, err := c.copyLog()
	switch {
	case err == nil && whole:
		// The next commit begins the log anew: who reads from now on reads the file.
		k.next = 0
		g.open()
	case time.Now().After(h.until):
		k.next = info.Size() + k.limit
		g.open()
	}
}
