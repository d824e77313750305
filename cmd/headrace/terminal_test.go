//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal with the program at its other end, and what the program has drawn so far.
type terminal struct {
	*exec.Cmd
	master *os.File
	done   chan struct{}

	mu    sync.Mutex
	text  bytes.Buffer
	fresh chan struct{} // has an element when text has grown
}

// onTerminal runs the program on a pseudo-terminal of that size.
func onTerminal(t *testing.T, dir string, columns, rows uint16, env []string, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	var number int
	control(t, master, func(fd int) (err error) {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return errors.Join(err, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}))
	})
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{
		Cmd: exec.CommandContext(t.Context(), binary, args...), master: master,
		done: make(chan struct{}), fresh: make(chan struct{}, 1),
	}
	x.Dir, x.Stdin, x.Stdout, x.Stderr = dir, slave, slave, slave
	x.Env = append(append(os.Environ(), "TERM=xterm", "NO_COLOR="), env...)
	x.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = x.Start()
	_ = slave.Close() // The program has its own.
	if err != nil {
		t.Fatal(err)
	}
	go x.read()
	t.Cleanup(func() { <-x.done })
	t.Cleanup(func() { _ = x.Process.Kill() }) // It may have ended.
	return x
}

func control(t *testing.T, f *os.File, do func(fd int) error) {
	t.Helper()
	raw, err := f.SyscallConn()
	if err == nil {
		var inner error
		err = raw.Control(func(fd uintptr) { inner = do(int(fd)) })
		err = errors.Join(err, inner)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (x *terminal) read() {
	defer close(x.done)
	buf := make([]byte, 4096)
	for {
		n, err := x.master.Read(buf)
		x.mu.Lock()
		x.text.Write(buf[:n])
		x.mu.Unlock()
		select {
		case x.fresh <- struct{}{}:
		default:
		}
		if err != nil {
			return // EIO: nobody has the other end any more.
		}
	}
}

// drawn is all that the program wrote.
func (x *terminal) drawn() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

// await waits until the screen satisfies want.
func (x *terminal) await(t *testing.T, columns, rows int, what string, want func(*screen) bool) *screen {
	t.Helper()
	late := time.NewTimer(30 * time.Second)
	defer late.Stop()
	for {
		s := paint(x.drawn(), columns, rows)
		if want(s) {
			return s
		}
		select {
		case <-x.fresh:
		case <-late.C:
			t.Fatalf("never seen: %s. The screen:\n%s", what, s)
		}
	}
}

// screen is what a terminal shows: enough of one for what the program may send, and nothing more.
type screen struct {
	lines   [][]rune
	row     int
	col     int
	columns int
	strange []string // sequences that it should not have sent
}

func paint(text string, columns, _ int) *screen {
	s := &screen{columns: columns, lines: [][]rune{nil}}
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n':
			s.row++
			i++
		case c == '\r':
			s.col = 0
			i++
		case c == 0x1b:
			i += s.sequence(text[i:])
		default:
			r := []rune(text[i:min(len(text), i+4)])[0]
			s.put(r)
			i += len(string(r))
		}
		for len(s.lines) <= s.row {
			s.lines = append(s.lines, nil)
		}
	}
	return s
}

func (s *screen) put(r rune) {
	if s.col == s.columns {
		s.row, s.col = s.row+1, 0
		if len(s.lines) <= s.row {
			s.lines = append(s.lines, nil)
		}
	}
	for len(s.lines[s.row]) <= s.col {
		s.lines[s.row] = append(s.lines[s.row], ' ')
	}
	s.lines[s.row][s.col] = r
	s.col++
}

func (s *screen) sequence(text string) int {
	end := 2
	for end < len(text) && (text[end] < 0x40 || text[end] > 0x7e) {
		end++
	}
	if end >= len(text) {
		return len(text) // Not all of it has come yet.
	}
	switch seq := text[2 : end+1]; {
	case text[1] != '[':
		s.strange = append(s.strange, text[:end+1])
	case seq == "K":
		s.lines[s.row] = s.lines[s.row][:min(s.col, len(s.lines[s.row]))]
	case seq == "J":
		s.lines[s.row] = s.lines[s.row][:min(s.col, len(s.lines[s.row]))]
		s.lines = s.lines[:s.row+1]
	case seq[len(seq)-1] == 'A':
		n := 0
		_, _ = fmt.Sscan(seq[:len(seq)-1], &n)
		s.row = max(0, s.row-n)
	case seq[len(seq)-1] == 'm', seq == "?2026h", seq == "?2026l", seq == "?7l", seq == "?7h": // No line reaches the edge.
	default:
		s.strange = append(s.strange, text[:end+1])
	}
	return end + 1
}

