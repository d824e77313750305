// Package server serves a queue over HTTP: the API of package api under /api/v1, with its OpenAPI document, metrics and health.
//
// It decides nothing about jobs: each call becomes one of package queue, whose errors are told by the table in package api. What is
// its own: who may do what (auth.go), the calls of workers, which it holds until there is something to say (sync.go), events for
// those who watch (events.go), and schedules.
//
// A Server owns no engine: its caller runs the Queue, and opens store and depot. Its handler may be called at any time; while
// nobody owns the store it answers 503, with Retry-After. Nothing here may stand in the way of several servers on one store: what it
// remembers of workers is volatile, and made anew from what they say.
//
// Start reading at server.go, then operations.go.
package server
