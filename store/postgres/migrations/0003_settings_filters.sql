-- What doors keep beside jobs: a setting of a space and a name, which its body says again.
CREATE TABLE headrace.setting (
	space text COLLATE "C" NOT NULL,
	name  text COLLATE "C" NOT NULL,
	body  bytea NOT NULL,
	PRIMARY KEY (space, name)
);

-- What the lists of the history ask for besides: on which worker the attempt ran that ended with its job, and how builds ended.
ALTER TABLE headrace.ended ADD worker text COLLATE "C";

-- The worker of a stored attempt, behind its version, its number and its token. One that cannot be read has none.
CREATE FUNCTION headrace.attempt_worker(a bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	i integer := 1;
	n integer := 0;
	shift integer := 0;
	c integer;
BEGIN
	WHILE get_byte(a, i) >= 128 LOOP
		i := i + 1;
	END LOOP;
	i := i + 2 + 16 * get_byte(a, i + 1);
	LOOP
		c := get_byte(a, i);
		i := i + 1;
		n := n + ((c & 127) << shift);
		shift := shift + 7;
		EXIT WHEN c < 128;
	END LOOP;
	RETURN nullif(replace(convert_from(substring(a FROM i + 1 FOR n), 'UTF8'), '\', '\\'), '');
EXCEPTION WHEN others THEN
	RETURN NULL;
END $$;
UPDATE headrace.ended SET worker = headrace.attempt_worker(attempt) WHERE attempt IS NOT NULL;
DROP FUNCTION headrace.attempt_worker;

CREATE INDEX ended_worker ON headrace.ended (worker, seq) WHERE worker IS NOT NULL;

CREATE INDEX build_outcome ON headrace.build (outcome, seq) WHERE outcome > 1; -- neither live nor succeeded

-- The first seq from which on jobs were asked for at a moment or later, found by halving: moments follow the seqs, unless a clock was
-- set back between two owners.
CREATE FUNCTION headrace.job_since(moment bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
	low bigint := 1;
	high bigint := coalesce((SELECT max(seq) FROM headrace.job), 0) + 1;
	middle bigint;
	r record;
BEGIN
	WHILE low < high LOOP
		middle := (low + high) / 2;
		SELECT seq, at INTO r FROM headrace.job WHERE seq >= middle ORDER BY seq LIMIT 1;
		IF r.seq IS NULL OR r.at >= moment THEN
			high := middle;
		ELSE
			low := r.seq + 1;
		END IF;
	END LOOP;
	RETURN low;
END $$;

-- The same of builds.
CREATE FUNCTION headrace.build_since(moment bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
	low bigint := 1;
	high bigint := coalesce((SELECT max(seq) FROM headrace.build), 0) + 1;
	middle bigint;
	r record;
BEGIN
	WHILE low < high LOOP
		middle := (low + high) / 2;
		SELECT seq, at INTO r FROM headrace.build WHERE seq >= middle ORDER BY seq LIMIT 1;
		IF r.seq IS NULL OR r.at >= moment THEN
			high := middle;
		ELSE
			low := r.seq + 1;
		END IF;
	END LOOP;
	RETURN low;
END $$;
