//go:build chaos

package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/api"
)

// Flags of the chaos: `make chaos` gives them.
var (
	chaosSeed   = flag.Uint64("chaos.seed", 0, "what chaos draws its choices from; 0: another one each time")
	chaosKills  = flag.Int("chaos.kills", 12, "how many processes chaos kills")
	chaosStores = flag.String("chaos.stores", "sqlite", "the stores that chaos plays on: sqlite, postgres")
)

// Size of the farm, and how many clients ask it for builds.
const (
	stormWorkers = 3
	stormSlots   = 3
	stormAskers  = 4
)

// TestChaos kills a server and its workers under load, in any order and at any time, and checks that nothing that was acknowledged
// is lost or doubled. All are processes of the shipped binary. What is drawn from the seed is who is killed when and how, and what
// is asked for; moments are counted in what is seen (a line of a job, a line of a log, an answer), and how these fall is the machine's.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64N(1_000_000) + 1
	}
	for kind := range strings.SplitSeq(*chaosStores, ",") {
		t.Run(kind, func(t *testing.T) {
			store := ""
			if kind == "postgres" {
				store = newDatabase(t)
			}
			t.Logf("chaos: seed %d, %d kills", seed, *chaosKills)
			defer func() {
				if t.Failed() {
					t.Logf("again: go test -tags chaos ./cmd/headrace -run '^TestChaos$' -count=1 -timeout 0 -v -chaos.seed %d -chaos.kills %d -chaos.stores %s", seed, *chaosKills, kind)
				}
			}()
			s := newStorm(t, seed, store)
			began := time.Now()
			for _, phase := range []struct {
				name string
				play func()
			}{{"begin", s.begin}, {"rage", s.rage}, {"settle", s.settle}, {"still life", s.stillLife}, {"audit", s.audit}} {
				phase.play()
				t.Logf("chaos: %s, by %v", phase.name, time.Since(began).Round(time.Millisecond))
			}
		})
	}
}

// storm is a farm under chaos.
type storm struct {
	*life  // its folder and program, by which what is left of it is found
	rnd    *rand.Rand
	seed   uint64
	client *api.Client
	server *unit
	units  []*unit // the workers
	pulse  pulse
	ledger ledger
	asking sync.WaitGroup
	enough chan struct{} // closed: nothing new is asked for
	told   map[string]int
}

func newStorm(t *testing.T, seed uint64, store string) *storm {
	t.Helper()
	dir := t.TempDir()
	s := &storm{
		life: &life{t: t, dir: dir, program: filepath.Join(dir, "headrace"), store: store},
		rnd:  rand.New(rand.NewPCG(seed, 1)), seed: seed, enough: make(chan struct{}), told: map[string]int{},
	}
	s.ledger.init()
	if err := os.Link(binary, s.program); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "ran"), 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{"serve", "--data", "data", "--listen", "unix:socket"}
	if store != "" {
		args = append(args, "--store", store)
	}
	s.server = s.unit("server", args...)
	for i := range stormWorkers {
		name := fmt.Sprintf("w%d", i+1)
		s.units = append(s.units, s.unit(name, "worker", "--server", "unix://"+filepath.Join(dir, "socket"), "--name", name, "--system", system(),
			"--slots", fmt.Sprint(stormSlots), "--data", name))
	}
	return s
}

