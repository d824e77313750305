package postgres

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Each statement here writes all of a batch's rows of one table: its parameters are columns.

const (
	addJobs = `INSERT INTO headrace.job (seq, id, at, channel, kind, name, key, spec, args, staging)
		SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::bytea[], $10::uuid[])`
	addEdges = `INSERT INTO headrace.edge (dep, dependent) SELECT * FROM unnest($1::uuid[], $2::bigint[]) ON CONFLICT DO NOTHING`
	addLive  = `INSERT INTO headrace.live (seq, state, wake, delay, attempt, tally, own, held, open)
		SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[], $7::bytea[], $8::boolean[], $9::boolean[])`
	putLive = `UPDATE headrace.live l SET state = v.state, wake = v.wake, delay = v.delay, attempt = v.attempt, tally = v.tally,
		own = v.own, held = v.held, open = v.open
		FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[], $7::bytea[], $8::boolean[], $9::boolean[])
		AS v (seq, state, wake, delay, attempt, tally, own, held, open) WHERE l.seq = v.seq`
	dropLive = `DELETE FROM headrace.live WHERE seq = ANY($1)`
	addEnded = `INSERT INTO headrace.ended (seq, outcome, body, attempt, tally, own)
		SELECT * FROM unnest($1::bigint[], $2::smallint[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[])`
	putAttempts = `INSERT INTO headrace.attempt (seq, number, body, result)
		SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bytea[], $4::bytea[])
		ON CONFLICT (seq, number) DO UPDATE SET body = excluded.body, result = excluded.result`
	putResults = `INSERT INTO headrace.result AS r (seq, job, attempt, same)
		SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[], $4::boolean[])
		ON CONFLICT (seq) DO UPDATE SET job = coalesce(excluded.job, r.job), attempt = excluded.attempt, same = excluded.same`
	addBuilds = `INSERT INTO headrace.build (seq, id, at, name, priority, active, staged, outcome, ended, body)
		SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::integer[], $6::boolean[], $7::boolean[], $8::smallint[], $9::bigint[], $10::bytea[])`
	putBuilds = `UPDATE headrace.build b SET priority = v.priority, active = v.active, staged = v.staged, outcome = v.outcome, ended = v.ended
		FROM unnest($1::bigint[], $2::integer[], $3::boolean[], $4::boolean[], $5::smallint[], $6::bigint[])
		AS v (seq, priority, active, staged, outcome, ended) WHERE b.seq = v.seq`
	putRefs = `INSERT INTO headrace.build_ref AS r (build, job, place, awaited, optional, priority, timeout, silence, ended)
		SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::boolean[], $5::boolean[], $6::integer[], $7::bigint[], $8::bigint[], $9::smallint[])
		ON CONFLICT (build, job) DO UPDATE SET
		awaited = (r.awaited OR excluded.awaited) AND (r.awaited OR r.optional) AND (excluded.awaited OR excluded.optional),
		optional = r.optional AND excluded.optional, priority = excluded.priority, timeout = excluded.timeout,
		silence = excluded.silence, ended = CASE r.ended WHEN 0 THEN excluded.ended ELSE r.ended END`
)

// flush writes what was gathered of jobs and builds, in an order in which each finds what it rests on.
func (t *batch) flush() {
	t.flushJobs()
	t.flushLive()
	t.flushEnds()
	t.flushBuilds()
	t.flushDrops()
}

