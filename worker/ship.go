package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

const (
	// shipEvery is the least time between two calls for one log while it grows.
	shipEvery = 200 * time.Millisecond
	// shipChunk is about how much of a log goes with one call.
	shipChunk = 512 << 10
	// endPatience is how long the end of an attempt waits for the last of its log to be shipped.
	endPatience = 5 * time.Second
	// appendPatience is how long one call may take.
	appendPatience = 20 * time.Second
)

// Shipper sends the logs of attempts to a server while they grow, as plain text. A log is on this machine until all of it is there.
type Shipper struct {
	Client *api.Client
	Home   *Home
	// Reach is shared with the Remote; nil: nobody.
	Reach *Reach
	// Log gets what goes wrong; nil: nothing.
	Log *slog.Logger

	once  sync.Once
	fresh chan *shipment
	mu    sync.Mutex
	by    map[job.Lease]*shipment
	idle  chan struct{} // closed when there is no shipment; nil: there is none
}

// shipment is a log on its way.
type shipment struct {
	lease job.Lease
	grew  chan struct{} // there is more
	ended chan struct{} // closed: there will be no more
	done  chan struct{} // closed: all is there, or will never be
}

func (s *Shipper) init() {
	s.once.Do(func() {
		s.fresh, s.by = make(chan *shipment), map[job.Lease]*shipment{}
		if s.Reach == nil {
			s.Reach = &Reach{}
		}
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
	})
}

// Run ships until ctx ends. It is to be called once, beside the rest.
func (s *Shipper) Run(ctx context.Context) {
	s.init()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case sh := <-s.fresh:
			all.Go(func() { s.ship(ctx, sh) })
		case <-ctx.Done():
			return
		}
	}
}

// begin has a log shipped from now on. If Run ends first, the next process ships it.
func (s *Shipper) begin(ctx context.Context, l job.Lease) *shipment {
	s.init()
	sh := &shipment{lease: l, grew: make(chan struct{}, 1), ended: make(chan struct{}), done: make(chan struct{})}
	s.Home.ship(l)
	s.mu.Lock()
	s.by[l] = sh
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	s.mu.Unlock()
	select {
	case s.fresh <- sh:
	case <-ctx.Done():
		s.drop(sh)
	}
	return sh
}

func (s *Shipper) drop(sh *shipment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(sh.done)
	if delete(s.by, sh.lease); len(s.by) == 0 {
		close(s.idle)
		s.idle = nil
	}
}

// Handler has the logs of a handler's attempts shipped. The last of a log is shipped before the attempt ends, unless that takes
// too long: then it goes on after it.
func (s *Shipper) Handler(run Handler) Handler {
	return func(ctx context.Context, a *Attempt) job.Report {
		// A job that is to stop at once still ends here, and in order.
		sh := s.begin(context.WithoutCancel(ctx), a.Lease)
		defer func() {
			close(sh.ended)
			timer := time.NewTimer(endPatience)
			defer timer.Stop()
			select {
			case <-sh.done:
			case <-timer.C:
			}
		}()
		return run(ctx, a)
	}
}

// Grew says that the log of an attempt has grown; it does not block.
func (s *Shipper) Grew(a *Attempt) {
	s.mu.Lock()
	sh := s.by[a.Lease]
	s.mu.Unlock()
	if sh == nil {
		return
	}
	select {
	case sh.grew <- struct{}{}:
	default:
	}
}

// Inherit ships what an earlier process left, and waits for that, but not long. Run must have been called.
func (s *Shipper) Inherit(ctx context.Context) error {
	s.init()
	left, notes, err := s.Home.left()
	if err != nil {
		return err
	}
	for _, n := range notes {
		s.Log.Error("a file of the journal of attempts cannot be read, and is set aside", "file", n)
	}
	for i := range left {
		l, err := leaseOf(&left[i].Lease)
		if err != nil {
			continue // It is set aside.
		}
		close(s.begin(ctx, l).ended)
	}
	s.Settle(ctx)
	return nil
}

// Settle waits, but not long, until all that has ended is shipped.
func (s *Shipper) Settle(ctx context.Context) {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	if idle == nil {
		return
	}
	timer := time.NewTimer(endPatience)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ship sends one log, to its end.
func (s *Shipper) ship(ctx context.Context, sh *shipment) {
	defer s.drop(sh)
	c := &cargo{Shipper: s, shipment: sh, path: s.Home.logOf(sh.lease)}
	defer c.close()
	for over := false; !over; {
		select {
		case <-sh.grew:
		case <-sh.ended:
			over = true
		case <-ctx.Done():
			return
		}
		err := c.send(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.Log.Warn("the log of an attempt is not shipped any further", "job", sh.lease.Job, "attempt", sh.lease.Attempt, "err", err)
			break
		}
		if !over {
			timer := time.NewTimer(shipEvery)
			select {
			case <-timer.C:
			case <-sh.ended:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
	if err := s.Home.shipped(sh.lease); err != nil {
		s.Log.Warn("what remains of an attempt cannot be removed", "job", sh.lease.Job, "attempt", sh.lease.Attempt, "err", err)
	}
}

// cargo is a log with what of it the server has.
type cargo struct {
	*Shipper
	*shipment
	path   string
	text   *logText // nil: it is not open
	offset int64    // of what waits
	wait   []byte   // read, and not shipped
}

func (c *cargo) close() {
	if c.text != nil {
		_ = c.text.log.Close() // Only read from.
		c.text = nil
	}
}

// seek opens the log, and goes to an offset of its text.
func (c *cargo) seek(offset int64) error {
	c.close()
	log, err := OpenLog(c.path)
	if err != nil {
		return err
	}
	c.text, c.offset, c.wait = &logText{log: log}, 0, c.wait[:0]
	for c.offset < offset {
		had := c.wait
		c.wait, err = c.text.read(had[:0], shipChunk)
		if err != nil {
			return err
		}
		if len(c.wait) == 0 {
			return fmt.Errorf("the server has %d bytes of the log, here are %d", offset, c.offset)
		}
		n := min(int64(len(c.wait)), offset-c.offset)
		c.offset += n
		c.wait = c.wait[n:]
	}
	return nil
}

// send sends all there is. Its error says that no more of the log can be sent; while the server cannot be reached it goes on.
func (c *cargo) send(ctx context.Context) error {
	if c.text == nil {
		if err := c.seek(0); errors.Is(err, fs.ErrNotExist) {
			return nil // It never began.
		} else if err != nil {
			return err
		}
	}
	var pause pauses
	for rewound := 0; ; {
		var err error
		if c.wait, err = c.text.read(c.wait, shipChunk); err != nil {
			return err
		}
		if len(c.wait) == 0 {
			return nil
		}
		called, cancel := context.WithTimeout(ctx, appendPatience)
		size, err := c.Client.AppendLog(called, c.lease, c.offset, c.wait)
		cancel()
		var retry *queue.RetryError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && size == c.offset+int64(len(c.wait)):
			c.Reach.answered()
			c.offset, c.wait = size, c.wait[:0]
			pause.reset()
			rewound = 0
			continue
		case err == nil || errors.Is(err, api.ErrMismatch):
			c.Reach.answered()
			// It has more than was sent, from a call before, or has lost the last of it.
			if rewound++; rewound > 3 {
				return fmt.Errorf("the server has %d bytes of the log, and takes none from %d on", size, c.offset)
			}
			if err := c.seek(size); err != nil {
				return err
			}
		case errors.As(err, &retry), errors.Is(err, context.DeadlineExceeded), errors.Is(err, api.ErrInternal):
			pause.next(ctx, c.Reach)
		default:
			return err
		}
	}
}
