package postgres

import (
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// settings writes what else was gathered.
func (t *batch) settings() {
	for name, c := range t.channels {
		t.out.Queue(`INSERT INTO headrace.channel VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body`,
			escaped(name), codec.AppendChannel(nil, c))
	}
	for name, w := range t.workers {
		if w == nil {
			t.out.Queue(`DELETE FROM headrace.worker WHERE name = $1`, escaped(name))
			continue
		}
		t.out.Queue(`INSERT INTO headrace.worker VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body`,
			escaped(name), codec.AppendWorker(nil, w))
	}
	for k, since := range t.classes {
		args := []any{escaped(k.Channel), escaped(k.Kind), escaped(k.System), escaped(k.Features), escaped(k.Pin)}
		if since == 0 {
			t.out.Queue(`DELETE FROM headrace.class WHERE channel = $1 AND kind = $2 AND system = $3 AND features = $4 AND pin = $5`, args...)
			continue
		}
		t.out.Queue(`INSERT INTO headrace.class VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (channel, kind, system, features, pin) DO UPDATE SET since = excluded.since`, append(args, int64(since))...)
	}
	for k, f := range t.failures {
		args := []any{escaped(k.Channel), escaped(k.Kind), escaped(k.Key)}
		if f == nil {
			t.out.Queue(`DELETE FROM headrace.cached_failure WHERE channel = $1 AND kind = $2 AND key = $3`, args...)
			continue
		}
		t.out.Queue(`INSERT INTO headrace.cached_failure VALUES ($1, $2, $3, $4)
			ON CONFLICT (channel, kind, key) DO UPDATE SET body = excluded.body`, append(args, codec.AppendFailure(nil, f))...)
	}
	t.putUsage()
	t.lapse()
	t.putTook()
}

// putUsage adds a row a key, and takes the one before out. That is found by its whole key where this owner wrote it: a
// search below the new one would pass all that were there before, for as long as somebody can still see them.
func (t *batch) putUsage() {
	if len(t.used) == 0 {
		return
	}
	var times, used, old []int64
	var channels, groups []string
	for k, v := range t.used {
		times, used, old = append(times, k.slice), append(used, int64(v)), append(old, int64(t.usage[k]))
		channels, groups = append(channels, escaped(k.channel)), append(groups, escaped(k.group))
	}
	const from = `DELETE FROM headrace.usage u USING unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS k (slice, channel, grp, round)
		WHERE u.slice = k.slice AND u.channel = k.channel AND u.grp = k.grp AND `
	t.out.Queue(from+`u.round = k.round`, times, channels, groups, old)
	if slices.Contains(old, 0) {
		t.out.Queue(from+`k.round = 0`, times, channels, groups, old)
	}
	t.out.Queue(`INSERT INTO headrace.usage (slice, channel, grp, used, round)
		SELECT *, $5::bigint FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])`, times, channels, groups, used, int64(t.number))
}

// lapse drops the usage that no longer counts.
func (t *batch) lapse() {
	first := firstSlice(t.at)
	if first <= firstSlice(t.head.at) {
		return
	}
	t.out.Queue(`DELETE FROM headrace.usage WHERE slice < $1`, first)
	maps.DeleteFunc(t.usage, func(k usageKey, _ uint64) bool { return k.slice < first })
}

// putTook adds a row a series, and takes the one before out.
func (t *batch) putTook() {
	if len(t.took) == 0 {
		return
	}
	var channels, kinds, names []string
	var counts, before, took []int64
	for k, v := range t.took {
		channels, kinds, names = append(channels, escaped(k.Channel)), append(kinds, escaped(k.Kind)), append(names, escaped(k.Name))
		counts, before, took = append(counts, v.count), append(before, v.before), append(took, int64(v.took))
	}
	t.out.Queue(`INSERT INTO headrace.took (channel, kind, name, count, took)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])`, channels, kinds, names, counts, took)
	t.out.Queue(`DELETE FROM headrace.took t USING unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS k (channel, kind, name, count)
		WHERE t.channel = k.channel AND t.kind = k.kind AND t.name = k.name AND t.count = k.count`, channels, kinds, names, before)
}

// How many rounds and answers one commit drops at most: more than it adds, so that the rest shrinks.
const (
	roundsDropped  = 8
	answersDropped = 64
	// looksApart is the least time between two looks for what is too old, of which the first found nothing.
	looksApart = time.Minute
)

// answers writes the answers, and drops some that are too old.
func (t *batch) answers(list []queue.Answer) {
	if len(list) > 0 {
		requests, replies := make([]pgtype.UUID, len(list)), make([][]byte, len(list))
		for i, a := range list {
			requests[i], replies[i] = uuid(a.Request), append([]byte{}, a.Reply...)
		}
		t.out.Queue(`INSERT INTO headrace.answer (request, round, at, reply) SELECT request, $3, $4, reply
			FROM unnest($1::uuid[], $2::bytea[]) AS v (request, reply) ON CONFLICT (request) DO NOTHING`,
			requests, replies, int64(t.number), int64(t.at))
	}
	if !due(t.lookedAnswers, t.at) {
		return
	}
	t.lookedAnswers = t.at
	const sql = `DELETE FROM headrace.answer WHERE at < $2 AND request IN
		(SELECT request FROM headrace.answer WHERE round >= $1 ORDER BY round LIMIT $3) RETURNING round`
	t.out.Queue(sql, int64(t.answered), int64(t.at.Add(-queue.AnswerRetention)), answersDropped+2*len(list)).Query(func(rows pgx.Rows) error {
		return each(rows, nil, func(rows pgx.Rows) error {
			var round int64
			err := rows.Scan(&round)
			t.answered, t.lookedAnswers = max(t.answered, uint64(round)), 0
			return err
		})
	})
}

// due reports whether it is time to look again.
func due(looked, now job.Time) bool {
	return looked == 0 || now < looked || now >= looked.Add(looksApart)
}

// round writes the feed's row, and drops some that are too old.
func (t *batch) round(feed []byte) {
	dropped := int64(t.head.dropped)
	if !due(t.lookedRounds, t.at) {
		t.out.Queue(`INSERT INTO headrace.feed (number, at, seq, dropped, changes) VALUES ($1, $2, $3, $4, $5)`,
			int64(t.number), int64(t.at), t.head.seq, dropped, feed)
		return
	}
	t.lookedRounds = t.at
	const sql = `WITH old AS (SELECT number, at FROM headrace.feed WHERE number > $4 ORDER BY number LIMIT $7),
		gone AS (DELETE FROM headrace.feed WHERE number IN (SELECT number FROM old) AND
			number < (SELECT coalesce(min(number), $1) FROM old WHERE at >= $6) RETURNING number)
		INSERT INTO headrace.feed (number, at, seq, dropped, changes)
		SELECT $1, $2, $3, greatest($4, (SELECT max(number) FROM gone)), $5 RETURNING dropped`
	t.out.Queue(sql, int64(t.number), int64(t.at), t.head.seq, dropped, feed, int64(t.at.Add(-queue.FeedRetention)), roundsDropped).
		QueryRow(func(row pgx.Row) error {
			var now int64
			err := row.Scan(&now)
			if now > dropped {
				t.head.dropped, t.lookedRounds = uint64(now), 0
			}
			return err
		})
}
