// Package sim runs the engine in virtual time, against all that can go wrong, and predicts every reply.
//
// A seed makes a world: a queue.Queue over a store in memory, workers that come, crash and go, builds that share jobs,
// a store that fails before or after it commits, owners that die in any round, and a clock that moves in
// whole seconds, so that equal times happen. After each step the world compares what the engine said and holds
// with a model that knows the design's rules and nothing of the engine's means: plain structs and full scans.
//
// The simulation is one goroutine's: it gives one command at a time, and waits until the engine is quiet. It must run
// in a synctest bubble; the same seed then gives the same history, to the last byte of the change feed.
//
// What it does not do: several callers at once whose order nobody can predict, the staging of large submissions, and
// real stores; those have tests of their own. Start reading at world.go, then model.go (the rules: what is known, what
// follows, who is next) and model_commands.go (what is asked, and what is answered).
package sim
