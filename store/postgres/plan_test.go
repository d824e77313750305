package postgres_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/postgres"
	"github.com/headrace/headrace/store/rows"
)

// step is one of a plan, with what it did when it was run.
type step struct {
	Kind    string  `json:"Node Type"`
	Table   string  `json:"Relation Name"`
	Index   string  `json:"Index Name"`
	Cond    string  `json:"Index Cond"`
	Rows    float64 `json:"Actual Rows"` // a loop
	Filter  float64 `json:"Rows Removed by Filter"`
	Recheck float64 `json:"Rows Removed by Index Recheck"`
	Loops   float64 `json:"Actual Loops"`
	Plans   []step
}

// each goes through the steps of a plan.
func (s *step) each(f func(*step)) {
	f(s)
	for i := range s.Plans {
		s.Plans[i].each(f)
	}
}

// looked is how many rows of its table the step looked at.
func (s *step) looked() float64 { return (s.Rows + s.Filter + s.Recheck) * s.Loops }

func (s *step) String() string {
	var b strings.Builder
	s.each(func(s *step) { fmt.Fprintf(&b, "%s %s %s: %v rows\n", s.Kind, s.Table, s.Index, s.looked()) })
	return b.String()
}

// explain gives the plan that an EXPLAIN tells.
func explain(t *testing.T, c *pgx.Conn, sql string, params [][]byte) *step {
	t.Helper()
	binaries := make([]int16, len(params))
	for i := range binaries {
		binaries[i] = pgx.BinaryFormatCode
	}
	r := c.PgConn().ExecParams(t.Context(), sql, params, nil, binaries, nil).Read()
	if r.Err != nil {
		t.Fatalf("%s: %v", sql, r.Err)
	}
	var plans []struct{ Plan step }
	if err := json.Unmarshal(r.Rows[0][0], &plans); err != nil {
		t.Fatal(err)
	}
	return &plans[0].Plan
}

// past has so many jobs, and builds of ten of them each. Few things are rare, and those are the oldest, so that whoever goes back
// through all looks at all.
const (
	past = 20_000
	rare = 5
)

