package postgres

import (
	"encoding/binary"

	"github.com/headrace/headrace/store/rows"
)

// ownRows are rows that the owner wrote or read last, as they are in the tables: nobody else changes them. What a job goes
// through it mostly goes through soon, so that hardly a commit has to read. It holds only what is in the tables, or what the
// transaction under way puts there: after a failure it is forgotten as a whole. Its zero value is ready.
type ownRows struct {
	jobs map[int64]liveRow
	took map[seriesKey]tookRow
	// bare has true for jobs that have no row in result, and false for those that got one before their row in live.
	bare map[int64]bool
}

// ownMost is how many rows of each kind are kept; one takes some 200 bytes.
const ownMost = 32 << 10

// liveRow is a row of the table live. Its blobs are nil for null.
type liveRow struct {
	state, wake, delay  int64
	attempt, tally, own []byte
	held, open          bool
}

type seriesKey struct{ channel, kind, name string }

// tookRow is the row that counts of a series; the count is 0 where there is none.
type tookRow struct{ took, count int64 }

// put notes a row of live as it is written: state, wake, delay, attempt, tally, own, held, open, seq.
func (o *ownRows) put(row []rows.Value) {
	if o.jobs == nil {
		o.jobs = map[int64]liveRow{}
	}
	v := liveRow{state: row[0].Int, wake: row[1].Int, delay: row[2].Int, held: row[6].Int != 0, open: row[7].Int != 0}
	// One piece of memory for all three: the batch's own is used again.
	all := make([]byte, 0, len(row[3].Blob)+len(row[4].Blob)+len(row[5].Blob))
	for i, to := range []*[]byte{&v.attempt, &v.tally, &v.own} {
		if b := row[3+i].Blob; len(b) > 0 {
			from := len(all)
			all = append(all, b...)
			*to = all[from:len(all):len(all)]
		}
	}
	o.jobs[row[8].Int] = v
}

func (o *ownRows) drop(seq int64) {
	delete(o.jobs, seq)
	delete(o.bare, seq)
}

// added notes that a job has come: nothing of it is anywhere but what the batch has written.
func (o *ownRows) added(seq int64) {
	if _, ok := o.bare[seq]; !ok {
		o.setBare(seq, true)
	}
}

func (o *ownRows) setBare(seq int64, bare bool) {
	if o.bare == nil {
		o.bare = map[int64]bool{}
	}
	o.bare[seq] = bare
}

// live answers a GetLive as far as it can, and leaves in it what has to be asked.
func (o *ownRows) live(a *rows.Ask) error {
	var left []rows.Value
	var places []int // of those, in the whole question
	for i := range a.Keys {
		v, ok := o.jobs[a.Keys[i].Int]
		if !ok {
			left, places = append(left, a.Keys[i]), append(places, i)
			continue
		}
		if err := a.Row(i, v.cells()); err != nil {
			return err
		}
	}
	row := a.Row
	a.Keys = left
	a.Row = func(key int, c rows.Columns) error {
		look := *c.(*cells)
		state := look.Int()
		look.at += 3 // wake, delay, attempt
		if state <= ready && look.Null() {
			o.setBare(left[key].Int, true) // it never ran
		}
		return row(places[key], c)
	}
	return nil
}

// ready is the greatest state of a job that does not run and has not ended.
const ready = 1

func (v *liveRow) cells() *cells {
	return &cells{values: [][]byte{
		number(v.state), number(v.wake), number(v.delay), v.attempt, v.tally, v.own, truth(v.held), truth(v.open),
	}}
}

// learned answers a Took as far as it can, and leaves in it what has to be asked.
func (o *ownRows) learned(a *rows.Ask) error {
	if o.took == nil {
		o.took = map[seriesKey]tookRow{}
	}
	var left []rows.Value
	var places []int
	var series []seriesKey
	for i := 0; i < len(a.Keys)/a.Width; i++ {
		key := a.Keys[i*a.Width : (i+1)*a.Width]
		k := seriesOf(key)
		v, ok := o.took[k]
		switch {
		case !ok:
			left, places, series = append(left, key...), append(places, i), append(series, k)
			o.took[k] = tookRow{} // unless it is found
		case v.count != 0:
			if err := a.Row(i, &cells{values: [][]byte{number(v.took), number(v.count)}}); err != nil {
				return err
			}
		}
	}
	row := a.Row
	a.Keys = left
	a.Row = func(key int, c rows.Columns) error {
		v := tookRow{c.Int(), c.Int()}
		o.took[series[key]] = v
		return row(places[key], &cells{values: [][]byte{number(v.took), number(v.count)}})
	}
	return nil
}

func seriesOf(row []rows.Value) seriesKey { return seriesKey{row[0].Text, row[1].Text, row[2].Text} }

// learn notes a row of took as it is written: channel, kind, name, took, count. It gives the count of the row that this one
// stands in for; -1: there is none, or it is the same.
func (o *ownRows) learn(row []rows.Value) (before int64) {
	k := seriesOf(row)
	if before = o.took[k].count; before == 0 || before == row[4].Int {
		before = -1
	}
	o.took[k] = tookRow{row[3].Int, row[4].Int}
	return before
}

// bound lets go of what is too much, whatever it is: a row that is missed is read.
func (o *ownRows) bound() {
	trim(o.jobs)
	trim(o.took)
	trim(o.bare)
}

func trim[K comparable, V any](m map[K]V) {
	for k := range m {
		if len(m) <= ownMost {
			return
		}
		delete(m, k)
	}
}

func truth(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}

// number is a parameter or a column that is no array.
func number(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }
