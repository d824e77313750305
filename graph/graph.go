package graph

import (
	"time"

	"github.com/headrace/headrace/job"
)

// Graph is a checked graph of jobs. Jobs is in topological order over the needs with the policies
// success and finish: each job comes after all that it waits for, and jobs that are free of one
// another stay in the order of the file (variants in the order of their matrix).
type Graph struct {
	// Name is the name that the file gives; it may be empty.
	Name string
	Jobs []Job
}

// Job is one job of a graph, with defaults applied and matrix variables substituted.
type Job struct {
	// Name is unique in the graph. A variant of a matrix job is named base:value-value.
	Name string
	// Base is the name in the file: that of the matrix job that Name is a variant of, else Name.
	Base string
	Run  Command
	// Needs is sorted by the index of the job and names each at most once.
	Needs []Need
	// Env is sorted by name and names each variable once.
	Env []Var
	// Dir is where the command runs, relative to the file; empty means beside the file.
	Dir string
	// Timeout limits a whole attempt, Silence the time without output; 0 means no limit.
	Timeout, Silence time.Duration
	// Retries is how often a failed verdict is tried again.
	Retries int
	// RetryOn lists, sorted, the exit codes 1 to 255 that mean that the infrastructure failed.
	RetryOn []int
	// System is where the job can run, as in x86_64-linux; empty means anywhere.
	System string
	// Features lists, sorted and each once, what a worker must have.
	Features []string
	// Priority: the greater runs first; 0 is usual.
	Priority int
	// Exclusive: the job has its worker for itself.
	Exclusive bool
	// Key replaces the computed identity if it is not empty; see Graph.Keys.
	Key string
	// Outputs are globs relative to Dir; see MatchOutput.
	Outputs []string
	// Optional: the job's failure does not make its build fail.
	Optional bool
	// Line and Column tell where the file names the job; they count from 1, columns in characters.
	Line, Column int
}

// Command is what a job runs: either Shell, a line for the shell, or Argv, a program and its
// arguments; the other one is empty.
type Command struct {
	Shell string
	Argv  []string
}

// Need is an edge to a job that is needed.
type Need struct {
	// Job is an index into Graph.Jobs. With the policy order it may be any job, also a later one.
	Job    int
	Policy job.Policy
}

// Var is an environment variable.
type Var struct {
	Name, Value string
}

// waits reports whether the dependent waits for the needed job; an order edge only sorts.
func (n Need) waits() bool { return n.Policy != job.Order }
