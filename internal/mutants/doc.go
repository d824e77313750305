// Mutants plants known faults in the code, one at a time, and checks that a test catches each: a check
// that no planted fault trips is not a check. `make mutants` runs it.
//
//	go run ./internal/mutants [-only id,id] [-parallel 2] [-list]
//
// The faults are listed in faults/*.txt, of which each says at its head what it has:
//
//	# Anything from a number sign at the beginning of a line is a remark.
//	fault: empty-word-is-an-outcome
//	plants: an empty text is read as an outcome, the one that no job has
//	file: job/words.go
//	tests: ./job -run ^TestOutcomeWords$
//	-old-
//		return Outcome(i), ok && i > 0
//	-new-
//		return Outcome(i), ok
//	-end-
//
// fault is the identifier, plants says in a sentence what goes wrong, file is what is changed, and tests
// are the arguments of go test that should fail, at best no more than the package and the pattern that
// are meant to see it. The text between -old- and -new- must occur exactly once in the file, byte for byte
// and without its last line feed, so that it may also be a part of one line; where it occurs more often,
// take a line above or below along. The text between -new- and -end- takes its place; it may be empty.
//
// First every fault must apply and the tests must pass without any (and be there at all); otherwise nothing
// is judged. Then each fault is compiled in by way of go's -overlay flag, which leaves the tree untouched.
// A failing test is a catch, and so is a test that hangs until the time limit. What does not
// compile is no catch, but a bad fault.
//
// It exits with 0 if each was caught, 1 if one escaped or was bad, 2 if the faults could not be judged.
//
// Start reading at fault.go (the format), then run.go (how one is judged).
package main
