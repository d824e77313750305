package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/store/sqlite"
	"github.com/headrace/headrace/worker"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"
	driver "zombiezen.com/go/sqlite"
)

// version is set by the linker.
var version = "devel"

// Exit codes; exitHelp and its like document them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitMachine     = 3
	exitInterrupted = 130
	exitQuit        = 131
)

// exitHelp is for commands that run nothing.
const exitHelp = `Exit codes:
  0    all is well
  2    wrong usage, or a file that is not as it must be; nothing was done
  3    the store or the machine failed
  130  interrupted (Ctrl-C, SIGTERM)
  131  told to quit (Ctrl-\)`

const rootExitHelp = `Exit codes:
  0    all is well
  1    a job failed, or the build was cancelled; of check: there are findings
  2    wrong usage, a file that is not as it must be, or a server refused it; nothing was done
  3    the store or the machine failed; a server failed, or could not be reached
  4    of worker: the server wants another version
  130  interrupted (Ctrl-C, SIGTERM, of a run also Ctrl-\ and SIGHUP); the next run goes on
  131  told to quit (Ctrl-\), of the other commands`

func main() {
	worker.Supervise()
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

// exit is an error that says how the program is to end.
type exit struct {
	code int
	err  error // nil: all has been said
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// usage marks an error as the caller's.
func usage(format string, args ...any) error {
	return &exit{exitUsage, fmt.Errorf(format, args...)}
}

// execute runs the program and gives its exit code.
func execute(args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	strict(root)
	helped := noteHelp(root)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		err = *helped
	}
	if err == nil {
		return exitOK
	}
	code := exitMachine
	var e *exit
	var write *fs.PathError // cobra's own, too: of --version
	switch {
	case errors.As(err, &e):
		code = e.code
	case !began(cmd) && !errors.As(err, &write):
		// Cobra's own: an unknown command or flag, a wrong number of arguments.
		code = exitUsage
		err = fmt.Errorf("%s\nsee: %s --help", nearest(err), cmd.CommandPath())
	}
	if e == nil || e.err != nil {
		complain(stderr, err)
	}
	return code
}

// noteHelp has help tell, in what it gives, that it could not be written: Cobra lets that pass.
func noteHelp(root *cobra.Command) *error {
	var fault error
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		out := c.OutOrStdout()
		var text bytes.Buffer
		c.SetOut(&text)
		help(c, args)
		c.SetOut(out)
		_, fault = out.Write(text.Bytes())
	})
	return &fault
}

// completionExamples load completions into a shell.
var completionExamples = map[string]string{
	"bash": "source <(headrace completion bash)", "zsh": "source <(headrace completion zsh)", "fish": "headrace completion fish | source",
	"powershell": "headrace completion powershell | Out-String | Invoke-Expression",
}

// strict has the commands that cobra brings along refuse what they do not know, as all others do: they would print their own help,
// and call that a success.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				if of, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return fmt.Errorf("%s has no command %q", of.CommandPath(), rest[0])
				}
				return nil
			}
		case "completion":
			c.Use = "completion SHELL"
			c.Args = cobra.ArbitraryArgs
			c.RunE = func(c *cobra.Command, args []string) error {
				var known []string
				for _, shell := range c.Commands() {
					known = append(known, shell.Name())
				}
				return usage("completion %q: want one of %s", strings.Join(args, " "), strings.Join(known, ", "))
			}
			c.Long, c.Example = strings.TrimSpace(c.Long)+"\n\n"+exitHelp, "  source <(headrace completion bash)"
			for _, shell := range c.Commands() {
				shell.Long = strings.TrimSpace(shell.Long) + "\n\n" + exitHelp
				shell.Example = "  " + completionExamples[shell.Name()]
			}
		}
	}
}

// arguments refuses a number of arguments that is not right; most below 0: any number is.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if n := len(args); n < least || most >= 0 && n > most {
			return fmt.Errorf("got %s, want: %s", progress.Count(n, "argument"), cmd.CommandPath()+strings.TrimPrefix(cmd.Use, cmd.Name()))
		}
		return nil
	}
}