func (t *batch) flushJobs() {
	if len(t.jobs) == 0 {
		return
	}
	n := len(t.jobs)
	seqs, ids, ats := make([]int64, n), make([]pgtype.UUID, n), make([]int64, n)
	channels, kinds, names, keys := make([]string, n), make([]string, n), make([]string, n), make([]pgtype.Text, n)
	specs, args, stagings := make([][]byte, n), make([][]byte, n), make([]pgtype.UUID, n)
	var deps []pgtype.UUID
	var dependents []int64
	for i := range t.jobs {
		r := t.jobs[i].record
		s := &r.Spec
		seqs[i], ids[i], ats[i] = r.Seq, uuid(s.ID), int64(r.At)
		channels[i], kinds[i], names[i] = escaped(s.Channel), escaped(s.Kind), escaped(s.Name)
		keys[i] = pgtype.Text{String: escaped(s.Key), Valid: s.Key != ""}
		specs[i], args[i] = t.jobs[i].spec, s.Args
		stagings[i] = pgtype.UUID{Bytes: r.Staging, Valid: !r.Staging.IsZero()}
		for _, d := range s.Needs {
			deps, dependents = append(deps, uuid(d.Job)), append(dependents, r.Seq)
		}
	}
	t.out.Queue(addJobs, seqs, ids, ats, channels, kinds, names, keys, specs, args, stagings)
	if len(deps) > 0 {
		t.out.Queue(addEdges, deps, dependents)
	}
	t.jobs = nil
}

// liveColumns are rows of the live table.
type liveColumns struct {
	seqs, wakes, delays    []int64
	states                 []int16
	attempts, tallies, own [][]byte
	held, open             []bool
}

func (v *liveColumns) add(r *liveRow) {
	v.seqs, v.states = append(v.seqs, r.seq), append(v.states, r.state)
	v.wakes, v.delays = append(v.wakes, r.wake), append(v.delays, r.delay)
	v.attempts, v.tallies, v.own = append(v.attempts, r.attempt), append(v.tallies, r.tally), append(v.own, r.own)
	v.held, v.open = append(v.held, r.held), append(v.open, r.open)
}

func (v *liveColumns) queue(b *pgx.Batch, sql string) {
	if len(v.seqs) > 0 {
		b.Queue(sql, v.seqs, v.states, v.wakes, v.delays, v.attempts, v.tallies, v.own, v.held, v.open)
	}
}

func (t *batch) flushLive() {
	var add, put liveColumns
	var drop []int64
	for _, r := range t.liveRows() {
		r.touched = false
		switch {
		case r.needed() && r.stored:
			put.add(r)
		case r.needed():
			add.add(r)
			r.stored = true
		case r.stored:
			drop = append(drop, r.seq)
			r.stored = false
		}
	}
	add.queue(&t.out, addLive)
	put.queue(&t.out, putLive)
	if len(drop) > 0 {
		t.out.Queue(dropLive, drop)
	}
}

func (t *batch) flushEnds() {
	if n := len(t.ended); n > 0 {
		seqs, outcomes := make([]int64, n), make([]int16, n)
		bodies, attempts, tallies, owns := make([][]byte, n), make([][]byte, n), make([][]byte, n), make([][]byte, n)
		for i, r := range t.ended {
			seqs[i], outcomes[i], bodies[i], attempts[i], tallies[i], owns[i] = r.seq, r.outcome, r.body, r.attempt, r.tally, r.own
		}
		t.out.Queue(addEnded, seqs, outcomes, bodies, attempts, tallies, owns)
		t.ended = nil
	}
	if len(t.attempts) > 0 {
		var seqs []int64
		var numbers []int32
		var bodies, results [][]byte
		for k, r := range t.attempts {
			seqs, numbers, bodies, results = append(seqs, k.seq), append(numbers, k.number), append(bodies, r.body), append(results, r.result)
		}
		t.out.Queue(putAttempts, seqs, numbers, bodies, results)
		clear(t.attempts)
	}
	if len(t.results) > 0 {
		var seqs []int64
		var jobs, attempts [][]byte
		var same []bool
		for seq, r := range t.results {
			seqs, jobs, attempts, same = append(seqs, seq), append(jobs, r.job), append(attempts, r.attempt), append(same, r.same)
		}
		t.out.Queue(putResults, seqs, jobs, attempts, same)
		clear(t.results)
	}
}

