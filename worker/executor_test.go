package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace/headrace/job"
	"golang.org/x/sys/unix"
)

func TestEndOfCommandGivesOutcome(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "#!/bin/sh\n", 0o644)
	orphan := write("orphan", "#!/nowhere/interpreter\n", 0o755)
	write("mine", "#!/bin/sh\necho mine\n", 0o755)
	long := strings.Repeat("# padding\n", 30_000) + "echo long; exit 4"
	for _, tc := range []struct {
		name    string
		c       Command
		outcome job.Outcome
		detail  job.Detail
		code    int
		signal  string
		message string // a part of it
	}{
		{"success", Command{Shell: "true"}, job.Succeeded, 0, 0, "", ""},
		{"argv", Command{Argv: []string{"sh", "-c", `exit "$1"`, "sh", "9"}}, job.Failed, 0, 9, "", "exit code 9"},
		{"failure", Command{Shell: "exit 3"}, job.Failed, 0, 3, "", "exit code 3"},
		{"retry on", Command{Shell: "exit 75", RetryOn: []int{1, 75}}, job.Aborted, 0, 75, "", "infrastructure"},
		{"signal", Command{Shell: "kill -SEGV $$"}, job.Failed, 0, -1, "SIGSEGV", "killed by SIGSEGV"},
		{"long script", Command{Shell: long}, job.Failed, 0, 4, "", "exit code 4"},
		{"relative program", Command{Argv: []string{"./mine"}, Dir: dir}, job.Succeeded, 0, 0, "", ""},
		{"PATH of the job", Command{Argv: []string{"mine"}, Env: []string{"PATH=/nowhere:" + dir}}, job.Succeeded, 0, 0, "", ""},
		{"no directory", Command{Shell: "true", Dir: dir + "/none"}, job.Failed, job.NotStarted, -1, "", `/none" does not exist`},
		{"a file as directory", Command{Shell: "true", Dir: plain}, job.Failed, job.NotStarted, -1, "", "is not a directory"},
		{"unknown program", Command{Argv: []string{"no-such-program"}}, job.Failed, job.NotStarted, -1, "", `"no-such-program" is not in PATH`},
		{"missing program", Command{Argv: []string{"./none"}, Dir: dir}, job.Failed, job.NotStarted, -1, "", "no such file"},
		{"not executable", Command{Argv: []string{plain}}, job.Failed, job.NotStarted, -1, "", "chmod +x"},
		{"no interpreter", Command{Argv: []string{orphan}}, job.Failed, job.NotStarted, -1, "", "interpreter"},
		{"nothing to run", Command{}, job.Failed, job.NotStarted, -1, "", "needs a shell line"},
		{"both forms", Command{Shell: "true", Argv: []string{"true"}}, job.Failed, job.NotStarted, -1, "", "not both"},
		{"NUL", Command{Argv: []string{"true", "a\x00b"}}, job.Failed, job.NotStarted, -1, "", "NUL"},
		{"too long an argument", Command{Argv: []string{"true", strings.Repeat("x", 200_000)}}, job.Failed, job.NotStarted, -1, "", "bytes"},
		{"bad glob", Command{Shell: "true", Outputs: []string{"../x"}}, job.Failed, job.NotStarted, -1, "", "../x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, lines := run(t, t.Context(), Executor{}, tc.c, nil)
			if r.Outcome != tc.outcome || r.Detail != tc.detail || r.ExitCode != tc.code || r.Signal != tc.signal {
				t.Errorf("%v/%v, code %d, signal %q (%s)", r.Outcome, r.Detail, r.ExitCode, r.Signal, r.Message)
			}
			if !strings.Contains(r.Message, tc.message) || (tc.message == "") != (r.Message == "") {
				t.Errorf("message %q; want %q in it", r.Message, tc.message)
			}
			if r.Message != "" && !strings.HasSuffix(text(lines, Note), ": "+r.Message+"\n") {
				t.Errorf("the log ends with %q; want the message", text(lines, Note))
			}
			if r.Ended.Before(r.Started) || r.Started.IsZero() {
				t.Errorf("from %v to %v", r.Started, r.Ended)
			}
		})
	}
}

