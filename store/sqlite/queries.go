package sqlite

import "github.com/headrace/headrace/store/rows"

// What this store runs beside the statements of package rows.
const (
	qBegin = rows.Count + iota
	qBeginRead
	qCommit
	qRollback
	qBuildSize
	qJobsNamed
	qBuildsNamed
	qJobAfter
	qBuildAfter

	statements
)

// recordColumns are what rows.Record reads: of job j, live l and ended e. The newest attempt that ended before
// its job is looked for by itself, since few jobs have one.
const recordColumns = `j.seq, j.id, j.at, j.channel, j.kind, j.name, j.key, j.spec,
	l.state, l.wake, l.delay, l.attempt, l.held, l.open, coalesce(l.tally, e.tally), coalesce(l.own, e.own),
	e.body, e.attempt, (SELECT body FROM attempt WHERE seq = j.seq ORDER BY number DESC LIMIT 1),
	e.outcome, CASE WHEN NOT EXISTS (SELECT 1 FROM build WHERE id = j.staging AND staged = 0) THEN j.staging END`

const buildColumns = `b.seq, b.id, b.at, b.priority, b.active, b.staged, b.outcome, b.ended, b.body`

const refColumns = `r.job, r.awaited, r.optional, r.priority, r.timeout, r.silence,
	CASE WHEN j.seq IS NULL THEN r.ended ELSE coalesce(e.outcome, 0) END
	FROM build_ref r LEFT JOIN job j ON j.id = r.job LEFT JOIN ended e ON e.seq = j.seq
	WHERE r.build = ? ORDER BY r.place`

