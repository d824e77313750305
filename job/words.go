package job

// Policy says how the end of a dependency acts on its dependent.
type Policy uint8

const (
	// Success: the dependent needs the dependency to succeed, else it ends as DependencyFailed.
	Success Policy = iota
	// Finish: any end of the dependency releases the dependent, which can read how it ended.
	Finish
	// Order: the edge only sorts; it never blocks, and an unknown dependency counts as satisfied.
	Order
)

var policyNames = [...]string{Success: "success", Finish: "finish", Order: "order"}

func (p Policy) String() string { return nameOf(policyNames[:], int(p)) }

// ParsePolicy is the inverse of Policy.String; ok is false for an unknown word.
func ParsePolicy(s string) (p Policy, ok bool) {
	i, ok := indexOf(policyNames[:], s)
	return Policy(i), ok
}

// Outcome is how a job or an attempt ended.
type Outcome uint8

const (
	// Succeeded: the work was done.
	Succeeded Outcome = iota + 1
	// Failed is a verdict: the work itself was judged bad. It is final unless the job says otherwise.
	Failed
	// DependencyFailed: a dependency whose success was needed did not succeed.
	DependencyFailed
	// TimedOut: a total or silent time limit ran out.
	TimedOut
	// Aborted: the infrastructure failed, not the work.
	Aborted
	// Cancelled: somebody cancelled it, or no live build needed it any more.
	Cancelled
	// Unsupported: no known worker could run it within the channel's grace.
	Unsupported
)

var outcomeNames = [...]string{
	Succeeded: "succeeded", Failed: "failed", DependencyFailed: "dependency-failed",
	TimedOut: "timed-out", Aborted: "aborted", Cancelled: "cancelled", Unsupported: "unsupported",
}

func (o Outcome) String() string { return nameOf(outcomeNames[:], int(o)) }

// ParseOutcome is the inverse of Outcome.String; ok is false for an unknown word.
func ParseOutcome(s string) (o Outcome, ok bool) {
	i, ok := indexOf(outcomeNames[:], s)
	return Outcome(i), ok && i > 0
}

// Detail refines an Outcome.
type Detail uint8

const (
	// NoDetail: the outcome says it all.
	NoDetail Detail = iota
	// LogLimit: the attempt wrote more log than it may.
	LogLimit
	// OutputLimit: the attempt made a larger output than it may.
	OutputLimit
	// NonDeterministic: repeated runs gave different outputs.
	NonDeterministic
	// TotalTimeout: the limit on the whole attempt ran out.
	TotalTimeout
	// SilentTimeout: the attempt wrote nothing for too long.
	SilentTimeout
	// LeaseLost: the worker was not heard of for a whole lease.
	LeaseLost
	// WorkerCrashed: the worker came back without the attempt, or said that it crashed.
	WorkerCrashed
	// HandedBack: the worker gave the attempt back unharmed (drain, upgrade); it costs no attempt.
	HandedBack
	// NotNeeded: no live build needed the job any more.
	NotNeeded
	// WorkerFault: the worker failed on its own account; the job is not blamed.
	WorkerFault
	// MissingOutput: the work ended well but a promised output was not there.
	MissingOutput
	// NotStarted: the command could not be started.
	NotStarted
)

var detailNames = [...]string{
	NoDetail: "", LogLimit: "log-limit", OutputLimit: "output-limit", NonDeterministic: "non-deterministic",
	TotalTimeout: "total-timeout", SilentTimeout: "silent-timeout", LeaseLost: "lease-lost",
	WorkerCrashed: "worker-crashed", HandedBack: "handed-back", NotNeeded: "not-needed",
	WorkerFault: "worker-fault", MissingOutput: "missing-output", NotStarted: "not-started",
}

func (d Detail) String() string { return nameOf(detailNames[:], int(d)) }

// ParseDetail is the inverse of Detail.String; ok is false for an unknown word.
func ParseDetail(s string) (d Detail, ok bool) {
	i, ok := indexOf(detailNames[:], s)
	return Detail(i), ok
}

func nameOf(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return "unknown"
	}
	return names[i]
}

func indexOf(names []string, s string) (int, bool) {
	for i, n := range names {
		if n == s {
			return i, true
		}
	}
	return 0, false
}
