package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/rows"
)

// plan tells how SQLite would run a statement, a step a line.
func plan(t *testing.T, c *conn, sql string) []string {
	t.Helper()
	q := c.adhoc("EXPLAIN QUERY PLAN " + sql)
	var steps []string
	err := q.each(func() error {
		q.n = 3
		steps = append(steps, q.Text())
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return steps
}

// goesThrough gives the table that a step reads from one end to the other; "" if it looks rows up.
func goesThrough(step string) string {
	rest, ok := strings.CutPrefix(step, "SCAN ")
	if !ok {
		return ""
	}
	table, _, _ := strings.Cut(rest, " ")
	return table
}

// Each list is led by what its filter leaves few of: none goes through a table that only grows, except for what nearly
// all rows have, and none sorts more than the filter names.
func TestListsAreLedByAnIndex(t *testing.T) {
	t.Parallel()
	s, _ := openFile(t)
	for bits := range 1 << 14 {
		on := func(i int) bool { return bits>>i&1 == 1 }
		var f queue.JobFilter
		set := func(i int, p *string, v string) {
			if on(i) {
				*p = v
			}
		}
		set(0, &f.Key, "k")
		set(1, &f.Name, "n")
		set(2, &f.Channel, "c")
		set(3, &f.Kind, "other")
		set(4, &f.State, "Ready")
		set(5, &f.State, "Done")
		if on(6) {
			f.Outcome = job.Failed
		}
		if on(7) {
			f.IDs = []job.ID{{1}}
		}
		if on(8) {
			f.Build = job.ID{1}
		}
		if on(9) {
			f.Before = 7
		}
		set(10, &f.Worker, "w")
		if on(11) {
			f.Prefix, f.Name = "p", ""
		}
		if on(12) {
			f.After, f.Until = 1, 2
		}
		if f.Worker != "" && f.State == "Ready" || on(13) && f.Prefix == "" {
			continue // nobody asks, or it is the same as without
		}
		l, err := listJobs(&f, reach{mostNamed: on(13)})
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, s.w, l.sql(), fmt.Sprintf("%+v", f), func(table string) bool {
			switch table {
			case "l":
				return f.State == "Ready" // what is unfinished
			case "j":
				// every job, or those of nearly all names
				return bits&^(1<<9|1<<12) == 0 || on(13) && bits&^(1<<1|1<<9|1<<11|1<<12|1<<13) == 0
			case "e":
				return bits&^(1<<1|1<<9|1<<4|1<<11|1<<12|1<<13) == 1<<5 && (f.Prefix == "") != on(13) && f.Name == "" // every job that ended
			}
			return false
		}, on(7) || on(8) || f.Prefix != "" && !on(13) && f.Key == "")
	}
	for bits := range 1 << 9 {
		f := queue.BuildFilter{Live: bits&1 != 0, Before: int64(bits & 2)}
		if bits&4 != 0 {
			f.Name = "n"
		}
		if bits&8 != 0 {
			f.IDs = []job.ID{{1}}
		}
		if bits&16 != 0 {
			f.Prefix, f.Name = "p", ""
		}
		if bits&32 != 0 {
			f.Outcome = job.Failed
		}
		if bits&64 != 0 {
			f.After, f.Until = 1, 2
		}
		if bits&256 != 0 {
			f.Job = job.ID{2}
		}
		most := bits&128 != 0
		if most && f.Prefix == "" {
			continue
		}
		l, err := listBuilds(&f, reach{mostNamed: most})
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, s.w, l.sql(), fmt.Sprintf("%+v", f), func(table string) bool {
			return table == "b" && f.Job.IsZero() && (f.Live || len(f.IDs) == 0 && f.Name == "" && f.Outcome == 0 && (f.Prefix == "" || most))
		}, bits&8 != 0 || !f.Job.IsZero() || f.Prefix != "" && !most)
	}
}

// checkPlan wants no reading through other tables than may be, and no sorting unless it may be.
func checkPlan(t *testing.T, c *conn, sql, what string, through func(table string) bool, sorts bool) {
	t.Helper()
	steps := plan(t, c, sql)
	for _, step := range steps {
		table := goesThrough(step)
		if strings.Contains(step, "TEMP B-TREE") && !sorts || table != "" && table != "json_each" && !through(table) ||
			strings.Contains(step, "AUTOMATIC") {
			t.Errorf("%s: %s\n%s\n%s", what, step, sql, strings.Join(steps, "\n"))
		}
	}
}

// What a commit and a look-up ask finds its rows by an index. Load goes through what is unfinished, and what is ordered
// there is one build's references.
func TestStatementsAreLedByAnIndex(t *testing.T) {
	t.Parallel()
	s, _ := openFile(t)
	through := map[rows.Query]string{
		rows.GetHead: "head", rows.PutHead: "head", rows.Channels: "channel", rows.Classes: "class", rows.Workers: "worker", rows.Settings: "setting", rows.LiveBuilds: "b", rows.LiveJobs: "l",
		// These stop after a few rows.
		rows.OldRounds: "feed", rows.OldAnswers: "answer",
	}
	for _, w := range rows.Wholes { // These read all there is.
		through[w.All] = w.Name
	}
	through[rows.AllFailures], through[rows.AllRefs], through[rows.AllRounds] = "cached_failure", "build_ref", "feed"
	for q := range rows.Count {
		checkPlan(t, s.w, queries[q], fmt.Sprintf("statement %d", q), func(table string) bool {
			return table == through[q]
		}, q == rows.Refs || q == rows.LiveRefs)
	}
}
