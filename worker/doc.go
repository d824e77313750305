// Package worker runs jobs on this machine.
//
// An Executor runs a Command as one attempt: in a process tree of its own that is gone when the attempt ends,
// whatever it forked, and also when this program is killed; with its output, line by line, in a log; and with a
// Result that says how it ended. A program that uses it calls Supervise first thing in main, and Reap before its
// first attempt: that kills what stayed if an earlier life was killed together with its supervisors.
//
// It knows no queue, lease or retry: package queue owns those, and a Result is what it is told.
//
// The log of an attempt has a form of its own (logformat.go): LogWriter writes it, LogReader reads it
// forward, from the last lines on, or along with its writer. One goroutine at a time uses a writer or
// a reader; any number of readers may look at a file that is being written.
//
// On Linux each attempt has a small supervisor process (supervisor_linux.go) and, where cgroups(7)
// version 2 lets us, a control group. On other systems there is only the process group: a process that left it
// survives the attempt, and all do when this program is killed.
//
// A command's standard output and standard error are one pipe and one stream of the log: two would lose the order in
// which it wrote.
//
// Start reading at executor.go (what happens to an attempt), then supervisor_linux.go (who kills).
package worker