func TestLongScriptLeavesNoFile(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	r, _ := run(t, t.Context(), Executor{}, Command{Shell: strings.Repeat(": padding\n", 20_000)}, nil)
	if left, _ := filepath.Glob(tmp + "/headrace-script-*"); len(left) > 0 || r.Outcome != job.Succeeded {
		t.Errorf("%v, %s; files left: %v", r.Outcome, r.Message, left)
	}
}

func TestCommandSeesItsEnvironmentOnly(t *testing.T) {
	t.Setenv("HEADRACE_TEST_OUTER", "outer")
	// A descriptor as a careless caller of this program leaves one open.
	if fd, err := unix.FcntlInt(0, unix.F_DUPFD, 50); err != nil {
		t.Fatal(err)
	} else {
		defer unix.Close(fd)
	}
	dir := t.TempDir()
	r, lines := run(t, t.Context(), Executor{}, Command{
		Shell: `echo "$HEADRACE_TEST_OUTER,$TWICE,$BYTES,$PWD"; readlink /proc/self/fd/0; cat; ls /proc/self/fd | tr '\n' ' '; ` +
			`grep -E 'Sig(Blk|Ign)|Shd' /proc/self/status | tr -d '\t\n'; cut -d' ' -f6 /proc/self/stat | grep -qx $$ && echo " leads a session"`,
		Env: []string{"TWICE=1", "BYTES=\xff\xfe", "TWICE=2"}, Dir: dir,
	}, nil)
	want := "outer,2,\xff\xfe," + dir + "\n/dev/null\n0 1 2 3 " // 3 is that of ls itself.
	if got := text(lines, Stdout); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "leads a session\n") {
		t.Errorf("%v: got %q; want %q and then a session", r.Message, got, want)
	}
}

func TestResourceLimitsPassThrough(t *testing.T) {
	// The runtime raises the soft limit for itself, in this process and in the supervisor.
	var now, low syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	low = now
	low.Cur = 777
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now)
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	_, lines := run(t, t.Context(), Executor{}, Command{Shell: "ulimit -Sn; umask"}, nil)
	if got := text(lines, Stdout); got != "777\n0027\n" {
		t.Errorf("soft limit and umask of the command: %q; want 777 and 0027", got)
	}
}

func TestOutputArrivesInOrderAndWhole(t *testing.T) {
	t.Parallel()
	big := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range big {
		big[i] = byte(r.Uint32())
	}
	binary := filepath.Join(t.TempDir(), "binary")
	if err := os.WriteFile(binary, big, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, script, out string }{
		{"nothing", "true", ""},
		{"both streams", "for i in 1 2 3; do echo o$i; echo e$i >&2; done", "o1\ne1\no2\ne2\no3\ne3\n"},
		{"two processes", "sh -c 'echo a >&2'; echo b; sh -c 'echo c >&2'; echo d", "a\nb\nc\nd\n"},
		{"no newline at the end", `printf 'a\nb'; printf 'c' >&2`, "a\nbc"},
		{"odd bytes", `printf '\0\r\n\377\n\n\r'`, "\x00\r\n\xff\n\n\r"},
		{"10 MB line", `head -c 10000000 /dev/zero; echo; echo end`, strings.Repeat("\x00", 10_000_000) + "\nend\n"},
		{"binary", "cat " + binary, string(big)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var heard []Line
			r, lines := run(t, t.Context(), Executor{}, Command{Shell: tc.script}, func(l Line) {
				if !l.Pending {
					heard = append(heard, l)
				}
			})
			if got := text(lines, Stdout); r.Outcome != job.Succeeded || got != tc.out {
				t.Errorf("%v, %s; %d bytes, beginning with %.20q; want %d", r.Outcome, r.Message, len(got), got, len(tc.out))
			}
			if !same(heard, lines) {
				t.Errorf("the listener heard %d lines; the log has %d", len(heard), len(lines))
			}
		})
	}
}

