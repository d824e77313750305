package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/store/rows"
)

// lookAgain is how often a Listener looks for itself: a notification may be lost with its connection, or by a pool or a
// standby that passes none on.
const lookAgain = time.Second

// Listener waits for rounds, in any process. It is for one goroutine.
type Listener struct {
	r *Reader
	c *pgx.Conn // nil: none, or the last one failed
}

// Listen gives a Listener. Whoever has one must Close it.
func (r *Reader) Listen() *Listener { return &Listener{r: r} }

// Next waits until the store has a round after the given number, and gives the number of the newest. The owner notifies
// at each commit; where that does not arrive, it takes a second longer.
func (l *Listener) Next(ctx context.Context, after uint64) (uint64, error) {
	for {
		if err := l.listen(ctx); err != nil {
			return 0, l.r.fail("listen for rounds", cause(ctx, err))
		}
		var h rows.Head
		err := l.r.read(ctx, func(t *tables) (err error) {
			h, err = rows.ReadHead(t)
			return err
		})
		if err != nil {
			return 0, l.r.fail("listen for rounds", err)
		}
		if h.Number > after {
			return h.Number, nil
		}
		if err := l.wait(ctx); err != nil {
			return 0, l.r.fail("listen for rounds", err)
		}
	}
}

// listen sees to it that there is a connection that is told of commits. It comes before the look: what is committed
// between the two is notified.
func (l *Listener) listen(ctx context.Context) error {
	if l.c != nil && !l.c.IsClosed() {
		return nil
	}
	c, err := l.r.dial(ctx)
	if err != nil {
		return err
	}
	if _, err := c.Exec(ctx, "LISTEN headrace"); err != nil {
		hangUp(c)
		return err
	}
	l.c = c
	return nil
}

// wait returns at a notification, when it is time to look without one, or when the connection fails.
func (l *Listener) wait(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, lookAgain)
	defer cancel()
	_, err := l.c.WaitForNotification(short)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil, errors.Is(err, context.DeadlineExceeded):
		return nil
	}
	hangUp(l.c)
	l.c = nil
	return nil
}

// Close frees the connection.
func (l *Listener) Close() error {
	hangUp(l.c)
	l.c = nil
	return nil
}
