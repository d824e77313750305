package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/rows"
)

// Finding is something in a store that must not be so.
type Finding struct {
	// Table and Key name the row; of what is amiss with all of a store, the table is "engine", "head" or "file", and there is no key.
	Table string `json:"table"`
	Key   string `json:"key,omitempty"`
	// Problem is what was found, and Want what should be there.
	Problem string `json:"problem"`
	Want    string `json:"want"`
}

func (f *Finding) String() string {
	at := f.Table
	if f.Key != "" {
		at += " " + f.Key
	}
	return fmt.Sprintf("%s: %s; want %s", at, f.Problem, f.Want)
}

// Counts says how much was checked.
type Counts struct {
	Jobs   int `json:"jobs"`
	Builds int `json:"builds"`
	Rounds int `json:"rounds"`
}

// Kind tells what is wrong with what jobs of a kind, in a channel, keep in a store, to which it is opaque.
type Kind struct {
	Channel, Kind string
	Args          func([]byte) error
	// Result is that of a job; one that ran and succeeded must have one.
	Result func([]byte) error
}

// Check reads all that a store holds, and reports whatever contradicts itself: records that cannot be read, rows that name
// what is not there, jobs in no state or in two, gaps, and whatever keeps the engine from going on. Args and results are
// looked at where their kind is given. It ends with the error that report gives, or with one of reading. It takes some hundred
// bytes of memory for each job.
func Check(t rows.Tables, kinds []Kind, report func(Finding) error) (Counts, error) {
	c := &checking{
		tables: t, kinds: kinds, report: report,
		jobs: map[int64]*jobCheck{}, ids: map[job.ID]int64{}, builds: map[int64]*buildCheck{}, unfinished: map[job.Identity]int64{},
		places: map[int64]job.ID{},
	}
	err := c.run()
	return Counts{len(c.jobs), len(c.builds), c.rounds}, err
}

// checking is a Check under way.
type checking struct {
	tables rows.Tables
	kinds  []Kind
	report func(Finding) error
	// err is the first error of report.
	err error

	head   rows.Head
	newest rows.Head // as the rows say
	jobs   map[int64]*jobCheck
	ids    map[job.ID]int64
	builds map[int64]*buildCheck
	// unfinished has who of each identity is.
	unfinished map[job.Identity]int64
	// places are those of the references that the build placesOf makes.
	places   map[int64]job.ID
	placesOf int64
	rounds   int
}

// jobCheck is what other rows are held against.
type jobCheck struct {
	id       job.ID
	identity job.Identity
	// needs are the dependencies, sorted, and got tells whose edges have been seen; unread: the spec cannot be read.
	needs  []job.ID
	got    []bool
	unread bool

	kind *Kind // if it is known

	live, waits, runs, ended bool
	cached, result           bool
	outcome                  job.Outcome
	told                     job.Outcome // by a reference
	// started is how many attempts were, as the tally says, or the attempt that runs or ended with the job; untold: what
	// would say so cannot be read.
	started int32
	untold  bool
	last    int32 // that ended with the job, or runs
	seen    int32 // attempts that ended before
	doubt   bool  // about them something has been found already
}

type buildCheck struct {
	id    job.ID
	ended bool
}

func (c *checking) run() error {
	head, err := rows.ReadHead(c.tables)
	if err != nil {
		return err
	}
	c.head = head
	checks := map[string]func([]rows.Value){
		"channel": c.channel, "worker": c.worker, "class": c.class, "setting": c.setting, "took": c.took, "failure": c.failure, "build": c.build,
		"job": c.job, "edge": c.edge, "ref": c.ref, "live": c.live, "ended": c.end, "attempt": c.attempt, "result": c.result,
		"round": c.round,
	}
	for _, table := range tables {
		err := table.Scan(c.tables, func(row []rows.Value) error {
			c.row(table, row)
			if check := checks[table.Name]; check != nil {
				check(row)
			}
			return c.err
		})
		if err != nil {
			return err
		}
	}
	c.all()
	if c.err == nil {
		c.err = c.engine()
	}
	return c.err
}

func (c *checking) found(table, key, want, problem string, args ...any) {
	if c.err == nil {
		c.err = c.report(Finding{table, key, fmt.Sprintf(problem, args...), want})
	}
}

// row checks what any row must be: ids have sixteen bytes, and what is encoded can be decoded.
func (c *checking) row(t *table, row []rows.Value) {
	for i := range t.Columns {
		column, v := &t.Columns[i], &row[i]
		switch {
		case column.Kind == rows.ID && v.Kind == rows.Blob:
			c.found(t.Name, c.key(t, row), "16", "%s has %d bytes", column.Name, len(v.Blob))
		case v.Kind == rows.Blob && t.forms[i].fault != nil:
			if err := t.forms[i].fault(v.Blob); err != nil {
				c.found(t.Name, c.key(t, row), "a record that can be decoded", "%s cannot be read: %v", column.Name, err)
			}
		}
	}
}

