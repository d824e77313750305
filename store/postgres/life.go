package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/queue"
)

// life gives the owner's sign of life, on a connection of its own, so that no long commit holds it up.
type life struct {
	epoch   int64
	connect func(context.Context) (*pgx.Conn, error)
	stop    context.CancelFunc
	ended   chan struct{}
	lost    chan struct{} // closed once another is the owner

	mu   sync.Mutex
	sure time.Time // until then nobody else can be the owner
}

// live starts the owner's life. began is a moment before anybody could see the owner's row.
func live(epoch int64, began time.Time, connect func(context.Context) (*pgx.Conn, error)) *life {
	ctx, stop := context.WithCancel(context.Background())
	l := &life{
		epoch: epoch, connect: connect, stop: stop, ended: make(chan struct{}), lost: make(chan struct{}), sure: began.Add(Lapse),
	}
	go l.run(ctx)
	return l
}

func (l *life) run(ctx context.Context) {
	defer close(l.ended)
	// A connection is made when it is needed first: many a store is closed before that.
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	var c *pgx.Conn
	for {
		select {
		case <-ctx.Done():
			hangUp(c)
			return
		case <-tick.C:
		}
		var err error
		if c, err = l.beat(ctx, c); errors.Is(err, queue.ErrFenced) {
			close(l.lost)
			return
		}
	}
}

// beat writes one sign of life, on a new connection where the last one failed. It gives up in time for the next.
func (l *life) beat(ctx context.Context, c *pgx.Conn) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, Lapse)
	defer cancel()
	began := time.Now()
	if c == nil || c.IsClosed() {
		var err error
		if c, err = l.connect(ctx); err != nil {
			return nil, err
		}
	}
	tag, err := c.Exec(ctx, "UPDATE headrace.life SET beats = beats + 1 WHERE epoch = $1", l.epoch)
	if err == nil && tag.RowsAffected() == 0 {
		err = queue.ErrFenced
	}
	if err != nil {
		hangUp(c)
		return nil, err
	}
	l.mu.Lock()
	l.sure = began.Add(Lapse)
	l.mu.Unlock()
	return c, nil
}

// owned reports nil while nobody else can be the owner.
func (l *life) owned() error {
	select {
	case <-l.lost:
		return queue.ErrFenced
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.sure) {
		return nil
	}
	return errUnsure
}

var errUnsure = errors.New("the database does not answer, so that another may have become the owner")

// end stops the signs of life; the store is still held.
func (l *life) end() {
	l.stop()
	<-l.ended
}

// hangUp closes a connection that may be broken.
func hangUp(c *pgx.Conn) {
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.Close(ctx) //nolint:errcheck // it is of no use any more
}
