package worker

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A brand tells the processes of one attempt, or of all attempts of an owner, from all others on the machine. A process
// has it from its parent, in two forms.
//
// The number is the soft limit RLIMIT_LOCKS, which no kernel since 2.4.25 heeds (getrlimit(2)). It outlives exec, a cleared
// environment and a new session, nothing else sets it to such a value, and the kernel tells it at every moment of a process's
// life. A process loses it only by setting it.
//
// The entry is in the environment. It counts for a process without such a number: where the hard limit left no room for one, or
// something on the way, as a login does, set all limits anew.
type brand struct {
	entry        string
	number, mask uint64 // A number is of the brand if it is this under the mask.
}

// markKey is the variable that marks the processes of an attempt, and ownerKey that which names their owner.
const (
	markKey  = "HEADRACE_TREE"
	ownerKey = "HEADRACE_OWNER"
)

// A number has, from the top: 01, which no sensible limit has and "unlimited" has not; 40 bits for the owner; 22 for the attempt,
// by which a process tells apart what it runs at one time.
const (
	attemptBits = 22
	attemptMask = 1<<attemptBits - 1
	numberTag   = 1 << 62
)

// isNumber reports whether a limit is the number of some attempt.
func isNumber(limit uint64) bool { return limit>>62 == 1 }

// ownerNumber gives the number of an owner, the attempt's bits being 0.
func ownerNumber(owner string) uint64 {
	if owner == "" {
		return nobody()
	}
	sum := sha256.Sum256([]byte(owner))
	return number(sum[:])
}

// nobody stands for the owner of attempts that have none: another one in each process.
var nobody = sync.OnceValue(func() uint64 { return number([]byte(rand.Text())) })

func number(b []byte) uint64 {
	return numberTag | binary.LittleEndian.Uint64(b)&(numberTag-1)&^attemptMask
}

// ownerBrand is the brand of all attempts of an owner.
func ownerBrand(owner string) brand {
	return brand{ownerKey + "=" + owner, ownerNumber(owner), ^uint64(attemptMask)}
}

var attempts atomic.Uint64

// newBrand makes the brand of one attempt.
func newBrand(owner, id string) brand {
	return brand{markKey + "=" + id, ownerNumber(owner) | attempts.Add(1)&attemptMask, ^uint64(0)}
}

// setNumber makes n the number that this process hands down; 0: none. Where the hard limit is too low for it, it changes nothing.
func setNumber(n uint64) {
	var l unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_LOCKS, nil, &l) != nil {
		return // Some sandbox. The environment has it, too.
	}
	if n == 0 {
		n = l.Max
	}
	if n <= l.Max {
		l.Cur = n
		_ = unix.Prlimit(0, unix.RLIMIT_LOCKS, &l, nil) // As above.
	}
}

// number gives the process's soft limit that holds its number, if it has one; ok is false if nobody tells.
func (p process) number() (n uint64, ok bool) {
	var l unix.Rlimit
	if unix.Prlimit(p.pid, unix.RLIMIT_LOCKS, nil, &l) == nil {
		return l.Cur, true
	}
	// Of another user. This file is for all to read.
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/limits")
	if err != nil {
		return 0, false
	}
	return parseLocks(string(b))
}

// parseLocks finds the soft limit on locks in the text of /proc/PID/limits (proc(5)).
func parseLocks(limits string) (n uint64, ok bool) {
	for line := range strings.Lines(limits) {
		if rest, found := strings.CutPrefix(line, "Max file locks"); found {
			soft, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
			n, err := strconv.ParseUint(soft, 10, 64)
			return n, err == nil // "unlimited" is no number.
		}
	}
	return 0, false
}