var queries = [statements]string{
	qBegin:     `BEGIN IMMEDIATE`,
	qBeginRead: `BEGIN`,
	qCommit:    `COMMIT`,
	qRollback:  `ROLLBACK`,
	// It counts no further than asked.
	qBuildSize: `SELECT count(*) FROM (SELECT 1 FROM build b JOIN build_ref r ON r.build = b.seq WHERE b.id = ?1 LIMIT ?2)`,
	// So do these, of the names that begin in one way.
	qJobsNamed:   `SELECT count(*) FROM (SELECT 1 FROM job WHERE name >= ?1 AND name < ?2 AND name <> '' LIMIT ?3)`,
	qBuildsNamed: `SELECT count(*) FROM (SELECT 1 FROM build WHERE name >= ?1 AND name < ?2 AND name <> '' LIMIT ?3)`,
	qJobAfter:    `SELECT seq, at FROM job WHERE seq >= ? ORDER BY seq LIMIT 1`,
	qBuildAfter:  `SELECT seq, at FROM build WHERE seq >= ? ORDER BY seq LIMIT 1`,

	rows.GetHead:     `SELECT number, at, seq, dropped FROM head`,
	rows.PutHead:     `UPDATE head SET number = ?, at = ?, seq = ?, dropped = ?`,
	rows.AddRound:    `INSERT INTO feed (number, at, changes) VALUES (?, ?, ?)`,
	rows.OldRounds:   `SELECT number, at FROM feed ORDER BY number LIMIT ?`,
	rows.DropRounds:  `DELETE FROM feed WHERE number <= ?`,
	rows.AddAnswer:   `INSERT INTO answer (request, at, reply) VALUES (?, ?, ?) ON CONFLICT (request) DO NOTHING`,
	rows.OldAnswers:  `SELECT place, at FROM answer ORDER BY place LIMIT ?`,
	rows.DropAnswers: `DELETE FROM answer WHERE place <= ?`,
	rows.DropUsage:   `DELETE FROM usage WHERE slice < ?`,

	rows.AddJob: `INSERT INTO job (seq, id, at, channel, kind, name, key, spec, args, staging)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	rows.AddEdge: `INSERT INTO edge (dep, dependent) VALUES (?, ?) ON CONFLICT DO NOTHING`,
	rows.AddLive: `INSERT INTO live (state, wake, delay, attempt, tally, own, held, open, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	rows.GetLive: `SELECT state, wake, delay, attempt, tally, own, held, open FROM live WHERE seq = ?`,
	rows.PutLive: `UPDATE live SET state = ?, wake = ?, delay = ?, attempt = ?, tally = ?, own = ?, held = ?, open = ?
		WHERE seq = ?`,
	rows.DropLive:   `DELETE FROM live WHERE seq = ?`,
	rows.AddEnded:   `INSERT INTO ended (seq, outcome, body, attempt, tally, own, worker) VALUES (?, ?, ?, ?, ?, ?, ?)`,
	rows.PutAttempt: `INSERT OR REPLACE INTO attempt (seq, number, body, result) VALUES (?, ?, ?, ?)`,
	rows.PutResult: `INSERT INTO result (seq, job, attempt, same) VALUES (?, ?, ?, ?) ON CONFLICT (seq) DO
		UPDATE SET job = coalesce(excluded.job, job), attempt = excluded.attempt, same = excluded.same`,
	rows.AddResult: `INSERT INTO result (seq, job, attempt, same) VALUES (?, ?, ?, ?)`,
	rows.PutProgress: `INSERT INTO result (seq, job, same) VALUES (?, ?, 0) ON CONFLICT (seq) DO
		UPDATE SET job = excluded.job`,
	rows.GetDropped: `SELECT j.seq, j.spec, coalesce(e.outcome, 0) FROM job j LEFT JOIN ended e ON e.seq = j.seq
		WHERE j.id = ?`,
	rows.DropJob:      `DELETE FROM job WHERE seq = ?`,
	rows.DropEnded:    `DELETE FROM ended WHERE seq = ?`,
	rows.DropAttempts: `DELETE FROM attempt WHERE seq = ?`,
	rows.DropResult:   `DELETE FROM result WHERE seq = ?`,
	rows.DropEdge:     `DELETE FROM edge WHERE dep = ? AND dependent = ?`,
	rows.DropRefsTo:   `DELETE FROM build_ref WHERE job = ?`,
	rows.EndRefsTo:    `UPDATE build_ref SET ended = ? WHERE job = ?`,

	rows.AddBuild: `INSERT INTO build (seq, id, at, name, priority, active, staged, outcome, ended, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	rows.GetBuild: `SELECT seq, priority, active, staged, outcome, ended FROM build WHERE id = ?`,
	rows.PutBuild: `UPDATE build SET priority = ?, active = ?, staged = ?, outcome = ?, ended = ? WHERE seq = ?`,
	rows.PutRef: `INSERT INTO build_ref (build, job, place, awaited, optional, priority, timeout, silence, ended)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (build, job) DO UPDATE SET
		awaited = (awaited OR excluded.awaited) AND (awaited OR optional) AND (excluded.awaited OR excluded.optional),
		optional = optional AND excluded.optional, priority = excluded.priority, timeout = excluded.timeout,
		silence = excluded.silence, ended = CASE ended WHEN 0 THEN excluded.ended ELSE ended END`,
	rows.HasJob:    `SELECT 1 FROM job WHERE id = ?`,
	rows.DropBuild: `DELETE FROM build WHERE seq = ?`,
	rows.DropRefs:  `DELETE FROM build_ref WHERE build = ?`,

	rows.PutChannel: `INSERT OR REPLACE INTO channel (name, body) VALUES (?, ?)`,
	rows.PutWorker:  `INSERT OR REPLACE INTO worker (name, body) VALUES (?, ?)`,
	rows.DropWorker: `DELETE FROM worker WHERE name = ?`,
	rows.PutClass: `INSERT OR REPLACE INTO class (channel, kind, system, features, pin, since)
		VALUES (?, ?, ?, ?, ?, ?)`,
	rows.DropClass:   `DELETE FROM class WHERE channel = ? AND kind = ? AND system = ? AND features = ? AND pin = ?`,
	rows.PutSetting:  `INSERT OR REPLACE INTO setting (space, name, body) VALUES (?, ?, ?)`,
	rows.DropSetting: `DELETE FROM setting WHERE space = ? AND name = ?`,
	rows.PutUsage:    `INSERT OR REPLACE INTO usage (slice, channel, grp, used) VALUES (?, ?, ?, ?)`,
	rows.PutTook:     `INSERT OR REPLACE INTO took (channel, kind, name, took, count) VALUES (?, ?, ?, ?, ?)`,
	rows.PutFailure:  `INSERT OR REPLACE INTO cached_failure (channel, kind, key, body) VALUES (?, ?, ?, ?)`,
	rows.DropFailure: `DELETE FROM cached_failure WHERE channel = ? AND kind = ? AND key = ?`,

	rows.Channels: `SELECT name, body FROM channel ORDER BY name`,
	rows.Classes: `SELECT channel, kind, system, features, pin, since FROM class
		ORDER BY channel, kind, system, features, pin`,
	rows.Workers:    `SELECT name, body FROM worker ORDER BY name`,
	rows.Settings:   `SELECT space, name, body FROM setting ORDER BY space, name`,
	rows.Usage:      `SELECT slice, channel, grp, used FROM usage WHERE slice >= ? ORDER BY slice, channel, grp`,
	rows.LiveBuilds: `SELECT ` + buildColumns + ` FROM build b WHERE outcome = 0 ORDER BY seq`,
	rows.LiveJobs: `SELECT ` + recordColumns + ` FROM live l CROSS JOIN job j ON j.seq = l.seq
		LEFT JOIN ended e ON e.seq = l.seq ORDER BY l.seq`,
	rows.LiveRefs: `SELECT job, awaited, optional, priority, timeout, silence, ended FROM build_ref
		WHERE build = ? ORDER BY place`,
	rows.JobOutcome: `SELECT coalesce(e.outcome, 0) FROM job j LEFT JOIN ended e ON e.seq = j.seq WHERE j.id = ?`,
	rows.Refs:       `SELECT ` + refColumns,

	rows.SettledJob: `SELECT ` + recordColumns + ` FROM job j JOIN ended e ON e.seq = j.seq
		LEFT JOIN live l ON l.seq = j.seq WHERE j.id = ? AND l.seq IS NULL`,
	rows.LastResult:    `SELECT CASE WHEN same THEN job ELSE attempt END FROM result WHERE seq = ?`,
	rows.AttemptEnd:    `SELECT a.body FROM job j JOIN attempt a ON a.seq = j.seq WHERE j.id = ? AND a.number = ?`,
	rows.AttemptResult: `SELECT result FROM attempt WHERE seq = ? AND number = ?`,
	rows.Kept: `SELECT j.id, j.spec FROM job j JOIN ended e ON e.seq = j.seq
		WHERE j.key = ? AND j.kind = ? AND j.channel = ? AND e.outcome = ? ORDER BY j.seq DESC LIMIT ?`,
	rows.Failure: `SELECT body FROM cached_failure WHERE channel = ? AND kind = ? AND key = ?`,
	rows.Failures: `SELECT channel, kind, key, body FROM cached_failure WHERE (channel, kind, key) > (?, ?, ?)
		ORDER BY channel, kind, key LIMIT ?`,
	rows.Took:       `SELECT took, count FROM took WHERE channel = ? AND kind = ? AND name = ?`,
	rows.EndedBuild: `SELECT ` + buildColumns + ` FROM build b WHERE id = ? AND outcome > 0`,
	rows.GetAnswer:  `SELECT reply FROM answer WHERE request = ?`,
	rows.Feed:       `SELECT number, at, changes FROM feed WHERE number > ? ORDER BY number LIMIT ?`,

	rows.Attempts: `SELECT a.body, a.result FROM job j JOIN attempt a ON a.seq = j.seq WHERE j.id = ?
		ORDER BY a.number`,
	rows.EndedAttempt: `SELECT e.attempt, CASE WHEN r.same THEN r.job ELSE r.attempt END
		FROM job j JOIN ended e ON e.seq = j.seq LEFT JOIN result r ON r.seq = j.seq
		WHERE j.id = ? AND e.attempt IS NOT NULL`,
	rows.Payload: `SELECT j.args, r.job FROM job j LEFT JOIN result r ON r.seq = j.seq WHERE j.id = ?`,
	rows.Dependents: `SELECT j.id FROM edge d JOIN job j ON j.seq = d.dependent WHERE d.dep = ?
		ORDER BY d.dependent`,

	rows.AllChannels: `SELECT name, body FROM channel`,
	rows.AllWorkers:  `SELECT name, body FROM worker`,
	rows.AllClasses:  `SELECT channel, kind, system, features, pin, since FROM class`,
	rows.AllSettings: `SELECT space, name, body FROM setting`,
	rows.AllUsage:    `SELECT slice, channel, grp, used FROM usage`,
	rows.AllTook:     `SELECT channel, kind, name, took, count FROM took`,
	rows.AllFailures: `SELECT channel, kind, key, body FROM cached_failure`,
	rows.AllBuilds:   `SELECT seq, id, at, name, priority, active, staged, outcome, ended, body FROM build ORDER BY seq`,
	rows.AllJobs:     `SELECT seq, id, at, channel, kind, name, key, spec, args, staging FROM job ORDER BY seq`,
	rows.AllEdges:    `SELECT dep, dependent FROM edge ORDER BY dep, dependent`,
	rows.AllRefs:     `SELECT build, job, place, awaited, optional, priority, timeout, silence, ended FROM build_ref ORDER BY build, job`,
	rows.AllLive:     `SELECT state, wake, delay, attempt, tally, own, held, open, seq FROM live ORDER BY seq`,
	rows.AllEnded:    `SELECT seq, outcome, body, attempt, tally, own FROM ended ORDER BY seq`,
	rows.AllAttempts: `SELECT seq, number, body, result FROM attempt ORDER BY seq, number`,
	rows.AllResults:  `SELECT seq, job, attempt, same FROM result ORDER BY seq`,
	rows.AllRounds:   `SELECT number, at, changes FROM feed ORDER BY number`,
	rows.AllAnswers:  `SELECT request, at, reply FROM answer ORDER BY place`,
}
