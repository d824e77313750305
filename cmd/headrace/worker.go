package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/worker"
	"github.com/spf13/cobra"
)

// exitVersion is the code of a worker in whose place the server would have one of another version.
const exitVersion = 4

const workerExitHelp = `Exit codes:
  0    all is well: it was told to end, or has done its one job
  2    wrong usage, or the server refused it
  3    the machine failed
  4    the server wants another version of headrace: install that, and start it again`

// workerOptions are the flags of worker.
type workerOptions struct {
	config      string
	server      string
	tokenFile   string
	tokenGiven  bool // by the flag: else HEADRACE_TOKEN goes before the file
	name        string
	systems     []string
	forceSystem bool
	features    []string
	mandatory   []string
	channels    []string
	kinds       []string
	slots       int
	speed       float64
	data        string
	grace       time.Duration
	once        bool
	logLevel    string
	logFormat   string
}

func newWorker() *cobra.Command {
	var o workerOptions
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run jobs of a server on this machine",
		Long: `Run jobs of a server on this machine. The worker calls the server, so that no connection to this machine is needed. It takes jobs
of its channels, kinds and systems whose features it supports, runs as many at once as it has slots, and sends what they write while
they run.

Name and system are not guessed: a name is for one worker alone, and stays the same over its lives. The system must be what this
machine is, as uname says, or what that can run; --force-system lets any through.

Server, worker and network may fail at any moment. While the server cannot be reached, what runs goes on until its lease is
over, and as long again; its end is told when the server is back. A worker that is killed kills what it left when it is started
again with the same --data, and hands it back, which costs the jobs no attempt. --data is for one worker at a time.

SIGTERM or Ctrl-C has it take nothing new, finish what runs, hand back what still runs after --grace, and end; a second one hands
back at once, and a third one, or Ctrl-\, does not wait for jobs that do not heed SIGTERM. If the server wants another version of headrace, it takes
nothing new, finishes what runs, and ends with code 4.

A job that is cancelled, or over a limit, is sent SIGTERM with all that it started; what is left of it after 5 s is killed.

The token is in the file of --token-file, in HEADRACE_TOKEN, or in the file of HEADRACE_TOKEN_FILE or of --config; the first of these counts.
Its role is work. Each other flag can also be given by a variable of the
environment, as HEADRACE_SERVER for --server, or in the TOML file that --config names, as server = "...". A flag counts more than a
variable, a variable more than the file. Jobs run as the user of the worker, in the folder where it was started.

` + workerExitHelp,
		Example: `  headrace worker --server https://farm.example:7470 --token-file token --name big1 --system x86_64-linux
  headrace worker --server unix:///run/headrace/socket --name big1 --system x86_64-linux,i686-linux --features kvm,big-parallel --slots 8`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.tokenGiven = cmd.Flags().Changed("token-file")
			if err := settle(cmd, o.config, "config", "help"); err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "read what is not given otherwise from this TOML `file`")
	f.StringVar(&o.server, "server", "", "the server's `URL`: http://HOST:PORT, https://HOST:PORT or unix:///PATH")
	f.StringVar(&o.tokenFile, "token-file", "", "the `file` with the token")
	f.StringVar(&o.name, "name", "", "the worker's `name`, which no other has")
	f.StringSliceVar(&o.systems, "system", nil, "take jobs for these `systems`, as in x86_64-linux")
	f.BoolVar(&o.forceSystem, "force-system", false, "also if this machine is another system, as where it emulates one")
	f.StringSliceVar(&o.features, "features", nil, "take jobs that require these `features`")
	f.StringSliceVar(&o.mandatory, "mandatory", nil, "take only jobs that require these `features`, too")
	f.StringSliceVar(&o.channels, "channel", []string{api.DefaultChannel}, "take jobs of these `channels`; *: of all")
	f.StringSliceVar(&o.kinds, "kind", []string{worker.CommandKind}, "take jobs of these `kinds`; this program knows command")
	wholeVar(f, &o.slots, "slots", "", min(runtime.NumCPU(), maxSlots), 1, maxSlots, "run so many jobs at once")
	f.Lookup("slots").DefValue = "the number of processors" // Help and manual are the same everywhere.
	f.Float64Var(&o.speed, "speed", 1, "how fast this machine is, as a `factor`: of two that are free, the faster one is given the job")
	f.StringVar(&o.data, "data", "", "keep logs and what must not be forgotten in this `folder`; else in headrace-worker/NAME")
	f.DurationVar(&o.grace, "grace", time.Minute, "once it is to end, let what runs go on for so long")
	f.BoolVar(&o.once, "once", false, "end after one job")
	f.StringVar(&o.logLevel, "log-level", "info", "log from this `level` on: debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "log as `text` or json, to standard error")
	completeWorker(cmd)
	return cmd
}

