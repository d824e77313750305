package archive_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/store/archive"
	"github.com/headrace/headrace/store/rows"
)

// kinds are those of live.
var kinds = []archive.Kind{{
	Channel: "main", Kind: "k",
	Args: func(b []byte) error {
		if len(b) > 0 && b[0] != '{' {
			return errors.New("want an object")
		}
		return nil
	},
	Result: func(b []byte) error {
		if string(b) != "done" && string(b) != "half" {
			return errors.New("want done or half")
		}
		return nil
	},
}}

func check(t testing.TB, b *backend, address string) (findings []archive.Finding, counts archive.Counts) {
	t.Helper()
	r, err := b.read(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	err = r.Whole(t.Context(), func(tables rows.Tables) (err error) {
		counts, err = archive.Check(tables, kinds, func(f archive.Finding) error {
			findings = append(findings, f)
			return nil
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return findings, counts
}

// Whatever the engine does leaves nothing to find: in the store itself, and in one that was loaded.
func TestWhatTheEngineStoresIsSound(t *testing.T) {
	t.Parallel()
	pgtest.Shared(t) // Starting it later would lend the locks of stores to the new process.
	for _, b := range []*backend{lite, postgre} {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(4) {
				address, other := b.place(t), lite.place(t)
				live(t, b, address, seed, 60)
				load(t, lite, other, dump(t, b, address))
				for _, at := range []struct {
					b       *backend
					address string
				}{{b, address}, {lite, other}} {
					findings, counts := check(t, at.b, at.address)
					for _, f := range findings {
						t.Errorf("seed %d, in %s: %s", seed, at.b.name, f.String())
					}
					if counts.Jobs == 0 || counts.Builds == 0 || counts.Rounds < 60 {
						t.Errorf("seed %d: %+v were checked", seed, counts)
					}
				}
			}
		})
	}
}

// faults has statements that spoil a store, and what is to be found then. 9999 is no seq of anything.
var faults = []struct {
	sql            string
	table, problem string
	lite           bool // no other database would let it happen
}{
	{sql: "UPDATE {s}job SET spec = x'ff' WHERE seq = (SELECT max(seq) FROM {s}job)", table: "job", problem: "spec cannot be read"},
	{sql: "UPDATE {s}job SET args = x'ff' WHERE seq = (SELECT max(seq) FROM {s}job)", table: "job", problem: "args cannot be read"},
	{sql: "UPDATE {s}result SET job = x'ff' WHERE job IS NOT NULL", table: "result", problem: "job cannot be read"},
	{sql: "DELETE FROM {s}result", table: "result", problem: "it is missing"},
	{sql: "UPDATE {s}live SET own = x'ff' WHERE seq = (SELECT max(seq) FROM {s}live)", table: "live", problem: "own cannot be read"},
	{sql: "UPDATE {s}live SET tally = x'ff' WHERE seq = (SELECT max(seq) FROM {s}live)", table: "live", problem: "tally cannot be read"},
	{sql: "UPDATE {s}live SET attempt = x'ff' WHERE state = 2", table: "live", problem: "attempt cannot be read"},
	{sql: "UPDATE {s}ended SET body = x'ff' WHERE seq = (SELECT max(seq) FROM {s}ended)", table: "ended", problem: "body cannot be read"},
	{sql: "UPDATE {s}ended SET attempt = x'ff' WHERE attempt IS NOT NULL", table: "ended", problem: "attempt cannot be read"},
	{sql: "UPDATE {s}attempt SET body = x'ff'", table: "attempt", problem: "body cannot be read"},
	{sql: "UPDATE {s}build SET body = x'ff' WHERE seq = (SELECT max(seq) FROM {s}build)", table: "build", problem: "body cannot be read"},
	{sql: "UPDATE {s}channel SET body = x'ff'", table: "channel", problem: "body cannot be read"},
	{sql: "UPDATE {s}worker SET body = x'ff'", table: "worker", problem: "body cannot be read"},
	{sql: "UPDATE {s}setting SET body = x'ff' WHERE name = 'one'", table: "setting", problem: "body cannot be read"},
	{sql: "INSERT INTO {s}cached_failure VALUES ('main', 'k', 'else', x'ff')", table: "failure", problem: "body cannot be read"},
	{sql: "UPDATE {s}feed SET changes = x'ff' WHERE number = 3", table: "round", problem: "changes cannot be read"},
	{sql: "UPDATE job SET id = x'01' WHERE seq = (SELECT max(seq) FROM job)", table: "job", problem: "id has 1 bytes", lite: true},
	{sql: "UPDATE build_ref SET job = x'0102' WHERE place = (SELECT max(place) FROM build_ref)", table: "ref", problem: "job has 2 bytes", lite: true},

	{sql: "UPDATE {s}channel SET name = 'else'", table: "channel", problem: `is of channel "main"`},
	{sql: "UPDATE {s}worker SET name = 'else'", table: "worker", problem: `is of worker "w"`},
	{sql: "INSERT INTO {s}class VALUES ('main', 'other', '', '', '', 0)", table: "class", problem: "it has no time"},
	{sql: "UPDATE {s}setting SET name = 'else' WHERE name = 'one'", table: "setting", problem: `is of setting "one" of space "token"`},
	{sql: "UPDATE {s}took SET count = 0", table: "took", problem: "learned from 0 runs"},
	{sql: "INSERT INTO {s}cached_failure VALUES ('main', 'k', 'else', x'0300000000000000000000000000')", table: "failure", problem: "its record is of"},

	{sql: "UPDATE {s}build SET seq = 9999 WHERE seq = (SELECT max(seq) FROM {s}build)", table: "build", problem: "its seq is 9999"},
	{sql: "UPDATE {s}build SET outcome = 1, ended = 0 WHERE seq = (SELECT max(seq) FROM {s}build)", table: "build", problem: "it has an outcome without the other"},
	{sql: "UPDATE build SET outcome = 0, ended = 1 WHERE seq = (SELECT max(seq) FROM build)", table: "build", problem: "it has a time of its end without the other", lite: true},
	{sql: "UPDATE {s}build SET staged = NOT staged WHERE outcome = 0 AND active = active", table: "build", problem: "it is staged, and under way"},
	{sql: "UPDATE {s}build SET name = 'else' WHERE seq = (SELECT max(seq) FROM {s}build)", table: "build", problem: `"b"`},

	{sql: "UPDATE {s}job SET seq = (SELECT max(seq) FROM {s}build) WHERE seq = (SELECT max(seq) FROM {s}job)", table: "job", problem: "is that of build"},
	{sql: "DELETE FROM {s}ended WHERE seq = (SELECT max(e.seq) FROM {s}ended e WHERE NOT EXISTS (SELECT 1 FROM {s}live l WHERE l.seq = e.seq))", table: "job", problem: "neither live nor ended"},
	{sql: "DELETE FROM {s}live WHERE state < 3", table: "job", problem: "neither live nor ended"},
	{sql: "INSERT INTO {s}live SELECT seq, 0, 0, 0, NULL, NULL, NULL, {f}, {f} FROM {s}ended e WHERE NOT EXISTS (SELECT 1 FROM {s}live l WHERE l.seq = e.seq)", table: "live", problem: "the job is unfinished here, and has ended"},
	{sql: "UPDATE {s}live SET state = 3, open = {t}, attempt = NULL WHERE seq = (SELECT max(seq) FROM {s}live WHERE state < 3)", table: "live", problem: "how it ended is missing"},
	{sql: "INSERT INTO {s}live VALUES (9999, 0, 0, 0, NULL, NULL, NULL, {f}, {f})", table: "live", problem: "its job is unknown"},
	{sql: "INSERT INTO {s}ended VALUES (9999, 1, x'03', NULL, NULL, NULL, NULL)", table: "ended", problem: "its job is unknown"},
	{sql: "INSERT INTO {s}attempt VALUES (9999, 1, x'03', NULL)", table: "attempt", problem: "its job is unknown"},
	{sql: "INSERT INTO {s}result VALUES (9999, x'03', NULL, {f})", table: "result", problem: "its job is unknown"},
	{sql: "UPDATE {s}result SET job = NULL, same = {t}, attempt = NULL", table: "result", problem: "and there is none"},
	{sql: "UPDATE live SET state = 7 WHERE seq = (SELECT max(seq) FROM live)", table: "live", problem: "its state is 7", lite: true},
	{sql: "UPDATE live SET state = 0 WHERE state = 2", table: "live", problem: "and the attempt is there", lite: true},
	{sql: "UPDATE live SET state = 2, held = 0, open = 0 WHERE state = 0", table: "live", problem: "and the attempt is missing", lite: true},
	{sql: "UPDATE live SET held = 1 WHERE state < 3", table: "live", problem: "held is true and open is false", lite: true},
	{sql: "UPDATE {s}live SET tally = NULL WHERE state = 2", table: "live", problem: "runs"},
	{sql: "UPDATE {s}job SET key = 'one' WHERE seq IN (SELECT seq FROM {s}live WHERE state < 3)", table: "live", problem: "and both are unfinished"},

	{sql: "UPDATE {s}ended SET outcome = 7 WHERE outcome < 3", table: "ended", problem: "its record says succeeded"},
	{sql: "UPDATE {s}ended SET body = x'0300090000000000' WHERE seq = (SELECT max(seq) FROM {s}ended)", table: "ended", problem: "its record says"},
	{sql: "UPDATE {s}ended SET outcome = 3, body = x'0300030000000000' WHERE seq = (SELECT max(seq) FROM {s}ended)", table: "ended", problem: "dependency-failed by no job"},
	{sql: "UPDATE {s}attempt SET number = number + 1 WHERE number = (SELECT max(number) FROM {s}attempt)", table: "attempt", problem: "follows on number"},
	{sql: "UPDATE {s}attempt SET number = number + 1 WHERE number = (SELECT max(number) FROM {s}attempt)", table: "attempt", problem: "its record is of attempt"},
	{sql: "DELETE FROM {s}attempt", table: "attempt", problem: "attempts that ended before the job: 0"},

	{sql: "UPDATE {s}ended SET tally = NULL WHERE attempt IS NOT NULL", table: "ended", problem: "ended with the job"},

	{sql: "UPDATE {s}build_ref SET ended = 1 WHERE job IN (SELECT id FROM {s}job j JOIN {s}live l ON j.seq = l.seq AND l.state < 3)", table: "ref", problem: "says that the job ended succeeded"},
	{sql: "UPDATE {s}build_ref SET place = 1", table: "ref", problem: "it has place 1 of the build"},
	{sql: "DELETE FROM {s}edge", table: "edge", problem: "it is missing"},
	{sql: "INSERT INTO {s}edge SELECT dep, 9999 FROM {s}edge GROUP BY dep", table: "edge", problem: "its dependent is unknown"},
	{sql: "UPDATE {s}edge SET dep = (SELECT id FROM {s}job WHERE seq = (SELECT max(seq) FROM {s}job)) WHERE dep = (SELECT dep FROM {s}edge ORDER BY dep, dependent LIMIT 1) AND dependent = (SELECT dependent FROM {s}edge ORDER BY dep, dependent LIMIT 1)", table: "edge", problem: "the job names no such dependency"},
	{sql: "UPDATE {s}build_ref SET build = 9999 WHERE build = (SELECT max(build) FROM {s}build_ref)", table: "ref", problem: "its build is unknown"},
	{sql: "DELETE FROM {s}job WHERE seq = (SELECT max(j.seq) FROM {s}job j JOIN {s}build_ref r ON r.job = j.id AND r.ended = 0)", table: "ref", problem: "its job is unknown"},

	{sql: "DELETE FROM {s}feed WHERE number = 5", table: "round", problem: "rounds are missing before it"},
	{sql: "DELETE FROM {s}feed WHERE number BETWEEN 1 AND 5", table: "round", problem: "rounds are missing before it"},
	{sql: "DELETE FROM feed WHERE number = (SELECT max(number) FROM feed)", table: "head", problem: "its number is", lite: true},
	{sql: "UPDATE head SET at = at - 1", table: "head", problem: "its time is", lite: true},
	{sql: "UPDATE head SET seq = 3", table: "job", problem: "its seq is", lite: true},
	{sql: "UPDATE {s}job SET key = 'one' WHERE seq IN (SELECT seq FROM {s}live WHERE state < 3)", table: "engine", problem: "which is unfinished"},
	{sql: "UPDATE {s}live SET state = 1 WHERE state = 0", table: "engine", problem: "is Ready and must not be"},
}

// Each thing that can be amiss is found, and named.
func TestFaultIsFound(t *testing.T) {
	t.Parallel()
	pgtest.Shared(t) // Starting it later would lend the locks of stores to the new process.
	sound := lite.place(t)
	live(t, lite, sound, 3, 90)
	content, err := os.ReadFile(sound)
	if err != nil {
		t.Fatal(err)
	}
	whole := dump(t, lite, sound)
	next := anew(t, postgre)
	dir := folder(t)
	for i, f := range faults {
		at := filepath.Join(dir, string(rune('a'+i/26))+string(rune('a'+i%26)))
		if err := os.WriteFile(at, content, 0o600); err != nil {
			t.Fatal(err)
		}
		lite.run(t, at, "PRAGMA ignore_check_constraints = 1;"+strings.NewReplacer("{t}", "1", "{f}", "0").Replace(f.sql))
		isFound(t, lite, at, f.table, f.problem, f.sql)
		if f.lite || i%3 != 0 {
			continue // One in three is enough to see that the databases do not differ.
		}
		address := next()
		load(t, postgre, address, whole)
		postgre.run(t, address, strings.NewReplacer("{t}", "true", "{f}", "false").Replace(f.sql))
		isFound(t, postgre, address, f.table, f.problem, f.sql)
	}
}

func isFound(t *testing.T, b *backend, address, table, problem, sql string) {
	t.Helper()
	findings, _ := check(t, b, address)
	var all []string
	for _, f := range findings {
		if f.Table == table && strings.Contains(f.Problem, problem) {
			return
		}
		all = append(all, f.String())
	}
	t.Errorf("in %s, after %q: nothing is found in table %s that says %q, but:\n%s", b.name, sql, table, problem, strings.Join(all, "\n"))
}
