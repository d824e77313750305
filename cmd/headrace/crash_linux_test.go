package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/crash"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// crashGraph has chains, diamonds, a job that is tried again and an exclusive one. Each job notes in a file of its own which
// attempt of which job it is, and leaves a process behind that nobody would miss.
const crashGraph = `
defaults:
  run: |
    mkdir -p ran && echo "$HEADRACE_JOB_ID $HEADRACE_ATTEMPT" >> "ran/$HEADRACE_JOB"
    (setsid sleep 1000 > /dev/null 2>&1 &)
jobs:
  a: {}
  b: {needs: [a]}
  c: {needs: [b]}
  d: {}
  e: {needs: [d]}
  f: {needs: [d]}
  g: {needs: [e, f]}
  again:
    needs: [a]
    retries: 1
    run: |
      mkdir -p ran && echo "$HEADRACE_JOB_ID $HEADRACE_ATTEMPT" >> ran/again
      [ -e failed ] || { touch failed; exit 1; }
  after: {needs: [again]}
  alone: {exclusive: true, needs: [d]}
  h: {needs: [c, g]}
  last: {needs: [h, after, alone]}
`

// crashing is the program as it is shipped, but that it dies where HEADRACE_CRASH says.
var crashing = sync.OnceValues(func() (string, error) {
	path := binary + "-crashing"
	build := exec.Command("go", "build", "-buildvcs=false", "-tags", "crashpoints", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %v\n%s", err, out)
	}
	return path, nil
})

// life is a folder in which the graph is run until it comes to its end.
type life struct {
	t       *testing.T
	dir     string
	program string
	store   string // the database that keeps its state; "": a file does
}

func newLife(t *testing.T, store string) *life {
	t.Helper()
	path, err := crashing()
	if err != nil {
		t.Fatal(err)
	}
	l := &life{t: t, dir: t.TempDir(), store: store}
	// A name of its own: by that its supervisors are found.
	l.program = filepath.Join(l.dir, "headrace")
	if err := os.Link(path, l.program); err != nil {
		t.Fatal(err)
	}
	write(t, l.dir, "g.yaml", crashGraph)
	return l
}

// start runs the graph; wish is what HEADRACE_CRASH is to be.
func (l *life) start(wish string) *process {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	l.t.Cleanup(cancel)
	args := []string{"run", "g.yaml", "-j", "3", "--json"}
	if l.store != "" {
		args = append(args, "--store", l.store)
	}
	p := &process{Cmd: exec.CommandContext(ctx, l.program, args...)}
	p.Dir, p.Stdout, p.Stderr = l.dir, &p.out, &p.out
	p.Env = append(os.Environ(), "HEADRACE_CRASH="+wish, l.mark())
	if err := p.Start(); err != nil {
		l.t.Fatal(err)
	}
	return p
}

func (l *life) mark() string { return "HEADRACE_TEST_LIFE=" + l.dir }

// crash runs the graph until it dies.
func (l *life) crash(wish string) {
	l.t.Helper()
	l.died(l.start(wish), wish)
}

// died waits until a run has died, as it was to.
func (l *life) died(p *process, wish string) {
	l.t.Helper()
	if code := p.end(l.t); code != -1 {
		l.t.Fatalf("%s: exit code %d, want that it was killed:\n%s", wish, code, &p.out)
	}
	l.said(p)
}

// said checks that what a run said of jobs that ended well is what is stored: it was told after that.
func (l *life) said(p *process) {
	l.t.Helper()
	stored := l.succeeded()
	for line := range strings.Lines(p.out.String()) {
		if name, ok := endedJob(line); ok && stored[name] == "" {
			l.t.Errorf("the end of %s was told, and is not stored", name)
		}
	}
}

