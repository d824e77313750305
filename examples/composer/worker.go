package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

// door is what of the queue deals with workers that come: in composer, the HTTP server calls it for them.
type door interface {
	Dequeue(ctx context.Context, workerID uuid.UUID, jobTypes, channels []string) (
		id, token uuid.UUID, deps []uuid.UUID, jobType string, args json.RawMessage, err error,
	)
	IdFromToken(token uuid.UUID) (uuid.UUID, error) //nolint:revive,staticcheck // the name is composer's
	RefreshHeartbeat(token uuid.UUID)
	UpdateJobResult(id uuid.UUID, result any) error
	RequeueOrFinishToken(token uuid.UUID, silent time.Duration, maxRetries uint64, result any) (requeued bool, err error)
	teller
}

// worker takes jobs, one after the other.
type worker struct {
	name    string
	channel string
	door    door
	out     io.Writer
	// do is what it does with a job, by what the dependencies came to. errGone: it is not heard of any more.
	do func(t *task, inputs []result) (result, error)
}

// task is a job that a worker was given. A worker has no more of it than this, and so can outlive the server.
type task struct {
	ID    uuid.UUID
	Token uuid.UUID
	Type  string
	Name  string
}

var errGone = errors.New("the worker is gone")

func (w *worker) say(format string, a ...any) { fmt.Fprintf(w.out, w.name+": "+format+"\n", a...) }

// work takes jobs until ctx ends, or the worker is gone.
func (w *worker) work(ctx context.Context) error {
	for {
		id, token, deps, jobType, b, err := w.door.Dequeue(ctx, uuid.Nil, []string{depsolve, manifest, osbuild, upload}, []string{w.channel})
		if errors.Is(err, composer.ErrDequeueTimeout) {
			return nil
		}
		if err != nil {
			return err
		}
		var a args
		if err := json.Unmarshal(b, &a); err != nil {
			return err
		}
		// The dependencies are in the order in which they were named; each has ended, however it did.
		inputs := make([]result, len(deps))
		for i, d := range deps {
			if inputs[i], err = resultOf(w.door, d); err != nil {
				return err
			}
		}
		t := &task{ID: id, Token: token, Type: jobType, Name: a.Name}
		r, err := w.do(t, inputs)
		if errors.Is(err, errGone) {
			return nil
		}
		if err == nil {
			err = w.finish(t, r)
		}
		if err != nil {
			return err
		}
	}
}

// finish hands a result in. It goes by the token: if the job was requeued meanwhile, the result comes too late and changes nothing.
func (w *worker) finish(t *task, r result) error {
	_, err := w.door.RequeueOrFinishToken(t.Token, 0, 0, r)
	switch {
	case errors.Is(err, composer.ErrCanceled):
		w.say("%s was cancelled; free for the next", t.Name)
		return nil
	case errors.Is(err, composer.ErrNotExist):
		w.say("%s is somebody else's by now", t.Name)
		return nil
	}
	return err
}

// beat says that the worker lives, and asks whether the job is still wanted. composer's workers do so every 15 seconds.
func (w *worker) beat(t *task) (wanted bool, err error) {
	w.door.RefreshHeartbeat(t.Token)
	id, err := w.door.IdFromToken(t.Token)
	if err != nil {
		return false, err
	}
	_, _, _, _, _, _, canceled, _, _, err := w.door.JobStatus(id)
	return !canceled, err
}

// build is what a worker does if nothing goes wrong.
func (w *worker) build(t *task, inputs []result) (result, error) {
	var r result
	switch t.Type {
	case depsolve:
		r.Packages = 212
		w.say("%s: found %d", t.Name, r.Packages)
	case manifest:
		r.Manifest = fmt.Sprintf("%d packages", inputs[0].Packages)
		w.say("%s: of %s", t.Name, r.Manifest)
	case osbuild:
		r.Image = t.Name
		w.say("%s: built of %s", t.Name, inputs[0].Manifest)
	case upload:
		for _, in := range inputs {
			if in.JobError != nil {
				r.Missing = append(r.Missing, in.JobError.Reason)
				w.say("%s: an image is missing: %s", t.Name, in.JobError.Reason)
				continue
			}
			r.Uploaded = append(r.Uploaded, in.Image)
			w.say("%s: %s", t.Name, in.Image)
		}
		if len(r.Missing) > 0 {
			r.JobError = &jobError{9, r.Missing[0]} // a dependency failed
		}
	}
	return r, nil
}
