-- Where the store stands. One row.
CREATE TABLE head (
	one     INTEGER PRIMARY KEY CHECK (one = 1),
	number  INTEGER NOT NULL, -- of the last batch
	at      INTEGER NOT NULL, -- its moment
	seq     INTEGER NOT NULL, -- greatest ever given
	dropped INTEGER NOT NULL  -- newest round that the feed has lost
) STRICT;

INSERT INTO head VALUES (1, 0, 0, 0, 0);

-- What never changes of a job. The columns before spec are left out of it.
CREATE TABLE job (
	seq     INTEGER PRIMARY KEY,
	id      BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
	at      INTEGER NOT NULL,
	channel TEXT NOT NULL,
	kind    TEXT NOT NULL,
	name    TEXT NOT NULL,
	key     TEXT CHECK (key <> ''), -- null: shares its identity with no other
	spec    BLOB NOT NULL,
	args    BLOB
) STRICT;

CREATE INDEX job_key ON job (key) WHERE key IS NOT NULL;

-- A job that the engine has in memory.
CREATE TABLE live (
	seq     INTEGER PRIMARY KEY,
	state   INTEGER NOT NULL CHECK (state BETWEEN 0 AND 3), -- blocked, ready, running, done
	wake    INTEGER NOT NULL,
	delay   INTEGER NOT NULL,
	attempt BLOB, -- that is running, with its token
	tally   BLOB,
	own     BLOB,
	held    INTEGER NOT NULL CHECK (held IN (0, 1)),
	open    INTEGER NOT NULL CHECK (open IN (0, 1)),
	CHECK ((state = 2) = (attempt IS NOT NULL)),
	CHECK ((state = 3) = (held OR open))
) STRICT;

-- How a job ended, and what it leaves of its live row.
CREATE TABLE ended (
	seq     INTEGER PRIMARY KEY,
	outcome INTEGER NOT NULL CHECK (outcome > 0),
	body    BLOB NOT NULL,
	attempt BLOB, -- that ended with the job, with its token
	tally   BLOB,
	own     BLOB
) STRICT;

-- Attempts that ended before their job.
CREATE TABLE attempt (
	seq    INTEGER NOT NULL,
	number INTEGER NOT NULL,
	body   BLOB NOT NULL,
	result BLOB,
	PRIMARY KEY (seq, number)
) STRICT, WITHOUT ROWID;

-- The job's result, and that of the attempt that ended with it unless it is the same.
CREATE TABLE result (
	seq     INTEGER PRIMARY KEY,
	job     BLOB,
	attempt BLOB,
	same    INTEGER NOT NULL CHECK (same IN (0, 1)),
	CHECK (NOT same OR attempt IS NULL)
) STRICT;

-- Who names whom as a dependency. The dependency may be unknown.
CREATE TABLE edge (
	dep       BLOB NOT NULL,
	dependent INTEGER NOT NULL,
	PRIMARY KEY (dep, dependent)
) STRICT, WITHOUT ROWID;

CREATE TABLE build (
	seq      INTEGER PRIMARY KEY,
	id       BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
	at       INTEGER NOT NULL,
	name     TEXT NOT NULL,
	priority INTEGER NOT NULL,
	active   INTEGER NOT NULL CHECK (active IN (0, 1)),
	staged   INTEGER NOT NULL CHECK (staged IN (0, 1)),
	outcome  INTEGER NOT NULL, -- 0: live
	ended    INTEGER NOT NULL,
	body     BLOB NOT NULL,
	CHECK (outcome > 0 OR ended = 0)
) STRICT;

CREATE TABLE build_ref (
	build    INTEGER NOT NULL,
	job      BLOB NOT NULL,
	place    INTEGER NOT NULL, -- order in which references were made
	awaited  INTEGER NOT NULL CHECK (awaited IN (0, 1)),
	optional INTEGER NOT NULL CHECK (optional IN (0, 1)),
	priority INTEGER NOT NULL,
	timeout  INTEGER NOT NULL,
	silence  INTEGER NOT NULL,
	ended    INTEGER NOT NULL, -- how the job had ended when the reference was made, or when it was deleted
	PRIMARY KEY (build, job)
) STRICT, WITHOUT ROWID;

CREATE TABLE channel (name TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE worker (name TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE class (
	channel  TEXT NOT NULL,
	kind     TEXT NOT NULL,
	system   TEXT NOT NULL,
	features TEXT NOT NULL,
	pin      TEXT NOT NULL,
	since    INTEGER NOT NULL,
	PRIMARY KEY (channel, kind, system, features, pin)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
	slice   INTEGER NOT NULL,
	channel TEXT NOT NULL,
	grp     TEXT NOT NULL,
	used    INTEGER NOT NULL,
	PRIMARY KEY (slice, channel, grp)
) STRICT, WITHOUT ROWID;

CREATE TABLE cached_failure (
	channel TEXT NOT NULL,
	kind    TEXT NOT NULL,
	key     TEXT NOT NULL,
	body    BLOB NOT NULL,
	PRIMARY KEY (channel, kind, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE took (
	channel TEXT NOT NULL,
	kind    TEXT NOT NULL,
	name    TEXT NOT NULL,
	took    INTEGER NOT NULL,
	count   INTEGER NOT NULL,
	PRIMARY KEY (channel, kind, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE answer (
	place   INTEGER PRIMARY KEY, -- order in which they came
	request BLOB NOT NULL UNIQUE,
	at      INTEGER NOT NULL,
	reply   BLOB NOT NULL
) STRICT;

CREATE TABLE feed (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, changes BLOB NOT NULL) STRICT;