// completeWorker has values offered where they are few.
func completeWorker(cmd *cobra.Command) {
	for flag, values := range map[string][]cobra.Completion{
		"system": {system()}, "kind": {worker.CommandKind}, "channel": {api.DefaultChannel, job.AnyChannel},
		"log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"},
	} {
		complete(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	for _, flag := range []string{"name", "features", "mandatory", "server", "slots", "speed", "grace"} {
		complete(cmd, flag, cobra.NoFileCompletions)
	}
}

// validate refuses what cannot work, before anything is made.
func (o *workerOptions) validate() error {
	if o.name == "." || o.name == ".." {
		return usage("name: %q is no name of a worker", o.name)
	}
	if slices.Contains(o.channels, "") {
		return usage("channel: must not be empty; *: of all")
	}
	var level slog.Level
	switch {
	case o.server == "":
		return usage("which server? Give its address by --server URL or in HEADRACE_SERVER")
	case o.name == "":
		return usage("name: want the worker's name, by --name or in HEADRACE_NAME")
	case len(o.systems) == 0:
		return usage("system: want what this machine is, by --system or in HEADRACE_SYSTEM, as in %s", system())
	case o.grace < 0:
		return usage("grace: must not be negative")
	case !(o.speed > 0 && o.speed <= 1e6):
		return usage("speed: want a factor above 0, at most 1000000")
	case level.UnmarshalText([]byte(o.logLevel)) != nil:
		return usage("log-level: %q is none of debug, info, warn, error", o.logLevel)
	case o.logFormat != "text" && o.logFormat != "json":
		return usage("log-format: want text or json, got %q", o.logFormat)
	}
	for _, k := range o.kinds {
		if k != worker.CommandKind {
			return usage("kind: this program runs jobs of the kind %s, not of %q", worker.CommandKind, k)
		}
	}
	if !o.forceSystem {
		if err := worker.CheckSystems(o.systems); err != nil {
			return usage("%v; give its own, or --force-system", err)
		}
	}
	if o.data == "" {
		// A name may hold what has a meaning in paths.
		o.data = filepath.Join("headrace-worker", strings.ReplaceAll(url.PathEscape(o.name), ".", "%2E"))
	}
	return nil
}

// token reads the token, as the other commands do; "": there is none.
func (o *workerOptions) token() (string, error) {
	t := strings.TrimSpace(os.Getenv(tokenEnv))
	switch {
	case t != "" && !o.tokenGiven:
		return checkToken(t, tokenEnv)
	case o.tokenFile == "" && !o.tokenGiven:
		return "", nil
	}
	return readToken(o.tokenFile, "token-file")
}

// client makes a client of the server.
func (o *workerOptions) client() (*api.Client, error) {
	token, err := o.token()
	if err != nil {
		return nil, err
	}
	// No job is to find it in its environment.
	if err := os.Unsetenv(tokenEnv); err != nil {
		return nil, err
	}
	c, err := api.NewClient(strings.TrimRight(o.server, "/"), token)
	if err != nil {
		return nil, usage("%v", err)
	}
	c.Agent = "headrace/" + version
	return c, nil
}

// post is a worker at work.
type post struct {
	*workerOptions
	log   *slog.Logger
	now   chan struct{} // closed to kill at once
	kill  func()        // closes it
	drain context.CancelFunc
	stop  context.CancelFunc
}

// run works until it is told to end.
func (o *workerOptions) run(ctx context.Context, stderr io.Writer) (err error) {
	p := &post{workerOptions: o, log: (&serveOptions{logLevel: o.logLevel, logFormat: o.logFormat}).logger(stderr), now: make(chan struct{})}
	// Before anything is made, so that no signal finds the default, which ends the process on the spot.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, interrupts()...)
	defer signal.Stop(signals)
	client, err := o.client()
	if err != nil {
		return err
	}
	home, err := worker.OpenHome(o.data, o.name)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := home.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}()
	session, err := uuid.NewV7()
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	defer stop()
	drain, endDrain := context.WithCancel(ctx)
	defer endDrain()
	p.drain, p.stop, p.kill = endDrain, stop, sync.OnceFunc(func() { close(p.now) })
	var outdated atomic.Bool
	outpost := &worker.Outpost{
		Client: client, Home: home, Executor: worker.Executor{Now: p.now}, Version: version, Log: p.log,
		Outdated: func(string) { outdated.Store(true); endDrain() },
		Worker: job.Worker{
			Name: o.name, Session: job.ID(session), Channels: o.channels, Systems: o.systems, Features: union(o.features, o.mandatory),
			Mandatory: o.mandatory, Slots: int32(o.slots), Speed: o.speed,
		},
	}
	if o.once {
		outpost.Most = 1
	}
	var heeding sync.WaitGroup
	over := make(chan struct{})
	heeding.Go(func() { p.heed(signals, over) })
	p.log.Info("the worker begins", "worker", o.name, "server", client.Server, "systems", strings.Join(o.systems, ","), "slots", o.slots, "folder", home.Dir(), "version", version)
	err = outpost.Run(work, drain)
	close(over)
	heeding.Wait()
	if err != nil {
		return o.refused(err)
	}
	p.log.Info("the worker ends", "worker", o.name)
	if outdated.Load() {
		return &exit{exitVersion, nil}
	}
	return nil
}

