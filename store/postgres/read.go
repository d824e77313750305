package postgres

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// What a commit reads before it writes: the rows that its changes start from. The owner's lock is taken before, so that
// what is read stays so.

// read asks for what the batch needs, and reports whether there is any.
func (t *batch) read(b *queue.Batch) bool {
	own := t.out.Len()
	w := wants(b)
	if !t.known {
		t.out.Queue(headQuery).QueryRow(func(row pgx.Row) (err error) {
			t.head, err = scanHead(row)
			return err
		})
	}
	if len(w.live) > 0 {
		t.out.Queue(`SELECT seq, state, wake, delay, attempt, tally, own, held, open FROM headrace.live WHERE seq = ANY($1)`,
			w.live).Query(t.readLive)
	}
	if len(w.builds) > 0 {
		t.out.Queue(`SELECT id, seq, priority, active, staged, outcome, ended FROM headrace.build WHERE id = ANY($1)`,
			uuids(w.builds)).Query(t.readBuilds)
	}
	if len(w.known) > 0 {
		t.out.Queue(`SELECT id, seq FROM headrace.job WHERE id = ANY($1)`, uuids(w.known)).Query(t.readKnown)
	}
	if len(w.drops) > 0 {
		t.out.Queue(`SELECT j.id, j.seq, j.spec, coalesce(e.outcome, 0) FROM headrace.job j
			LEFT JOIN headrace.ended e ON e.seq = j.seq WHERE j.id = ANY($1)`, uuids(w.drops)).Query(t.readDrops)
	}
	if len(w.series) > 0 {
		channels, kinds, names := series(w.series)
		t.out.Queue(tookQuery, channels, kinds, names).Query(func(rows pgx.Rows) error {
			return eachTook(rows, func(n int, v learned) { t.took[w.series[n]] = v })
		})
	}
	return t.out.Len() > own
}

// wanted is what the changes of a batch name and do not bring along.
type wanted struct {
	live   []int64
	builds []job.ID
	known  []job.ID // jobs that builds refer to
	drops  []job.ID
	series []job.Series
}

func wants(b *queue.Batch) (w wanted) {
	seqs, ids, builds, series := map[int64]bool{}, map[job.ID]bool{}, map[job.ID]bool{}, map[job.Series]bool{}
	live := func(seq int64) {
		if !seqs[seq] {
			seqs[seq] = true
			w.live = append(w.live, seq)
		}
	}
	build := func(id job.ID) {
		if !builds[id] {
			builds[id] = true
			w.builds = append(w.builds, id)
		}
	}
	for _, c := range b.Changes {
		switch c := c.(type) {
		case job.JobAdded:
			seqs[c.Seq], ids[c.Spec.ID] = true, true
		case job.BuildAdded:
			builds[c.Build.ID] = true
		case job.JobKept:
			live(c.Seq)
		case job.JobReleased:
			live(c.Seq)
		case job.JobBlocked:
			live(c.Seq)
		case job.JobStarted:
			live(c.Seq)
		case job.JobRetried:
			live(c.Seq)
		case job.JobEnded:
			live(c.Seq)
		case job.JobFreed:
			live(c.Seq)
		case job.JobSettled:
			live(c.Seq)
		case job.JobProgress:
			live(c.Seq)
		case job.JobDeleted:
			w.drops = append(w.drops, c.Job)
		case job.BuildReferred:
			build(c.Build)
			for i := range c.Refs {
				if id := c.Refs[i].Job; !ids[id] {
					ids[id] = true
					w.known = append(w.known, id)
				}
			}
		case job.BuildSealed:
			build(c.Build)
		case job.BuildActivated:
			build(c.Build)
		case job.BuildBumped:
			build(c.Build)
		case job.BuildEnded:
			build(c.Build)
		case job.BuildDeleted:
			build(c.Build)
		case job.DurationLearned:
			if !series[c.Series] {
				series[c.Series] = true
				w.series = append(w.series, c.Series)
			}
		default:
			// The others put a row, whatever there was.
		}
	}
	return w
}

func (t *batch) readLive(rows pgx.Rows) error {
	return each(rows, nil, func(rows pgx.Rows) error {
		r := &liveRow{stored: true}
		err := rows.Scan(&r.seq, &r.state, &r.wake, &r.delay, &r.attempt, &r.tally, &r.own, &r.held, &r.open)
		t.rows[r.seq] = r
		return err
	})
}

func (t *batch) readBuilds(rows pgx.Rows) error {
	return each(rows, nil, func(rows pgx.Rows) error {
		var id pgtype.UUID
		r := &buildRow{stored: true}
		err := rows.Scan(&id, &r.seq, &r.priority, &r.active, &r.staged, &r.outcome, &r.ended)
		t.builds[id.Bytes] = r
		return err
	})
}

func (t *batch) readKnown(rows pgx.Rows) error {
	return each(rows, nil, func(rows pgx.Rows) error {
		var id pgtype.UUID
		var f jobFound
		err := rows.Scan(&id, &f.seq)
		t.stored[id.Bytes] = f
		return err
	})
}

func (t *batch) readDrops(rows pgx.Rows) error {
	return each(rows, nil, func(rows pgx.Rows) error {
		var id pgtype.UUID
		var f jobFound
		var spec []byte
		var outcome int16
		if err := rows.Scan(&id, &f.seq, &spec, &outcome); err != nil {
			return err
		}
		f.outcome = job.Outcome(outcome)
		// What an unreadable spec names stays behind as edges that lead to no job.
		if s, err := codec.DecodeSpec(spec); err == nil {
			f.needs = s.Needs
		}
		t.stored[id.Bytes] = f
		return nil
	})
}
