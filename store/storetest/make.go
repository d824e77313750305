package storetest

import (
	"encoding/binary"

	"github.com/headrace/headrace/job"
)

// start is a moment late enough that a week before it is still a moment.
const start = job.Time(1_800_000_000_000_000)

// id gives the n-th id of a kind of record.
func id(kind byte, n int64) job.ID {
	var v job.ID
	v[0] = kind
	binary.BigEndian.PutUint64(v[8:], uint64(n))
	return v
}

func jobID(n int64) job.ID     { return id('j', n) }
func buildID(n int64) job.ID   { return id('b', n) }
func requestID(n int64) job.ID { return id('r', n) }
