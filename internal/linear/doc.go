// Package linear checks that what the clients of a real queue see is what one that does one thing after the other would
// have shown them: its histories are linearizable, on each store, whatever dies and fails meanwhile.
//
// Clients of several kinds work at once, each as its seed says, with request ids and with repeats. Commits fail before, in and
// after they happened; the owner is dropped at any of them, and another one goes on with what is stored. What the clients
// were told is compared with the sequential specification in model_test.go. An answer that never came is one that may have been any.
//
// It consists of tests alone. Leases run out, too, but when is not judged. What it does not do: look at that, or at the order in which jobs
// are handed out; package sim does. Start reading at model_test.go, then world_test.go.
package linear