// nearest puts what cobra suggests for an unknown command on the line that says so.
func nearest(err error) string {
	text, names, ok := strings.Cut(err.Error(), "\n\nDid you mean this?\n")
	if ok {
		text += "; did you mean " + strings.Join(strings.Fields(names), " or ") + "?"
	}
	return text
}

// complain prints an error: a graph's problems as editors know them, all else after the program's name.
func complain(stderr io.Writer, err error) {
	var problems graph.Problems
	if errors.As(err, &problems) {
		fmt.Fprintln(stderr, problems)
		return
	}
	fmt.Fprintln(stderr, "headrace:", visible(explain(err)))
}

// explain says what went wrong and, where that is known, what to do about it.
func explain(err error) string {
	var held *queue.HeldError
	var file *sqlite.FileError
	var failed *pgconn.ConnectError
	switch {
	case errors.As(err, &held):
		return held.Error()
	case errors.As(err, &failed):
		return unreached("the database", failed)
	case errors.As(err, &file):
		return advise(file)
	case driver.ErrCode(err).ToPrimary() == driver.ResultIOErr:
		return err.Error() + "; see whether the disk is full or failing, or a limit is reached (ulimit -f), and run again: it goes on"
	}
	return err.Error()
}

// visible writes the control characters of a message as escapes, but for the ends of its lines: names of
// files and jobs come from outside, and a terminal obeys what it is sent.
func visible(message string) string {
	var b strings.Builder
	for _, c := range strings.ToValidUTF8(message, "\ufffd") {
		if c == '\n' || strconv.IsPrint(c) {
			b.WriteRune(c)
		} else {
			quoted := strconv.QuoteRune(c)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// beganKey notes at a command that its arguments were right.
const beganKey = "began"

func began(cmd *cobra.Command) bool { return cmd.Annotations[beganKey] != "" }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "headrace",
		Short: "Run graphs of jobs: durably, once, in the right order",
		Long: `Headrace runs graphs of jobs: it works out what can run, runs as much of it at once as the machine
takes, keeps what came of it, and can always say why a job is or is not running.

  headrace run FILE          run a graph here and now
  headrace why FILE JOB      tell why a job does not run, or how it ended
  headrace logs FILE JOB     show the output of a job
  headrace history FILE      show earlier runs
  headrace check FILE        check that what is stored is sound
  headrace backup FILE       copy what is stored into a file; restore makes a store of it
  headrace dump FILE         write what is stored as lines of JSON; load makes a store of it
  headrace prune FILE        forget old runs, with their jobs and logs
  headrace move              copy a store from a folder into PostgreSQL, or back
  headrace serve             serve a queue to workers and people over HTTP
  headrace worker            run jobs of a server on this machine

Of a farm, which is a server elsewhere (--server, HEADRACE_SERVER):

  headrace submit FILE       have it run a graph; with --wait, wait for the end
  headrace builds            list builds; jobs lists jobs, workers the workers
  headrace show BUILD|JOB    show a build with its jobs, or a job with its attempts
  headrace why JOB           tell why a job does not run
  headrace cancel BUILD|JOB  cancel; retry and bump are for builds
  headrace pause CHANNEL     start nothing new there; resume, and channels, which shows and sets its policy
  headrace drain WORKER      give it nothing new; undrain
  headrace schedules         list what it runs at certain times; set, show, run, remove

` + rootExitHelp,
		Example: `  headrace run build.yaml
  headrace why build.yaml test
  headrace submit build.yaml --wait`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			cmd.Annotations = map[string]string{beganKey: "yes"}
			if cmd.Name() != "run" && cmd.Name() != "worker" { // They end their jobs first.
				endAt(exitQuit, syscall.SIGQUIT)
			}
			return checkStores(cmd)
		},
	}
	root.SetVersionTemplate("headrace {{.Version}}\n")
	root.AddCommand(newRun(), newWhy(), newLogs(), newHistory(), newDump(), newLoad(), newBackup(), newRestore(), newMove(), newCheck(), newPrune(), newSchema(), newServe(), newWorker(), newMan())
	addFarm(root)
	wrapHelp(root)
	return root
}