// history reads what the store has of the graph's jobs.
func (l *life) history() (list []job.Record, attempts map[job.ID][]job.AttemptEnd) {
	l.t.Helper()
	r, err := placeOf(filepath.Join(l.dir, "g.yaml"), l.store).read(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	defer r.Close() // Only read from.
	if list, err = r.Jobs(l.t.Context(), queue.JobFilter{Limit: 10_000}); err != nil {
		l.t.Fatal(err)
	}
	attempts = map[job.ID][]job.AttemptEnd{}
	for i := range list {
		if attempts[list[i].Spec.ID], err = r.Attempts(l.t.Context(), list[i].Spec.ID); err != nil {
			l.t.Fatal(err)
		}
	}
	return list, attempts
}

// succeeded gives, by name, what the jobs noted of which the store knows that they ended well.
func (l *life) succeeded() map[string]string {
	l.t.Helper()
	ran := map[string]string{}
	list, _ := l.history()
	for i := range list {
		if r := &list[i]; r.End != nil && r.End.Outcome == job.Succeeded {
			ran[r.Spec.Name] = l.ran(r.Spec.Name)
		}
	}
	return ran
}

// ran gives what the job has noted.
func (l *life) ran(name string) string {
	l.t.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, "ran", name))
	if err != nil && !os.IsNotExist(err) {
		l.t.Fatal(err)
	}
	return string(text)
}

// finish runs the graph to its end, and checks the whole life.
func (l *life) finish() {
	l.t.Helper()
	before := l.succeeded()
	l.ended(l.start(""), before)
}

// ended waits for the end of the last run. Before it these jobs had ended well, of which it has what they had noted.
func (l *life) ended(p *process, before map[string]string) {
	l.t.Helper()
	if code := p.end(l.t); code != exitOK {
		l.t.Fatalf("exit code %d of the last run:\n%s", code, &p.out)
	}
	l.said(p)
	for name, ran := range before {
		if now := l.ran(name); now != ran {
			l.t.Errorf("%s had ended, and ran again: %q, then %q", name, ran, now)
		}
	}
	l.verify()
	l.alone()
}

// verify compares what the store says with what the jobs have noted.
func (l *life) verify() {
	l.t.Helper()
	list, attempts := l.history()
	done := map[string]int{}
	stored := map[string]bool{} // lines that the jobs should, or may, have noted
	for i := range list {
		r := &list[i]
		for n, a := range attempts[r.Spec.ID] {
			line := fmt.Sprintf("%s %s %d", r.Spec.Name, r.Spec.ID, a.Number)
			stored[line] = true
			interrupted := a.Outcome == job.Aborted && a.Detail == job.HandedBack
			failed := a.Outcome == job.Failed && r.Spec.Name == "again"
			switch {
			case a.Outcome == job.Succeeded:
				done[r.Spec.Name]++
			case !interrupted && !failed:
				l.t.Errorf("attempt %s ended as %v %v: %s", line, a.Outcome, a.Detail, a.Message)
			}
			if a.Number != int32(n+1) {
				l.t.Errorf("attempt %s is the %d. that is stored", line, n+1)
			}
			if !interrupted && !strings.Contains(l.ran(r.Spec.Name), line[len(r.Spec.Name)+1:]+"\n") {
				l.t.Errorf("attempt %s is stored as %v, and never ran", line, a.Outcome)
			}
		}
	}
	const jobs = 12
	if len(list) != jobs || len(done) != jobs {
		l.t.Errorf("%d jobs are stored and %d of them ended well, want %d", len(list), len(done), jobs)
	}
	for name, n := range done {
		if n != 1 {
			l.t.Errorf("%s ended well %d times", name, n)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(l.ran(name)) {
			line = name + " " + strings.TrimSuffix(line, "\n")
			if seen[line] {
				l.t.Errorf("attempt %s ran twice", line)
			}
			if !stored[line] {
				l.t.Errorf("attempt %s ran, and is not stored", line)
			}
			seen[line] = true
		}
	}
}

// alone checks that nothing of the life still runs: neither a supervisor nor what a job left behind. A supervisor may take a moment
// to go after its attempt is over.
func (l *life) alone() {
	l.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var left []string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		if left = l.processes(); len(left) == 0 {
			return
		}
	}
	l.t.Errorf("processes are left: %q", left)
}

