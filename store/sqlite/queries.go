package sqlite

// query names a prepared statement.
type query int

const (
	qBegin query = iota
	qBeginRead
	qCommit
	qRollback

	qHead
	qPutHead
	qAddRound
	qOldRounds
	qDropRounds
	qAddAnswer
	qOldAnswers
	qDropAnswers
	qDropUsage

	qAddJob
	qAddEdge
	qAddLive
	qLive
	qPutLive
	qDropLive
	qAddEnded
	qPutAttempt
	qPutResult
	qPutProgress
	qJobToDrop
	qDropJob
	qDropEnded
	qDropAttempts
	qDropResult
	qDropEdge
	qDropRefsTo
	qEndRefsTo

	qAddBuild
	qBuildSeq
	qAddRef
	qJobExists
	qSealBuild
	qActivateBuild
	qBumpBuild
	qEndBuild
	qDropBuild
	qDropRefs

	qPutChannel
	qPutWorker
	qDropWorker
	qPutClass
	qDropClass
	qPutUsage
	qPutTook
	qPutFailure
	qDropFailure

	qChannels
	qClasses
	qWorkers
	qUsage
	qLiveBuilds
	qLiveJobs
	qRefs

	qSettledJob
	qResult
	qAttemptResult
	qAttemptEnd
	qJobsAttempt
	qKept
	qFailure
	qTook
	qEndedBuild
	qAnswer
	qFeed

	qAttempts
	qEndedAttempt
	qPayload
	qDependents

	queryCount
)

// recordColumns are what readRecord reads: of job j, live l and ended e. The newest attempt that ended before
// its job is looked for by itself, since few jobs have one.
const recordColumns = `j.seq, j.id, j.at, j.channel, j.kind, j.name, j.key, j.spec,
	l.state, l.wake, l.delay, l.attempt, l.held, l.open, coalesce(l.tally, e.tally), coalesce(l.own, e.own),
	e.body, e.attempt, (SELECT body FROM attempt WHERE seq = j.seq ORDER BY number DESC LIMIT 1),
	e.outcome, CASE WHEN NOT EXISTS (SELECT 1 FROM build WHERE id = j.staging AND staged = 0) THEN j.staging END`

// endedAttemptColumn is where recordColumns has e.attempt.
const endedAttemptColumn = 17

const buildColumns = `b.seq, b.id, b.at, b.priority, b.active, b.staged, b.outcome, b.ended, b.body`

const refColumns = `r.job, r.awaited, r.optional, r.priority, r.timeout, r.silence,
	CASE WHEN j.seq IS NULL THEN r.ended ELSE coalesce(e.outcome, 0) END
	FROM build_ref r LEFT JOIN job j ON j.id = r.job LEFT JOIN ended e ON e.seq = j.seq
	WHERE r.build = ? ORDER BY r.place`

