package memory

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/job"
)

var errDamaged = errors.New("damaged")

// spoilt is no form of anything.
var spoilt = []byte{0xff}

// Damage spoils a stored record, for tests of what a poisoned record does. It reports whether there is such a record.
// Table and key are those of package storetest's Reopener.
func (d *Disk) Damage(table, key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch table {
	case "worker":
		return spoil(d.workers.rows, key, func([]byte) []byte { return spoilt })
	case "channel":
		return spoil(d.channels.rows, key, func([]byte) []byte { return spoilt })
	case "setting":
		space, name, _ := strings.Cut(key, "/")
		return spoil(d.settings.rows, settingKey{space, name}, func([]byte) []byte { return spoilt })
	case "cached_failure":
		for i := range d.cached.rows {
			if i.Key == key {
				return spoil(d.cached.rows, i, func([]byte) []byte { return spoilt })
			}
		}
		return false
	case "feed":
		n, err := strconv.ParseUint(key, 10, 64)
		if err != nil || n <= d.dropped || n > d.number {
			return false
		}
		d.feed[n-d.dropped-1].changes = spoilt
		return true
	}
	key, number, _ := strings.Cut(key, "/")
	id, err := job.ParseID(key)
	if err != nil {
		return false
	}
	if table == "build" {
		return spoil(d.builds.rows, id, func(b *build) *build { n := *b; n.bad = true; return &n })
	}
	seq, ok := d.jobSeq.get(id)
	return ok && spoil(d.jobs.rows, seq, func(r *row) *row { n := *r; n.spoil(table, number); return &n })
}

func spoil[K comparable, V any](rows map[K]V, key K, f func(V) V) bool {
	v, ok := rows[key]
	if ok {
		rows[key] = f(v)
	}
	return ok
}

// spoil damages what a table of another store would have of the job.
func (r *row) spoil(table, number string) {
	switch table {
	case "job":
		r.spec = spoilt
	case "live":
		r.badLive = true
	case "ended":
		r.badEnd = true
	case "attempt":
		r.ended = slices.Clone(r.ended)
		for i := range r.ended {
			r.ended[i].bad = r.ended[i].bad || fmt.Sprint(r.ended[i].Number) == number
		}
	}
}
