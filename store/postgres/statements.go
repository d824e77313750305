package postgres

import (
	"fmt"
	"regexp"

	"github.com/headrace/headrace/store/rows"
)

// statement is one of package rows in this store's SQL. Its parameters are arrays, one a column, so that it runs once for
// all rows; a question for each key gives the number of the key, from 1, before its columns.
type statement struct {
	name  string
	sql   string
	types []uint32 // of the arrays' elements
}

// recordColumns are what rows.Record reads: of job j, live l, ended e and sealed s. The newest attempt that ended before its
// job is looked for by itself where one counts: few jobs have one, and none that has no tally.
const recordColumns = `j.seq, j.id, j.at, j.channel, j.kind, j.name, j.key, j.spec,
	l.state, l.wake, l.delay, l.attempt, l.held, l.open, coalesce(l.tally, e.tally), coalesce(l.own, e.own),
	e.body, e.attempt, CASE WHEN coalesce(l.tally, e.tally) IS NOT NULL AND l.attempt IS NULL AND e.attempt IS NULL
	THEN (SELECT body FROM headrace.attempt WHERE seq = j.seq ORDER BY number DESC LIMIT 1) END, e.outcome,
	CASE WHEN s.id IS NULL THEN j.staging END`

// sealed is the build that the job was made for, once it is complete.
const sealed = ` LEFT JOIN headrace.build s ON s.id = j.staging AND NOT s.staged`

const buildColumns = `b.seq, b.id, b.at, b.priority, b.active, b.staged, b.outcome, b.ended, b.body`

const (
	liveRows = `unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[], $6::bytea[], $7::boolean[], $8::boolean[], $9::bigint[])
		AS v (state, wake, delay, attempt, tally, own, held, open, seq)`
	seqKeys  = `unnest($1::bigint[]) WITH ORDINALITY AS k (seq, n)`
	idKeys   = `unnest($1::uuid[]) WITH ORDINALITY AS k (id, n)`
	nameKeys = `unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k`
)

var statements = [rows.Count]statement{
	rows.AddJob: {sql: `INSERT INTO headrace.job (seq, id, at, channel, kind, name, key, spec, args, staging)
		SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::bytea[], $10::uuid[])`},
	rows.AddEdge: {sql: `INSERT INTO headrace.edge (dep, dependent) SELECT * FROM unnest($1::uuid[], $2::bigint[]) ON CONFLICT DO NOTHING`},
	rows.AddLive: {sql: `INSERT INTO headrace.live (state, wake, delay, attempt, tally, own, held, open, seq) SELECT * FROM ` + liveRows},
	rows.PutLive: {sql: `UPDATE headrace.live l SET state = v.state, wake = v.wake, delay = v.delay, attempt = v.attempt, tally = v.tally,
		own = v.own, held = v.held, open = v.open FROM ` + liveRows + ` WHERE l.seq = v.seq`},
	rows.DropLive: {sql: `DELETE FROM headrace.live WHERE seq = ANY($1::bigint[])`},
	rows.AddEnded: {sql: `INSERT INTO headrace.ended (seq, outcome, body, attempt, tally, own, worker)
		SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[], $7::text[])`},
	rows.PutAttempt: {sql: `INSERT INTO headrace.attempt (seq, number, body, result)
		SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[])
		ON CONFLICT (seq, number) DO UPDATE SET body = excluded.body, result = excluded.result`},
	rows.PutProgress: {sql: `INSERT INTO headrace.result (seq, job, same) SELECT *, false FROM unnest($1::bigint[], $2::bytea[])
		ON CONFLICT (seq) DO UPDATE SET job = excluded.job`},
	rows.PutResult: {sql: `INSERT INTO headrace.result AS r (seq, job, attempt, same)
		SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::boolean[])
		ON CONFLICT (seq) DO UPDATE SET job = coalesce(excluded.job, r.job), attempt = excluded.attempt, same = excluded.same`},
	rows.AddResult: {sql: `INSERT INTO headrace.result (seq, job, attempt, same)
		SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::boolean[])`},
	rows.AddBuild: {sql: `INSERT INTO headrace.build (seq, id, at, name, priority, active, staged, outcome, ended, body)
		SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::bigint[], $6::boolean[], $7::boolean[], $8::bigint[], $9::bigint[], $10::bytea[])`},
	rows.PutBuild: {sql: `UPDATE headrace.build b SET priority = v.priority, active = v.active, staged = v.staged, outcome = v.outcome, ended = v.ended
		FROM unnest($1::bigint[], $2::boolean[], $3::boolean[], $4::bigint[], $5::bigint[], $6::bigint[])
		AS v (priority, active, staged, outcome, ended, seq) WHERE b.seq = v.seq`},
	rows.PutRef: {sql: `INSERT INTO headrace.build_ref AS r (build, job, place, awaited, optional, priority, timeout, silence, ended)
		SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::boolean[], $5::boolean[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
		ON CONFLICT (build, job) DO UPDATE SET
		awaited = (r.awaited OR excluded.awaited) AND (r.awaited OR r.optional) AND (excluded.awaited OR excluded.optional),
		optional = r.optional AND excluded.optional, priority = excluded.priority, timeout = excluded.timeout,
		silence = excluded.silence, ended = CASE r.ended WHEN 0 THEN excluded.ended ELSE r.ended END`},
	rows.PutChannel: {sql: `INSERT INTO headrace.channel SELECT * FROM unnest($1::text[], $2::bytea[])
		ON CONFLICT (name) DO UPDATE SET body = excluded.body`},
	rows.PutWorker: {sql: `INSERT INTO headrace.worker SELECT * FROM unnest($1::text[], $2::bytea[])
		ON CONFLICT (name) DO UPDATE SET body = excluded.body`},
	rows.DropWorker: {sql: `DELETE FROM headrace.worker WHERE name = ANY($1::text[])`},
	rows.PutClass: {sql: `INSERT INTO headrace.class SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[])
		ON CONFLICT (channel, kind, system, features, pin) DO UPDATE SET since = excluded.since`},
	rows.DropClass: {sql: `DELETE FROM headrace.class c USING unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
		AS k (channel, kind, system, features, pin) WHERE c.channel = k.channel AND c.kind = k.kind AND c.system = k.system
		AND c.features = k.features AND c.pin = k.pin`},
	rows.PutSetting: {sql: `INSERT INTO headrace.setting SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[])
		ON CONFLICT (space, name) DO UPDATE SET body = excluded.body`},
	rows.DropSetting: {sql: `DELETE FROM headrace.setting s USING unnest($1::text[], $2::text[]) AS k (space, name)
		WHERE s.space = k.space AND s.name = k.name`},
	// Usage and learned durations are added anew, and the row that was there is taken out by its whole key: a search for it
	// would pass all that were there before, for as long as somebody can still see them.
	rows.PutUsage: {sql: `WITH k AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
		AS k (slice, channel, grp, used, first, last, round)), gone AS (DELETE FROM headrace.usage u USING k
		WHERE u.slice = k.slice AND u.channel = k.channel AND u.grp = k.grp AND u.round BETWEEN k.first AND k.last)
		INSERT INTO headrace.usage (slice, channel, grp, used, round) SELECT slice, channel, grp, used, round FROM k
		ON CONFLICT (slice, channel, grp, round) DO UPDATE SET used = excluded.used`},
	rows.PutTook: {sql: `WITH k AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
		AS k (channel, kind, name, took, count, before)), gone AS (DELETE FROM headrace.took t USING k
		WHERE t.channel = k.channel AND t.kind = k.kind AND t.name = k.name AND t.count = k.before)
		INSERT INTO headrace.took (channel, kind, name, took, count) SELECT channel, kind, name, took, count FROM k
		ON CONFLICT (channel, kind, name, count) DO UPDATE SET took = excluded.took`},
	rows.PutFailure: {sql: `INSERT INTO headrace.cached_failure SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[])
		ON CONFLICT (channel, kind, key) DO UPDATE SET body = excluded.body`},
	rows.DropFailure: {sql: `DELETE FROM headrace.cached_failure f USING unnest($1::text[], $2::text[], $3::text[]) AS k (channel, kind, key)
		WHERE f.channel = k.channel AND f.kind = k.kind AND f.key = k.key`},

	rows.DropEdge: {sql: `DELETE FROM headrace.edge e USING unnest($1::uuid[], $2::bigint[]) AS k (dep, dependent)
		WHERE e.dep = k.dep AND e.dependent = k.dependent`},
	rows.DropEnded:    {sql: `DELETE FROM headrace.ended WHERE seq = ANY($1::bigint[])`},
	rows.DropAttempts: {sql: `DELETE FROM headrace.attempt WHERE seq = ANY($1::bigint[])`},
	rows.DropResult:   {sql: `DELETE FROM headrace.result WHERE seq = ANY($1::bigint[])`},
	rows.DropJob:      {sql: `DELETE FROM headrace.job WHERE seq = ANY($1::bigint[])`},
	rows.DropRefsTo:   {sql: `DELETE FROM headrace.build_ref WHERE job = ANY($1::uuid[])`},
	rows.EndRefsTo: {sql: `UPDATE headrace.build_ref r SET ended = k.outcome FROM unnest($1::bigint[], $2::uuid[]) AS k (outcome, job)
		WHERE r.job = k.job`},
	rows.DropRefs:  {sql: `DELETE FROM headrace.build_ref WHERE build = ANY($1::bigint[])`},
	rows.DropBuild: {sql: `DELETE FROM headrace.build WHERE seq = ANY($1::bigint[])`},

	// The row of the head is that of the newest round.
	rows.AddRound: {sql: `INSERT INTO headrace.feed (number, at, changes, seq, dropped)
		SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[])`},
	rows.AddAnswer: {sql: `INSERT INTO headrace.answer (request, at, reply) SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[])
		ON CONFLICT (request) DO NOTHING`},
	rows.DropRounds:  {sql: `DELETE FROM headrace.feed f USING unnest($1::bigint[], $2::bigint[]) AS k (number, after) WHERE f.number <= k.number AND f.number > k.after`},
	rows.DropAnswers: {sql: `DELETE FROM headrace.answer a USING unnest($1::bigint[], $2::bigint[]) AS k (place, after) WHERE a.place <= k.place AND a.place > k.after`},
	rows.DropUsage:   {sql: `DELETE FROM headrace.usage u USING unnest($1::bigint[], $2::bigint[]) AS k (slice, first) WHERE u.slice < k.slice AND u.slice >= k.first`},

	rows.GetHead: {sql: `SELECT number, at, seq, dropped FROM headrace.feed ORDER BY number DESC LIMIT 1`},
	rows.GetLive: {sql: `SELECT k.n, l.state, l.wake, l.delay, l.attempt, l.tally, l.own, l.held, l.open
		FROM ` + seqKeys + ` JOIN headrace.live l ON l.seq = k.seq ORDER BY k.n`},
	rows.GetBuild: {sql: `SELECT k.n, b.seq, b.priority, b.active, b.staged, b.outcome, b.ended
		FROM ` + idKeys + ` JOIN headrace.build b ON b.id = k.id ORDER BY k.n`},
	rows.HasJob: {sql: `SELECT k.n FROM ` + idKeys + ` JOIN headrace.job j ON j.id = k.id ORDER BY k.n`},
	rows.GetDropped: {sql: `SELECT k.n, j.seq, j.spec, coalesce(e.outcome, 0) FROM ` + idKeys + ` JOIN headrace.job j ON j.id = k.id
		LEFT JOIN headrace.ended e ON e.seq = j.seq ORDER BY k.n`},
	rows.OldRounds: {sql: `SELECT k.n, f.number, f.at FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS k (most, after, n)
		CROSS JOIN LATERAL (SELECT number, at FROM headrace.feed WHERE number > k.after ORDER BY number LIMIT k.most) f ORDER BY f.number`},
	rows.OldAnswers: {sql: `SELECT k.n, a.place, a.at FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS k (most, after, n)
		CROSS JOIN LATERAL (SELECT place, at FROM headrace.answer WHERE place > k.after ORDER BY place LIMIT k.most) a ORDER BY a.place`},

	rows.Channels: {sql: `SELECT name, body FROM headrace.channel ORDER BY name`},
	rows.Classes:  {sql: `SELECT channel, kind, system, features, pin, since FROM headrace.class ORDER BY channel, kind, system, features, pin`},
	rows.Workers:  {sql: `SELECT name, body FROM headrace.worker ORDER BY name`},
	rows.Settings: {sql: `SELECT space, name, body FROM headrace.setting ORDER BY space, name`},
	rows.Usage: {sql: `SELECT DISTINCT ON (u.slice, u.channel, u.grp) k.n, u.slice, u.channel, u.grp, u.used
		FROM unnest($1::bigint[]) WITH ORDINALITY AS k (slice, n) JOIN headrace.usage u ON u.slice >= k.slice
		ORDER BY u.slice, u.channel, u.grp, u.round DESC`},
	rows.LiveBuilds: {sql: `SELECT ` + buildColumns + ` FROM headrace.build b WHERE outcome = 0 ORDER BY seq`},
	rows.LiveJobs: {sql: `SELECT ` + recordColumns + ` FROM headrace.live l JOIN headrace.job j ON j.seq = l.seq
		LEFT JOIN headrace.ended e ON e.seq = l.seq` + sealed + ` ORDER BY l.seq`},
	// The subquery keeps the server from sorting all references at once: a build's are sorted by themselves, one build after the other.
	rows.LiveRefs: {sql: `SELECT k.n, r.* FROM ` + seqKeys + ` CROSS JOIN LATERAL (SELECT job, awaited, optional, priority, timeout, silence, ended
		FROM headrace.build_ref WHERE build = k.seq ORDER BY place) r`},
	rows.JobOutcome: {sql: `SELECT k.n, coalesce(e.outcome, 0) FROM ` + idKeys + ` JOIN headrace.job j ON j.id = k.id
		LEFT JOIN headrace.ended e ON e.seq = j.seq ORDER BY k.n`},
	rows.Refs: {sql: `SELECT k.n, r.job, r.awaited, r.optional, r.priority, r.timeout, r.silence,
		CASE WHEN j.seq IS NULL THEN r.ended ELSE coalesce(e.outcome, 0) END
		FROM ` + seqKeys + ` JOIN headrace.build_ref r ON r.build = k.seq LEFT JOIN headrace.job j ON j.id = r.job
		LEFT JOIN headrace.ended e ON e.seq = j.seq ORDER BY k.n, r.place`},

	rows.SettledJob: {sql: `SELECT k.n, ` + recordColumns + ` FROM ` + idKeys + ` JOIN headrace.job j ON j.id = k.id
		JOIN headrace.ended e ON e.seq = j.seq LEFT JOIN headrace.live l ON l.seq = j.seq` + sealed + ` WHERE l.seq IS NULL ORDER BY k.n`},
	rows.LastResult: {sql: `SELECT k.n, CASE WHEN r.same THEN r.job ELSE r.attempt END
		FROM ` + seqKeys + ` JOIN headrace.result r ON r.seq = k.seq ORDER BY k.n`},
	rows.AttemptEnd: {sql: `SELECT k.n, a.body FROM unnest($1::uuid[], $2::bigint[]) WITH ORDINALITY AS k (id, number, n)
		JOIN headrace.job j ON j.id = k.id JOIN headrace.attempt a ON a.seq = j.seq AND a.number = k.number ORDER BY k.n`},
	rows.AttemptResult: {sql: `SELECT k.n, a.result FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS k (seq, number, n)
		JOIN headrace.attempt a ON a.seq = k.seq AND a.number = k.number ORDER BY k.n`},
	rows.Kept: {sql: `SELECT k.n, f.id, f.spec FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
		WITH ORDINALITY AS k (key, kind, channel, outcome, most, n)
		CROSS JOIN LATERAL (SELECT j.id, j.spec, j.seq FROM headrace.job j JOIN headrace.ended e ON e.seq = j.seq
		WHERE j.key = k.key AND j.kind = k.kind AND j.channel = k.channel AND e.outcome = k.outcome ORDER BY j.seq DESC LIMIT k.most) f
		ORDER BY k.n, f.seq DESC`},
	rows.Failure: {sql: `SELECT k.n, f.body FROM ` + nameKeys + ` (channel, kind, key, n) JOIN headrace.cached_failure f
		ON f.channel = k.channel AND f.kind = k.kind AND f.key = k.key ORDER BY k.n`},
	rows.Failures: {sql: `SELECT k.n, f.channel, f.kind, f.key, f.body
		FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY AS k (channel, kind, key, most, n)
		CROSS JOIN LATERAL (SELECT channel, kind, key, body FROM headrace.cached_failure c
		WHERE (c.channel, c.kind, c.key) > (k.channel, k.kind, k.key) ORDER BY c.channel, c.kind, c.key LIMIT k.most) f
		ORDER BY f.channel, f.kind, f.key`},
	rows.Took: {sql: `SELECT k.n, f.took, f.count FROM ` + nameKeys + ` (channel, kind, name, n)
		CROSS JOIN LATERAL (SELECT took, count FROM headrace.took t
		WHERE t.channel = k.channel AND t.kind = k.kind AND t.name = k.name ORDER BY t.count DESC LIMIT 1) f ORDER BY k.n`},
	rows.EndedBuild: {sql: `SELECT k.n, ` + buildColumns + ` FROM ` + idKeys + ` JOIN headrace.build b ON b.id = k.id WHERE b.outcome > 0 ORDER BY k.n`},
	rows.GetAnswer:  {sql: `SELECT k.n, a.reply FROM ` + idKeys + ` JOIN headrace.answer a ON a.request = k.id ORDER BY k.n`},
	rows.Feed: {sql: `SELECT k.n, f.number, f.at, f.changes FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS k (after, most, n)
		CROSS JOIN LATERAL (SELECT number, at, changes FROM headrace.feed WHERE number > k.after ORDER BY number LIMIT k.most) f ORDER BY f.number`},

	rows.Attempts: {sql: `SELECT k.n, a.body, a.result FROM ` + idKeys + ` JOIN headrace.job j ON j.id = k.id
		JOIN headrace.attempt a ON a.seq = j.seq ORDER BY k.n, a.number`},
	rows.EndedAttempt: {sql: `SELECT k.n, e.attempt, CASE WHEN r.same THEN r.job ELSE r.attempt END
		FROM ` + idKeys + ` JOIN headrace.job j ON j.id = k.id JOIN headrace.ended e ON e.seq = j.seq
		LEFT JOIN headrace.result r ON r.seq = j.seq WHERE e.attempt IS NOT NULL ORDER BY k.n`},
	rows.Payload: {sql: `SELECT k.n, j.args, r.job FROM ` + idKeys + ` JOIN headrace.job j ON j.id = k.id
		LEFT JOIN headrace.result r ON r.seq = j.seq ORDER BY k.n`},
	rows.Dependents: {sql: `SELECT k.n, j.id FROM ` + idKeys + ` JOIN headrace.edge d ON d.dep = k.id
		JOIN headrace.job j ON j.seq = d.dependent ORDER BY k.n, d.dependent`},

	// A row of the feed without changes only says where the store stands.
	rows.AllChannels: {sql: `SELECT name, body FROM headrace.channel`},
	rows.AllWorkers:  {sql: `SELECT name, body FROM headrace.worker`},
	rows.AllClasses:  {sql: `SELECT channel, kind, system, features, pin, since FROM headrace.class`},
	rows.AllSettings: {sql: `SELECT space, name, body FROM headrace.setting`},
	rows.AllUsage:    {sql: `SELECT DISTINCT ON (slice, channel, grp) slice, channel, grp, used FROM headrace.usage ORDER BY slice, channel, grp, round DESC`},
	rows.AllTook:     {sql: `SELECT DISTINCT ON (channel, kind, name) channel, kind, name, took, count FROM headrace.took ORDER BY channel, kind, name, count DESC`},
	rows.AllFailures: {sql: `SELECT channel, kind, key, body FROM headrace.cached_failure`},
	rows.AllBuilds:   {sql: `SELECT seq, id, at, name, priority, active, staged, outcome, ended, body FROM headrace.build ORDER BY seq`},
	rows.AllJobs:     {sql: `SELECT seq, id, at, channel, kind, name, key, spec, args, staging FROM headrace.job ORDER BY seq`},
	rows.AllEdges:    {sql: `SELECT dep, dependent FROM headrace.edge ORDER BY dep, dependent`},
	rows.AllRefs:     {sql: `SELECT build, job, place, awaited, optional, priority, timeout, silence, ended FROM headrace.build_ref ORDER BY build, job`},
	rows.AllLive:     {sql: `SELECT state, wake, delay, attempt, tally, own, held, open, seq FROM headrace.live ORDER BY seq`},
	rows.AllEnded:    {sql: `SELECT seq, outcome, body, attempt, tally, own FROM headrace.ended ORDER BY seq`},
	rows.AllAttempts: {sql: `SELECT seq, number, body, result FROM headrace.attempt ORDER BY seq, number`},
	rows.AllResults:  {sql: `SELECT seq, job, attempt, same FROM headrace.result ORDER BY seq`},
	rows.AllRounds:   {sql: `SELECT number, at, changes FROM headrace.feed WHERE number > 0 AND changes <> '' ORDER BY number`},
	rows.AllAnswers:  {sql: `SELECT request, at, reply FROM headrace.answer ORDER BY place`},
}

var arrays = regexp.MustCompile(`\$\d+::(\w+)\[\]`)

// Each statement gets a name, and the types of its parameters as its text states them, in order.
func init() {
	numbers := map[string]uint32{"boolean": oidBool, "bytea": oidBytea, "bigint": oidInt8, "text": oidText, "uuid": oidUUID}
	for q := range statements {
		s := &statements[q]
		s.name = fmt.Sprintf("rows_%d", q)
		for _, m := range arrays.FindAllStringSubmatch(s.sql, -1) {
			s.types = append(s.types, numbers[m[1]])
		}
	}
}
