package job

import "testing"

// The words are stored and sent: a changed one makes old records unreadable. So they stand here once more.

func TestPolicyWords(t *testing.T) {
	t.Parallel()
	sameWords(t, Policy.String, ParsePolicy, []Policy{Success, Finish, Order}, []string{"success", "finish", "order"})
	if p, ok := ParsePolicy("sucess"); ok {
		t.Errorf("a misspelt policy is taken for %v", p)
	}
	if p, ok := ParsePolicy(""); ok {
		t.Errorf("an empty policy is taken for %v", p)
	}
}

func TestOutcomeWords(t *testing.T) {
	t.Parallel()
	sameWords(t, Outcome.String, ParseOutcome,
		[]Outcome{Succeeded, Failed, DependencyFailed, TimedOut, Aborted, Cancelled, Unsupported},
		[]string{"succeeded", "failed", "dependency-failed", "timed-out", "aborted", "cancelled", "unsupported"})
	for _, s := range []string{"", "success", "Failed", "unknown"} {
		if o, ok := ParseOutcome(s); ok {
			t.Errorf("ParseOutcome(%q) gives %d", s, o)
		}
	}
}

func TestDetailWords(t *testing.T) {
	t.Parallel()
	sameWords(t, Detail.String, ParseDetail,
		[]Detail{
			NoDetail, LogLimit, OutputLimit, NonDeterministic, TotalTimeout, SilentTimeout, LeaseLost,
			WorkerCrashed, HandedBack, NotNeeded, WorkerFault, MissingOutput, NotStarted,
		},
		[]string{
			"", "log-limit", "output-limit", "non-deterministic", "total-timeout", "silent-timeout", "lease-lost",
			"worker-crashed", "handed-back", "not-needed", "worker-fault", "missing-output", "not-started",
		})
	if d, ok := ParseDetail("log limit"); ok {
		t.Errorf("a misspelt detail is taken for %v", d)
	}
}

func TestValuesBeyondTheLastWordAreUnknown(t *testing.T) {
	t.Parallel()
	for _, got := range []string{Policy(3).String(), Outcome(8).String(), Detail(13).String(), Detail(255).String()} {
		if got != "unknown" {
			t.Errorf("a value without a word is written as %q", got)
		}
	}
}

// sameWords checks that each value is written as its word, that the word reads as the value, and that
// the value after the last has none, so that a new value cannot go without a line here.
func sameWords[T ~uint8](t *testing.T, write func(T) string, read func(string) (T, bool), values []T, words []string) {
	t.Helper()
	for i, v := range values {
		if got := write(v); got != words[i] {
			t.Errorf("%d is written as %q, want %q", v, got, words[i])
		}
		if got, ok := read(words[i]); !ok || got != v {
			t.Errorf("%q reads as %d, %v; want %d", words[i], got, ok, v)
		}
	}
	if next := values[len(values)-1] + 1; write(next) != "unknown" {
		t.Errorf("%d has the word %q, which this test does not know", next, write(next))
	}
}
