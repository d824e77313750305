package worker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/api"
	"golang.org/x/sys/unix"
)

// gauge reads how the machine is, not more often than that changes.
type gauge struct {
	disk string // a folder on the disk that counts
	at   time.Time
	last *api.Machine
}

// gaugeEvery is how long what was read counts; the kernel reckons its load every five seconds.
const gaugeEvery = 5 * time.Second

func (g *gauge) read(attempts int) *api.Machine {
	if now := time.Now(); g.at.IsZero() || now.Sub(g.at) >= gaugeEvery {
		g.at, g.last = now, machineNow(attempts, g.disk)
	}
	return g.last
}

// systemOf names what a machine with these names of uname(2) runs itself.
func systemOf(machine, os string) string {
	switch machine {
	case "amd64":
		machine = "x86_64"
	case "arm64":
		machine = "aarch64"
	}
	return machine + "-" + strings.ToLower(os)
}

// also are the architectures whose programs another one runs as they are.
var also = map[string][]string{
	"x86_64":  {"i386", "i486", "i586", "i686"},
	"aarch64": {"armv6l", "armv7l", "armv8l"},
	"i686":    {"i386", "i486", "i586"},
	"armv7l":  {"armv6l"},
}

// CheckSystems reports an error, which names what this machine is, if it cannot be one of these systems, by what uname says.
func CheckSystems(systems []string) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("uname: %v", err)
	}
	return checkSystems(unix.ByteSliceToString(u.Machine[:]), unix.ByteSliceToString(u.Sysname[:]), systems)
}

func checkSystems(machine, os string, systems []string) error {
	here := systemOf(machine, os)
	arch, kernel, _ := strings.Cut(here, "-")
	for _, s := range systems {
		a, k, ok := strings.Cut(s, "-")
		if !ok || k != kernel || a != arch && !slices.Contains(also[arch], a) {
			return fmt.Errorf("system %q: this machine is %s", s, here)
		}
	}
	return nil
}
