// Package crash marks the places in the engine between whose steps a process may die, so that tests can make it die there.
//
// A mark does nothing unless somebody listens: a test by On, or, in a binary that was built with the tag crashpoints, the
// environment: HEADRACE_CRASH="POINT:N" kills the process with SIGKILL when it comes to the point for the N-th time,
// and "POINT:N:stop" stops it with SIGSTOP. Points lists all there are.
package crash
