package main

import (
	"testing"

	"github.com/google/uuid"
)

func TestLedgerReportsWhatWasNotHandedOutOnce(t *testing.T) {
	t.Parallel()
	a, b := uuid.New(), uuid.New()
	for name, c := range map[string]struct {
		given ledger
		ok    bool
	}{
		"each once":    {ledger{a: 1, b: 1}, true},
		"one twice":    {ledger{a: 2, b: 1}, false},
		"one not":      {ledger{a: 1}, false},
		"another, too": {ledger{a: 1, b: 1, uuid.New(): 1}, false},
	} {
		if err := c.given.check([]uuid.UUID{a, b}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEndedReportsWhatHasNotEndedInOrder(t *testing.T) {
	t.Parallel()
	l := small(t)
	err := l.onDoor(t.Context(), onSQLite, func(d door) error {
		ids, err := d.graph()
		if err != nil {
			return err
		}
		if d.ended(ids) == nil || d.ended([]uuid.UUID{uuid.New()}) == nil {
			t.Error("jobs have ended that wait, or that there are not")
		}
		_, given, err := d.work(t.Context(), make([]uuid.UUID, 3), graphSize, "depsolve", "image-builder-manifest", image, "koji-finalize")
		if err != nil {
			return err
		}
		if err := given.check(ids); err != nil {
			t.Error(err)
		}
		if err := d.ended(ids); err != nil {
			t.Error(err)
		}
		if d.ended([]uuid.UUID{ids[1], ids[0]}) == nil {
			t.Error("nothing is said of a job that ended before its dependency")
		}
		other, err := d.Enqueue(image, nil, nil, tenant)
		if err != nil {
			return err
		}
		if _, err := d.dequeueOne(t.Context(), uuid.Nil, other, image); err != nil {
			return err
		}
		if _, err := d.RequeueOrFinishJob(other, 0, "another"); err != nil {
			return err
		}
		if d.ended([]uuid.UUID{other}) == nil {
			t.Error("nothing is said of another result")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
