// Package memory is a store that lives as long as the process: for tests, for the simulator and as the
// model that other stores are compared with.
//
// A Disk holds what is committed, and outlives the handles on it: opening it again is what a restart after a
// crash is to a real store, and fences the older handle off. Nothing that a caller passes in or is given is
// shared with the Disk. All methods may be called from many goroutines.
//
// Start reading at disk.go, then apply.go, which says what each change does.
package memory
