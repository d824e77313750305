// Package sched decides which ready job goes to which waiting worker, and says why a job is not running.
//
// It is pure: a view over a job.Machine that follows it by Update, with the ready jobs in ordered heaps, one for
// each class and audience, so that a decision looks at the heads alone and never at what a worker cannot run. It
// changes nothing in the Machine: Next names a pair, the caller starts it, and tells the Scheduler by Update.
//
// A Scheduler is owned by the goroutine that owns the Machine. The rules are 8 to 13 of the design. Start
// reading at scheduler.go (what is kept), then next.go (the decision), then why.go.
package sched
