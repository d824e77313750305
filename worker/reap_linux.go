package worker

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Reap kills every process that attempts of this owner left (Executor.Owner), and gives how many there were. There can be
// some when a program was killed together with the supervisors of its attempts. Call it before the first
// attempt, and only when surely nobody else works for this owner, as for one who holds its lock.
//
// It spares this process and those above it. An error tells of processes that do not die, or of an owner that is "" or
// holds a NUL byte. Processes that this user may not look at are not found.
func Reap(owner string) (killed int, err error) {
	if owner == "" || strings.IndexByte(owner, 0) >= 0 {
		return 0, errors.New("reap: the owner must have a name, without a NUL byte")
	}
	killed, left := killMarked(ownerKey+"="+owner, killPatience)
	if len(left) > 0 {
		return killed, fmt.Errorf("reap: %d processes that an earlier run left (%s) do not die", len(left), sample(left))
	}
	return killed, nil
}

// killMarked kills what carries the mark. It ends when two looks in a row find nothing; once anything was found, they must
// also find the same processes on the machine: for what forks and dies between being listed and being looked at shows only
// by its child in the next list. It stops looking after patience, and gives how many it killed and what is left.
func killMarked(mark string, patience time.Duration) (killed int, left []process) {
	spared := above(os.Getpid())
	var before []int
	dying := map[process]bool{}
	empty := 0
	for until := time.Now().Add(patience); ; {
		all := pids()
		unsure := false
		left, unsure = marked(all, mark, spared)
		for _, p := range left {
			p.signal(unix.SIGKILL)
			p.state, p.parent = 0, 0 // They change while it dies.
			dying[p] = true
		}
		switch {
		case len(left) > 0 || unsure:
			empty = 0
		case empty > 0 && (len(dying) == 0 || slices.Equal(before, all)):
			return len(dying), nil
		default:
			empty++
		}
		if !time.Now().Before(until) {
			return len(dying), left
		}
		before = all
		if len(left) > 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// marked gives those of the processes that live and carry the mark, and reports whether it is unsure of others.
func marked(all []int, mark string, spared map[int]bool) (list []process, unsure bool) {
	for _, pid := range all {
		p, ok := readProcess(pid)
		if !ok || p.dead() || spared[pid] {
			continue
		}
		yes, perhaps := p.carries(mark)
		unsure = unsure || perhaps
		if yes {
			list = append(list, p)
		}
	}
	return list, unsure
}

// above gives the process and its ancestors.
func above(pid int) map[int]bool {
	out := map[int]bool{}
	for pid > 0 && !out[pid] {
		out[pid] = true
		p, _ := readProcess(pid) // One that is gone has parent 0.
		pid = p.parent
	}
	return out
}
