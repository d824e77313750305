package pgtest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Spent gives how much processor time the server has used since it was started, all its processes together.
func (c *Cluster) Spent() (time.Duration, error) {
	if c.server == nil || c.server.cmd.Process == nil {
		return 0, errors.New("the server does not run")
	}
	// What each process says of itself, its own time and that of those it has waited for, in hundredths of a second: proc(5).
	const (
		parent, own, ended = 1, 11, 13 // fields after the name
		tick               = 10 * time.Millisecond
	)
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	ticks, main := 0, strconv.Itoa(c.server.cmd.Process.Pid)
	for _, path := range files {
		text, _ := os.ReadFile(path) // One that has ended meanwhile has none; its parent has its time.
		_, after, ok := bytes.Cut(text, []byte(") "))
		fields := bytes.Fields(after)
		isMain := filepath.Base(filepath.Dir(path)) == main
		if !ok || len(fields) < ended+2 || !isMain && string(fields[parent]) != main {
			continue
		}
		counted := fields[own : own+2]
		if isMain {
			counted = fields[own : ended+2]
		}
		for _, f := range counted {
			n, err := strconv.Atoi(string(f))
			if err != nil {
				return 0, err
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * tick, nil
}
