//go:build crashpoints

package crash

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

func init() {
	wish := os.Getenv("HEADRACE_CRASH")
	if wish == "" {
		return
	}
	parts := strings.Split(wish, ":")
	signal := syscall.SIGKILL
	if len(parts) == 3 && parts[2] == "stop" {
		signal, parts = syscall.SIGSTOP, parts[:2]
	}
	if len(parts) != 2 || !slices.Contains(Points(), Point(parts[0])) {
		fmt.Fprintf(os.Stderr, "HEADRACE_CRASH=%q: want POINT:N or POINT:N:stop, with a point of %v\n", wish, Points())
		os.Exit(2)
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		fmt.Fprintf(os.Stderr, "HEADRACE_CRASH=%q: %v\n", wish, err)
		os.Exit(2)
	}
	var passed atomic.Int64
	On(func(p Point) {
		if p == Point(parts[0]) && passed.Add(1) == n {
			syscall.Kill(os.Getpid(), signal) //nolint:errcheck // there is nobody left to tell
		}
	})
}