// keys names the columns by which the rows of a table are told apart.
var keys = map[string][]string{
	"channel": {"name"}, "worker": {"name"}, "class": {"channel", "kind", "system", "features", "pin"}, "usage": {"slice", "channel", "group"},
	"setting": {"space", "name"},
	"took":    {"channel", "kind", "name"}, "failure": {"channel", "kind", "key"}, "build": {"id"}, "job": {"id"}, "edge": {"seq", "dep"},
	"ref": {"build", "job"}, "live": {"seq"}, "ended": {"seq"}, "attempt": {"seq", "number"}, "result": {"seq"}, "round": {"number"},
	"answer": {"request"},
}

// key names a row: that of a job by its id, where there is such a job.
func (c *checking) key(t *table, row []rows.Value) string {
	key := ""
	for _, name := range keys[t.Name] {
		i := slices.IndexFunc(t.Columns, func(column rows.Column) bool { return column.Name == name })
		if key != "" {
			key += " "
		}
		switch {
		case name == "seq":
			key += c.jobKey(row[i].Int)
		case t.Name == "ref" && name == "build":
			key += c.buildKey(row[i].Int)
		case row[i].Kind == rows.Text:
			key += strconv.Quote(row[i].Text)
		case row[i].Kind == rows.ID:
			key += row[i].ID.String()
		default:
			key += string(t.forms[i].show(nil, &row[i]))
		}
	}
	return key
}

// jobKey names a job by its seq.
func (c *checking) jobKey(seq int64) string {
	if j := c.jobs[seq]; j != nil {
		return j.id.String()
	}
	return fmt.Sprintf("(seq %d)", seq)
}

func (c *checking) buildKey(seq int64) string {
	if b := c.builds[seq]; b != nil {
		return b.id.String()
	}
	return fmt.Sprintf("(seq %d)", seq)
}

// seq checks that the number of a build or job was given, and once.
func (c *checking) seq(table string, id job.ID, seq int64) {
	if seq < 1 || seq > c.head.Seq {
		c.found(table, id.String(), fmt.Sprintf("1 to %d, the greatest that the head knows", c.head.Seq), "its seq is %d", seq)
	}
	if table == "job" && c.builds[seq] != nil {
		c.found(table, id.String(), "a seq of its own", "its seq %d is that of build %s, too", seq, c.builds[seq].id)
	}
}

// all checks what is known once all rows are read.
func (c *checking) all() {
	list := make([]int64, 0, len(c.jobs))
	for seq := range c.jobs {
		list = append(list, seq)
	}
	slices.Sort(list)
	for _, seq := range list {
		j := c.jobs[seq]
		for i, dep := range j.needs {
			if j.got[i] {
				continue
			}
			c.found("edge", j.id.String()+" "+dep.String(), "an edge for each dependency", "it is missing, and the job names that dependency")
		}
		if !j.live && !j.ended {
			c.found("job", j.id.String(), "one of both", "it is neither live nor ended")
		}
		if j.waits && j.ended {
			c.found("live", j.id.String(), "one of both", "the job is unfinished here, and has ended in table ended")
		}
		if j.live && !j.waits && !j.runs && !j.ended {
			c.found("live", j.id.String(), "a row in table ended", "the job is Done here, and how it ended is missing")
		}
		if j.waits && j.told != 0 {
			c.found("ref", j.id.String(), "nothing, as the job is unfinished", "a reference says that the job ended %s", j.told)
		}
		if j.kind != nil && j.outcome == job.Succeeded && !j.cached && !j.result {
			c.found("result", j.id.String(), "the result of a job that succeeded", "it is missing")
		}
		c.attempts(j)
	}
	if c.newest.Number != c.head.Number {
		c.found("head", "", fmt.Sprintf("number %d, that of the newest round", c.newest.Number), "its number is %d", c.head.Number)
	} else if c.newest.At != c.head.At {
		c.found("head", "", "the time of the newest round, "+string(appendTime(nil, c.newest.At)), "its time is %s", appendTime(nil, c.head.At))
	}
}

// attempts checks that those that ended before the job are all that were started, but for the one that runs or ended with it.
func (c *checking) attempts(j *jobCheck) {
	if j.untold || j.doubt {
		return
	}
	most := max(j.started, j.last)
	least := most
	if j.last > 0 && j.last == most {
		least-- // A late finish leaves it in both places.
		if j.runs {
			most--
		}
	}
	if j.seen < least || j.seen > most {
		c.found("attempt", j.id.String(), fmt.Sprintf("%d, as %d were started", least, most), "attempts that ended before the job: %d", j.seen)
	}
}

// engine loads the state as the engine would, and has it check what it derives.
func (c *checking) engine() error {
	m := job.New(c.head.At)
	// Whoever gave the tables has them end with the caller's context.
	_, err := rows.Load(context.Background(), c.tables, func(change job.Change) error {
		if err := m.Apply(change); err != nil {
			c.found("engine", "", "a state that can be loaded", "%v", err)
		}
		return c.err
	})
	if err != nil {
		return err
	}
	m.Restore(c.head.Seq)
	m.Loaded(c.head.At)
	m.Touched(func(*job.Job) {})
	m.Moved(func(string) {})
	var many interface{ Unwrap() []error }
	if errors.As(m.Check(c.head.At), &many) {
		for _, err := range many.Unwrap() {
			c.found("engine", "", "a state that agrees with itself", "%v", err)
		}
	}
	return c.err
}
