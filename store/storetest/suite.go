package storetest

import (
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// Store is what every backend gives.
type Store interface {
	queue.Store
	queue.History
}

// Reopener is a place that stores are opened on, one at a time.
type Reopener interface {
	// Open gives a store on what is committed. A store given before is dead, as if its process had been
	// killed, and is not used again. Close is called on neither.
	Open(t testing.TB) Store
	// Damage makes the stored description of the job unreadable, as a bad disk might. The next use of the
	// place is Open.
	Damage(t testing.TB, id job.ID)
}

// Run holds the store to the contract. Each call of open gives an empty place; what it holds is freed by
// t.Cleanup.
func Run(t *testing.T, open func(t testing.TB) Reopener) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, open func(t testing.TB) Reopener)
	}{
		{"Numbers", testNumbers},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, open)
		})
	}
}