func (s *screen) String() string {
	var b strings.Builder
	for _, l := range s.lines {
		b.WriteString(strings.TrimRight(string(l), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (s *screen) has(texts ...string) bool {
	whole := s.String()
	for _, text := range texts {
		if !strings.Contains(whole, text) {
			return false
		}
	}
	return true
}

func TestLiveDisplay(t *testing.T) {
	t.Parallel()
	const columns, rows = 60, 12
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "g.yaml", `name: live
jobs:
  quick: {run: "true", priority: 9}
  bad: {run: "echo ouch; exit 4", priority: 8}
  nasty: {run: "printf '\\033[2J\\033]0;owned\\007evil \\033[35mtext\\b%0200d\\n' 7; read x < go"}
`)
	x := onTerminal(t, dir, columns, rows, nil, "run", "g.yaml", "-j", "1", "-k")
	s := x.await(t, columns, rows, "the job that runs, with its last line", func(s *screen) bool {
		// Some frames later, so that they have been drawn over one another.
		return strings.Count(x.drawn(), "\x1b[35m") > 0 ||
			s.has("  nasty ", "evil text", "000000", "2 of 3, 1 running, 1 failed") && strings.Count(x.drawn(), "  nasty ") > 4
	})
	if !s.has("ok     quick", "FAIL   bad", "| ouch", "the whole log: headrace logs g.yaml bad") {
		t.Errorf("what has ended is not told:\n%s", s)
	}
	for _, line := range s.lines {
		if len(line) > columns {
			t.Errorf("a line of %d columns on a terminal of %d", len(line), columns)
		}
	}
	if n := strings.Count(s.String(), "nasty"); n != 1 {
		t.Errorf("the panel is there %d times:\n%s", n, s)
	}
	gate, err := os.OpenFile(filepath.Join(dir, "go"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	if _, err := gate.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	<-x.done
	_ = x.Wait() // The code is looked at below.
	s = paint(x.drawn(), columns, rows)
	if code := x.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if len(s.strange) > 0 {
		t.Errorf("sequences that do not belong on the terminal: %q", s.strange)
	}
	if s.has("of 3") || !s.has("ok     nasty", "live: failed in", "did not succeed:\n  bad ") {
		t.Errorf("after the end:\n%s", s)
	}
	if !strings.Contains(x.drawn(), "\x1b[32mok") {
		t.Error("no colours on a terminal")
	}
}

func TestCtrlCOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "g.yaml", `jobs: {waits: {run: "echo here; exec tail -f /dev/null"}}`)
	x := onTerminal(t, dir, 80, 24, []string{"NO_COLOR=1"}, "run", "g.yaml")
	x.await(t, 80, 24, "the job's output", func(s *screen) bool { return s.has("here", "0 of 1, 1 running") })
	if _, err := x.master.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	<-x.done
	_ = x.Wait() // The code is looked at below.
	s := paint(x.drawn(), 80, 24)
	if code := x.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d:\n%s", code, exitInterrupted, s)
	}
	if !s.has("stop   interrupted", "halt   waits", "the next run goes on with the 1 job left") {
		t.Errorf("the screen:\n%s", s)
	}
	if strings.Contains(x.drawn(), "m") && strings.Contains(x.drawn(), "\x1b[3") {
		t.Error("colours in spite of NO_COLOR")
	}
}

func TestDumbTerminalGetsPlainLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "g.yaml", `jobs: {a: {run: "true"}}`)
	x := onTerminal(t, dir, 80, 24, []string{"TERM=dumb"}, "run", "g.yaml")
	<-x.done
	_ = x.Wait() // What it wrote is looked at below.
	if strings.Contains(x.drawn(), "\x1b") || !strings.Contains(x.drawn(), "start  a") {
		t.Errorf("a dumb terminal got %q", x.drawn())
	}
}
