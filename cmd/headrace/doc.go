// Command headrace runs graphs of jobs.
//
// Package main is flags and wiring: it alone picks a store. One file for each command; what `run` is made of
// is in run_*.go:
//
//	run.go          the command and its flags
//	run_graph.go    the file, made into a submission
//	run_reuse.go    which jobs need not run again
//	run_session.go  the engine, the worker and the signals, from start to end
//	run_brake.go    nothing starts between a failure and what follows from it
//	run_monitor.go  what the engine stored, told as events
//	run_plan.go     --dry-run and --graph
//
// The other commands read the store of a run; see record.go for how they find a job in it.
package main
