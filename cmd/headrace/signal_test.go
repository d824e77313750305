//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is the shipped program at work.
type process struct {
	*exec.Cmd
	out bytes.Buffer
}

// start starts the program in a folder; it does not outlive the test.
func start(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	p := &process{Cmd: exec.CommandContext(ctx, binary, args...)}
	p.Dir, p.Stdout, p.Stderr = dir, &p.out, &p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// end waits for the program and gives its exit code; -1 if a signal ended it.
func (p *process) end(t *testing.T) int {
	t.Helper()
	var exit *exec.ExitError
	if err := p.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return p.ProcessState.ExitCode()
}

// text is what the program printed; it ends the program's life.
func (p *process) text(t *testing.T) string {
	t.Helper()
	_ = p.Wait() // It was killed.
	return p.out.String()
}

// write makes a file in a folder.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// gate is a FIFO at which a test waits for a job, though not for ever.
type gate struct{ *os.File }

func newGate(t *testing.T, path string) gate {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// For writing, too: so opening does not block, and there is no end before the job has come.
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return gate{f}
}

// meet waits until a job has written a line.
func (g gate) meet(t *testing.T, p *process) {
	t.Helper()
	if err := g.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Read(make([]byte, 16)); err != nil {
		_ = p.Process.Kill() // It is of no use any more.
		t.Fatalf("the job did not come: %v\n%s", err, p.text(t))
	}
}

func TestEachSignalInterruptsAndIsToldByTheCode(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			started := newGate(t, filepath.Join(dir, "started"))
			write(t, dir, "g.yaml", `jobs: {a: {run: "echo > started; exec tail -f /dev/null"}}`)
			p := start(t, dir, "run", "g.yaml")
			started.meet(t, p)
			if err := p.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if code := p.end(t); code != exitInterrupted {
				t.Errorf("exit code %d after %v, want %d:\n%s", code, sig, exitInterrupted, &p.out)
			}
		})
	}
}

// nohup, and shells that detach a command, have SIGHUP ignored.
func TestIgnoredHangUpIsIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	started := newGate(t, filepath.Join(dir, "started"))
	let := newGate(t, filepath.Join(dir, "let"))
	write(t, dir, "g.yaml", `jobs: {a: {run: "echo > started; read x < let"}}`)
	p := &process{Cmd: exec.CommandContext(t.Context(), "sh", "-c", `trap '' HUP; exec "$0" run g.yaml`, binary)}
	p.Dir, p.Stdout, p.Stderr = dir, &p.out, &p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	started.meet(t, p)
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if _, err := let.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t); code != exitOK {
		t.Errorf("exit code %d, want %d:\n%s", code, exitOK, &p.out)
	}
}

// A job that does not heed SIGTERM would have 5 s of grace: Ctrl-\ gives it none, and shows nobody the inside of headrace.
func TestQuitEndsAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	started := newGate(t, filepath.Join(dir, "started"))
	write(t, dir, "g.yaml", `jobs: {a: {run: "trap '' TERM; echo > started; exec tail -f /dev/null"}}`)
	p := start(t, dir, "run", "g.yaml")
	started.meet(t, p)
	if err := p.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t); code != exitInterrupted || strings.Contains(p.out.String(), "goroutine") {
		t.Errorf("exit code %d, want %d:\n%s", code, exitInterrupted, &p.out)
	}
	logs := start(t, dir, "logs", "g.yaml", "a")
	logs.end(t)
	if text := logs.out.String(); !strings.Contains(text, "told to end at once") || strings.Contains(text, "still running") {
		t.Errorf("the log of the job:\n%s", text)
	}
}

func TestReaderThatGoesAwayStopsTheRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "g.yaml", `jobs: {a: {run: "exec tail -f /dev/null"}}`)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.CommandContext(t.Context(), binary, "run", "g.yaml")
	var stderr bytes.Buffer
	p.Dir, p.Stdout, p.Stderr = dir, w, &stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close() // The program has its own.
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err == nil {
		t.Fatal("the run succeeded")
	}
	if code := p.ProcessState.ExitCode(); code != exitMachine {
		t.Errorf("exit code %d, want %d", code, exitMachine)
	}
	if !strings.Contains(stderr.String(), "write the progress: ") || !strings.Contains(stderr.String(), "broken pipe") {
		t.Errorf("stderr: %q", &stderr)
	}
}

// killGraph is a graph in which each job notes its end in a file of its own, and that it began beside it. Two of three
// need earlier ones.
func killGraph(jobs int) string {
	var b strings.Builder
	b.WriteString("jobs:\n")
	for i := range jobs {
		fmt.Fprintf(&b, "  j%d: {run: \"echo >> began/j%d; echo >> ended/j%d\"", i, i, i)
		if i%3 > 0 {
			fmt.Fprintf(&b, ", needs: [j%d, j%d]", i-1, i/2)
		}
		b.WriteString("}\n")
	}
	return strings.ReplaceAll(strings.ReplaceAll(b.String(), "needs: [j0, j0]", "needs: [j0]"), "needs: [j1, j1]", "needs: [j1]")
}

