// Package sqlite is the store in one SQLite file: the default, for one machine.
//
// One process owns the file; Open takes an operating system's lock beside it and tells others who holds it.
// The owner has one connection that writes, in WAL mode with every commit synced, and a few that read. Other
// processes read the same file with OpenReadOnly, while it is written and when nobody writes.
//
// A job is an immutable row in job, written once, and a narrow row in live, which exists only while the engine
// has the job in memory. No index names a state, so a job's steps rewrite one small row. What a batch does
// several times to one row is written once.
//
// Which rows a change is, and what rows read back are, says package rows; here are the file, its owner, and the SQL.
//
// Store's Commit is for one goroutine; everything else may be called from many. Start reading at store.go, then
// migrations, queries.go and package rows.
package sqlite
