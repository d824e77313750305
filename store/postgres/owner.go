package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headrace/headrace/queue"
)

// Lapse is how long an owner may give no sign of life before others may take its store. Who waits for that measures by
// its own clock, so that a server's clock that steps makes nobody an heir.
const Lapse = 2 * time.Second

// Times of the owner's dealings with the server.
const (
	beatEvery = Lapse / 4
	lookEvery = Lapse / 20
	// goneIn is how long a backend that was told to end may take.
	goneIn = 5 * time.Second
	// stalled is how long the server may hold a transaction whose client says nothing.
	stalled = 5 * time.Second
)

// notOwner is the error of headrace.own.
const notOwner = "HR001"

// claim is the owner's row, as seen by somebody else.
type claim struct {
	epoch   int64
	backend int32
	started time.Time
	held    queue.HeldError
	beats   int64
}

// vacant reports whether the last owner let go, or there was none.
func (c *claim) vacant() bool { return c.beats == 0 }

func readClaim(ctx context.Context, c querier) (k claim, err error) {
	const sql = `SELECT o.epoch, o.backend, o.started, o.host, o.pid, o.since, l.beats FROM headrace.owner o, headrace.life l`
	err = c.QueryRow(ctx, sql).Scan(&k.epoch, &k.backend, &k.started, &k.held.Host, &k.held.PID, &k.held.Since, &k.beats)
	return k, err
}

// taken is how the caller became the owner.
type taken struct {
	epoch int64
	began time.Time // a moment before anybody could see the owner's row
}

// take makes the caller the owner. It waits for an owner's sign of life: if there is one, the error is a *queue.HeldError; if
// there is none for Lapse, that owner's backend is ended, unless inherit, which may be nil, gives an error.
func take(ctx context.Context, c *pgx.Conn, inherit func(*queue.HeldError) error) (t taken, err error) {
	steps, err := migrations()
	if err != nil {
		return t, err
	}
	version, err := schemaVersion(ctx, c, len(steps))
	if err != nil {
		return t, err
	}
	seen := claim{}
	if version > 0 {
		if seen, err = silent(ctx, c); err != nil {
			return t, err
		}
	}
	if !seen.vacant() {
		if inherit != nil {
			if err := inherit(&seen.held); err != nil {
				return t, err
			}
		}
		if err := evict(ctx, c, seen.backend, seen.started); err != nil {
			return t, err
		}
	}
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		// Two who found the same owner dead, or none: the second finds the first.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('headrace owner'))"); err != nil {
			return err
		}
		if version, err = schemaVersion(ctx, tx, len(steps)); err != nil {
			return err
		}
		if version == 0 {
			if err := migrate(ctx, tx, steps); err != nil {
				return err
			}
		}
		now, err := readClaim(ctx, tx)
		if err != nil {
			return err
		}
		if now.epoch != seen.epoch || now.beats != seen.beats {
			return &now.held
		}
		// The owner's row first: one that still commits, as on a new connection after its backend was ended, is waited for here, and finds
		// its epoch over from then on. Steps lock whole tables: with those taken before, each would wait for the other.
		if t.epoch, err = raise(ctx, tx); err != nil {
			return err
		}
		err = migrate(ctx, tx, steps)
		// Not sooner: what was waited for above would count as this owner's own silence, and nobody sees its row before the end.
		t.began = time.Now()
		return err
	})
	return t, err
}

// Holder tells who owns the store in the database at address; nil if nobody does, or its backend is gone. Where there is no
// store the error is ErrNoStore.
func Holder(ctx context.Context, address string) (*queue.HeldError, error) {
	r, err := OpenReadOnly(ctx, address)
	if err != nil {
		return nil, err
	}
	defer r.pool.Close()
	k, err := readClaim(ctx, r.pool)
	if err != nil || k.vacant() {
		return nil, err
	}
	var lives bool
	const sql = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2)"
	if err := r.pool.QueryRow(ctx, sql, k.backend, k.started).Scan(&lives); err != nil || !lives {
		return nil, err
	}
	return &k.held, nil
}

// raise writes the caller into the owner's row.
func raise(ctx context.Context, tx pgx.Tx) (epoch int64, err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	const sql = `UPDATE headrace.owner SET epoch = epoch + 1, host = $1, pid = $2, since = clock_timestamp(), (backend, started) =
		(SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()) RETURNING epoch`
	if err := tx.QueryRow(ctx, sql, host, os.Getpid()).Scan(&epoch); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, "UPDATE headrace.life SET epoch = $1, beats = 1", epoch)
	return epoch, err
}

// silent waits until it is sure that the store has no owner that gives a sign of life.
func silent(ctx context.Context, c *pgx.Conn) (claim, error) {
	first, err := readClaim(ctx, c)
	if err != nil || first.vacant() {
		return first, err
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < Lapse; {
		select {
		case <-ctx.Done():
			return claim{}, ctx.Err()
		case <-tick.C:
		}
		now, err := readClaim(ctx, c)
		switch {
		case err != nil:
			return claim{}, err
		case now.vacant():
			return now, nil
		case now.epoch != first.epoch || now.beats != first.beats:
			return claim{}, &now.held
		}
	}
	return first, nil
}

// evict ends a backend and waits until it is gone, whatever it was doing.
func evict(ctx context.Context, c querier, backend int32, started time.Time) error {
	const sql = `SELECT coalesce(bool_and(pg_terminate_backend(pid, $3)), true) FROM pg_stat_activity
		WHERE pid = $1 AND backend_start = $2 AND pid <> pg_backend_pid()`
	var gone bool
	if err := c.QueryRow(ctx, sql, backend, started, goneIn.Milliseconds()).Scan(&gone); err != nil {
		return fmt.Errorf("end the last owner's backend %d: %w", backend, err)
	}
	if !gone {
		return fmt.Errorf("the last owner's backend %d does not end", backend)
	}
	return nil
}

// reclaim goes on as the owner of an epoch on another connection, after the last one failed. What that may still be doing
// is over then. If another has become the owner, the error is queue.ErrFenced.
func reclaim(ctx context.Context, c *pgx.Conn, epoch int64) error {
	now, err := readClaim(ctx, c)
	if err != nil {
		return err
	}
	if now.epoch != epoch {
		return queue.ErrFenced
	}
	if err := evict(ctx, c, now.backend, now.started); err != nil {
		return err
	}
	const sql = `UPDATE headrace.owner SET (backend, started) =
		(SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()) WHERE epoch = $1`
	tag, err := c.Exec(ctx, sql, epoch)
	if err == nil && tag.RowsAffected() == 0 {
		err = queue.ErrFenced
	}
	return err
}

// fenced gives queue.ErrFenced for the server's refusal of an epoch.
func fenced(err error) error {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == notOwner {
		return fmt.Errorf("%s: %w", refusal.Message, queue.ErrFenced)
	}
	return err
}
