package job

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Q25 (River PR #1402): a back-off that overflowed put retries 292 years into the past.
func TestQ25BackoffNeverOverflowsNorGoesDown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		delay := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "delay"))
		factor := rapid.Int32().Draw(t, "factor")
		n := rapid.OneOf(rapid.Int32Range(0, 40), rapid.Int32Range(0, math.MaxInt32-1)).Draw(t, "n")
		r := rapid.Uint64().Draw(t, "random")
		span := min(delay, MaxBackoff) / 6
		this, next := Backoff(delay, factor, n, r), Backoff(delay, factor, n+1, r)
		switch {
		case this < 0 || this > MaxBackoff+span:
			t.Fatalf("Backoff(%d, %d, %d, %d) = %s", delay, factor, n, r, this)
		case next < this:
			t.Fatalf("Backoff(%d, %d, %d, %d) = %s, and %s one failure later", delay, factor, n, r, this, next)
		}
		if at := At(time.Unix(1<<33, 0)); at.Add(this) < at {
			t.Fatalf("a wait of %s ends before it begins", this)
		}
	})
}

func TestBackoffAtTheEdges(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	for _, c := range []struct {
		delay     time.Duration
		factor, n int32
		random    uint64
		want      time.Duration
	}{
		{minute, 3, 0, 0, minute},
		{minute, 3, 1, 0, minute},
		{minute, 3, 2, 0, 3 * minute},
		{minute, 3, 3, 0, 9 * minute},
		{minute, 3, 4, 0, 27 * minute},
		{minute, 3, 7, 0, 729 * minute},
		{minute, 3, 8, 0, MaxBackoff},
		{minute, 3, math.MaxInt32, 0, MaxBackoff},
		{minute, 1, 1000, 0, minute},
		{minute, 0, 1000, 0, minute},
		{minute, -3, 1000, 0, minute},
		{minute, math.MaxInt32, 2, 0, 1000 * minute},
		{0, 3, 5, math.MaxUint64, 0},
		{-1, 3, 5, 0, 0},
		{math.MaxInt64, 3, 5, 0, MaxBackoff},
		{minute, 3, 1, 9_999_999_999, minute + 9_999_999*time.Microsecond},
		{minute, 3, 1, 10_000_000_000, minute},
	} {
		if got := Backoff(c.delay, c.factor, c.n, c.random); got != c.want {
			t.Errorf("Backoff(%s, %d, %d, %d) = %s, want %s", c.delay, c.factor, c.n, c.random, got, c.want)
		}
	}
}

// Each way to end badly has a budget of its own (rule 5).
func TestJudgeChargesOneBudget(t *testing.T) {
	t.Parallel()
	r := Retry{Failures: 1, Aborts: 2, Losses: 1, Crashes: 1, Delay: time.Minute, Factor: 3}
	spent := Tally{Attempts: 9, Failures: 1, Aborts: 1, Losses: 1, Crashes: 1}
	for _, c := range []struct {
		outcome Outcome
		detail  Detail
		charged Tally
		wait    time.Duration
		final   bool // no attempt follows even the first
	}{
		{outcome: Aborted, charged: Tally{Aborts: 1}, wait: time.Minute},
		{outcome: Aborted, detail: NotStarted, charged: Tally{Aborts: 1}, wait: time.Minute},
		{outcome: Aborted, detail: LeaseLost, charged: Tally{Losses: 1}},
		{outcome: Aborted, detail: WorkerCrashed, charged: Tally{Crashes: 1}},
		{outcome: Failed, charged: Tally{Failures: 1}},
		{outcome: Failed, detail: MissingOutput, charged: Tally{Failures: 1}},
		{outcome: Failed, detail: LogLimit, final: true},
		{outcome: Failed, detail: OutputLimit, final: true},
		{outcome: TimedOut, detail: TotalTimeout, final: true},
		{outcome: Cancelled, final: true},
	} {
		first := judge(r, Tally{}, c.outcome, c.detail, 0)
		if want := (verdict{again: !c.final, wait: c.wait, tally: c.charged}); first != want {
			t.Errorf("%s %s: %+v, want %+v", c.outcome, c.detail, first, want)
		}
		if last := judge(r, spent, c.outcome, c.detail, 0); last.again {
			t.Errorf("%s %s: tried again though its budget is spent", c.outcome, c.detail)
		}
	}
	if v := judge(r, spent, Aborted, HandedBack, 0); v != (verdict{again: true, tally: spent}) {
		t.Errorf("handed back: %+v, want a further attempt at once that costs nothing", v)
	}
	if v := judge(Retry{Failures: -1, Aborts: -1, Losses: -1, Crashes: -1}.Or(r), Tally{}, Aborted, LeaseLost, 0); v.again {
		t.Error("a negative count allows a further attempt")
	}
}
