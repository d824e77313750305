package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/headrace/headrace/composer"
)

// server is composer's side that takes composes in, and watches over those who work on them.
type server struct {
	composes composes
	watched  watched
	workers  door // through which workers come
	out      io.Writer
}

// composes is what of the queue deals with composes.
type composes interface {
	EnqueueGroup(jobType string, args any, dependencies []uuid.UUID, channel string, group uuid.UUID) (uuid.UUID, error)
	Job(id uuid.UUID) (jobType string, args json.RawMessage, dependencies []uuid.UUID, channel string, err error)
	CancelJob(id uuid.UUID) error
	teller
}

// teller tells where a job is.
type teller interface {
	JobStatus(id uuid.UUID) (
		jobType, channel string, result json.RawMessage, queued, started, finished time.Time, canceled bool,
		deps, dependents []uuid.UUID, err error,
	)
}

// watched is what of the queue deals with workers that are silent.
type watched interface {
	Heartbeats(olderThan time.Duration) []uuid.UUID
	IdFromToken(token uuid.UUID) (uuid.UUID, error) //nolint:revive,staticcheck // the name is composer's
	RequeueOrFinishToken(token uuid.UUID, silent time.Duration, maxRetries uint64, result any) (requeued bool, err error)
}

// args are the arguments of every job here.
type args struct {
	Name string `json:"name"`
}

// result is the result of every job here: as in composer, what came of it or why nothing did.
type result struct {
	JobError *jobError `json:"job_error,omitempty"`
	Percent  int       `json:"percent,omitempty"` // while it runs
	Packages int       `json:"packages,omitempty"`
	Manifest string    `json:"manifest,omitempty"`
	Image    string    `json:"image,omitempty"`
	Uploaded []string  `json:"uploaded,omitempty"`
	Missing  []string  `json:"missing,omitempty"`
}

type jobError struct {
	ID     int    `json:"id"`
	Reason string `json:"reason"`
}

// resultOf reads the result of a job; that of one that has none is empty.
func resultOf(t teller, id uuid.UUID) (r result, err error) {
	_, _, b, _, _, _, _, _, _, err := t.JobStatus(id)
	if err != nil || b == nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r)
}

func (s *server) say(format string, a ...any) { fmt.Fprintf(s.out, "server: "+format+"\n", a...) }

// The types of jobs.
const (
	depsolve = "depsolve"
	manifest = "image-builder-manifest"
	osbuild  = "osbuild:x86_64"
	upload   = "upload"
)

// compose asks for images, and gives the last job of the graph: composer knows a compose by it.
func (s *server) compose(channel string, images ...string) (uuid.UUID, error) {
	group := uuid.New()
	var failed error
	enqueue := func(jobType, name string, deps ...uuid.UUID) uuid.UUID {
		id, err := s.composes.EnqueueGroup(jobType, args{name}, deps, channel, group)
		failed = errors.Join(failed, err)
		return id
	}
	packages := enqueue(depsolve, "packages")
	plan := enqueue(manifest, "manifest", packages)
	var built []uuid.UUID
	for _, image := range images {
		built = append(built, enqueue(osbuild, image, plan))
	}
	last := enqueue(upload, "upload", built...)
	s.say("%s asks for %s", channel, strings.Join(images, ", "))
	return last, failed
}

// cancel cancels a job and all that it depends on; the last first, so that no end of one lets another begin.
func (s *server) cancel(id uuid.UUID) error {
	err := s.composes.CancelJob(id)
	if err != nil && !errors.Is(err, composer.ErrNotRunning) { // it may have finished
		return err
	}
	_, _, deps, _, err := s.composes.Job(id)
	for i := 0; i < len(deps) && err == nil; i++ {
		err = s.cancel(deps[i])
	}
	return err
}

// name gives what a job is called.
func (s *server) name(id uuid.UUID) string {
	_, b, _, _, err := s.composes.Job(id)
	var a args
	if err := errors.Join(err, json.Unmarshal(b, &a)); err != nil {
		return err.Error()
	}
	return a.Name
}

// watch requeues the jobs whose workers were silent for too long, each twice at most; then they have failed. It gives how many there
// were. A server looks every half minute for those that were silent for two.
func (s *server) watch(silent time.Duration) (int, error) {
	lost := s.watched.Heartbeats(silent)
	for _, token := range lost {
		id, err := s.watched.IdFromToken(token)
		if errors.Is(err, composer.ErrNotExist) {
			continue // it has just finished
		}
		requeued, err := s.watched.RequeueOrFinishToken(token, silent, 2, result{JobError: &jobError{27, "its worker was not heard of"}})
		switch {
		case errors.Is(err, composer.ErrNotExist), errors.Is(err, composer.ErrCanceled):
			continue
		case errors.Is(err, composer.ErrRunning):
			continue // it was heard of meanwhile
		case err != nil:
			return 0, err
		}
		s.say("nobody was heard of who builds %s; requeued: %t", s.name(id), requeued)
	}
	return len(lost), nil
}

// report tells what came of a compose, in the words of composer's API.
func (s *server) report(last uuid.UUID) error {
	_, channel, _, _, _, finished, canceled, images, _, err := s.composes.JobStatus(last)
	if err != nil {
		return err
	}
	r, err := resultOf(s.composes, last)
	switch {
	case err != nil:
		return err
	case canceled:
		s.say("the compose of %s: failure, as it was cancelled", channel)
	case finished.IsZero():
		s.say("the compose of %s: pending", channel)
	case r.JobError != nil:
		s.say("the compose of %s: failure, %d of %d images are uploaded: %s", channel, len(r.Uploaded), len(images), r.JobError.Reason)
	default:
		s.say("the compose of %s: success", channel)
	}
	return nil
}
