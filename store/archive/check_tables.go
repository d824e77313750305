package archive

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/store/codec"
	"github.com/headrace/headrace/store/rows"
)

// The methods of this file check a row each: of what the row says itself, and of what it says about rows that came before.

func (c *checking) channel(row []rows.Value) {
	v, err := codec.DecodeChannel(row[1].Blob)
	if err == nil && v.Name != row[0].Text {
		c.found("channel", strconv.Quote(row[0].Text), "the name of its row", "its record is of channel %q", v.Name)
	}
}

func (c *checking) worker(row []rows.Value) {
	v, err := codec.DecodeWorker(row[1].Blob)
	if err == nil && v.Name != row[0].Text {
		c.found("worker", strconv.Quote(row[0].Text), "the name of its row", "its record is of worker %q", v.Name)
	}
}

func (c *checking) class(row []rows.Value) {
	if row[5].Int == 0 {
		c.found("class", c.key(tableOf("class"), row), "since when nobody serves the class", "it has no time")
	}
}

func (c *checking) setting(row []rows.Value) {
	v, err := codec.DecodeSetting(row[2].Blob)
	if err == nil && (v.Space != row[0].Text || v.Name != row[1].Text) {
		c.found("setting", c.key(tableOf("setting"), row), "the space and the name of its row", "its record is of setting %q of space %q", v.Name, v.Space)
	}
}

func (c *checking) took(row []rows.Value) {
	if row[4].Int < 1 {
		c.found("took", c.key(tableOf("took"), row), "1 or more", "it was learned from %d runs", row[4].Int)
	}
}

func (c *checking) failure(row []rows.Value) {
	v, err := codec.DecodeFailure(row[3].Blob)
	if err != nil {
		return
	}
	if of := (job.Identity{Channel: row[0].Text, Kind: row[1].Text, Key: row[2].Text}); v.Identity != of {
		c.found("failure", c.key(tableOf("failure"), row), "the identity of its row", "its record is of %q", v.Identity)
	}
}

func (c *checking) build(row []rows.Value) {
	seq, id := row[0].Int, row[1].ID
	b := &buildCheck{id: id, ended: row[7].Int != 0}
	c.seq("build", id, seq)
	c.builds[seq] = b
	if b.ended != (row[8].Int != 0) {
		c.found("build", id.String(), "both, or neither", "it has %s without the other", map[bool]string{true: "an outcome", false: "a time of its end"}[b.ended])
	}
	if row[6].Int != 0 && row[5].Int != 0 {
		c.found("build", id.String(), "one of both", "it is staged, and under way")
	}
	if v, err := codec.DecodeBuild(row[9].Blob); err == nil && (v.ID != id || v.Name != row[3].Text) {
		c.found("build", id.String(), fmt.Sprintf("the id and the name %q of its row", row[3].Text), "its record is of build %s, %q", v.ID, v.Name)
	}
}

func (c *checking) job(row []rows.Value) {
	seq, id := row[0].Int, row[1].ID
	j := &jobCheck{id: id}
	c.seq("job", id, seq)
	c.jobs[seq], c.ids[id] = j, seq
	spec, err := codec.DecodeSpec(row[7].Blob)
	j.unread = err != nil
	for i := range spec.Needs {
		j.needs = append(j.needs, spec.Needs[i].Job)
	}
	slices.SortFunc(j.needs, compareIDs)
	j.needs = slices.Compact(j.needs)
	j.got = make([]bool, len(j.needs))
	if at := slices.IndexFunc(c.kinds, func(k Kind) bool { return k.Channel == row[3].Text && k.Kind == row[4].Text }); at >= 0 {
		j.kind = &c.kinds[at]
		if err := j.kind.Args(row[8].Blob); err != nil {
			c.found("job", id.String(), "arguments as its kind has them", "args cannot be read: %v", err)
		}
	}
	spec = job.Spec{ID: id, Channel: row[3].Text, Kind: row[4].Text, Key: row[6].Text}
	j.identity = spec.Identity()
}

func (c *checking) edge(row []rows.Value) {
	dep, seq := row[0].ID, row[1].Int
	j := c.jobs[seq]
	key := c.jobKey(seq) + " " + dep.String()
	if j == nil {
		c.found("edge", key, "a job of that seq", "its dependent is unknown")
		return
	}
	i, ok := slices.BinarySearchFunc(j.needs, dep, compareIDs)
	switch {
	case ok:
		j.got[i] = true
	case !j.unread:
		c.found("edge", key, "an edge that the job has", "the job names no such dependency")
	}
}

func (c *checking) ref(row []rows.Value) {
	build, id, ended := row[0].Int, row[1].ID, row[8].Int
	key := c.buildKey(build) + " " + id.String()
	if c.builds[build] == nil {
		c.found("ref", key, "a build of that seq", "its build is unknown")
	}
	seq, ok := c.ids[id]
	switch {
	case !ok && ended == 0:
		c.found("ref", key, "a job, or how it had ended when it was deleted", "its job is unknown")
	case ok && ended != 0:
		c.jobs[seq].told = job.Outcome(ended)
	}
	if build != c.placesOf { // they come build by build
		c.placesOf = build
		clear(c.places)
	}
	if other, twice := c.places[row[2].Int]; twice {
		c.found("ref", key, "a place of its own", "it has place %d of the build, and so has that to job %s", row[2].Int, other)
	}
	c.places[row[2].Int] = id
}