// union gives a list with those of another that it lacks.
func union(list, more []string) []string {
	out := append([]string{}, list...)
	seen := map[string]bool{}
	for _, s := range out {
		seen[s] = true
	}
	for _, s := range more {
		if !seen[s] {
			out = append(out, s)
		}
	}
	return out
}

// heed does as signals say, until the worker is over: drain, hand back, kill.
func (p *post) heed(signals <-chan os.Signal, over <-chan struct{}) {
	var late <-chan time.Time
	for told := 0; ; {
		select {
		case got := <-signals:
			if told++; got == syscall.SIGQUIT {
				told = max(told, 3)
			}
			switch told {
			case 1:
				p.log.Info("told to end: nothing new is taken, what runs may end; told again, it is handed back", "signal", got.String(), "grace", p.grace)
				p.drain()
				late = time.After(p.grace)
			case 2:
				p.log.Info("told to end at once: what runs is handed back", "signal", got.String())
				p.stop()
			default:
				p.log.Info("told to kill: what runs is killed, and handed back", "signal", got.String())
				p.stop()
				p.kill()
			}
		case <-late:
			p.log.Info("what still runs is handed back", "grace", p.grace)
			p.stop()
		case <-over:
			return
		}
	}
}

// refused says what to do about the error for which a worker ends.
func (o *workerOptions) refused(err error) error {
	var p *api.Problem
	switch {
	case errors.Is(err, job.ErrWorkerLive):
		err = fmt.Errorf("another process works under the name %q: stop it, or give this one a name of its own; one that has died without a word is forgotten after a minute and a half", o.name)
	case errors.Is(err, api.ErrUnauthorized):
		err = fmt.Errorf("the server %s does not know this worker: %v; give a token with the role work by --token-file, or in HEADRACE_TOKEN or HEADRACE_TOKEN_FILE", o.server, err)
	case errors.Is(err, api.ErrForbidden), errors.Is(err, api.ErrVersion):
		err = fmt.Errorf("the server %s refuses this worker: %v", o.server, err)
	case errors.As(err, &p):
		err = fmt.Errorf("the server %s: %v", o.server, err)
	default:
		return err
	}
	return &exit{exitUsage, err}
}
