package main

import "strings"

// requirement is something that a machine may lack and that a test may ask for.
type requirement struct {
	name string // as in the skip's message: "needs <name>"
	hint string // what to do to have it
}

// requirements are the only reasons for which a test may leave itself out. There is none today: what
// the tests need, scripts/setup installs.
var requirements []requirement

// explained finds the requirement that a skipped test's output names.
func explained(known []requirement, output string) (requirement, bool) {
	for _, r := range known {
		if strings.Contains(output, "needs "+r.name) {
			return r, true
		}
	}
	return requirement{}, false
}