func pastID(kind byte, n int) (id job.ID) {
	id[0] = kind
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

func fillPast(t *testing.T, address string) {
	t.Helper()
	s, err := postgres.Open(t.Context(), address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // its database goes away
	seq := int64(0)
	for n := 0; n < past; {
		b := &queue.Batch{Number: uint64(seq/2200 + 1), At: job.Time(seq + 1)}
		for range 200 {
			refs := job.BuildReferred{Build: pastID('b', n/10)}
			name := fmt.Sprint("build ", n/10)
			for range 10 {
				n++
				seq++
				spec := job.Spec{ID: pastID('j', n), Name: fmt.Sprint("name ", n/3), Channel: "main", Kind: "command", Key: fmt.Sprint("key ", n)}
				outcome, worker := job.Succeeded, "w"
				// Each of the rare ones has one of its own.
				switch {
				case n <= rare:
					spec.Key, name = "rare", "rare"
				case n <= 2*rare:
					spec.Name = "rare"
				case n <= 3*rare:
					spec.Channel = "rare"
				case n <= 4*rare:
					spec.Kind = "rare"
				case n <= 5*rare:
					outcome = job.Failed
				case n <= 6*rare:
					worker = "rare"
				}
				b.Changes = append(b.Changes, job.JobAdded{Record: job.Record{Seq: seq, At: b.At, Spec: spec}})
				if n < past/2 {
					a := job.AttemptEnd{Attempt: job.Attempt{Number: 1, Worker: worker}, At: b.At, Outcome: outcome}
					b.Changes = append(b.Changes, job.JobEnded{Job: spec.ID, Seq: seq, End: job.End{At: b.At, Outcome: outcome}, Attempt: &a})
				}
				refs.Refs = append(refs.Refs, job.Ref{Job: spec.ID})
			}
			seq++
			build := job.BuildAdded{BuildRecord: job.BuildRecord{Seq: seq, At: b.At, Build: job.Build{ID: refs.Build, Name: name}}}
			b.Changes = append(b.Changes, build, refs)
			if n < past-100 {
				outcome := job.Succeeded
				if n <= 10 {
					outcome = job.Failed
				}
				b.Changes = append(b.Changes, job.BuildEnded{Build: refs.Build, At: b.At, Outcome: outcome})
			}
		}
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}

// Each list is led by what its filter leaves few of, with the server as it is by default: none goes through a table that only
// grows, and none looks at much more than it gives. What is unfinished may be gone through where nothing else is asked for.
func TestListsAreLedByAnIndex(t *testing.T) {
	t.Parallel()
	address := database(t)
	fillPast(t, address)
	run(t, address, "VACUUM ANALYZE")
	c, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
	check := func(what, sql string, params [][]byte, through func(table string) bool) {
		t.Helper()
		const most = 400 // four tables of a page
		plan := explain(t, c, "EXPLAIN (ANALYZE, FORMAT JSON, COSTS OFF, TIMING OFF) "+sql, params)
		total := 0.0
		plan.each(func(s *step) {
			if s.Table == "" || through(s.Table) {
				return
			}
			total += s.looked()
			if s.Kind == "Seq Scan" && s.Loops > 0 {
				t.Errorf("%s: reads all of %s\n%s\n%v", what, s.Table, sql, plan)
			}
		})
		if total > most {
			t.Errorf("%s: looks at %v rows\n%s\n%v", what, total, sql, plan)
		}
	}
	text := []string{"", "rare"}
	for bits := range 1 << 4 {
		for _, channel := range append(text, "main") {
			for _, kind := range append(text, "command") {
				for _, outcome := range []job.Outcome{0, job.Failed, job.Succeeded} {
					for _, state := range []string{"", "Blocked", "Done"} {
						f := queue.JobFilter{Key: text[bits&1], Name: text[bits>>1&1], Channel: channel, Kind: kind, Outcome: outcome, State: state, Before: past}
						if bits&4 != 0 {
							f.IDs = []job.ID{pastID('j', 1)}
						}
						if bits&8 != 0 {
							f.Build = pastID('b', 0)
						}
						sql, params := postgres.JobList(&f)
						check(fmt.Sprintf("%+v", f), sql, params, func(table string) bool { return table == "live" && state == "Blocked" })
					}
				}
			}
		}
	}
	spans := [][2]job.Time{{}, {0, 2}, {past, 0}, {past / 2, past/2 + 2201}}
	for _, worker := range append(text, "w") {
		for _, prefix := range []string{"", "rar", "name"} {
			for _, span := range spans {
				for _, outcome := range []job.Outcome{0, job.Failed, job.Succeeded} {
					for _, state := range []string{"", "Done"} {
						for _, channel := range text {
							f := queue.JobFilter{Worker: worker, Prefix: prefix, After: span[0], Until: span[1], Outcome: outcome, State: state, Channel: channel}
							sql, params := postgres.JobList(&f)
							check(fmt.Sprintf("%+v", f), sql, params, func(string) bool { return false })
						}
					}
				}
			}
		}
	}
	for _, span := range spans {
		for bits := range 1 << 4 {
			f := queue.BuildFilter{Prefix: []string{"", "rar"}[bits&1], Live: bits&2 != 0, After: span[0], Until: span[1]}
			f.Outcome = []job.Outcome{0, job.Failed, job.Succeeded}[bits/4%3]
			sql, params := postgres.BuildList(&f)
			check(fmt.Sprintf("%+v", f), sql, params, func(string) bool { return false })
		}
	}
	for bits := range 1 << 4 {
		f := queue.BuildFilter{Name: text[bits&1], Live: bits&2 != 0, Before: past}
		if bits&8 != 0 {
			f.Job = pastID('j', 0)
		}
		if bits&4 != 0 {
			f.IDs = []job.ID{pastID('b', 0)}
		}
		sql, params := postgres.BuildList(&f)
		check(fmt.Sprintf("%+v", f), sql, params, func(string) bool { return false })
	}
}

// What a commit and a look-up ask finds its rows by their keys: neither by going through a table nor through an index. So does what is
// asked for by its key elsewhere.
func TestStatementsAreLedByAnIndex(t *testing.T) {
	t.Parallel()
	c, err := pgx.Connect(t.Context(), database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background()) //nolint:errcheck // nothing rests on it
	if _, err := c.Exec(t.Context(), postgres.Planning, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	// Without its first column an index is gone through, too.
	leading := map[string]string{}
	found, err := c.Query(t.Context(), `SELECT c.relname, pg_get_indexdef(i.indexrelid, 1, true)
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = 'headrace'::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	var index, column string
	if _, err := pgx.ForEachRow(found, []any{&index, &column}, func() error { leading[index] = column; return nil }); err != nil {
		t.Fatal(err)
	}
	through := map[rows.Query]string{
		rows.Channels: "channel", rows.Classes: "class", rows.Workers: "worker", rows.Settings: "setting",
		rows.GetHead: "feed", // the newest row alone
	}
	for _, w := range rows.Wholes { // These read all there is.
		through[w.All] = w.Name
	}
	through[rows.AllFailures], through[rows.AllRefs], through[rows.AllRounds] = "cached_failure", "build_ref", "feed"
	for q := range rows.Count {
		sql, n := postgres.Statement(q)
		if sql == "" || q == rows.LiveJobs || q == rows.LiveBuilds {
			continue // one that another stands for, or one of Load, which goes through what is unfinished
		}
		name := fmt.Sprintf("s%d", q)
		if _, err := c.Prepare(t.Context(), name, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		nulls := ""
		if n > 0 {
			nulls = "(NULL" + strings.Repeat(", NULL", n-1) + ")"
		}
		plan := explain(t, c, "EXPLAIN (FORMAT JSON, COSTS OFF) EXECUTE "+name+nulls, nil)
		plan.each(func(s *step) {
			switch {
			case s.Table == "" && s.Index == "" || s.Kind == "ModifyTable" || s.Kind == "Bitmap Heap Scan": // what finds their rows is a step of its own
			case s.Table != "" && s.Table == through[q]:
			case s.Index == "" || !strings.Contains(s.Cond, "("+leading[s.Index]+" ") && !strings.Contains(s.Cond, "(ROW("+leading[s.Index]+", "):
				t.Errorf("statement %d: %s of %s %s by %q\n%s\n%v", q, s.Kind, s.Table, s.Index, s.Cond, sql, plan)
			}
		})
	}
}
