// Package queue is the engine: it makes package job's decisions durable and hands work out. It is also
// the Go front door.
//
// One goroutine, Queue.Run, owns the Machine, the scheduler, the timers and the Store. It works in
// rounds: take the waiting commands, decide and apply each in order, commit all changes as one
// transaction, then reply. While one round is being stored the next is decided. Nobody is told anything
// before it is stored.
//
// What a backend must do is the Store interface here; package storetest checks it. Start reading at
// store.go, then serve.go and round.go.
package queue