// The talk lasts for longer than its silence may; between two words of it a machine may stand still for some seconds.
func TestTimeLimits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		c      Command
		detail job.Detail
	}{
		{"total", Command{Shell: "while :; do echo x; sleep 0.01; done", Timeout: 3 * time.Second, Silence: time.Minute}, job.TotalTimeout},
		{"silent", Command{Shell: "echo x; sleep 1000", Timeout: 5 * time.Minute, Silence: 3 * time.Second}, job.SilentTimeout},
		{"silent after talk", Command{Shell: "for i in 1 2 3 4 5 6 7 8 9 10; do printf .; sleep 0.8; done; sleep 1000", Timeout: 5 * time.Minute, Silence: 6 * time.Second}, job.SilentTimeout},
		{"deaf", Command{Shell: "trap '' TERM; while :; do sleep 1000; done", Timeout: 3 * time.Second}, job.TotalTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t)
			tc.c.Shell = w.hold() + tc.c.Shell
			r, lines := run(t, t.Context(), Executor{Grace: 50 * time.Millisecond}, tc.c, nil)
			w.gone(t)
			if r.Outcome != job.TimedOut || r.Detail != tc.detail {
				t.Errorf("%v/%v %q", r.Outcome, r.Detail, r.Message)
			}
			if tc.name == "silent after talk" && text(lines, Stdout) != ".........." {
				t.Errorf("ended after %q: talk did not count", text(lines, Stdout))
			}
		})
	}
}

// Its loop has short sleeps: a shell can miss a signal that comes just before it begins to wait, and notices it only when
// what it waits for has ended.
func TestCommandMayCleanUpWithinGrace(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r, lines := run(t, ctx, Executor{Grace: time.Minute}, Command{
		Shell: `trap 'echo cleaned; exit 0' TERM; echo ready; while :; do sleep 0.05; done`,
	}, when("ready", 1, cancel))
	if r.Outcome != job.Cancelled || r.ExitCode != 0 || !strings.Contains(text(lines, Stdout), "cleaned") {
		t.Errorf("%v, code %d, output %q", r.Outcome, r.ExitCode, text(lines, Stdout))
	}
}

// The grace is the whole tree's: the end of the command itself does not cut it short for its children.
func TestChildrenMayCleanUpAfterTheCommandHasEnded(t *testing.T) {
	t.Parallel()
	for _, net := range nets {
		t.Run(net.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			w := newWitness(t)
			r, lines := run(t, ctx, Executor{Grace: time.Minute, noCgroup: net.noCgroup}, Command{
				Shell: w.hold() + `sh -c 'trap "sleep 0.3; echo cleaned; exit" TERM; echo ready; while :; do sleep 0.05; done' & ` +
					`trap 'exit 7' TERM; wait`,
			}, when("ready", 1, cancel))
			w.gone(t)
			if r.Outcome != job.Cancelled || !strings.HasSuffix(text(lines, Stdout), "cleaned\n") {
				t.Errorf("%v, code %d, output %q", r.Outcome, r.ExitCode, text(lines, Stdout))
			}
		})
	}
}

func TestCancelledBeforeStartRunsNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "ran")
	r, _ := run(t, ctx, Executor{}, Command{Shell: "touch " + file}, nil)
	if _, err := os.Stat(file); err == nil || r.Outcome != job.Cancelled {
		t.Errorf("%v; the command ran: %v", r.Outcome, err == nil)
	}
}

func TestLogLimitEndsAttempt(t *testing.T) {
	t.Parallel()
	w := newWitness(t)
	r, lines := run(t, t.Context(), Executor{Grace: time.Hour}, Command{
		Shell: w.hold() + "trap '' TERM PIPE; while :; do echo 0123456789; done", LogLimit: 5000,
	}, nil)
	w.gone(t)
	if r.Outcome != job.Failed || r.Detail != job.LogLimit || !strings.Contains(r.Message, "the log limit of 5000 bytes was reached") {
		t.Errorf("%v/%v %q", r.Outcome, r.Detail, r.Message)
	}
	if n := len(text(lines, Stdout)); n > 5000 || n < 2000 || lines[len(lines)-1].Stream != Note {
		t.Errorf("%d bytes of output, last line %v", n, lines[len(lines)-1].Stream)
	}
	// What is counted is the output, to the last byte, and not the framing.
	if r, _ = run(t, t.Context(), Executor{}, Command{Shell: "yes | head -c 5000", LogLimit: 5000}, nil); r.Outcome != job.Succeeded {
		t.Errorf("output of just the limit: %v/%v %q", r.Outcome, r.Detail, r.Message)
	}
	// Also when the command had ended before anybody noticed.
	r, _ = run(t, t.Context(), Executor{}, Command{Shell: "head -c 6000 /dev/zero", LogLimit: 5000}, nil)
	if r.Detail != job.LogLimit {
		t.Errorf("short command: %v/%v", r.Outcome, r.Detail)
	}
}

