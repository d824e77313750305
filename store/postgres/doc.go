// Package postgres is the store in a PostgreSQL database (15 or newer): for more than one machine.
//
// One process owns the store. A row names its epoch and its backend; every commit locks that row in share mode and checks
// the epoch, so that whoever lost the store cannot write, however late it wakes. An owner that has been silent for Lapse is
// dead to others: they end its backend, then raise the epoch. Other processes read with OpenReadOnly, at any time.
//
// All tables are in the schema headrace of the database, so that the database can be shared. Nothing that is read on
// the way to a commit is ever found by a scan past dead rows: live rows are touched by their primary key alone, no index
// names a state, and what changes often (the head, usage, learned durations) is added anew rather than rewritten, so that
// long transactions of others slow nothing. Writes of one batch to one table are one statement; a commit is one exchange
// with the server, or two where it has to read first: what the owner wrote last it knows (ownrows.go).
//
// What it does not do: install or configure a server, or listen for anything to hand out work: notifications are for those
// who watch. Store's Commit is for one goroutine; everything else may be called from many. Start reading at store.go and
// owner.go, then commit.go and migrations.
package postgres
