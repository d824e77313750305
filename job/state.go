package job

// State is where a job is: Blocked, Ready, Running or Done, and nothing else. Each legal transition is
// a method of the state that it leaves, so that an illegal one does not compile.
//
//sumtype:decl
type State interface {
	String() string
	state()
}

// Blocked waits: for dependencies, for a moment, for a build that is not under way yet, or for an
// attempt of its own identity that is still being stopped.
type Blocked struct{}

// Ready could start now if a worker asked.
type Ready struct{}

// Running has exactly one lease.
type Running struct{ Attempt *Attempt }

// Done has ended. It has no method that leaves it: a retry makes a new job.
type Done struct{ End *End }

// Attempt is one run of a job.
type Attempt struct {
	Number int32 // from 1
	Token  Token
	Worker string
	Start  Time
	// Groups are the share groups that pay for it, in order.
	Groups []string
	// Limits are what the worker was told at the start.
	Limits Limits
}

// End is how a job ended.
type End struct {
	At      Time
	Outcome Outcome
	Detail  Detail
	// Cached: it never ran; an earlier verdict on its identity was remembered.
	Cached bool
	// Root and RootOutcome: which job's end is the reason, for DependencyFailed and Cached.
	Root        ID
	RootOutcome Outcome
	// Message for people, of the last attempt or of whoever ended the job.
	Message string
}

// Release says that nothing holds the job back.
func (Blocked) Release() Ready { return Ready{} }

// End ends a job that never came to run.
func (Blocked) End(e *End) Done { return Done{e} }

// Start gives the job to a worker.
func (Ready) Start(a *Attempt) Running { return Running{a} }

// Block holds the job back again: its build went, or its time is not come.
func (Ready) Block() Blocked { return Blocked{} }

// End ends a job that never came to run.
func (Ready) End(e *End) Done { return Done{e} }

// Again puts the job back for a further attempt.
func (Running) Again() Blocked { return Blocked{} }

// End ends the job with its attempt.
func (Running) End(e *End) Done { return Done{e} }

func (Blocked) state() {}
func (Ready) state()   {}
func (Running) state() {}
func (Done) state()    {}

// The words by which people, wires and stores name the states.
func (Blocked) String() string { return "Blocked" }
func (Ready) String() string   { return "Ready" }
func (Running) String() string { return "Running" }
func (Done) String() string    { return "Done" }