func TestFullDiskAborts(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"while :; do echo x; done", "echo x", "true"} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		w := newWitness(t)
		log := NewLogWriter(full)
		r := Executor{}.Execute(t.Context(), Command{Shell: w.hold() + script}, log, nil)
		w.gone(t)
		if r.Outcome != job.Aborted || r.Detail != job.WorkerFault || r.Message != "write log: write /dev/full: no space left on device" {
			t.Errorf("%s: %v/%v %q", script, r.Outcome, r.Detail, r.Message)
		}
		if err := log.Close(); err == nil {
			t.Error("closing the log says nothing")
		}
	}
}

func TestOutputHeldOutsideDoesNotHang(t *testing.T) {
	t.Parallel()
	// This process takes a copy of the command's output pipe, as a daemon might.
	held := make(chan *os.File, 1)
	ctx, cancel := context.WithCancel(t.Context())
	r, lines := run(t, ctx, Executor{}, Command{Shell: "echo $$; exec sleep 1000"}, func(l Line) {
		if l.Stream == Stdout {
			f, err := os.OpenFile(fmt.Sprintf("/proc/%s/fd/1", l.Text), os.O_WRONLY|unix.O_NONBLOCK, 0)
			if err != nil {
				t.Error(err)
			}
			held <- f
			cancel()
		}
	})
	(<-held).Close()
	if r.Outcome != job.Cancelled || !strings.Contains(text(lines, Note), "holds its output open") {
		t.Errorf("%v, notes %q", r.Outcome, text(lines, Note))
	}
}

func TestExecuteLeavesNoDescriptor(t *testing.T) {
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	attempt := func(c Command) { run(t, t.Context(), Executor{}, c, nil) }
	attempt(Command{Shell: "true"})
	before := count()
	for range 5 {
		attempt(Command{Shell: "sleep 1000 &", Outputs: []string{"*"}, Dir: t.TempDir()})
		attempt(Command{Argv: []string{"none"}})
		attempt(Command{Shell: "kill -9 $PPID; sleep 1000"})
	}
	if after := count(); after > before {
		t.Errorf("%d open descriptors; before %d", after, before)
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	const build = `mkdir -p out/deep/er empty; echo a >out/a.txt; echo b >out/deep/b.txt; echo c >out/deep/er/c.txt; echo d >'d e.txt'; ` +
		`mkdir -p own/.headrace; echo l >own/.headrace/log; echo f >own/f; ln -s a.txt out/inside; ln -s /etc/passwd out/outside; ln -s ../.. out/deep/up; ln -s nowhere out/dangling; mkfifo out/fifo; ln -s deep out/alias`
	for _, tc := range []struct {
		name   string
		globs  []string
		want   string // paths
		detail job.Detail
		text   string // in the message
	}{
		{"none", nil, "", 0, ""},
		{"not what headrace keeps", []string{"own/**"}, "own/f", 0, ""},
		{"but if it is named", []string{"own/.headrace/*"}, "own/.headrace/log", 0, ""},
		{"one", []string{"out/a.txt"}, "out/a.txt", 0, ""},
		{"star", []string{"out/*.txt", "out/a*"}, "out/a.txt", 0, ""},
		{"any depth", []string{"out/**/*.txt"}, "out/a.txt out/deep/b.txt out/deep/er/c.txt", 0, ""},
		{"any depth from the top", []string{"**/c.txt", "d*"}, "d e.txt out/deep/er/c.txt", 0, ""},
		{"all below", []string{"out/deep/**"}, "out/deep/b.txt out/deep/er/c.txt", 0, ""},
		{"many stars", []string{"**/**/**/b.txt"}, "out/deep/b.txt", 0, ""},
		{"link inside", []string{"out/inside"}, "out/inside", 0, ""},
		{"through a link", []string{"out/alias/b.txt"}, "out/alias/b.txt", 0, ""},
		{"link outside", []string{"out/outside"}, "", job.MissingOutput, "leads out of"},
		{"dangling link", []string{"out/dangling"}, "", job.MissingOutput, "link to nothing"},
		{"directory outside", []string{"out/deep/up/../*"}, "", job.NotStarted, ".."},
		{"fifo", []string{"out/fifo"}, "", job.MissingOutput, "not a regular file"},
		{"directory", []string{"empty"}, "", job.MissingOutput, `"empty/**"`},
		{"nothing there", []string{"out/a.txt", "no/*.such"}, "", job.MissingOutput, `"no/*.such"`},
		{"file as folder", []string{"out/a.txt/x"}, "", job.MissingOutput, "no file matches"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, _ := run(t, t.Context(), Executor{}, Command{Shell: build, Dir: t.TempDir(), Outputs: tc.globs}, nil)
			var paths []string
			for _, o := range r.Outputs {
				paths = append(paths, o.Path)
			}
			if got := strings.Join(paths, " "); got != tc.want || r.Detail != tc.detail || !strings.Contains(r.Message, tc.text) {
				t.Errorf("outputs %q, %v/%v %q", got, r.Outcome, r.Detail, r.Message)
			}
		})
	}
	r, _ := run(t, t.Context(), Executor{}, Command{Shell: build, Dir: t.TempDir(), Outputs: []string{"out/a.txt"}}, nil)
	if d := cmp.Diff([]Output{{Path: "out/a.txt", Size: 2, SHA256: sha256.Sum256([]byte("a\n"))}}, r.Outputs); d != "" {
		t.Error(d)
	}
}

