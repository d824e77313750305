package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// headrace builds headrace as it is shipped, once.
func (l *lab) headrace(ctx context.Context) (string, error) {
	path := filepath.Join(l.dir, "headrace")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, "./cmd/headrace")
	build.Dir = filepath.Dir(filepath.Dir(l.river)) // the repository
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build headrace: %v\n%s", err, text)
	}
	return path, nil
}

// webTrees measures how long after a cancel all processes of the job are dead, on `headrace worker`.
func (l *lab) webTrees(ctx context.Context, k kind, s *section) error {
	program, err := l.headrace(ctx)
	if err != nil {
		return err
	}
	return l.onRemote(ctx, k, func(r *remote) (err error) {
		folder, err := os.MkdirTemp(l.dir, "trees")
		if err != nil {
			return err
		}
		log, err := os.Create(filepath.Join(folder, "worker.log"))
		if err != nil {
			return err
		}
		defer log.Close() // What is in it is for whoever looks for a fault.
		w := exec.Command(program, "worker", "--server", r.Server, "--name", "trees", "--system", "any", "--force-system", "--slots", "1", "--grace", "0s")
		w.Dir, w.Stdout, w.Stderr = folder, log, log
		w.Env = append(os.Environ(), "HEADRACE_TOKEN="+r.Token)
		if err := w.Start(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.Process.Signal(syscall.SIGTERM), w.Wait()) }()
		var list sample
		for i := range l.web.trees {
			took, err := r.fell(ctx, filepath.Join(folder, fmt.Sprintf("tree-%d", i)))
			if err != nil {
				return fmt.Errorf("%w; see %s", err, log.Name())
			}
			list = append(list, took)
		}
		s.judge(fmt.Sprintf("%s, cancel to the death of its processes", k), list.tails(), "1 s", list.at(1) <= time.Second)
		return nil
	})
}

// fell runs a job of several processes, one of them in a session of its own, cancels it, and gives the time until the last of them is dead:
// each holds a FIFO at the path open for writing, and who reads from it comes to the end when the last one has gone.
func (r *remote) fell(ctx context.Context, path string) (time.Duration, error) {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return 0, err
	}
	args, err := json.Marshal(map[string]string{
		"shell": fmt.Sprintf("exec 9> '%s'; sleep 600 & setsid sh -c 'sleep 600; true' & (sleep 600; true) & echo grown >&9; wait", path),
	})
	if err != nil {
		return 0, err
	}
	receipt, err := r.Submit(ctx, &api.Submission{BuildSpec: api.BuildSpec{Name: "tree"}, Jobs: []api.JobSpec{{Name: "tree", Args: args}}})
	if err != nil {
		return 0, err
	}
	tree, err := os.Open(path) // It waits until the job has begun.
	if err != nil {
		return 0, err
	}
	defer tree.Close() // Only read from.
	if _, err := io.ReadFull(tree, make([]byte, len("grown\n"))); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := r.CancelJob(ctx, receipt.Jobs[0].ID, job.ID{}, true, ""); err != nil {
		return 0, err
	}
	if _, err := io.Copy(io.Discard, tree); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}
