package worker

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/headrace/headrace/job"
)

// processes counts them for a person.
func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

// judge says how the attempt ended, once its tree is gone and its output read.
func (w *watch) judge(r *Result) verdict {
	switch {
	case w.failed != 0:
		return notStarted(w.tree.spec, w.failed)
	case w.ended == nil && w.why != nil:
		w.why.message += " (and its supervisor did not answer)"
		return *w.why
	case w.ended == nil:
		return verdict{job.Aborted, job.NoDetail, "the supervisor of the attempt died, and the command with it"}
	}
	end := *w.ended
	if end.extra > 0 {
		w.transcript.note("the command left %s running (%s), which headrace kills", processes(end.extra), end.names)
	}
	if end.stuck > 0 {
		w.transcript.note("cannot kill %s (%s), in the system's hands or another user's", processes(end.stuck), end.names)
	}
	ws := syscall.WaitStatus(end.wait)
	if ws.Exited() {
		r.ExitCode = ws.ExitStatus()
	} else if ws.Signaled() {
		r.Signal = signalName(ws.Signal())
	}
	if w.why != nil && end.asked {
		return *w.why
	}
	if w.transcript.failure() != nil {
		return w.logVerdict()
	}
	return w.exitVerdict(r, end)
}

func (w *watch) exitVerdict(r *Result, end ended) verdict {
	memory := ""
	if r.ExitCode == killedCode || r.Signal == signalName(syscall.SIGKILL) {
		memory = end.memory()
	}
	switch {
	case r.Signal != "":
		return verdict{job.Failed, job.NoDetail, "killed by " + r.Signal + memory}
	case r.ExitCode == 0:
		return verdict{outcome: job.Succeeded}
	case slices.Contains(w.command.RetryOn, r.ExitCode):
		return verdict{
			job.Aborted, job.NoDetail,
			fmt.Sprintf("exit code %d, which stands for a fault of the infrastructure%s", r.ExitCode, memory),
		}
	}
	return verdict{job.Failed, job.NoDetail, fmt.Sprintf("exit code %d%s", r.ExitCode, memory)}
}

// killedCode is how a shell says that its child was killed.
const killedCode = 128 + int(syscall.SIGKILL)

// memory says for people what a lack of memory had to do with the end.
func (e ended) memory() string {
	switch {
	case e.oom:
		return ", by the system: out of memory"
	case e.short:
		return "; meanwhile the system killed for lack of memory, here or elsewhere"
	}
	return ""
}

// logVerdict judges an attempt whose log has failed: unless the command wrote too much, that is the worker's fault, as a log
// that cannot be made is. The error names the file and the cause.
func (w *watch) logVerdict() verdict {
	err := w.transcript.failure()
	if errors.Is(err, ErrLogLimit) {
		return verdict{job.Failed, job.LogLimit, fmt.Sprintf("the log limit of %s was reached", bytesOf(w.command.LogLimit))}
	}
	return verdict{job.Aborted, job.WorkerFault, err.Error()}
}

// bytesOf writes a size for people, in the largest unit that divides it.
func bytesOf(n int64) string {
	units := [...]string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n > 0 && n%1024 == 0 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return fmt.Sprintf("%d %s", n, units[i])
}

// notStarted judges why a program that is there could not be started: the machine's lack of something is an
// abort, all else the command's own fault.
func notStarted(s startSpec, errno syscall.Errno) verdict {
	what := fmt.Sprintf("start %q in %q: %v", s.argv[0], s.dir, errno)
	switch errno {
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY, syscall.EIO:
		return verdict{job.Aborted, job.NoDetail, what}
	case syscall.ENOENT:
		what += "; is the interpreter in its first line, or its loader, missing?"
	case syscall.ENOEXEC:
		what += "; it is for another system, or a script without #! in its first line"
	case syscall.E2BIG:
		size := 0
		for _, list := range [][]string{s.argv, s.env} {
			for _, v := range list {
				size += len(v) + 1
			}
		}
		what += fmt.Sprintf("; arguments and environment have %d bytes", size)
	default:
		// Any other error is the command's own.
	}
	return verdict{job.Failed, job.NotStarted, what}
}