// A job that takes its own folder away is to blame for that itself: to try it again would help nobody.
func TestOutputsOfAFolderThatIsGone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "own")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r, _ := run(t, t.Context(), Executor{}, Command{Shell: "rm -r ../own", Dir: dir, Outputs: []string{"x"}}, nil)
	if r.Outcome != job.Failed || r.Detail != job.MissingOutput || !strings.Contains(r.Message, "directory is gone") {
		t.Errorf("%v/%v %q, want a verdict", r.Outcome, r.Detail, r.Message)
	}
}

func TestCheckGlob(t *testing.T) {
	t.Parallel()
	for glob, ok := range map[string]bool{
		"a": true, "a/b*": true, "**": true, "a/**/b": true, "[ab]?": true,
		"": false, "/a": false, "a/": false, "a//b": false, "./a": false, "a/..": false, "a**": false, "[": false,
	} {
		if err := checkGlob(glob); (err == nil) != ok {
			t.Errorf("glob %q: %v", glob, err)
		}
	}
}

func TestFramesComeBack(t *testing.T) {
	t.Parallel()
	want := startSpec{dir: "/d", path: "p", cgroup: "", script: "s", argv: []string{"a", "", "\xff"}, env: []string{"K=v\n"}, number: 1<<62 | 5, shortage: "/m"}
	var b bytes.Buffer
	if err := writeFrame(&b, frameStart, want.encode()); err != nil {
		t.Fatal(err)
	}
	kind, payload, err := readFrame(&b)
	if err != nil || kind != frameStart {
		t.Fatal(kind, err)
	}
	if got, err := decodeStart(payload); err != nil || cmp.Diff(want, got, cmp.AllowUnexported(startSpec{})) != "" {
		t.Errorf("start: %v, %v", got, err)
	}
	end := ended{wait: 0x8b, asked: true, oom: true, short: true, extra: 3, stuck: 1, names: "a, b"}
	if got, err := decodeEnded(end.encode()); err != nil || got != end {
		t.Errorf("ended: %v, %v", got, err)
	}
	for _, bad := range []string{
		"", "a\x00b\x00c\x00d\x00m\x000\x00x", "a\x00b\x00c\x00d\x00m\x000\x001", "a\x00b\x00c\x00d\x00m\x00x\x001\x00sh",
	} {
		if _, err := decodeStart([]byte(bad)); err == nil {
			t.Errorf("start %q is taken", bad)
		}
	}
}