// begin starts the farm and those who ask it for builds.
func (s *storm) begin() {
	s.t.Helper()
	if err := syscall.Mkfifo(filepath.Join(s.dir, "beats"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	// For writing, too: no job waits for a reader, and there is no end before the last.
	beats, err := os.OpenFile(filepath.Join(s.dir, "beats"), os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	var counting sync.WaitGroup
	counting.Go(func() {
		for lines := bufio.NewScanner(beats); lines.Scan(); {
			s.pulse.beat()
		}
	})
	s.t.Cleanup(func() { _ = beats.Close(); counting.Wait() })
	s.server.start()
	token := s.server.awaitLine("told this once: ")
	if s.client, err = api.NewClient("unix://"+filepath.Join(s.dir, "socket"), token); err != nil {
		s.t.Fatal(err)
	}
	s.client.Patience = 3 * time.Minute
	for _, u := range s.units {
		u.env = append(u.env, "HEADRACE_TOKEN="+token)
		u.start()
	}
	for i := range stormAskers {
		a := &asker{s: s, rnd: rand.New(rand.NewPCG(s.seed, uint64(100+i))), name: fmt.Sprintf("b%d", i)}
		s.asking.Go(a.run)
	}
}

// rage kills until enough processes are dead.
func (s *storm) rage() {
	for s.told["kill"] < *chaosKills && !s.t.Failed() {
		if s.rnd.IntN(3) == 0 {
			s.pulse.after(s.rnd.IntN(4), 5*time.Second) // while what was started comes up
		} else {
			s.pulse.after(5+s.rnd.IntN(120), 5*time.Second)
		}
		victims := s.victims()
		for _, u := range victims {
			s.strike(u)
		}
		if s.rnd.IntN(2) == 0 {
			s.pulse.after(s.rnd.IntN(20), time.Second)
		}
		s.rnd.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		for _, u := range victims {
			u.revive()
		}
		for _, u := range append([]*unit{s.server}, s.units...) {
			u.expected()
		}
	}
	s.t.Logf("chaos: %d kills, of %d of them all below a worker, too; %d stops, %d orders to end, %d of them twice", s.told["kill"], s.told["tree"], s.told["stop"], s.told["term"], s.told["twice"])
}

// victims draws who is to be struck.
func (s *storm) victims() []*unit {
	some := func(n int) (list []*unit) {
		for _, i := range s.rnd.Perm(len(s.units))[:n] {
			list = append(list, s.units[i])
		}
		return list
	}
	switch n := s.rnd.IntN(100); {
	case n < 35:
		return []*unit{s.server}
	case n < 70:
		return some(1)
	case n < 80:
		return some(2)
	case n < 90:
		return append(some(1), s.server)
	case n < 95:
		return append([]*unit{s.server}, some(2)...)
	default:
		return append(some(len(s.units)), s.server)
	}
}

// strike does something to a unit.
func (s *storm) strike(u *unit) {
	switch n := s.rnd.IntN(100); {
	case n < 60:
		u.kill()
	case n < 75:
		u.killTree()
	case n < 90:
		s.told["stop"]++
		u.signal(syscall.SIGSTOP)
		s.pulse.after(s.rnd.IntN(60), 700*time.Millisecond)
		if s.rnd.IntN(3) == 0 {
			u.kill()
			return
		}
		u.signal(syscall.SIGCONT)
	default:
		s.told["term"]++
		u.leaving = true
		u.signal(syscall.SIGTERM)
		s.pulse.after(s.rnd.IntN(40), 300*time.Millisecond)
		switch s.rnd.IntN(3) {
		case 0:
			u.kill()
		case 1:
			s.told["twice"]++
			u.signal(syscall.SIGTERM)
		}
	}
}

// pulse counts what is seen of the farm.
type pulse struct {
	mu   sync.Mutex
	n    int
	wait map[int][]chan struct{}
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	for _, c := range p.wait[p.n] {
		close(c)
	}
	delete(p.wait, p.n)
}

// after waits until so much more has been seen, but not longer than most: all may stand still.
func (p *pulse) after(n int, most time.Duration) {
	if n <= 0 {
		return
	}
	c := make(chan struct{})
	p.mu.Lock()
	if p.wait == nil {
		p.wait = map[int][]chan struct{}{}
	}
	p.wait[p.n+n] = append(p.wait[p.n+n], c)
	p.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
	}
}

// unit is a process of the farm, over all its lives. Only the goroutine of the test uses it.
type unit struct {
	s       *storm
	name    string
	args    []string
	env     []string
	out     *os.File // what it prints goes there, in all its lives
	cmd     *exec.Cmd
	ended   chan struct{}
	killed  bool
	leaving bool // it was told to end

	mu    sync.Mutex
	text  strings.Builder
	lines chan string // as they come, if somebody reads
}

func (s *storm) unit(name string, args ...string) *unit {
	s.t.Helper()
	// A pipe of our own: exec's would be waited for until also what is left of a killed worker has closed it.
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	u := &unit{s: s, name: name, args: args, out: w, lines: make(chan string, 100)}
	var reading sync.WaitGroup
	reading.Go(func() { u.read(r) })
	s.t.Cleanup(func() {
		if u.cmd != nil {
			_ = u.cmd.Process.Kill() // It has ended, unless the test has failed.
			<-u.ended
		}
		_ = w.Close()
		_ = r.SetReadDeadline(time.Now().Add(10 * time.Second)) // What is left of it is an error of its own.
		reading.Wait()
		_ = r.Close()
		if s.t.Failed() {
			path := filepath.Join(s.t.ArtifactDir(), name+".log")
			s.t.Logf("what %s printed is in %s, %v; the last of it:\n%s", name, path, os.WriteFile(path, []byte(u.last(1<<30)), 0o600), u.last(20))
		}
	})
	return u
}

func (u *unit) read(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		u.mu.Lock()
		u.text.WriteString(lines.Text() + "\n")
		u.mu.Unlock()
		u.s.pulse.beat()
		select {
		case u.lines <- lines.Text():
		default:
		}
	}
}

// last gives the last lines that it printed.
func (u *unit) last(n int) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	lines := strings.SplitAfter(u.text.String(), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "")
}