func (c *checking) live(row []rows.Value) {
	state, seq := row[0].Int, row[8].Int
	held, open := row[6].Int != 0, row[7].Int != 0
	key := c.jobKey(seq)
	j := c.jobs[seq]
	if j == nil {
		c.found("live", key, "a job of that seq", "its job is unknown")
		j = &jobCheck{}
	}
	word := string(states().append(nil, state))
	if state < 0 || state > 3 {
		c.found("live", key, "0 to 3", "its state is %d", state)
	}
	is := func(s job.State) bool {
		n, _ := rows.StateNumber(s.String())
		return n == state
	}
	done := is(job.Done{})
	j.live, j.runs, j.waits = true, is(job.Running{}), !done
	if j.runs != (row[3].Kind != rows.Null) {
		c.found("live", key, "an attempt of a running job, and of no other", "it is %s, and the attempt is %s", word, presence(row[3].Kind))
	}
	if done != (held || open) {
		c.found("live", key, "one of both of a Done job, and neither of others", "it is %s, held is %t and open is %t", word, held, open)
	}
	j.tell(row[4], codec.DecodeTally)
	if row[3].Kind != rows.Null {
		a, err := codec.DecodeAttempt(row[3].Blob)
		j.last, j.untold = a.Number, j.untold || err != nil
		if err == nil && !j.untold && a.Number != j.started {
			c.found("live", key, fmt.Sprintf("the newest that was started, number %d", j.started), "attempt %d runs", a.Number)
		}
	}
	if j.waits && c.jobs[seq] != nil {
		if other, ok := c.unfinished[j.identity]; ok {
			c.found("live", key, "at most one of an identity", "job %s has the identity %q, too, and both are unfinished", c.jobKey(other), j.identity)
		}
		c.unfinished[j.identity] = seq
	}
}

func presence(k rows.Kind) string {
	if k == rows.Null {
		return "missing"
	}
	return "there"
}

// tell takes in what a tally says.
func (j *jobCheck) tell(v rows.Value, decode func([]byte) (job.Tally, error)) {
	if v.Kind == rows.Null {
		return
	}
	t, err := decode(v.Blob)
	j.started, j.untold = max(j.started, t.Attempts), j.untold || err != nil
}

func (c *checking) end(row []rows.Value) {
	seq, outcome := row[0].Int, row[1].Int
	key := c.jobKey(seq)
	j := c.jobs[seq]
	if j == nil {
		c.found("ended", key, "a job of that seq", "its job is unknown")
		j = &jobCheck{}
	}
	j.ended, j.outcome = true, job.Outcome(outcome)
	if e, err := codec.DecodeEnd(row[2].Blob); err == nil {
		j.cached = e.Cached
		if int64(e.Outcome) != outcome {
			c.found("ended", key, "the outcome of its row", "its record says %s, and its row %s", e.Outcome, job.Outcome(outcome))
		}
		if e.Outcome == job.DependencyFailed && e.Root.IsZero() {
			c.found("ended", key, "the job that was the root of it", "it is dependency-failed by no job")
		}
	}
	if !j.live {
		j.tell(row[4], codec.DecodeTally)
	}
	if row[3].Kind == rows.Null {
		return
	}
	a, err := codec.DecodeAttemptEnd(row[3].Blob)
	j.last, j.untold = a.Number, j.untold || err != nil
	if err == nil && !j.untold && a.Number != j.started {
		c.found("ended", key, fmt.Sprintf("the newest that was started, number %d", j.started), "attempt %d ended with the job", a.Number)
	}
}

func (c *checking) attempt(row []rows.Value) {
	seq, number := row[0].Int, row[1].Int
	key := fmt.Sprintf("%s %d", c.jobKey(seq), number)
	j := c.jobs[seq]
	if j == nil {
		c.found("attempt", key, "a job of that seq", "its job is unknown")
		return
	}
	if number != int64(j.seen)+1 && !j.doubt {
		c.found("attempt", key, fmt.Sprintf("number %d", j.seen+1), "attempt %d follows on number %d", number, j.seen)
		j.doubt = true
	}
	j.seen++
	if a, err := codec.DecodeAttemptEnd(row[2].Blob); err == nil && int64(a.Number) != number {
		c.found("attempt", key, "the number of its row", "its record is of attempt %d", a.Number)
	}
}

func (c *checking) result(row []rows.Value) {
	key := c.jobKey(row[0].Int)
	j := c.jobs[row[0].Int]
	if j == nil {
		c.found("result", key, "a job of that seq", "its job is unknown")
		j = &jobCheck{}
	}
	if j.result = row[1].Kind != rows.Null; j.result && j.kind != nil {
		if err := j.kind.Result(row[1].Blob); err != nil {
			c.found("result", key, "a result as its kind has them", "job cannot be read: %v", err)
		}
	}
	if row[3].Int != 0 && row[1].Kind == rows.Null {
		c.found("result", key, "the job's result", "that of the attempt is the same, and there is none")
	}
}

func (c *checking) round(row []rows.Value) {
	number := uint64(row[0].Int)
	c.rounds++
	want := c.newest.Number + 1
	if c.rounds == 1 {
		want = c.head.Dropped + 1
	}
	if number != want {
		c.found("round", strconv.FormatUint(number, 10), fmt.Sprintf("number %d: what is older than the feed goes up to %d, and then none is missing", want, c.head.Dropped), "rounds are missing before it")
	}
	c.newest = rows.Head{Number: number, At: job.Time(row[1].Int)}
}

func compareIDs(a, b job.ID) int { return bytes.Compare(a[:], b[:]) }

// tableOf gives the table of a name, which there is.
func tableOf(name string) *table {
	return tables[slices.IndexFunc(tables, func(t *table) bool { return t.Name == name })]
}
