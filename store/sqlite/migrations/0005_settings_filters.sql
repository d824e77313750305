-- What doors keep beside jobs: a setting of a space and a name, which its body says again.
CREATE TABLE setting (
	space TEXT NOT NULL,
	name  TEXT NOT NULL,
	body  BLOB NOT NULL,
	PRIMARY KEY (space, name)
) STRICT, WITHOUT ROWID;

-- What the lists of the history ask for besides: on which worker the attempt ran that ended with its job, and how builds ended.
-- attempt_worker reads that out of the attempt, and is there for this step alone.
ALTER TABLE ended ADD COLUMN worker TEXT;

UPDATE ended SET worker = attempt_worker(attempt) WHERE attempt IS NOT NULL;

CREATE INDEX ended_worker ON ended (worker) WHERE worker IS NOT NULL;

CREATE INDEX build_outcome ON build (outcome) WHERE outcome > 1; -- neither live nor succeeded