func (t *batch) flushBuilds() {
	type columns struct {
		seqs, ats, ended []int64
		ids              []pgtype.UUID
		names            []string
		priorities       []int32
		active, staged   []bool
		outcomes         []int16
		bodies           [][]byte
	}
	var add, put columns
	var drop []int64
	for id, r := range t.builds {
		if !r.touched {
			continue
		}
		r.touched = false
		if r.gone {
			if r.stored {
				drop = append(drop, r.seq)
			}
			continue
		}
		v := &put
		if !r.stored {
			v = &add
			v.ids, v.ats = append(v.ids, uuid(id)), append(v.ats, int64(r.record.At))
			v.names, v.bodies = append(v.names, escaped(r.record.Build.Name)), append(v.bodies, r.body)
			r.stored = true
		}
		v.seqs, v.priorities, v.active = append(v.seqs, r.seq), append(v.priorities, r.priority), append(v.active, r.active)
		v.staged, v.outcomes, v.ended = append(v.staged, r.staged), append(v.outcomes, r.outcome), append(v.ended, r.ended)
	}
	if len(add.seqs) > 0 {
		t.out.Queue(addBuilds, add.seqs, add.ids, add.ats, add.names, add.priorities, add.active, add.staged, add.outcomes, add.ended, add.bodies)
	}
	if len(put.seqs) > 0 {
		t.out.Queue(putBuilds, put.seqs, put.priorities, put.active, put.staged, put.outcomes, put.ended)
	}
	t.flushRefs()
	if len(drop) > 0 {
		t.out.Queue("DELETE FROM headrace.build_ref WHERE build = ANY($1)", drop)
		t.out.Queue("DELETE FROM headrace.build WHERE seq = ANY($1)", drop)
	}
}

func (t *batch) flushRefs() {
	n := len(t.refs)
	if n == 0 {
		return
	}
	keys := make([]refKey, 0, n)
	for k := range t.refs {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b refKey) int { return cmp.Compare(t.refs[a].place, t.refs[b].place) })
	builds, ids, places := make([]int64, n), make([]pgtype.UUID, n), make([]int64, n)
	awaited, optional, priorities := make([]bool, n), make([]bool, n), make([]int32, n)
	timeouts, silences, ended := make([]int64, n), make([]int64, n), make([]int16, n)
	for i, k := range keys {
		r := t.refs[k]
		builds[i], ids[i], places[i] = k.build, uuid(k.job), r.place
		awaited[i], optional[i], priorities[i] = r.Awaited, r.Optional, r.Priority
		timeouts[i], silences[i], ended[i] = int64(r.Limits.Timeout), int64(r.Limits.Silence), int16(r.Ended)
	}
	t.out.Queue(putRefs, builds, ids, places, awaited, optional, priorities, timeouts, silences, ended)
	clear(t.refs)
}

// flushDrops removes all rows of jobs that were deleted, but for how they ended where a build still refers to them.
func (t *batch) flushDrops() {
	if len(t.drops) == 0 {
		return
	}
	var seqs, dependents []int64
	var deps, unended, ended []pgtype.UUID
	var outcomes []int16
	for _, d := range t.drops {
		seqs = append(seqs, d.seq)
		for _, n := range d.needs {
			deps, dependents = append(deps, uuid(n.Job)), append(dependents, d.seq)
		}
		if d.outcome == 0 {
			unended = append(unended, uuid(d.id))
		} else {
			ended, outcomes = append(ended, uuid(d.id)), append(outcomes, int16(d.outcome))
		}
	}
	if len(deps) > 0 {
		t.out.Queue(`DELETE FROM headrace.edge e USING unnest($1::uuid[], $2::bigint[]) AS d (dep, dependent)
			WHERE e.dep = d.dep AND e.dependent = d.dependent`, deps, dependents)
	}
	for _, table := range []string{"live", "ended", "attempt", "result", "job"} {
		t.out.Queue("DELETE FROM headrace."+table+" WHERE seq = ANY($1)", seqs)
	}
	if len(unended) > 0 {
		t.out.Queue("DELETE FROM headrace.build_ref WHERE job = ANY($1)", unended)
	}
	if len(ended) > 0 {
		t.out.Queue(`UPDATE headrace.build_ref r SET ended = d.outcome FROM unnest($1::uuid[], $2::smallint[]) AS d (job, outcome)
			WHERE r.job = d.job`, ended, outcomes)
	}
	t.drops = nil
}
