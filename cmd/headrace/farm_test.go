package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestFarmScripts runs the scripts in testdata/farm against the shipped binary, which also serves. What workers do is done by
// scripts: take and end.
func TestFarmScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/farm",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("TZ", "UTC")
			e.Values[farmKey{}] = &farmLab{t: t, hands: map[string]*hand{}}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": exitCode, "lines": countLines, "order": inOrder, "fifo": makeFIFOs,
			"serve": serveFarm, "halt": stopFarm, "take": takeJobs, "end": endJobs,
		},
		RequireExplicitExec: true,
		UpdateScripts:       *update,
	})
}

type farmKey struct{}

// farmLab is the server of a script, and its workers.
type farmLab struct {
	t      *testing.T
	server *exec.Cmd
	client *api.Client
	hands  map[string]*hand
}

// hand is a worker that does what the script says.
type hand struct {
	session job.ID
	runs    map[string]api.Start
}

func farmOf(ts *testscript.TestScript) *farmLab { return ts.Value(farmKey{}).(*farmLab) }

// serveFarm starts a server, and says where it is by the environment: serve [FLAG...]
func serveFarm(ts *testscript.TestScript, neg bool, args []string) {
	l := farmOf(ts)
	if l.server != nil {
		stopFarm(ts, false, nil)
	}
	listen := "127.0.0.1:0"
	if l.client != nil {
		listen = strings.TrimPrefix(l.client.Server, "http://") // where it was
	}
	l.server = exec.Command(binary, append([]string{"serve", "--data", ts.MkAbs("data"), "--listen", listen}, args...)...)
	l.server.Stderr = os.Stderr
	if !testing.Verbose() {
		l.server.Stderr = nil
	}
	out, err := l.server.StdoutPipe()
	ts.Check(err)
	ts.Check(l.server.Start())
	ts.Defer(func() {
		if l.server != nil {
			_ = l.server.Process.Kill() // It may have ended.
			_ = l.server.Wait()
		}
	})
	token := ts.Getenv(tokenEnv)
	lines := bufio.NewScanner(out)
	address := ""
	for lines.Scan() {
		if _, at, ok := strings.Cut(lines.Text(), " serves "); ok {
			address = at
		}
		if _, text, ok := strings.Cut(lines.Text(), "told this once: "); ok {
			token = text
		}
		if address != "" && token != "" {
			break
		}
	}
	if address == "" || token == "" {
		ts.Fatalf("the server ended before it served")
	}
	if l.client == nil {
		ts.Setenv(serverEnv, "http://"+openWay(l.t, ts, "tcp", "127.0.0.1:0", strings.TrimPrefix(address, "http://")).String())
	}
	c, err := api.NewClient(address, token)
	ts.Check(err)
	l.client = c
	ts.Setenv(tokenEnv, token)
}

// stopFarm stops the server in order.
func stopFarm(ts *testscript.TestScript, _ bool, _ []string) {
	l := farmOf(ts)
	ts.Check(l.server.Process.Signal(syscall.SIGTERM))
	_ = l.server.Wait() // Its pipe is not read.
	l.server = nil
}

// sync makes a worker's call.
func (l *farmLab) sync(ts *testscript.TestScript, name string, in api.Sync) api.SyncReply {
	h := l.hands[name]
	if h == nil {
		h = &hand{session: job.ID(uuid.Must(uuid.NewV7())), runs: map[string]api.Start{}}
		l.hands[name] = h
	}
	in.Version, in.Session = api.ProtocolVersion, h.session
	in.Worker = &api.WorkerSpec{Channels: []string{"*"}, Kinds: []string{api.DefaultKind}, Systems: []string{"x86_64-linux"}, Slots: 100}
	ended := map[job.ID]bool{}
	for _, f := range in.Finished {
		ended[f.Job] = true
	}
	for _, s := range h.runs {
		if !ended[s.Job] {
			in.Running = append(in.Running, api.Running{Lease: s.Lease})
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	reply, err := l.client.Sync(ctx, name, &in)
	ts.Check(err)
	return reply
}

// takeJobs has a worker take so many jobs, and run them: take WORKER N
func takeJobs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: take worker n")
	}
	l := farmOf(ts)
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	for calls := 0; n > 0; calls++ {
		if calls == 100 {
			ts.Fatalf("%d jobs are not there to be taken", n)
		}
		for _, s := range l.sync(ts, args[0], api.Sync{Want: n, WaitSeconds: 20}).Start {
			l.hands[args[0]].runs[s.Name] = s
			n--
		}
	}
	if n < 0 {
		ts.Fatalf("%d jobs too many were given", -n)
	}
}

// endJobs ends jobs that a worker has; each first writes a line into its log: end WORKER JOB[=OUTCOME[:MESSAGE]]...
func endJobs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: end worker job=outcome...")
	}
	l := farmOf(ts)
	h := l.hands[args[0]]
	var ended []api.Finished
	for _, arg := range args[1:] {
		name, end, _ := strings.Cut(arg, "=")
		s, ok := h.runs[name]
		if !ok {
			ts.Fatalf("%s does not run %s", args[0], name)
		}
		token, err := job.ParseToken(s.Token)
		ts.Check(err)
		text := fmt.Sprintf("output of %s\n\x1b[31mred\x1b[0m\nthe end of it", name)
		_, err = l.client.AppendLog(context.Background(), job.Lease{Job: s.Job, Attempt: s.Attempt, Token: token}, 0, []byte(text))
		ts.Check(err)
		outcome, message, _ := strings.Cut(end, ":")
		if outcome == "" {
			outcome = "succeeded"
		}
		ended = append(ended, api.Finished{Lease: s.Lease, Outcome: outcome, Message: message})
	}
	reply := l.sync(ts, args[0], api.Sync{Finished: ended})
	for _, a := range reply.Acknowledged {
		if a.Problem != nil {
			ts.Fatalf("told %v", a.Problem)
		}
	}
	for _, arg := range args[1:] {
		name, _, _ := strings.Cut(arg, "=")
		delete(h.runs, name)
	}
}
