package worker

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/headrace/headrace/job"
)

// CommandKind is the kind of jobs that run a command.
const CommandKind = "command"

// CommandArgs is what such a job's Args hold, as JSON. How long it may take is in the lease's limits.
type CommandArgs struct {
	Shell    string   `json:"shell,omitempty"`
	Argv     []string `json:"argv,omitempty"`
	Env      []string `json:"env,omitempty"`
	Dir      string   `json:"dir,omitempty"`
	RetryOn  []int    `json:"retry_on,omitempty"`
	Outputs  []string `json:"outputs,omitempty"`
	LogLimit int64    `json:"log_limit,omitempty"`
}

// CommandResult is what such a job's Result holds, as JSON.
type CommandResult struct {
	ExitCode int             `json:"exit_code"`
	Signal   string          `json:"signal,omitempty"`
	Outputs  []CommandOutput `json:"outputs,omitempty"`
	// Log is the attempt's log file, relative to the folder of logs.
	Log string `json:"log,omitempty"`
}

// CommandOutput is a file that the command made.
type CommandOutput struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// LogPath gives where, under the folder of logs, an attempt's log is: xx/ID.N.log, xx being the last two digits of
// the job's id, so that no folder grows without bound.
func LogPath(id job.ID, attempt int32) string {
	s := id.String()
	return filepath.Join(s[len(s)-2:], fmt.Sprintf("%s.%d.log", s, attempt))
}

// Commands makes a handler that runs command jobs with the executor, with logs under the folder. onLine, if not nil,
// sees each line; it must not block, and may be called for several attempts at once.
func Commands(e Executor, logs string, onLine func(*Attempt, Line)) Handler {
	return func(ctx context.Context, a *Attempt) job.Report {
		var args CommandArgs
		if err := json.Unmarshal(a.Spec.Args, &args); err != nil {
			return job.Report{Outcome: job.Failed, Detail: job.NotStarted, Message: fmt.Sprintf("its arguments cannot be read: %v", err)}
		}
		path := LogPath(a.Lease.Job, a.Lease.Attempt)
		log, err := openLog(filepath.Join(logs, path))
		if err != nil {
			return job.Report{Outcome: job.Aborted, Detail: job.WorkerFault, Message: err.Error()}
		}
		r := e.Execute(ctx, args.command(a), log, func(l Line) {
			a.Spoke()
			if onLine != nil {
				onLine(a, l)
			}
		})
		if err := log.Close(); err != nil && r.Outcome == job.Succeeded {
			r.Outcome, r.Detail, r.Message = job.Aborted, job.WorkerFault, fmt.Sprintf("log: %v", err)
		}
		return r.report(path)
	}
}

// openLog makes the log of an attempt. One that is there already was left by the same attempt, of which nothing was
// stored: it begins again.
func openLog(path string) (*LogWriter, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the log: %v", err)
	}
	log, err := CreateLog(path)
	if errors.Is(err, os.ErrExist) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("replace the log: %v", err)
		}
		log, err = CreateLog(path)
	}
	return log, err
}

func (c *CommandArgs) command(a *Attempt) Command {
	// Last, so that they are what they say whatever the job sets.
	env := append(slices.Clip(c.Env),
		"HEADRACE_JOB="+a.Spec.Name,
		"HEADRACE_JOB_ID="+a.Lease.Job.String(),
		fmt.Sprintf("HEADRACE_ATTEMPT=%d", a.Lease.Attempt),
	)
	return Command{
		Shell: c.Shell, Argv: c.Argv, Env: env, Dir: c.Dir, RetryOn: c.RetryOn, Outputs: c.Outputs, LogLimit: c.LogLimit,
		Timeout: a.Limits.Timeout, Silence: a.Limits.Silence,
	}
}

func (r *Result) report(log string) job.Report {
	out := CommandResult{ExitCode: r.ExitCode, Signal: r.Signal, Log: log}
	for _, o := range r.Outputs {
		out.Outputs = append(out.Outputs, CommandOutput{o.Path, o.Size, hex.EncodeToString(o.SHA256[:])})
	}
	report := job.Report{Outcome: r.Outcome, Detail: r.Detail, Message: r.Message}
	// Marshalling this struct cannot fail: it holds strings and numbers alone.
	report.Result, _ = json.Marshal(out)
	return report
}
