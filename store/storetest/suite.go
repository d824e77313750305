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
	queue.Failures
}

// Reopener is a place that stores are opened on, one at a time.
type Reopener interface {
	// Open gives a store on what is committed. A store given before is dead, as if its process had been
	// killed, and is not used again. The suite closes none of them.
	Open(t testing.TB) Store
	// Damage makes a stored record unreadable, as a bad disk might. The next use of the place is Open. The tables,
	// and what names a record there: job, live, ended (what never changes of a job, what does, and its end: a job's ID),
	// attempt (the job's ID, a slash and the number), build (its ID), worker, channel (a name), setting (space, a slash and the name), cached_failure (a key),
	// feed (a number).
	Damage(t testing.TB, table, key string)
	// Close frees the place and the stores on it.
	Close(t testing.TB)
}

// Run holds the store to the contract. Each call of open gives an empty place.
func Run(t *testing.T, open func(t testing.TB) Reopener) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, p *place)
	}{
		{"Empty", testEmpty},
		{"Numbers", testNumbers},
		{"GreatestSeq", testGreatestSeq},
		{"Closed", testClosed},
		{"LifeOfJob", testLife},
		{"CancelledWhileRunning", testHeld},
		{"LateFinish", testLateFinish},
		{"Results", testResults},
		{"Progress", testProgress},
		{"EndedAttempts", testEndedAttempts},
		{"NothingIsShared", testNothingShared},
		{"Builds", testBuilds},
		{"BuildErased", testErased},
		{"Staging", testStaging},
		{"DeletedJobStaysInVerdict", testDeletedJob},
		{"Settings", testSettings},
		{"UsageLapses", testUsageLapses},
		{"KeptSuccess", testKept},
		{"CachedFailure", testCached},
		{"CachedFailureList", testCachedList},
		{"LearnedDuration", testLearned},
		{"Answers", testAnswers},
		{"Feed", testFeed},
		{"FeedHasNoSecrets", testSecrets},
		{"FeedTruncated", testTruncated},
		{"ImpossibleChange", testImpossible},
		{"IDAgainInOneBatch", testIDAgain},
		{"LargeBatch", testLargeBatch},
		{"DamagedJob", testDamagedJob},
		{"DamagedPartsOfJob", testDamagedParts},
		{"DamagedJobInUse", testDamagedInUse},
		{"DamagedBuild", testDamagedBuild},
		{"DamagedSettings", testDamagedSettings},
		{"DamagedFeed", testDamagedFeed},
		{"ReadsDuringCommits", testReads},
		{"ContextEnds", testContext},
		{"HistoryFilters", testFilters},
		{"HistoryCombinations", testCombinations},
		{"HistoryBuildCombinations", testBuildCombinations},
		{"HistoryPages", testPages},
		{"Dependents", testDependents},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := &place{Reopener: open(t)}
			t.Cleanup(func() { p.Close(t) })
			p.reopen(t)
			c.test(t, p)
		})
	}
}

// place is a Reopener with the store that is open on it, and where that stands.
type place struct {
	Reopener
	Store  Store
	number uint64
	at     job.Time
}

func (p *place) reopen(t testing.TB) {
	t.Helper()
	p.Store = p.Reopener.Open(t)
}

// commit stores the changes as the next batch, a second after the last.
func (p *place) commit(t testing.TB, changes ...job.Change) {
	t.Helper()
	if p.at == 0 {
		p.at = start
	}
	p.number++
	p.at += second
	b := &queue.Batch{Number: p.number, At: p.at, Changes: changes}
	if err := p.Store.Commit(t.Context(), b); err != nil {
		t.Fatalf("batch %d: %v", p.number, err)
	}
}
