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
// holds a NUL byte.
func Reap(owner string) (killed int, err error) {
	if owner == "" || strings.IndexByte(owner, 0) >= 0 {
		return 0, errors.New("reap: the owner must have a name, without a NUL byte")
	}
	s := search{brand: ownerBrand(owner), spared: above(os.Getpid()), patience: killPatience}
	left := s.kill()
	killed = len(s.killed) + reapCgroups(owner, s.spared)
	if len(left) > 0 {
		return killed, fmt.Errorf("reap: cannot kill %s that an earlier run left (%s)", processes(len(left)), sample(left))
	}
	return killed, nil
}

const (
	// unsurePatience is how long processes in the middle of an exec are waited for.
	unsurePatience = 20 * time.Millisecond
	// restPatience is how long, after the last find, the machine is waited for to come to rest.
	restPatience = time.Second
)

// search looks for the processes that carry a brand, and kills them.
type search struct {
	brand    brand
	spared   map[int]bool
	patience time.Duration // It gives up after that.
	looks    int           // how often it has looked at all processes
	killed   map[process]bool
}

// kill ends when two looks in a row find nothing; once anything was found, they must
// also find the same processes on the machine: for what forks and dies between being listed and being looked at shows only
// by its child in the next list. It gives what is left.
func (s *search) kill() (left []process) {
	s.killed = map[process]bool{}
	var before []int
	begin := time.Now()
	found := begin // when it last did
	for empty := 0; ; {
		all := pids()
		var unsure bool
		left, unsure = s.look(all)
		unsure = unsure && time.Since(found) < unsurePatience
		for _, p := range left {
			p.signal(unix.SIGKILL)
			s.killed[process{pid: p.pid, start: p.start}] = true
			found = time.Now()
		}
		switch {
		case len(left) > 0 || unsure:
			empty = 0
		case empty > 0 && (len(s.killed) == 0 || slices.Equal(before, all) || time.Since(found) >= restPatience):
			return nil
		default:
			empty++
		}
		if time.Since(begin) >= s.patience {
			return left
		}
		before = all
		if len(left) > 0 || unsure {
			time.Sleep(time.Millisecond)
		}
	}
}

// look gives those of the processes that live and carry the brand, and reports whether it is unsure of others.
func (s *search) look(all []int) (list []process, unsure bool) {
	s.looks++
	for _, pid := range all {
		p, ok := readProcess(pid)
		if !ok || p.dead() || s.spared[pid] {
			continue
		}
		yes, perhaps := p.carries(s.brand)
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
