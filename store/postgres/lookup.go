package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// head is where the store stands.
type head struct {
	number  uint64
	at      job.Time
	seq     int64
	dropped uint64
}

const headQuery = `SELECT number, at, seq, dropped FROM headrace.feed ORDER BY number DESC LIMIT 1`

func readHead(ctx context.Context, c querier) (head, error) {
	return scanHead(c.QueryRow(ctx, headQuery))
}

func scanHead(row pgx.Row) (h head, err error) {
	var number, dropped int64
	err = row.Scan(&number, (*int64)(&h.at), &h.seq, &dropped)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errors.New("the feed has no row: the store has lost its head")
	}
	h.number, h.dropped = uint64(number), uint64(dropped)
	return h, err
}

// Committed implements queue.Store. It looks as the owner, on the connection that writes: what an earlier connection was
// about is decided by then.
func (s *Store) Committed(ctx context.Context, number uint64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.look(ctx)
	if err != nil {
		return false, s.fail(fmt.Sprintf("look for batch %d", number), err)
	}
	return number <= h.number, nil
}

func (s *Store) look(ctx context.Context) (h head, err error) {
	c, err := s.writer(ctx)
	if err != nil {
		return h, err
	}
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT headrace.own($1)", s.life.epoch); err != nil {
			return err
		}
		h, err = readHead(ctx, tx)
		return err
	})
	return h, err
}

// Lookup implements queue.Store. All questions go to the server at once.
func (r *Reader) Lookup(ctx context.Context, q *queue.Query) (*queue.Found, error) {
	l := lookup{q: q, found: nothing()}
	if q.Empty() {
		return l.found, nil
	}
	err := r.moment(ctx, func(tx pgx.Tx) error {
		l = lookup{q: q, found: nothing(), ended: map[job.ID]bool{}}
		l.ask()
		if err := tx.SendBatch(ctx, &l.batch).Close(); err != nil {
			return err
		}
		// Few of the jobs that are looked up have a result that anybody reads.
		if l.results(); l.batch.Len() == 0 {
			return nil
		}
		return tx.SendBatch(ctx, &l.batch).Close()
	})
	if err != nil {
		return nil, r.fail("look up", err)
	}
	return l.found, nil
}

func nothing() *queue.Found {
	return &queue.Found{
		Facts: job.Facts{
			Jobs: map[job.ID]*job.Record{}, Kept: map[job.Identity]job.ID{}, Cached: map[job.Identity]*job.FailureCached{},
			Took: map[job.Series]time.Duration{}, Builds: map[job.ID]*job.BuildRecord{},
		},
		Answers: map[job.ID][]byte{},
	}
}

// lookup is one Lookup under way.
type lookup struct {
	q     *queue.Query
	batch pgx.Batch
	found *queue.Found
	ended map[job.ID]bool // jobs whose last attempt ended with them
}

func (l *lookup) ask() {
	if len(l.q.Jobs) > 0 {
		l.batch.Queue("SELECT "+recordColumns+`
			FROM headrace.job j JOIN headrace.ended e ON e.seq = j.seq LEFT JOIN headrace.live l ON l.seq = j.seq
			WHERE j.id = ANY($1) AND l.seq IS NULL`, uuids(l.q.Jobs)).Query(l.jobs)
	}
	if len(l.q.Builds) > 0 {
		l.batch.Queue("SELECT "+buildColumns+" FROM headrace.build b WHERE b.id = ANY($1) AND b.outcome > 0", uuids(l.q.Builds)).Query(l.builds)
	}
	if len(l.q.Requests) > 0 {
		l.batch.Queue("SELECT request, reply FROM headrace.answer WHERE request = ANY($1)", uuids(l.q.Requests)).Query(l.answers)
	}
	if len(l.q.Kept) > 0 {
		l.identities(l.q.Kept, `SELECT k.n, f.id FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k (channel, kind, key, n)
			CROSS JOIN LATERAL (SELECT j.id FROM headrace.job j JOIN headrace.ended e ON e.seq = j.seq
			WHERE j.key = k.key AND j.kind = k.kind AND j.channel = k.channel AND e.outcome = 1 ORDER BY j.seq DESC LIMIT 1) f`, l.kept)
	}
	if len(l.q.Cached) > 0 {
		l.identities(l.q.Cached, `SELECT k.n, f.body FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k (channel, kind, key, n)
			JOIN headrace.cached_failure f ON f.channel = k.channel AND f.kind = k.kind AND f.key = k.key`, l.cached)
	}
	if len(l.q.Took) > 0 {
		channels, kinds, names := series(l.q.Took)
		l.batch.Queue(tookQuery, channels, kinds, names).Query(func(rows pgx.Rows) error {
			return eachTook(rows, func(n int, v learned) { l.found.Took[l.q.Took[n]] = v.took })
		})
	}
}

