package worker

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/headrace/headrace/api"
	"golang.org/x/sys/unix"
)

// machineNow tells how the machine is: processes that run besides the worker's attempts, for each processor; memory; room on the disk
// of a folder. What cannot be read is 0.
func machineNow(attempts int, dir string) *api.Machine {
	m := &api.Machine{}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(text), " ")
		if n, err := strconv.ParseFloat(first, 64); err == nil {
			m.Load = max(n-float64(attempts), 0) / float64(runtime.NumCPU())
		}
	}
	if f, err := os.Open("/proc/meminfo"); err == nil {
		defer f.Close() // Only read from.
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 2 {
				continue
			}
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			switch {
			case err != nil:
			case fields[0] == "MemTotal:":
				m.Memory = kib << 10
			case fields[0] == "MemAvailable:":
				m.MemoryFree = kib << 10
			}
		}
	}
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) == nil {
		m.Disk, m.DiskFree = int64(fs.Blocks)*fs.Frsize, int64(fs.Bavail)*fs.Frsize
	}
	return m
}
