package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// maxLine bounds one line of go test -json; a test that prints more on one line is cut by test2json.
const maxLine = 16 << 20

func main() {
	strict := os.Getenv("CI") == "true"
	ok, err := run(os.Stdout, os.Stderr, ".", os.Args[1:], strict)
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "testreport: %v\n", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

// run starts go test in dir with args and reports on stdout; ok is the verdict.
func run(stdout, stderr io.Writer, dir string, args []string, strict bool) (ok bool, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return false, fmt.Errorf("go test: %v", err)
	}
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("go test: %v", err)
	}
	r := newReport(requirements)
	readErr := r.read(events, stdout)
	waitErr := cmd.Wait()
	r.printEnd(stdout, strict)
	if readErr != nil {
		return false, fmt.Errorf("go test -json: %v", readErr)
	}
	// An exit code of go test that no event explains (a bad flag, say) is a failure as well.
	if _, isExit := errors.AsType[*exec.ExitError](waitErr); waitErr != nil && !isExit {
		return false, fmt.Errorf("go test: %v", waitErr)
	}
	return waitErr == nil && len(r.verdict(strict)) == 0, nil
}

// read takes all events and writes each package's lines as soon as it ends.
func (r *report) read(events io.Reader, w io.Writer) error {
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if pkg, done := r.add(lines.Bytes()); done {
			r.printPackage(w, pkg)
		}
	}
	if err := lines.Err(); err != nil {
		// Let go test go on to its end instead of blocking on a full pipe.
		_, _ = io.Copy(io.Discard, events)
		return err
	}
	return nil
}
