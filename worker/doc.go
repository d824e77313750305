// Package worker runs jobs on this machine.
//
// An Executor runs a Command as one attempt: in a process tree of its own that is gone when the attempt ends,
// whatever it forked, and also when this program is killed; with its output, line by line, in a log; and with a
// Result that says how it ended. A program that uses it calls Supervise first thing in main, and Reap before its
// first attempt: that kills what stayed if an earlier life was killed together with its supervisors.
//
// The executor knows no queue, lease or retry: package queue owns those, and a Result is what it is told.
//
// The log of an attempt has a form of its own (logformat.go): LogWriter writes it, LogReader reads it
// forward, from the last lines on, or along with its writer. One goroutine at a time uses a writer or
// a reader; any number of readers may look at a file that is being written.
//
// On Linux each attempt has a small supervisor process (supervisor_linux.go) and, where cgroups(7)
// version 2 lets us, a control group. Its processes carry a brand (brand_linux.go) that a cleared environment and a session of
// their own do not take off. So they are found whoever is killed: this program, the supervisors, or all of them at once, when Reap
// finds them the next time. Three sorts of processes escape: one that sets its limit RLIMIT_LOCKS to something else and clears its
// environment as well, and then loses its supervisor, where there are no control groups; one that another user owns, whom this one
// may not signal; and one that a service outside starts on request (docker, systemd-run, at), which is none of the attempt's.
//
// On other systems there is only the process group: a process that left it
// survives the attempt, and all do when this program is killed.
//
// A command's standard output and standard error are one pipe and one stream of the log: two would lose the order in
// which it wrote.
//
// A Runtime leases jobs from a Source and has handlers work on them; an Outpost is one for a server elsewhere. Its Remote speaks
// with the server (remote.go, remote_loop.go), its Home keeps what must outlive the process (home.go), its Shipper sends logs while they
// grow (ship.go).
//
// Start reading at executor.go (what happens to an attempt), then supervisor_linux.go (who kills) and reap_linux.go
// (who finds what they could not).
package worker
