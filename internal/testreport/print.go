package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// shown is how many of the slowest tests are listed.
const shown = 10

// printPackage writes the line of a package that has just ended, and what its failures said.
func (r *report) printPackage(w io.Writer, pkg string) {
	p := r.packages[len(r.packages)-1]
	passed := 0
	for _, t := range r.passed {
		if t.pkg == pkg {
			passed++
		}
	}
	switch r.packageEnd[pkg] {
	case "pass":
		fmt.Fprintf(w, "ok    %-56s %5d passed %8s\n", pkg, passed, short(p.took))
	case "skip":
		fmt.Fprintf(w, "-     %-56s no tests\n", pkg)
	default:
		fmt.Fprintf(w, "FAIL  %-56s %5d passed %8s\n", pkg, passed, short(p.took))
		for _, t := range append(r.unfinished(), r.failed...) {
			if t.pkg == pkg {
				fmt.Fprintf(w, "--- FAIL %s %s\n%s", pkg, t.test, indent(t.output))
			}
		}
		fmt.Fprint(w, indent(p.output))
		if races := r.races[pkg]; races != nil {
			fmt.Fprint(w, indent(races.String()))
		}
	}
}

// printEnd writes what stands at the end: lines that were no events, the slowest tests, what did not
// run, the verdict, and the closing line.
func (r *report) printEnd(w io.Writer, strict bool) {
	for _, s := range r.stray {
		fmt.Fprintf(w, "%s\n", s)
	}
	fmt.Fprintf(w, "\nslowest tests:\n")
	for _, t := range r.slowest(shown) {
		fmt.Fprintf(w, "  %8s  %s %s\n", short(t.took), t.pkg, t.test)
	}
	if len(r.skipped) == 0 {
		fmt.Fprintf(w, "\nevery test ran\n")
	} else {
		fmt.Fprintf(w, "\ndid not run:\n")
	}
	for _, t := range r.skipped {
		hint := "no known requirement; see requirements.go"
		if q, ok := explained(r.known, t.output); ok {
			hint = "needs " + q.name + ": " + q.hint
		}
		fmt.Fprintf(w, "  %s %s (%s)\n%s", t.pkg, t.test, hint, indent(t.output))
	}
	for _, why := range r.verdict(strict) {
		fmt.Fprintf(w, "FAIL: %s\n", why)
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", len(r.passed), r.failures(), len(r.skipped))
}

func short(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }

func indent(s string) string {
	if s = strings.TrimRight(s, "\n"); s == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(s, "\n", "\n    ") + "\n"
}
