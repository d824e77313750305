package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/headrace/headrace/job"
)

// DefaultLogLimit is the limit on the output of a Command that sets none: 64 MiB.
const DefaultLogLimit = 64 << 20

// Command is what the command executor runs.
type Command struct {
	// Shell is a line or script for /bin/sh, and Argv a program with its arguments. Exactly one is set.
	// A program without a slash is looked up in the PATH that the command gets.
	Shell string
	Argv  []string
	// Env holds KEY=value entries over the environment of the executor; the last of a key counts.
	// The caller puts HEADRACE_JOB and HEADRACE_ATTEMPT here.
	Env []string
	// Dir is where the command runs; if it is relative, to Executor.Base.
	Dir string
	// Timeout bounds the whole attempt, Silence the time without a byte of output. 0: no bound.
	Timeout, Silence time.Duration
	// RetryOn lists the exit codes that speak of the infrastructure: the attempt then ends as Aborted.
	RetryOn []int
	// Outputs are globs for files under Dir, with / between names; ** stands for any number of folders. Each
	// must match at least one file when the command succeeds.
	Outputs []string
	// LogLimit bounds the output in bytes, as the command wrote it; 0: DefaultLogLimit. The log's file is larger
	// by its framing.
	LogLimit int64
}

// Result is how an attempt ended.
type Result struct {
	Outcome job.Outcome
	Detail  job.Detail
	// ExitCode is the code of a command that exited, else -1.
	ExitCode int
	// Signal names the signal that ended the command, as in "SIGSEGV", else it is empty.
	Signal string
	// Message says in words for people what the other fields say, and more where there is more. It
	// is empty for a plain success.
	Message string
	// Started and Ended are UTC, microseconds. Ended is after the last process is gone and the
	// outputs are hashed.
	Started, Ended time.Time
	// Outputs are the files that the globs matched, sorted by path. Only a success has any.
	Outputs []Output
	// Tail holds the last lines of the log, at most 20, each cut to MaxExcerptText; a line is whole there, not in pieces,
	// and without what a carriage return had overwritten.
	Tail []Line
}

// Output is a file that an attempt made.
type Output struct {
	// Path is relative to the command's Dir, with / between names.
	Path   string
	Size   int64
	SHA256 [32]byte
}

// scriptInline is the length of Shell, in bytes, up to which it is an argument of the shell; Linux takes
// none of 128 KiB or more. A longer one goes through a temporary file.
const scriptInline = 96 << 10

// startSpec is a command made ready to start: nothing in it is looked up any more.
type startSpec struct {
	dir    string // absolute
	path   string // the program: absolute, or relative to dir
	argv   []string
	env    []string
	cgroup string // the folder to make for the attempt's control group; empty: none
	script string // the temporary file to remove at the end; empty: none

	number   uint64 // that brands the attempt's processes
	shortage string // the file that counts what the system killed for lack of memory; empty: none
}

// prepare checks the command and looks up its program. An error means that it cannot be started as it stands.
func (c Command) prepare() (startSpec, error) {
	if (c.Shell == "") == (len(c.Argv) == 0) {
		return startSpec{}, errors.New("the command needs a shell line or a program with arguments, and not both")
	}
	for _, g := range c.Outputs {
		if err := checkGlob(g); err != nil {
			return startSpec{}, err
		}
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return startSpec{}, fmt.Errorf("directory %q: %v", c.Dir, err)
	}
	if err := checkDir(dir); err != nil {
		return startSpec{}, err
	}
	s := startSpec{dir: dir, argv: c.Argv, env: environ(os.Environ(), dir, c.Env)}
	if c.Shell != "" {
		s.path, s.argv = "/bin/sh", []string{"/bin/sh", "-c", c.Shell}
	} else if s.path, err = lookPath(c.Argv[0], dir, lookup(s.env, "PATH")); err != nil {
		return startSpec{}, err
	}
	return s, s.checkText()
}

// checkText refuses what the system's calls cannot carry.
func (s startSpec) checkText() error {
	for _, list := range [][]string{s.argv, s.env, {s.dir}} {
		for _, v := range list {
			if strings.IndexByte(v, 0) >= 0 {
				return fmt.Errorf("%.40q holds a NUL byte, which no argument, variable or path may", v)
			}
		}
	}
	return nil
}

// spill moves a long shell script into a temporary file.
func (s *startSpec) spill(shell string) error {
	if len(shell) <= scriptInline {
		return nil
	}
	f, err := os.CreateTemp("", "headrace-script-*")
	if err != nil {
		return fmt.Errorf("keep the script: %w", err)
	}
	s.script = f.Name()
	s.argv = []string{"/bin/sh", s.script}
	_, err = f.WriteString(shell)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("keep the script: %w", err)
	}
	return nil
}

// environ gives base with extra over it. PWD follows dir, as a shell would do on the way there.
func environ(base []string, dir string, extra []string) []string {
	var out []string
	place := map[string]int{}
	for _, list := range [][]string{base, {"PWD=" + dir}, extra} {
		for _, kv := range list {
			key, _, _ := strings.Cut(kv, "=")
			if i, ok := place[key]; ok {
				out[i] = kv
				continue
			}
			place[key] = len(out)
			out = append(out, kv)
		}
	}
	return out
}

func lookup(env []string, key string) string {
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok && k == key {
			return v
		}
	}
	return ""
}

func checkDir(dir string) error {
	fi, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("directory %q does not exist", dir)
	}
	if err != nil {
		return fmt.Errorf("directory %q: %v", dir, errors.Unwrap(err))
	}
	if !fi.IsDir() {
		return fmt.Errorf("%q is not a directory", dir)
	}
	return nil
}

// lookPath finds a program as a shell in dir would. The files of PATH that are no programs are passed over.
func lookPath(name, dir, path string) (string, error) {
	if name == "" {
		return "", errors.New("the program's name is empty")
	}
	if strings.Contains(name, "/") {
		if err := checkProgram(inDir(dir, name)); err != nil {
			return "", fmt.Errorf("program %q: %v", name, err)
		}
		return name, nil
	}
	for _, p := range filepath.SplitList(path) {
		full := filepath.Join(inDir(dir, p), name)
		if checkProgram(full) == nil {
			return full, nil
		}
	}
	return "", fmt.Errorf("program %q is not in PATH (%s)", name, path)
}

func inDir(dir, p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(dir, p)
}

func checkProgram(path string) error {
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("no such file")
	}
	if err != nil {
		return errors.Unwrap(err)
	}
	if fi.IsDir() {
		return errors.New("is a directory")
	}
	if fi.Mode()&0o111 == 0 {
		return errors.New("is not executable; chmod +x makes it so")
	}
	return nil
}