// TestKilledAtAnyMomentTheNextRunGoesOn kills the program at seeded moments, again and again, until a run comes through.
// Each job then has ended, those whose end was told before a kill exactly once.
func TestKilledAtAnyMomentTheNextRunGoesOn(t *testing.T) {
	t.Parallel()
	const jobs, kills = 24, 12
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 7))
			dir := t.TempDir()
			for _, sub := range []string{"began", "ended"} {
				if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			write(t, dir, "g.yaml", killGraph(jobs))
			told := map[string]int{} // how often a job had ended when its end was first told
			for range kills {
				p := exec.Command(binary, "run", "g.yaml", "-j", "3", "--json")
				p.Dir = dir
				killAfter(t, p, rnd, dir, told)
			}
			last := start(t, dir, "run", "g.yaml", "-j", "3")
			if code := last.end(t); code != exitOK {
				t.Fatalf("exit code %d of the last run:\n%s", code, &last.out)
			}
			for i := range jobs {
				name := fmt.Sprintf("j%d", i)
				n := count(t, filepath.Join(dir, "ended", name))
				if n < 1 {
					t.Errorf("%s never ended", name)
				}
				if want, ok := told[name]; ok && n != want {
					t.Errorf("%s ended %d times, %d when it was told: a finished job ran again", name, n, want)
				}
			}
		})
	}
}

// killAfter lets the program run for a while, as the seed says, and kills it. Among the moments are all that it needs to
// open the store, submit, run and end.
func killAfter(t *testing.T, p *exec.Cmd, rnd *rand.Rand, dir string, told map[string]int) {
	t.Helper()
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	p.Stderr = &stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	// Half of the kills come at a moment, the others after so many events, whatever the machine's speed.
	events := rnd.IntN(24)
	timer := time.AfterFunc(time.Duration(rnd.IntN(200_000))*time.Microsecond, func() {
		if events%2 == 0 {
			_ = p.Process.Kill() // It may have ended.
		}
	})
	defer timer.Stop()
	var text bytes.Buffer
	buf := make([]byte, 4096)
	for {
		n, err := out.Read(buf)
		text.Write(buf[:n])
		if events%2 == 1 && bytes.Count(text.Bytes(), []byte("\n")) >= events {
			_ = p.Process.Kill() // It may have ended.
		}
		if err != nil {
			break
		}
	}
	err = p.Wait()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != -1) {
		t.Fatalf("a run that was not killed ended with %v:\n%s%s", err, &text, &stderr)
	}
	for line := range strings.Lines(text.String()) {
		name, ok := endedJob(line)
		if _, before := told[name]; ok && !before {
			told[name] = count(t, filepath.Join(dir, "ended", name))
		}
	}
}

// endedJob gives the job whose success a line tells of.
func endedJob(line string) (name string, ok bool) {
	if !strings.Contains(line, `"event":"job-ended"`) || !strings.Contains(line, `"outcome":"succeeded"`) {
		return "", false
	}
	_, rest, _ := strings.Cut(line, `"job":"`)
	name, _, ok = strings.Cut(rest, `"`)
	return name, ok
}

func count(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// Whoever waits for a graph, or for what a job prints, can be told to end; nobody is shown the inside of headrace.
func TestSignalEndsWhatWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sig  syscall.Signal
		args []string
		code int
	}{
		"run, Ctrl-C":     {syscall.SIGINT, []string{"run", "graph"}, exitInterrupted},
		"run, Ctrl-\\":    {syscall.SIGQUIT, []string{"run", "graph"}, exitInterrupted},
		"plan, terminate": {syscall.SIGTERM, []string{"run", "-n", "graph"}, exitInterrupted},
		"logs, Ctrl-\\":   {syscall.SIGQUIT, []string{"logs", "-f", "g.yaml", "a"}, exitQuit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_ = newGate(t, filepath.Join(dir, "graph"))
			started := newGate(t, filepath.Join(dir, "started"))
			write(t, dir, "g.yaml", `jobs: {a: {run: "echo > started; echo here; exec tail -f /dev/null"}}`)
			if c.args[0] == "logs" {
				run := start(t, dir, "run", "g.yaml")
				started.meet(t, run)
				t.Cleanup(func() {
					_ = run.Process.Signal(syscall.SIGINT) // It may have ended.
					_ = run.text(t)
				})
			}
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			p := exec.CommandContext(ctx, binary, c.args...)
			p.Dir, p.Stdout, p.Stderr = dir, w, w
			err = p.Start()
			_ = w.Close() // The program has its own.
			if err != nil {
				t.Fatal(err)
			}
			// Each says something when it has begun to wait, and not before.
			first := make([]byte, 1)
			_, rerr := io.ReadFull(r, first)
			serr := p.Process.Signal(c.sig)
			rest, aerr := io.ReadAll(r)
			_ = p.Wait() // The code is looked at.
			if err := errors.Join(rerr, serr, aerr); err != nil {
				t.Error(err)
			}
			if code := p.ProcessState.ExitCode(); code != c.code || strings.Contains(string(rest), "goroutine") {
				t.Errorf("exit code %d, want %d:\n%s%s", code, c.code, first, rest)
			}
		})
	}
}