// awaitLine waits for a line that holds a text, and gives what follows it.
func (u *unit) awaitLine(text string) string {
	u.s.t.Helper()
	for timer := time.NewTimer(time.Minute); ; {
		select {
		case line := <-u.lines:
			if _, rest, ok := strings.Cut(line, text); ok {
				return rest
			}
		case <-u.ended:
			u.s.t.Fatalf("%s has ended:\n%s", u.name, u.last(30))
		case <-timer.C:
			u.s.t.Fatalf("%s never said %q:\n%s", u.name, text, u.last(30))
		}
	}
}

func (u *unit) start() {
	u.s.t.Helper()
	u.cmd = exec.Command(u.s.program, u.args...)
	u.cmd.Dir, u.cmd.Stdout, u.cmd.Stderr = u.s.dir, u.out, u.out
	u.cmd.Env = append(append(os.Environ(), u.s.mark()), u.env...)
	u.killed, u.leaving, u.ended = false, false, make(chan struct{})
	if err := u.cmd.Start(); err != nil {
		u.s.t.Fatal(err)
	}
	cmd, ended := u.cmd, u.ended
	go func() {
		_ = cmd.Wait() // Its state tells.
		close(ended)
	}()
}

func (u *unit) dead() bool {
	select {
	case <-u.ended:
		return true
	default:
		return false
	}
}

func (u *unit) signal(sig syscall.Signal) {
	if err := u.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		u.s.t.Errorf("%v to %s: %v", sig, u.name, err)
	}
}

// kill kills it, and waits until it is dead.
func (u *unit) kill() {
	if u.dead() {
		return
	}
	u.killed = true
	u.signal(syscall.SIGKILL)
	<-u.ended
	if state, ok := u.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && state.Signaled() && state.Signal() == syscall.SIGKILL {
		u.s.told["kill"]++
	}
}

// killTree kills it and what watches over its jobs, so that these go on. They are stopped first: none may see another's death.
func (u *unit) killTree() {
	if u == u.s.server {
		u.kill()
		return
	}
	u.signal(syscall.SIGSTOP)
	below := children(u.s.t, u.cmd.Process.Pid)
	for _, pid := range below {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // One may just have ended.
	}
	for _, pid := range below {
		_ = syscall.Kill(pid, syscall.SIGKILL) // As above.
	}
	u.s.told["tree"]++
	u.kill()
}

// revive starts it again, if it is dead or about to be.
func (u *unit) revive() {
	u.s.t.Helper()
	if u.leaving {
		u.awaitEnd()
	}
	if u.dead() {
		u.expected()
		u.start()
	}
}

// awaitEnd waits for the end of what was told to end.
func (u *unit) awaitEnd() {
	u.s.t.Helper()
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	select {
	case <-u.ended:
	case <-timer.C:
		u.s.t.Errorf("%s was told to end, and does not", u.name)
		u.kill()
	}
}

// expected checks that it has not ended by itself, nor badly.
func (u *unit) expected() {
	u.s.t.Helper()
	if code := 0; u.dead() && !u.killed {
		// A server that is told to end before it serves says that it was interrupted.
		if code = u.cmd.ProcessState.ExitCode(); !u.leaving || code != exitOK && code != exitInterrupted {
			// A second order may come before it heeds signals.
			if state, ok := u.cmd.ProcessState.Sys().(syscall.WaitStatus); u.leaving && ok && state.Signaled() && state.Signal() == syscall.SIGTERM {
				return
			}
			u.s.t.Errorf("%s ended with code %d; told to end: %v", u.name, code, u.leaving)
		}
	}
}

// within gives a context for one thing of the test.
func (s *storm) within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
