package rows

import (
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/codec"
)

// ReadFailures reads what queue.Failures gives, with one question or, where it passes by others, several.
func ReadFailures(t Tables, f queue.FailureFilter) ([]job.FailureCached, error) {
	var found []job.FailureCached
	limit, at := queue.PageLimit(f.Limit), f.Start()
	for {
		seen, full := 0, false
		key := []Value{text(at.Channel), text(at.Kind), text(at.Key), number(int64(limit))}
		err := t.Read(Failures, len(key), key, func(_ int, c Columns) error {
			seen++
			at = job.Identity{Channel: c.Text(), Kind: c.Text(), Key: c.Text()}
			has, over := f.Has(at)
			if full = full || over; full {
				return ErrEnough
			}
			// One whose row has another key than its record is damaged, too.
			if v, err := codec.DecodeFailure(c.Bytes()); has && err == nil && v.Identity == at {
				found = append(found, v)
				full = len(found) == limit
			}
			return nil
		})
		if err != nil || full || seen < limit {
			return found, err
		}
	}
}
