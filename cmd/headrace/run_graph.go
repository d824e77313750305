package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headrace/headrace/graph"
	"github.com/headrace/headrace/internal/progress"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/worker"
)

// localChannel is the channel of jobs that run here and now.
const localChannel = ""

// keepGoingLabel marks the builds of runs that no failure stops.
const keepGoingLabel = "keep-going"

// work is a graph as it is to be run.
type work struct {
	*graph.Graph
	name string
	base string // the absolute folder of the file, links resolved, to which dirs are relative
	keys []string
}

// newWork reads a graph for a run. It tells stderr what it waits for, if nothing comes; nil: nobody wants to know.
func newWork(file string, targets []string, stderr io.Writer) (*work, error) {
	g, err := parseInput(file, stderr)
	if err != nil {
		return nil, err
	}
	if g, err = g.Select(targets); err != nil {
		return nil, &exit{exitUsage, err}
	}
	base, err := filepath.Abs(folderOf(file))
	if err != nil {
		return nil, err
	}
	w := &work{Graph: g, name: g.Name, base: base, keys: g.Keys()}
	if w.name == "" {
		if w.name = nameOf(file); isStream(file) {
			w.name = "stdin"
		}
	}
	for i, k := range w.keys {
		if len(k) > job.MaxKey {
			sum := sha256.Sum256([]byte(k))
			w.keys[i] = "key:sha256:" + hex.EncodeToString(sum[:])
		}
	}
	return w, w.checkSizes(file)
}

// checkSizes refuses, before anything is made, jobs that are within the limits of a graph and too large for the engine, as they
// are full of what takes more room there.
func (w *work) checkSizes(file string) error {
	const perByte = 6 // at most: \u0001
	for i := range w.Jobs {
		j := &w.Jobs[i]
		n := len(j.Run.Shell)
		for _, s := range j.Run.Argv {
			n += len(s)
		}
		for _, s := range j.Outputs {
			n += len(s)
		}
		for _, v := range j.Env {
			n += len(v.Name) + len(v.Value)
		}
		if n < job.MaxArgs/perByte/2 {
			continue
		}
		args, err := json.Marshal(w.args(i, math.MaxInt64))
		if err == nil && len(args) > job.MaxArgs {
			err = fmt.Errorf("takes %d bytes as JSON, want at most %d", len(args), job.MaxArgs)
		}
		if err != nil {
			return &exit{exitUsage, graph.Problems{{File: file, Line: j.Line, Column: j.Column, Message: fmt.Sprintf("job %q: %v", j.Name, err)}}}
		}
	}
	return nil
}

// nameOf gives the name of a build whose file gives none: that of the file, made fit for the engine and for
// a terminal.
func nameOf(file string) string {
	name := strings.Map(func(c rune) rune {
		if !strconv.IsPrint(c) {
			return '_'
		}
		return c
	}, strings.ToValidUTF8(filepath.Base(file), "_"))
	for len(name) > job.MaxName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name
}

// likeness gives what an earlier success must have in common with the i-th job to serve for it.
func (w *work) likeness(i int) job.Likeness {
	j := &w.Jobs[i]
	s := job.Spec{Channel: localChannel, Kind: worker.CommandKind, Key: w.keys[i], System: j.System, Features: j.Features}
	return s.Likeness()
}

func (w *work) series(i int) job.Series {
	return job.Series{Channel: localChannel, Kind: worker.CommandKind, Name: w.Jobs[i].Name}
}

// named is how displays know the i-th job, for which this one stands.
func (w *work) named(i int, id job.ID) progress.Job {
	return progress.Job{Index: i, Name: w.Jobs[i].Name, ID: id}
}

// dir gives the absolute folder in which the i-th job runs.
func (w *work) dir(i int) string {
	if filepath.IsAbs(w.Jobs[i].Dir) {
		return w.Jobs[i].Dir
	}
	return filepath.Join(w.base, w.Jobs[i].Dir)
}

// submission asks for all jobs of the graph; reuse says for which an earlier success will do, took how long they take, nil:
// nobody knows.
func (w *work) submission(newID func() job.ID, reuse []bool, took []time.Duration, logLimit int64) (queue.Submission, error) {
	s := queue.Submission{
		Build: &job.Build{Name: w.name},
		Jobs:  make([]job.Spec, len(w.Jobs)),
		Refs:  make([]job.Ref, len(w.Jobs)),
	}
	for i := range w.Jobs {
		s.Jobs[i].ID = newID()
	}
	for i := range w.Jobs {
		j, spec := &w.Jobs[i], &s.Jobs[i]
		args, err := json.Marshal(w.args(i, logLimit))
		if err != nil {
			return s, fmt.Errorf("job %q: %v", j.Name, err)
		}
		*spec = job.Spec{
			ID: spec.ID, Name: j.Name, Channel: localChannel, Kind: worker.CommandKind, Key: w.keys[i],
			System: j.System, Features: j.Features, Exclusive: j.Exclusive, Reuse: reuse[i], Args: args,
			Retry: job.Retry{Failures: int32(min(j.Retries, 1<<30))},
		}
		if took != nil {
			spec.Estimate = min(took[i], job.MaxDuration)
		}
		for _, n := range j.Needs {
			spec.Needs = append(spec.Needs, job.Need{Job: s.Jobs[n.Job].ID, Policy: n.Policy})
		}
		s.Refs[i] = job.Ref{
			Job: spec.ID, Awaited: j.Optional, Priority: int32(min(max(j.Priority, -job.MaxPriority), job.MaxPriority)),
			Limits: job.Limits{Timeout: j.Timeout, Silence: j.Silence},
		}
	}
	return s, nil
}

// args says what the i-th job does. Its folder is told as the file does: the file may lie elsewhere, or on another machine, when the
// job is run.
func (w *work) args(i int, logLimit int64) worker.CommandArgs {
	j := &w.Jobs[i]
	args := worker.CommandArgs{
		Shell: j.Run.Shell, Argv: j.Run.Argv, Dir: j.Dir, RetryOn: j.RetryOn, Outputs: j.Outputs, LogLimit: logLimit,
	}
	for _, v := range j.Env {
		args.Env = append(args.Env, v.Name+"="+v.Value)
	}
	return args
}
