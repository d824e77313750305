package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/headrace/headrace/internal/pgtest"
	"github.com/headrace/headrace/worker"
	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what the program prints into the scripts")

// binary is the program as it is shipped, built once.
var binary string

func TestMain(m *testing.M) {
	worker.Supervise() // A worker in a test starts this program again to watch over its jobs.
	flag.Parse()
	if signal.Ignored(syscall.SIGHUP) {
		// As under nohup. What is caught here, children have by default.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "headrace-cli")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "headrace")
		build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-X main.version=1.2.3-test", "-o", binary, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return pgtest.Main(m)
	}())
}

// TestScripts runs the scripts in testdata/script against the shipped binary. Scripts never sleep: a job and its script
// meet at FIFOs.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("TZ", "UTC")
			e.Setenv("SYSTEM", system())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": exitCode, "lines": countLines, "fifo": makeFIFOs, "order": inOrder, "checked": checkedWay(t), "certify": certify,
		},
		RequireExplicitExec: true,
		UpdateScripts:       *update,
	})
}

// exitCode runs a program that must end with the code: code N PROGRAM ARG...
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program arg...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("run %s: %v", args[1], err)
		}
		code = exit.ExitCode()
	}
	if got := fmt.Sprint(code); got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// countLines checks how many lines a file has: lines N FILE; a file that is not there has none.
func countLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines N file")
	}
	text, err := os.ReadFile(ts.MkAbs(args[1]))
	if err != nil && !os.IsNotExist(err) {
		ts.Check(err)
	}
	if got := fmt.Sprint(strings.Count(string(text), "\n")); got != args[0] {
		ts.Fatalf("%s has %s lines, want %s:\n%s", args[1], got, args[0], text)
	}
}

// inOrder checks that texts follow one another in a file: order FILE TEXT...
func inOrder(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: order file text text...")
	}
	text := ts.ReadFile(args[0])
	for _, want := range args[1:] {
		i := strings.Index(text, want)
		if i < 0 {
			ts.Fatalf("%q is not in %s, or not in its place:\n%s", want, args[0], ts.ReadFile(args[0]))
		}
		text = text[i+len(want):]
	}
}
