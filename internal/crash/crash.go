package crash

import "sync/atomic"

// Point is a place between two steps.
type Point string

// The points, in the order in which a round comes to them.
const (
	RoundTaken     Point = "round-taken"     // the commands of a round are taken, nothing is decided
	RoundDecided   Point = "round-decided"   // all is decided and applied in memory, nothing is sent to the store
	CommitBegun    Point = "commit-begun"    // the store's transaction has begun and holds the owner's lock
	CommitWritten  Point = "commit-written"  // all rows are written, the transaction is open; on SQLite alone
	RoundCommitted Point = "round-committed" // the store has the batch, nobody was told
	RoundTold      Point = "round-told"      // everybody was told
	LeaseTaken     Point = "lease-taken"     // a worker has an assignment, and has not begun
	AttemptBegun   Point = "attempt-begun"   // its supervisor was told what to run, and runs it or is about to
	AttemptEnded   Point = "attempt-ended"   // its program has ended, its outcome is not reported
	FinishTold     Point = "finish-told"     // the engine has answered the report
)

// Points lists all points.
func Points() []Point {
	return []Point{
		RoundTaken, RoundDecided, CommitBegun, CommitWritten, RoundCommitted, RoundTold,
		LeaseTaken, AttemptBegun, AttemptEnded, FinishTold,
	}
}

var listener atomic.Pointer[func(Point)]

// Here is called at a point.
func Here(p Point) {
	if f := listener.Load(); f != nil {
		(*f)(p)
	}
}

// On has f called at each point, by whoever comes to it, from now on; nil: nobody. It is for the tests of a process that dies.
func On(f func(Point)) {
	if f == nil {
		listener.Store(nil)
		return
	}
	listener.Store(&f)
}
