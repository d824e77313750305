package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// event is one line of go test -json (see go doc test2json); build events carry ImportPath instead of
// Package.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// testID names a test, or a package's own lines if test is empty.
type testID struct{ pkg, test string }

// ended is a test that has ended.
type ended struct {
	testID
	took   time.Duration
	output string // kept for failures and skips only
}

// report gathers the events of one run.
type report struct {
	known []requirement // the reasons to skip that are accepted

	running map[testID]bool             // tests that have begun and not ended
	output  map[testID]*strings.Builder // of what has not ended
	build   map[string]*strings.Builder // the compiler's words by import path
	parent  map[testID]bool             // tests that have subtests: those count, not the parent

	passed, failed, skipped []ended
	packages                []ended // in the order in which they ended
	packageEnd              map[string]string
	stray                   []string                    // lines that are no events
	racing                  map[string]bool             // packages in whose output a data race is being told of
	races                   map[string]*strings.Builder // what was told, by package
}

func newReport(known []requirement) *report {
	return &report{
		known:      known,
		running:    map[testID]bool{},
		output:     map[testID]*strings.Builder{},
		build:      map[string]*strings.Builder{},
		parent:     map[testID]bool{},
		packageEnd: map[string]string{},
		racing:     map[string]bool{},
		races:      map[string]*strings.Builder{},
	}
}

// add takes one line of go test -json. It returns the package that this line ended, if it did.
func (r *report) add(line []byte) (pkg string, done bool) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil || e.Action == "" {
		r.stray = append(r.stray, string(line))
		return "", false
	}
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		written(r.build, e.ImportPath).WriteString(e.Output)
	case "output":
		written(r.output, id).WriteString(e.Output)
		r.watchRace(e)
	case "run":
		r.running[id] = true
		if i := strings.LastIndexByte(e.Test, '/'); i > 0 {
			r.parent[testID{e.Package, e.Test[:i]}] = true
		}
	case "pass", "fail", "skip":
		return r.end(id, e)
	default: // start, pause, cont, bench and build-fail say nothing that the others do not
	}
	return "", false
}

// The race detector writes this, and then a line of equals signs at the end. Of several tests at once, go test says of any one of them
// that it was the one that wrote: the words must show even where that one passed.
const (
	raceBegins = "WARNING: DATA RACE"
	raceEnds   = "=================="
)

func (r *report) watchRace(e event) {
	switch line := strings.TrimRight(e.Output, "\n"); {
	case line == raceBegins:
		r.racing[e.Package] = true
	case line == raceEnds:
		delete(r.racing, e.Package)
	}
	if r.racing[e.Package] {
		written(r.races, e.Package).WriteString(e.Output)
	}
}

func (r *report) end(id testID, e event) (pkg string, done bool) {
	what := ended{testID: id, took: time.Duration(e.Elapsed * float64(time.Second))}
	if e.Action != "pass" {
		what.output = written(r.output, id).String()
	}
	delete(r.output, id)
	delete(r.running, id)
	if id.test == "" {
		if e.FailedBuild != "" {
			what.output = written(r.build, e.FailedBuild).String() + what.output
		}
		r.packages = append(r.packages, what)
		r.packageEnd[id.pkg] = e.Action
		return id.pkg, true
	}
	// A parent passes because its subtests did; a failure or a skip of its own must show.
	switch e.Action {
	case "pass":
		if !r.parent[id] {
			r.passed = append(r.passed, what)
		}
	case "fail":
		r.failed = append(r.failed, what)
	default:
		r.skipped = append(r.skipped, what)
	}
	return "", false
}

// unfinished are the tests that had begun when their package ended: a panic or a time limit.
func (r *report) unfinished() []ended {
	var out []ended
	for id := range r.running {
		out = append(out, ended{testID: id, output: written(r.output, id).String()})
	}
	slices.SortFunc(out, func(a, b ended) int {
		return strings.Compare(a.pkg+" "+a.test, b.pkg+" "+b.test)
	})
	return out
}

// slowest are the n tests that took longest.
func (r *report) slowest(n int) []ended {
	all := slices.Concat(r.passed, r.failed)
	slices.SortStableFunc(all, func(a, b ended) int { return int(b.took - a.took) })
	return all[:min(n, len(all))]
}

// failures counts the tests that failed or never ended, and the packages that failed without such a test
// (they did not compile, or their TestMain gave up).
func (r *report) failures() int {
	n := len(r.failed) + len(r.unfinished())
	for _, p := range r.packages {
		if r.packageEnd[p.pkg] == "fail" && !r.blames(p.pkg) {
			n++
		}
	}
	return n
}

// blames reports whether some test of the package takes the blame for the package's failure.
func (r *report) blames(pkg string) bool {
	return slices.ContainsFunc(slices.Concat(r.failed, r.unfinished()), func(t ended) bool { return t.pkg == pkg })
}

// verdict lists why the run is no success; it is empty if it is one. strict is the rule of CI: a test
// that did not run is a failure, whatever its reason.
func (r *report) verdict(strict bool) []string {
	var why []string
	if n := r.failures(); n > 0 {
		why = append(why, fmt.Sprintf("%d failed", n))
	}
	for _, t := range r.skipped {
		_, ok := explained(r.known, t.output)
		switch {
		case !ok:
			why = append(why, fmt.Sprintf("%s %s was skipped without a known requirement", t.pkg, t.test))
		case strict:
			why = append(why, fmt.Sprintf("%s %s could not run, and CI=true accepts no such thing", t.pkg, t.test))
		}
	}
	if len(why) == 0 && len(r.passed) == 0 {
		why = append(why, "no test ran")
	}
	return why
}

func written[K comparable](m map[K]*strings.Builder, k K) *strings.Builder {
	if m[k] == nil {
		m[k] = &strings.Builder{}
	}
	return m[k]
}
