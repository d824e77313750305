// Command headrace runs graphs of jobs.
//
// Package main is flags and wiring: it alone picks a store. One file for each command; what `run` is made of
// is in run_*.go:
//
//	run.go          the command and its flags
//	run_graph.go    the file, made into a submission; input.go: where it comes from
//	run_reuse.go    which jobs need not run again
//	run_session.go  the engine and the worker, from start to end
//	run_announce.go what is told before anything starts; unable.go: what cannot run here
//	run_end.go      failures, signals, and the end
//	run_brake.go    nothing starts once the run stops
//	run_monitor.go  what the engine stored, told as events
//	run_plan.go     --dry-run and --graph
//
// The commands of a farm, a server elsewhere, are in farm_*.go, over api.Client; what they show is drawn by internal/farm:
//
//	farm.go          which server, which token, and what went wrong with it
//	farm_submit.go   a graph, made into a submission; farm_wait.go: waiting for its end
//	farm_show.go     lists and details; farm_change.go: what changes something; farm_token.go
//	farm_complete.go what shells are offered
//
// The other commands read the store of a run; see store.go for where it is, record.go for how they find a job in it,
// and view.go for the words in which they tell of it.
package main
