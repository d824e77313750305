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
	"time"
)

// late is how long others go on while the one who came to a point is held there: a job can begin meanwhile, also on a machine
// that has much to do.
const late = time.Second

func init() {
	wish := os.Getenv("HEADRACE_CRASH")
	if wish == "" {
		return
	}
	parts := strings.Split(wish, ":")
	signal, pause := syscall.SIGKILL, time.Duration(0)
	if len(parts) == 3 {
		switch parts[2] {
		case "stop":
			signal, parts = syscall.SIGSTOP, parts[:2]
		case "late":
			pause, parts = late, parts[:2]
		}
	}
	if len(parts) != 2 || !slices.Contains(Points(), Point(parts[0])) {
		fmt.Fprintf(os.Stderr, "HEADRACE_CRASH=%q: want POINT:N, POINT:N:stop or POINT:N:late, with a point of %v\n", wish, Points())
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
			time.Sleep(pause)
			syscall.Kill(os.Getpid(), signal) //nolint:errcheck // there is nobody left to tell
		}
	})
}
