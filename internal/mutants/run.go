package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A fault that makes its tests hang is caught once they take long: longer than they ever should, and than they took without
// it, on a machine that may be busy.
const (
	long     = 2 * time.Minute
	longer   = 5 // times
	forSound = 30 * time.Minute
)

// runner judges faults in one module.
type runner struct {
	root     string // the module's folder
	parallel int    // how many faults are judged at the same time
	out      io.Writer
}

// errUnjudged is wrapped by what keeps the faults from being judged at all.
var errUnjudged = errors.New("the faults cannot be judged")

// judge plants each fault in turn and prints a line for each, in their order. It returns how many were
// caught. Its error wraps errUnjudged if a fault does not apply or a test fails without any.
func (r *runner) judge(ctx context.Context, faults []fault) (caught int, err error) {
	scratch, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()

	overlays, err := r.overlays(scratch, faults)
	if err != nil {
		return 0, err
	}
	took, err := r.soundWithout(ctx, faults)
	if err != nil {
		return 0, err
	}

	results := make([]chan result, len(faults))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	var waiting sync.WaitGroup
	defer waiting.Wait()
	slots := make(chan struct{}, max(1, r.parallel))
	waiting.Go(func() {
		for i, f := range faults {
			slots <- struct{}{}
			waiting.Go(func() {
				defer func() { <-slots }()
				results[i] <- r.test(ctx, f.tests, overlays[i], max(long, longer*took[f.key()]))
			})
		}
	})
	for i, f := range faults {
		res := <-results[i]
		if ctx.Err() != nil {
			return caught, fmt.Errorf("%w: %v", errUnjudged, ctx.Err())
		}
		line, ok := res.verdict(f)
		fmt.Fprintln(r.out, line)
		if ok {
			caught++
		}
	}
	return caught, nil
}

// overlays writes, for each fault, the changed file and the file that go test's -overlay flag takes. All
// faults that do not apply are named, not only the first.
func (r *runner) overlays(scratch string, faults []fault) ([]string, error) {
	paths := make([]string, len(faults))
	var mistakes []error
	for i, f := range faults {
		text, err := f.plant(os.DirFS(r.root))
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		original, err := filepath.Abs(filepath.Join(r.root, filepath.FromSlash(f.file)))
		if err != nil {
			return nil, err
		}
		changed := filepath.Join(scratch, fmt.Sprintf("%d%s", i, filepath.Ext(f.file)))
		overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
		if err != nil {
			return nil, err
		}
		paths[i] = filepath.Join(scratch, fmt.Sprintf("%d.json", i))
		if err := errors.Join(os.WriteFile(changed, []byte(text), 0o600), os.WriteFile(paths[i], overlay, 0o600)); err != nil {
			return nil, err
		}
	}
	if len(mistakes) > 0 {
		return nil, fmt.Errorf("%w:\n%v", errUnjudged, errors.Join(mistakes...))
	}
	return paths, nil
}

// soundWithout runs each distinct set of tests once without a fault: they must be there and pass. It gives how long each took.
func (r *runner) soundWithout(ctx context.Context, faults []fault) (took map[string]time.Duration, err error) {
	took = map[string]time.Duration{}
	for _, f := range faults {
		key := f.key()
		if _, done := took[key]; done {
			continue
		}
		res := r.test(ctx, f.tests, "", forSound)
		took[key] = res.took
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %v", errUnjudged, ctx.Err())
		case res.failed:
			return nil, fmt.Errorf("%w: without a fault, go test %s fails at %s:\n%s", errUnjudged, key, res.where(), res.output)
		case res.passed == 0:
			return nil, fmt.Errorf("%w: %s: go test %s runs no test", errUnjudged, f.listed, key)
		}
	}
	return took, nil
}

// key names the tests of a fault.
func (f *fault) key() string { return strings.Join(f.tests, " ") }

// result is what one run of go test said.
type result struct {
	failed   bool
	noBuild  bool
	passed   int    // tests
	by       string // the first test that failed, or that ran when all ended
	hung     bool
	took     time.Duration
	output   string // for a failure: the last of what was printed
	packages string // the first package that failed
}

// test runs go test with the given arguments after the runner's own flags. An overlay holds for what the tests themselves
// build, too.
func (r *runner) test(ctx context.Context, tests []string, overlay string, limit time.Duration) result {
	args := []string{"test", "-json", "-vet=off", "-timeout=" + limit.String()}
	env := os.Environ()
	if overlay != "" {
		args = append(args, "-failfast")
		env = append(env, strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	cmd := exec.CommandContext(ctx, "go", append(args, tests...)...)
	cmd.Dir, cmd.Env = r.root, env
	// Asked to stop, go test stops the test binary too; killed, it would leave it behind.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	stdout, err := cmd.Output()
	res := read(stdout)
	res.took = time.Since(start)
	if err != nil {
		res.failed = true
		if res.by == "" && res.packages == "" {
			// No event explains it: bad arguments, or a package that cannot be loaded.
			res.noBuild = true
			res.output += stderr.String() + err.Error()
		}
	}
	return res
}

// verdict is the line of a fault; ok means that it was caught.
func (res result) verdict(f fault) (line string, ok bool) {
	seconds := fmt.Sprintf("%.1fs", res.took.Seconds())
	switch {
	case res.noBuild:
		return fmt.Sprintf("BAD      %-32s does not compile (%s):\n%s", f.id, f.listed, res.output), false
	case !res.failed:
		return fmt.Sprintf("ESCAPED  %-32s %s: go test %s passed (%s)", f.id, f.plants, f.key(), seconds), false
	default:
		return fmt.Sprintf("caught   %-32s by %s (%s)", f.id, res.where(), seconds), true
	}
}

func (res result) where() string {
	switch {
	case res.noBuild:
		return "compiling"
	case res.hung:
		return res.by + ", by the time limit"
	case res.by == "":
		return res.packages
	default:
		return res.by
	}
}

// read takes what go test -json printed.
func read(events []byte) result {
	var res result
	var running []string
	var said strings.Builder
	for line := range bytes.Lines(events) {
		var e struct{ Action, Package, Test, Output, FailedBuild string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		said.WriteString(e.Output)
		switch e.Action {
		case "run":
			running = append(running, e.Test)
		case "pass":
			if e.Test != "" {
				res.passed++
			}
		case "fail":
			res.failed = true
			res.noBuild = res.noBuild || e.FailedBuild != ""
			if e.Test != "" && res.by == "" {
				res.by = e.Test
			}
			if res.packages == "" {
				res.packages = e.Package
			}
		default: // start, pause, cont, output and skip say nothing about a catch
		}
	}
	if res.failed {
		res.hung = strings.Contains(said.String(), "panic: test timed out after")
		if res.by == "" && len(running) > 0 {
			res.by = running[len(running)-1]
		}
		res.output = tail(said.String(), 2000)
	}
	return res
}

func tail(s string, n int) string {
	return strings.TrimSpace(s[max(0, len(s)-n):])
}