func (l *life) processes() (list []string) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		l.t.Fatal(err)
	}
	for _, f := range folders {
		env, _ := os.ReadFile(f + "/environ") // One that has ended has none.
		exe, _ := os.Readlink(f + "/exe")     // As above.
		if bytes.Contains(env, []byte(l.mark()+"\x00")) || exe == l.program {
			cmdline, _ := os.ReadFile(f + "/cmdline") // As above.
			list = append(list, filepath.Base(f)+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return list
}

// The program is killed at each point, when it comes there for the first, the second, the third and the seventh time. The next
// run goes on where it was: it comes to its end, each job succeeds once, and nothing that was stored as ended runs again.
func TestKilledBetweenAnyTwoStepsTheNextRunGoesOn(t *testing.T) {
	t.Parallel()
	for _, point := range crash.Points() {
		for _, pass := range []int{1, 2, 3, 7} {
			wish := fmt.Sprintf("%s:%d", point, pass)
			t.Run(wish, func(t *testing.T) {
				t.Parallel()
				l := newLife(t, "")
				l.crash(wish)
				l.finish()
			})
		}
	}
}

// The run that recovers is killed, too, and so is the one after it.
func TestKilledWhileItRecoversTheNextRunGoesOn(t *testing.T) {
	t.Parallel()
	for i, point := range crash.Points() {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			l := newLife(t, "")
			l.crash(fmt.Sprintf("%s:%d", crash.AttemptBegun, 2+i%3))
			l.crash(fmt.Sprintf("%s:1", point))
			l.crash(fmt.Sprintf("%s:2", point))
			l.finish()
		})
	}
}

// The same with the state in a database: at each point, in the first run and in the one that recovers. Package postgres has every pass of
// each point. They live at the same time, as whoever follows one that was killed first waits for a sign of life.
func TestKilledWithItsStateInADatabaseTheNextRunGoesOn(t *testing.T) {
	t.Parallel()
	var wishes [][]string // of the first run and of the second
	for i, point := range crash.Points() {
		if point != crash.CommitWritten { // SQLite's alone
			wishes = append(wishes, []string{fmt.Sprintf("%s:%d", point, 2+i%3), string(point) + ":1"})
		}
	}
	lives, runs := make([]*life, len(wishes)), make([]*process, len(wishes))
	for i := range wishes {
		lives[i] = newLife(t, newDatabase(t))
	}
	for wave := range 2 {
		for i, l := range lives {
			runs[i] = l.start(wishes[i][wave])
		}
		for i, l := range lives {
			l.died(runs[i], wishes[i][wave])
		}
	}
	before := make([]map[string]string, len(wishes))
	for i, l := range lives {
		before[i] = l.succeeded()
		runs[i] = l.start("")
	}
	for i, l := range lives {
		t.Run(wishes[i][0], func(t *testing.T) {
			l.t = t
			l.ended(runs[i], before[i])
		})
	}
}

// A run that stands still keeps its store: another one is told so and touches nothing. Woken, it goes on as if nothing had been.
func TestStoppedRunKeepsItsStore(t *testing.T) {
	t.Parallel()
	for _, point := range []crash.Point{crash.RoundDecided, crash.CommitWritten, crash.AttemptBegun, crash.AttemptEnded} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			l := newLife(t, "")
			p := l.start(string(point) + ":5:stop")
			awaitStop(t, p)
			other := l.start("")
			if code := other.end(t); code != exitMachine || !strings.Contains(other.out.String(), strconv.Itoa(p.Process.Pid)) {
				t.Errorf("exit code %d of another run, want %d and the process that has the store:\n%s", code, exitMachine, &other.out)
			}
			if err := p.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if code := p.end(t); code != exitOK {
				t.Errorf("exit code %d of the run that stood still:\n%s", code, &p.out)
			}
			l.verify()
			l.alone()
		})
	}
}

// awaitStop waits until the process stands still.
func awaitStop(t *testing.T, p *process) {
	t.Helper()
	var status syscall.WaitStatus
	for {
		pid, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid != p.Process.Pid || !status.Stopped() {
			t.Fatalf("the run did not stop but ended (%v, status %#x):\n%s", err, status, &p.out)
		}
		return
	}
}

// A wish that names no point is refused, so that no test crashes nowhere and passes.
func TestCrashWishMustNameAPoint(t *testing.T) {
	t.Parallel()
	l := newLife(t, "")
	for _, wish := range []string{"nowhere:1", "round-taken", "round-taken:x", "round-taken:1:sleep"} {
		p := l.start(wish)
		if code := p.end(t); code != exitUsage || !strings.Contains(p.out.String(), wish) {
			t.Errorf("%s: exit code %d:\n%s", wish, code, &p.out)
		}
	}
}
