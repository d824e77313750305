// Package job is the vocabulary and the pure core of the queue: jobs and their states, builds,
// workers, the dependency graph, the retry rules, and the Machine that decides every command.
//
// It does no input or output, starts no goroutine, and reads neither a clock nor a random source:
// the caller passes in now, tokens, ids and randomness. Durability, timers and waiting belong to
// package queue; which ready job goes to which worker belongs to package sched.
//
// A Machine is owned by one goroutine at a time; nothing here locks. Start reading at state.go (where
// a job can be), then change.go (how it moves), then machine.go (who decides).
package job
