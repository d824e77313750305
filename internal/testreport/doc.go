// Testreport runs go test and says what happened in a way that hides nothing: a line for each package,
// the output of each failure, the slowest tests, and, at the end, every test that did not run.
//
//	go run ./internal/testreport [flags and packages of go test]
//
// A test may leave itself out only for a requirement that is listed in requirements.go, with words that
// say how to meet it; any other skip is a failure. With CI=true in the environment no skip is accepted:
// what cannot run there is a failure. A run without a single test is a failure too.
//
// It exits with 0 if everything passed, 1 if not, and 2 if go test could not be started.
//
// Start reading at report.go, which gathers the events of go test -json; print.go writes them.
package main