var queries = [queryCount]string{
	qBegin:     `BEGIN IMMEDIATE`,
	qBeginRead: `BEGIN`,
	qCommit:    `COMMIT`,
	qRollback:  `ROLLBACK`,

	qHead:        `SELECT number, at, seq, dropped FROM head`,
	qPutHead:     `UPDATE head SET number = ?, at = ?, seq = ?, dropped = ?`,
	qAddRound:    `INSERT INTO feed (number, at, changes) VALUES (?, ?, ?)`,
	qOldRounds:   `SELECT number, at FROM feed ORDER BY number LIMIT ?`,
	qDropRounds:  `DELETE FROM feed WHERE number <= ?`,
	qAddAnswer:   `INSERT INTO answer (request, at, reply) VALUES (?, ?, ?) ON CONFLICT (request) DO NOTHING`,
	qOldAnswers:  `SELECT place, at FROM answer ORDER BY place LIMIT ?`,
	qDropAnswers: `DELETE FROM answer WHERE place <= ?`,
	qDropUsage:   `DELETE FROM usage WHERE slice < ?`,

	qAddJob: `INSERT INTO job (seq, id, at, channel, kind, name, key, spec, args, staging)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	qAddEdge: `INSERT INTO edge (dep, dependent) VALUES (?, ?) ON CONFLICT DO NOTHING`,
	qAddLive: `INSERT INTO live (state, wake, delay, attempt, tally, own, held, open, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	qLive:    `SELECT state, wake, delay, attempt, tally, own, held, open FROM live WHERE seq = ?`,
	qPutLive: `UPDATE live SET state = ?, wake = ?, delay = ?, attempt = ?, tally = ?, own = ?, held = ?, open = ?
		WHERE seq = ?`,
	qDropLive:   `DELETE FROM live WHERE seq = ?`,
	qAddEnded:   `INSERT INTO ended (seq, outcome, body, attempt, tally, own) VALUES (?, ?, ?, ?, ?, ?)`,
	qPutAttempt: `INSERT OR REPLACE INTO attempt (seq, number, body, result) VALUES (?, ?, ?, ?)`,
	qPutResult: `INSERT INTO result (seq, job, attempt, same) VALUES (?, ?, ?, ?) ON CONFLICT (seq) DO
		UPDATE SET job = coalesce(excluded.job, job), attempt = excluded.attempt, same = excluded.same`,
	qPutProgress: `INSERT INTO result (seq, job, same) VALUES (?, ?, 0) ON CONFLICT (seq) DO
		UPDATE SET job = excluded.job`,
	qJobToDrop: `SELECT j.seq, j.spec, coalesce(e.outcome, 0) FROM job j LEFT JOIN ended e ON e.seq = j.seq
		WHERE j.id = ?`,
	qDropJob:      `DELETE FROM job WHERE seq = ?`,
	qDropEnded:    `DELETE FROM ended WHERE seq = ?`,
	qDropAttempts: `DELETE FROM attempt WHERE seq = ?`,
	qDropResult:   `DELETE FROM result WHERE seq = ?`,
	qDropEdge:     `DELETE FROM edge WHERE dep = ? AND dependent = ?`,
	qDropRefsTo:   `DELETE FROM build_ref WHERE job = ?`,
	qEndRefsTo:    `UPDATE build_ref SET ended = ? WHERE job = ?`,

	qAddBuild: `INSERT INTO build (seq, id, at, name, priority, active, staged, outcome, ended, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	qBuildSeq: `SELECT seq FROM build WHERE id = ?`,
	qAddRef: `INSERT INTO build_ref (build, job, place, awaited, optional, priority, timeout, silence, ended)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (build, job) DO UPDATE SET
		awaited = (awaited OR excluded.awaited) AND (awaited OR optional) AND (excluded.awaited OR excluded.optional),
		optional = optional AND excluded.optional, priority = excluded.priority, timeout = excluded.timeout,
		silence = excluded.silence, ended = CASE ended WHEN 0 THEN excluded.ended ELSE ended END`,
	qJobExists:     `SELECT 1 FROM job WHERE id = ?`,
	qSealBuild:     `UPDATE build SET staged = 0 WHERE id = ?`,
	qActivateBuild: `UPDATE build SET active = 1 WHERE id = ?`,
	qBumpBuild:     `UPDATE build SET priority = ? WHERE id = ?`,
	qEndBuild:      `UPDATE build SET outcome = ?, ended = ? WHERE id = ?`,
	qDropBuild:     `DELETE FROM build WHERE seq = ?`,
	qDropRefs:      `DELETE FROM build_ref WHERE build = ?`,

	qPutChannel: `INSERT OR REPLACE INTO channel (name, body) VALUES (?, ?)`,
	qPutWorker:  `INSERT OR REPLACE INTO worker (name, body) VALUES (?, ?)`,
	qDropWorker: `DELETE FROM worker WHERE name = ?`,
	qPutClass: `INSERT OR REPLACE INTO class (channel, kind, system, features, pin, since)
		VALUES (?, ?, ?, ?, ?, ?)`,
	qDropClass:   `DELETE FROM class WHERE channel = ? AND kind = ? AND system = ? AND features = ? AND pin = ?`,
	qPutUsage:    `INSERT OR REPLACE INTO usage (slice, channel, grp, used) VALUES (?, ?, ?, ?)`,
	qPutTook:     `INSERT OR REPLACE INTO took (channel, kind, name, took, count) VALUES (?, ?, ?, ?, ?)`,
	qPutFailure:  `INSERT OR REPLACE INTO cached_failure (channel, kind, key, body) VALUES (?, ?, ?, ?)`,
	qDropFailure: `DELETE FROM cached_failure WHERE channel = ? AND kind = ? AND key = ?`,

	qChannels: `SELECT name, body FROM channel ORDER BY name`,
	qClasses: `SELECT channel, kind, system, features, pin, since FROM class
		ORDER BY channel, kind, system, features, pin`,
	qWorkers:    `SELECT name, body FROM worker ORDER BY name`,
	qUsage:      `SELECT slice, channel, grp, used FROM usage WHERE slice >= ? ORDER BY slice, channel, grp`,
	qLiveBuilds: `SELECT ` + buildColumns + ` FROM build b WHERE outcome = 0 ORDER BY seq`,
	qLiveJobs: `SELECT ` + recordColumns + ` FROM live l CROSS JOIN job j ON j.seq = l.seq
		LEFT JOIN ended e ON e.seq = l.seq ORDER BY l.seq`,
	qRefs: `SELECT ` + refColumns,

	qSettledJob: `SELECT ` + recordColumns + ` FROM job j JOIN ended e ON e.seq = j.seq
		LEFT JOIN live l ON l.seq = j.seq WHERE j.id = ? AND l.seq IS NULL`,
	qResult:        `SELECT CASE WHEN same THEN job ELSE attempt END FROM result WHERE seq = ?`,
	qAttemptResult: `SELECT result FROM attempt WHERE seq = ? AND number = ?`,
	qAttemptEnd:    `SELECT a.body FROM job j JOIN attempt a ON a.seq = j.seq WHERE j.id = ? AND a.number = ?`,
	qJobsAttempt: `SELECT e.attempt FROM job j JOIN ended e ON e.seq = j.seq
		WHERE j.id = ? AND e.attempt IS NOT NULL`,
	qKept: `SELECT j.id, j.spec FROM job j JOIN ended e ON e.seq = j.seq
		WHERE j.key = ? AND j.kind = ? AND j.channel = ? AND e.outcome = ? ORDER BY j.seq DESC LIMIT ?`,
	qFailure:    `SELECT body FROM cached_failure WHERE channel = ? AND kind = ? AND key = ?`,
	qTook:       `SELECT took, count FROM took WHERE channel = ? AND kind = ? AND name = ?`,
	qEndedBuild: `SELECT ` + buildColumns + ` FROM build b WHERE id = ? AND outcome > 0`,
	qAnswer:     `SELECT reply FROM answer WHERE request = ?`,
	qFeed:       `SELECT number, at, changes FROM feed WHERE number > ? ORDER BY number LIMIT ?`,

	qAttempts: `SELECT a.body, a.result FROM job j JOIN attempt a ON a.seq = j.seq WHERE j.id = ?
		ORDER BY a.number`,
	qEndedAttempt: `SELECT e.attempt, CASE WHEN r.same THEN r.job ELSE r.attempt END
		FROM job j JOIN ended e ON e.seq = j.seq LEFT JOIN result r ON r.seq = j.seq
		WHERE j.id = ? AND e.attempt IS NOT NULL`,
	qPayload: `SELECT j.args, r.job FROM job j LEFT JOIN result r ON r.seq = j.seq WHERE j.id = ?`,
	qDependents: `SELECT j.id FROM edge d JOIN job j ON j.seq = d.dependent WHERE d.dep = ?
		ORDER BY d.dependent`,
}
