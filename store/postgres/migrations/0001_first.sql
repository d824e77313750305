-- Who may write. One row. Each commit locks it in share mode, and whoever takes the store changes it.
CREATE TABLE headrace.owner (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	epoch   bigint NOT NULL,      -- raised with each owner
	backend integer NOT NULL,     -- process id of the server process that writes for it
	started timestamptz NOT NULL, -- when that began: ids are used again
	host    text NOT NULL,
	pid     integer NOT NULL,     -- process id of the owner, on its host
	since   timestamptz NOT NULL
);
INSERT INTO headrace.owner VALUES (true, 0, 0, 'epoch', '', 0, 'epoch');

-- The owner's sign of life, apart from its row, which commits lock. One row; beats is 0 once it has let go.
CREATE TABLE headrace.life (
	one   boolean PRIMARY KEY DEFAULT true CHECK (one),
	epoch bigint NOT NULL,
	beats bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
INSERT INTO headrace.life VALUES (true, 0, 0);

-- A commit's first step: it fails unless the caller is the owner, and keeps others from becoming it until it ends.
CREATE FUNCTION headrace.own(e bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM 1 FROM headrace.owner WHERE epoch = e FOR SHARE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'epoch % is over', e USING ERRCODE = 'HR001';
	END IF;
END $$;

-- The change feed, and in its newest row where the store stands. Nothing else keeps that: a row rewritten by each commit
-- would leave a trail of dead ones for as long as anybody reads.
CREATE TABLE headrace.feed (
	number  bigint PRIMARY KEY,
	at      bigint NOT NULL, -- microseconds since 1970
	seq     bigint NOT NULL, -- greatest ever given
	dropped bigint NOT NULL, -- newest round that the feed has lost
	changes bytea NOT NULL
);
-- To compress each round costs the owner more than the room that it takes for a week.
ALTER TABLE headrace.feed ALTER changes SET STORAGE EXTERNAL;
INSERT INTO headrace.feed VALUES (0, 0, 0, 0, '');

-- What never changes of a job. The columns before spec are left out of it.
CREATE TABLE headrace.job (
	seq     bigint PRIMARY KEY,
	id      uuid NOT NULL UNIQUE,
	at      bigint NOT NULL,
	channel text COLLATE "C" NOT NULL,
	kind    text COLLATE "C" NOT NULL,
	name    text COLLATE "C" NOT NULL,
	key     text COLLATE "C" CHECK (key <> ''), -- null: shares its identity with no other
	spec    bytea NOT NULL,
	args    bytea,
	staging uuid -- the build that it was made for while that was not complete
);
CREATE INDEX job_key ON headrace.job (key, seq) WHERE key IS NOT NULL;
CREATE INDEX job_name ON headrace.job (name, seq) WHERE name <> '';

-- A job that the engine has in memory. Room is left in each page, so that a job's few steps stay in it.
CREATE TABLE headrace.live (
	seq     bigint PRIMARY KEY,
	state   smallint NOT NULL CHECK (state BETWEEN 0 AND 3), -- blocked, ready, running, done
	wake    bigint NOT NULL,
	delay   bigint NOT NULL,
	attempt bytea, -- that is running, with its token
	tally   bytea,
	own     bytea,
	held    boolean NOT NULL,
	open    boolean NOT NULL,
	CHECK ((state = 2) = (attempt IS NOT NULL)),
	CHECK ((state = 3) = (held OR open))
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

-- How a job ended, and what it leaves of its live row.
CREATE TABLE headrace.ended (
	seq     bigint PRIMARY KEY,
	outcome smallint NOT NULL CHECK (outcome > 0),
	body    bytea NOT NULL,
	attempt bytea, -- that ended with the job, with its token
	tally   bytea,
	own     bytea
);
-- What succeeded is found among the newest; what did not may be far apart.
CREATE INDEX ended_outcome ON headrace.ended (outcome, seq) WHERE outcome <> 1;

-- Attempts that ended before their job.
CREATE TABLE headrace.attempt (
	seq    bigint NOT NULL,
	number integer NOT NULL,
	body   bytea NOT NULL,
	result bytea,
	PRIMARY KEY (seq, number)
);

-- The job's result, and that of the attempt that ended with it unless it is the same.
CREATE TABLE headrace.result (
	seq     bigint PRIMARY KEY,
	job     bytea,
	attempt bytea,
	same    boolean NOT NULL,
	CHECK (NOT same OR attempt IS NULL)
);

-- Who names whom as a dependency. The dependency may be unknown.
CREATE TABLE headrace.edge (
	dep       uuid NOT NULL,
	dependent bigint NOT NULL,
	PRIMARY KEY (dep, dependent)
);

CREATE TABLE headrace.build (
	seq      bigint PRIMARY KEY,
	id       uuid NOT NULL UNIQUE,
	at       bigint NOT NULL,
	name     text COLLATE "C" NOT NULL,
	priority integer NOT NULL,
	active   boolean NOT NULL,
	staged   boolean NOT NULL,
	outcome  smallint NOT NULL, -- 0: live
	ended    bigint NOT NULL,
	body     bytea NOT NULL,
	CHECK (outcome > 0 OR ended = 0)
) WITH (fillfactor = 80);
CREATE INDEX build_live ON headrace.build (seq) WHERE outcome = 0;
CREATE INDEX build_name ON headrace.build (name, seq) WHERE name <> '';

CREATE TABLE headrace.build_ref (
	build    bigint NOT NULL,
	job      uuid NOT NULL,
	place    bigint NOT NULL, -- order in which references were made
	awaited  boolean NOT NULL,
	optional boolean NOT NULL,
	priority integer NOT NULL,
	timeout  bigint NOT NULL,
	silence  bigint NOT NULL,
	ended    smallint NOT NULL, -- how the job had ended when the reference was made, or when it was deleted
	PRIMARY KEY (build, job)
);
CREATE INDEX build_ref_job ON headrace.build_ref (job);

CREATE TABLE headrace.channel (name text COLLATE "C" PRIMARY KEY, body bytea NOT NULL);

CREATE TABLE headrace.worker (name text COLLATE "C" PRIMARY KEY, body bytea NOT NULL);

CREATE TABLE headrace.class (
	channel  text COLLATE "C" NOT NULL,
	kind     text COLLATE "C" NOT NULL,
	system   text COLLATE "C" NOT NULL,
	features text COLLATE "C" NOT NULL,
	pin      text COLLATE "C" NOT NULL,
	since    bigint NOT NULL,
	PRIMARY KEY (channel, kind, system, features, pin)
);

-- Usage and learned durations: of the rows of one key the one that was added last counts, and the others go with it.
CREATE TABLE headrace.usage (
	slice   bigint NOT NULL,
	channel text COLLATE "C" NOT NULL,
	grp     text COLLATE "C" NOT NULL,
	round   bigint NOT NULL, -- that added it
	used    bigint NOT NULL,
	PRIMARY KEY (slice, channel, grp, round)
);

CREATE TABLE headrace.took (
	channel text COLLATE "C" NOT NULL,
	kind    text COLLATE "C" NOT NULL,
	name    text COLLATE "C" NOT NULL,
	count   bigint NOT NULL,
	took    bigint NOT NULL,
	PRIMARY KEY (channel, kind, name, count)
);

CREATE TABLE headrace.cached_failure (
	channel text COLLATE "C" NOT NULL,
	kind    text COLLATE "C" NOT NULL,
	key     text COLLATE "C" NOT NULL,
	body    bytea NOT NULL,
	PRIMARY KEY (channel, kind, key)
);

CREATE TABLE headrace.answer (
	place   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- order in which they came
	request uuid NOT NULL UNIQUE,
	at      bigint NOT NULL,
	reply   bytea NOT NULL
);
