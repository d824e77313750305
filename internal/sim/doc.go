// Package sim runs the engine in virtual time, against all that can go wrong, and predicts every reply.
//
// A seed makes a world: a queue.Queue over a store in memory, workers that come, crash and go, builds that share jobs,
// a store that fails before or after it commits, owners that die in any round, and a clock that moves in
// whole seconds, so that equal times happen. After each step the world compares what the engine said and holds
// with a model that knows the design's rules and nothing of the engine's means: plain structs and full scans.
//
// In every second seed a round has a small budget, so that consequences take many rounds, and commands and deaths come in
// between. What such a round does first no rule tells: there the model follows the engine, and says of each change whether
// it may be (follow.go); once the engine is quiet, all is predicted again.
//
// The simulation is one goroutine's: it gives one command at a time, and waits until the engine is quiet, or holds the store
// back, and gives several in an order of its own. It must run
// in a synctest bubble; the same seed then gives the same history, to the last byte of the change feed.
//
// What it does not do: several callers at once whose order nobody can predict, and real stores; those have tests of
// their own. Start reading at world.go, then model.go (what is known, and what follows from it), model_commands.go (what is asked,
// and what is answered) and model_rounds.go (how a round goes, and who is served). Each rule of the design is told in
//
//	 1 identity     meet, remembered, close, keep, demand
//	 2 tokens       holder, report
//	 3 no waiting   link, blockers, doom, outlived; order edges: follows
//	 4 builds       endBuild, openGate, room, mBuild, ready
//	 5 retries      conclude, blame, crash
//	 6 timeouts     consequences, beat, restart
//	 7 cancel       cancel, cancelJob, cancelBuild, twin, free
//	 8 order        demand, queue, use, age, make
//	 9 matching     next, capable, slotFree, better, sooner
//	10 quarantine   blame, pardon
//	11 unsupported  unserved
//	12 no polling   round, serve
//	13 why          explain (work_people.go)
package sim
