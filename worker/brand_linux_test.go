package worker

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/job"
)

// bare are trees of which some processes have shed all that a process can shed without knowing of brands.
var bare = []struct {
	name, script string
	ready        int
	stubborn     bool
}{
	{"bare", `setsid env -i sh -c 'echo ready; exec sleep 1000' & sleep 1000`, 1, false},
	{"bare orphan", `( ( setsid env -i sh -c 'echo ready; exec >/dev/null 2>&1 </dev/null; exec sleep 1000' & ) & ); sleep 1000`, 1, false},
	{"bare family", `( ( setsid env -i sh -c 'setsid sh -c "echo ready; sleep 1000" & setsid sh -c "echo ready; sleep 1000" & wait' & ) & ); sleep 1000`, 2, false},
	{"bare and headless", fmt.Sprintf(`( ( setsid env -i %s=yes /proc/%d/exe & ) & ); sleep 1000`, headlessEnv, os.Getpid()), 1, false},
}

// The supervisor alone is killed: the executor finds what cleared its environment and left the session.
func TestKilledSupervisorLeavesNothingBare(t *testing.T) {
	t.Parallel()
	for _, tree := range bare {
		t.Run(tree.name, func(t *testing.T) {
			t.Parallel()
			w, gate := newWitness(t), newWitness(t)
			script := "exec 8<>" + gate.path + "; " + w.hold() + tree.script
			script = strings.ReplaceAll(strings.TrimSuffix(script, "sleep 1000"), "echo ready", "echo ready >&8")
			r, _ := run(t, t.Context(), Executor{noCgroup: true}, Command{
				Shell: script + strings.Repeat("read x <&8; ", tree.ready) + "kill -9 $PPID; sleep 1000",
			}, nil)
			w.goes(t)
			if r.Outcome != job.Aborted || !strings.Contains(r.Message, "supervisor") {
				t.Errorf("%v, %q; want aborted, with the reason", r.Outcome, r.Message)
			}
		})
	}
}

// A process that has no environment at all is not ours, and that shows at the first look.
func TestForeignBareProcessIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	c := exec.Command("sleep", "1000")
	c.Env = []string{}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }() // Nothing else ends it.
	p, ok := readProcess(c.Process.Pid)
	if !ok {
		t.Fatal("it is gone")
	}
	// Start returns when the exec has begun; it may still be under way.
	for until := time.Now().Add(time.Minute); p.environment == 0 && time.Now().Before(until); {
		p, _ = readProcess(c.Process.Pid)
	}
	if yes, unsure := p.carries(ownerBrand(rand.Text())); yes || unsure {
		t.Errorf("carries: %v, unsure: %v; want neither", yes, unsure)
	}
	// One whose exec is at the point where there is no environment may have one soon.
	p.environment = 0
	if yes, unsure := p.carries(ownerBrand(rand.Text())); yes || !unsure {
		t.Errorf("in an exec: carries: %v, unsure: %v; want only the latter", yes, unsure)
	}
}

func TestSearchForNothingLooksTwice(t *testing.T) {
	t.Parallel()
	s := search{brand: ownerBrand(rand.Text()), patience: time.Minute}
	begin := time.Now()
	left := s.kill()
	// More than two looks come only from an exec elsewhere on the machine at that moment.
	if len(left) > 0 || s.looks < 2 || s.looks > 2+int(unsurePatience/time.Millisecond) {
		t.Errorf("left %v after %d looks in %v", left, s.looks, time.Since(begin))
	}
}

// What a job starts has the number even if it clears its environment; what headrace starts for itself, and the next attempt, has not.
func TestNumberIsHandedDown(t *testing.T) {
	t.Parallel()
	owner := rand.Text()
	want := ownerNumber(owner)
	seen := map[uint64]bool{}
	for range 2 {
		_, lines := run(t, t.Context(), Executor{Owner: owner}, Command{Shell: `env -i setsid cat /proc/self/limits
			until grep -q "Max file locks *unlimited" /proc/$PPID/limits; do :; done; cat /proc/$PPID/limits >&2`}, nil)
		both := text(lines, Stdout)
		child, ok := parseLocks(both)
		if !ok || child&^attemptMask != want || !isNumber(child) {
			t.Errorf("number %x, %v; want %x and an attempt's", child, ok, want)
		}
		// It has it while it starts the attempt, and gives it up at once.
		if strings.Count(both, "Max file locks            unlimited") != 1 {
			t.Errorf("the supervisor has a number itself:\n%s", both)
		}
		seen[child] = true
	}
	if len(seen) != 2 {
		t.Errorf("two attempts have the numbers %v", seen)
	}
}

// Who kills all that is called headrace, by name or by command line, is to leave those who clean up.
func TestSupervisorIsNotCalledHeadrace(t *testing.T) {
	t.Parallel()
	_, lines := run(t, t.Context(), Executor{}, Command{Shell: `tr '\0' ' ' </proc/$PPID/cmdline; cat /proc/$PPID/comm`}, nil)
	if got := text(lines, Stdout); got != supervisorName+" "+superviseArg+" "+supervisorName+"\n" || strings.Contains(got, "headrace") {
		t.Errorf("the supervisor is called %q", got)
	}
}

func TestNumbersOfOwnersDiffer(t *testing.T) {
	t.Parallel()
	a, b := ownerBrand("a"), ownerBrand("b")
	one, two := newBrand("a", "1"), newBrand("a", "2")
	for _, tc := range []struct {
		name   string
		number uint64
		brand  brand
		want   bool
	}{
		{"an attempt is its owner's", one.number, a, true},
		{"another attempt also", two.number, a, true},
		{"but not another owner's", one.number, b, false},
		{"an attempt is itself", one.number, one, true},
		{"and no other one", one.number, two, false},
		{"one of nobody is nobody else's", newBrand("", "1").number, a, false},
	} {
		if got := tc.number&tc.brand.mask == tc.brand.number; got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
	for n, want := range map[uint64]bool{math.MaxUint64: false, 0: false, 1 << 40: false, math.MaxInt64: true, a.number: true, one.number: true} {
		if isNumber(n) != want {
			t.Errorf("isNumber(%x) is %v", n, !want)
		}
	}
}

// A search for one attempt is not one for all of the owner's.
func TestKilledSupervisorTakesNoOtherAttemptWithIt(t *testing.T) {
	t.Parallel()
	owner := rand.Text()
	ctx, cancel := context.WithCancel(t.Context())
	first, second := newWitness(t), newWitness(t)
	up, down := make(chan bool), make(chan Result, 1)
	go func() {
		r, _ := run(t, ctx, Executor{Owner: owner, noCgroup: true}, Command{Shell: first.hold() + `echo ready; exec sleep 1000`},
			when("ready", 1, func() { close(up) }))
		down <- r
	}()
	<-up
	r, _ := run(t, t.Context(), Executor{Owner: owner, noCgroup: true}, Command{Shell: second.hold() +
		`setsid env -i sleep 1000 & kill -9 $PPID; sleep 1000`}, nil)
	second.goes(t)
	if r.Outcome != job.Aborted {
		t.Errorf("%v, %q; want aborted", r.Outcome, r.Message)
	}
	cancel()
	if r := <-down; r.Outcome != job.Cancelled {
		t.Errorf("the other attempt: %v, %q; want it alive until it is cancelled", r.Outcome, r.Message)
	}
	first.gone(t)
}
