package memory_test

import (
	"errors"
	"testing"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/memory"
	"github.com/headrace/headrace/store/storetest"
)

type place struct{ disk *memory.Disk }

func open(testing.TB) storetest.Reopener { return place{memory.NewDisk()} }

func (p place) Open(testing.TB) storetest.Store { return p.disk.Open() }

func (p place) Damage(t testing.TB, table, key string) {
	if !p.disk.Damage(table, key) {
		t.Fatalf("damage %q of table %s: there is none", key, table)
	}
}

func (p place) Close(testing.TB) {}

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, open)
}

func TestClockThatSteps(t *testing.T) {
	t.Parallel()
	storetest.Clock(t, open)
}

// Two memory stores, one of which crashes less often: what survives only in a handle shows as a difference.
func TestCrashesChangeNothing(t *testing.T) {
	t.Parallel()
	storetest.Compare(t, open, open)
}

func TestOldHandleIsFenced(t *testing.T) {
	t.Parallel()
	disk := memory.NewDisk()
	old := disk.Open()
	disk.Open()
	ctx := t.Context()
	_, load := old.Load(ctx, func(job.Change) error { return nil })
	_, committed := old.Committed(ctx, 1)
	_, lookup := old.Lookup(ctx, &queue.Query{})
	_, feed := old.Feed(ctx, 0, 1)
	_, jobs := old.Jobs(ctx, queue.JobFilter{})
	for i, err := range []error{load, old.Commit(ctx, &queue.Batch{Number: 1}), committed, lookup, feed, jobs} {
		if !errors.Is(err, queue.ErrFenced) {
			t.Errorf("call %d on an old handle: %v, want ErrFenced", i, err)
		}
	}
}