// identities asks with three lists and a place in them.
func (l *lookup) identities(list []job.Identity, sql string, f func(pgx.Rows) error) {
	channels, kinds, keys := make([]string, len(list)), make([]string, len(list)), make([]string, len(list))
	for i, k := range list {
		channels[i], kinds[i], keys[i] = escaped(k.Channel), escaped(k.Kind), escaped(k.Key)
	}
	l.batch.Queue(sql, channels, kinds, keys).Query(f)
}

func (l *lookup) jobs(rows pgx.Rows) error {
	var w row
	return each(rows, nil, func(rows pgx.Rows) error {
		if err := w.scan(rows); err != nil {
			return err
		}
		if v, err := w.read(); err == nil {
			l.found.Jobs[v.Spec.ID], l.ended[v.Spec.ID] = v, w.ended != nil
		}
		return nil
	})
}

// results asks for the results of the last attempts of the jobs that were found.
func (l *lookup) results() {
	l.batch = pgx.Batch{}
	for id, r := range l.found.Jobs {
		if r.LastEnd == nil {
			continue
		}
		take := func(row pgx.Row) error {
			if err := row.Scan(&r.LastEnd.Result); !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			return nil
		}
		if l.ended[id] {
			l.batch.Queue("SELECT CASE WHEN same THEN job ELSE attempt END FROM headrace.result WHERE seq = $1", r.Seq).QueryRow(take)
		} else {
			l.batch.Queue("SELECT result FROM headrace.attempt WHERE seq = $1 AND number = $2", r.Seq, r.LastEnd.Number).QueryRow(take)
		}
	}
}

func (l *lookup) builds(rows pgx.Rows) error {
	return each(rows, nil, func(rows pgx.Rows) error {
		b, bad, err := readBuild(rows)
		if err == nil && bad == nil {
			l.found.Builds[b.Build.ID] = &b
		}
		return err
	})
}

func (l *lookup) answers(rows pgx.Rows) error {
	return each(rows, nil, func(rows pgx.Rows) error {
		var id pgtype.UUID
		var reply []byte
		err := rows.Scan(&id, &reply)
		l.found.Answers[id.Bytes] = reply
		return err
	})
}

func (l *lookup) kept(rows pgx.Rows) error {
	return each(rows, nil, func(rows pgx.Rows) error {
		var n int
		var id pgtype.UUID
		err := rows.Scan(&n, &id)
		if err == nil {
			l.found.Kept[l.q.Kept[n-1]] = id.Bytes
		}
		return err
	})
}

func (l *lookup) cached(rows pgx.Rows) error {
	return each(rows, nil, func(rows pgx.Rows) error {
		var n int
		var body []byte
		if err := rows.Scan(&n, &body); err != nil {
			return err
		}
		if v, err := codec.DecodeFailure(body); err == nil {
			l.found.Cached[l.q.Cached[n-1]] = &v
		}
		return nil
	})
}

// learned is what is known of a series of jobs.
type learned struct {
	took   time.Duration
	count  int64
	before int64 // the count of the row that it replaces
}

const tookQuery = `SELECT k.n, f.took, f.count FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k (channel, kind, name, n)
	CROSS JOIN LATERAL (SELECT took, count FROM headrace.took t
	WHERE t.channel = k.channel AND t.kind = k.kind AND t.name = k.name ORDER BY t.count DESC LIMIT 1) f`

// series gives the lists that tookQuery takes.
func series(list []job.Series) (channels, kinds, names []string) {
	for _, k := range list {
		channels, kinds, names = append(channels, escaped(k.Channel)), append(kinds, escaped(k.Kind)), append(names, escaped(k.Name))
	}
	return channels, kinds, names
}

// eachTook reads what tookQuery gives; n is the place in its lists, from 0.
func eachTook(rows pgx.Rows, f func(n int, v learned)) error {
	return each(rows, nil, func(rows pgx.Rows) error {
		var n int
		var v learned
		err := rows.Scan(&n, (*int64)(&v.took), &v.count)
		v.before = v.count
		if err == nil {
			f(n-1, v)
		}
		return err
	})
}

// Feed implements queue.Store.
func (r *Reader) Feed(ctx context.Context, after uint64, limit int) ([]queue.Round, error) {
	var rounds []queue.Round
	err := r.moment(ctx, func(tx pgx.Tx) error {
		rounds = nil
		h, err := readHead(ctx, tx)
		if err != nil {
			return err
		}
		if after < h.dropped {
			return queue.ErrFeedTruncated
		}
		const sql = `SELECT number, at, changes FROM headrace.feed WHERE number > $1 ORDER BY number LIMIT $2`
		rows, err := tx.Query(ctx, sql, int64(after), max(limit, 0))
		return each(rows, err, func(rows pgx.Rows) error {
			var v queue.Round
			var number int64
			var changes []byte
			if err := rows.Scan(&number, (*int64)(&v.At), &changes); err != nil {
				return err
			}
			v.Number = uint64(number)
			v.Changes, err = codec.DecodeChanges(changes)
			rounds = append(rounds, v)
			return err
		})
	})
	if err != nil {
		return nil, r.fail(fmt.Sprintf("read feed after %d", after), err)
	}
	return rounds, nil
}
