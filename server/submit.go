package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// Bounds of a submission.
const (
	maxSubmission     = 512 << 20 // bytes of its body
	maxSubmissionJobs = 1_000_000
	// submissionPatience is how long its body may take in all.
	submissionPatience = 10 * time.Minute
)

// ndjson is the media type of lines of JSON.
const ndjson = "application/x-ndjson"

// submit takes a submission as it streams in: of one of 100,000 jobs no second copy is made.
func (s *Server) submit(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > maxSubmission {
		p := api.ProblemOf(api.ErrTooLarge)
		p.Detail = fmt.Sprintf("the body has %d bytes, want at most %d", r.ContentLength, maxSubmission)
		return p
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != ndjson && kind != "application/json" {
		return api.Plain(http.StatusUnsupportedMediaType, "want Content-Type application/json, or "+ndjson+": the build in the first line, then a job a line")
	}
	from := s.newPaced(w, http.MaxBytesReader(w, r.Body, maxSubmission), submissionPatience)
	ctx := r.Context()
	var body io.Reader = from
	digest := sha256.New()
	keyed := !queue.RequestOf(ctx).IsZero()
	if keyed {
		body = io.TeeReader(from, digest)
	}
	var in api.Submission
	if kind == ndjson {
		err = readLines(body, &in)
	} else {
		err = readDocument(body, &in)
	}
	if err != nil {
		from.drain()
		return err
	}
	from.done()
	d := draft{newID: s.Queue.NewID, in: &in}
	submission, err := d.submission()
	if err != nil {
		return err
	}
	if err := within(ctx, d.channel); err != nil {
		return err
	}
	if err := s.reaches(ctx, &d, submission.Jobs); err != nil {
		return err
	}
	if keyed {
		submission.Build.Labels[digestLabel] = hex.EncodeToString(digest.Sum(nil)[:16])
	}
	receipt, err := s.place(ctx, submission)
	if err != nil {
		return d.named(err)
	}
	return write(w, http.StatusCreated, d.receipt(receipt))
}

// reaches reports whether the request may see all that the jobs need besides one another: what it may not see is not there.
func (s *Server) reaches(ctx context.Context, d *draft, jobs []job.Spec) error {
	pass := passOf(ctx)
	if pass.everywhere() {
		return nil
	}
	asked := map[job.ID]string{} // where each was named
	for at := range jobs {
		for k, n := range jobs[at].Needs {
			if _, here := d.here[n.Job]; !here {
				asked[n.Job] = fmt.Sprintf("body.jobs[%d].needs[%d].job", d.order[at], k)
			}
		}
	}
	const atOnce = 1000
	for ids := range slices.Chunk(slices.Collect(maps.Keys(asked)), atOnce) {
		recs, err := s.History.Jobs(ctx, queue.JobFilter{IDs: ids, Limit: len(ids)})
		if err != nil {
			return err
		}
		for i := range recs {
			if pass.sees(recs[i].Spec.Channel) {
				delete(asked, recs[i].Spec.ID)
			}
		}
	}
	for _, where := range asked {
		return api.Invalid(where, "there is no such job")
	}
	return nil
}

// placed is a receipt with the place of the feed from which events tell of what was asked for.
type placed struct {
	queue.Receipt
	round uint64
}

// again gives the first answer to a request for a build where what that was made of is not there any more, for which err is.
func again[T any](ctx context.Context, s *Server, err error, answer func(api.Receipt) T) (*T, error) {
	if !errors.Is(err, job.ErrNotFound) {
		return nil, err
	}
	receipt, before, unknown := s.Queue.Submitted(ctx)
	if unknown != nil {
		return nil, unknown
	}
	if !before {
		return nil, err
	}
	out := viewReceipt(&receipt)
	recs, err := s.History.Builds(ctx, queue.BuildFilter{IDs: []job.ID{receipt.Build}, Limit: 1})
	if err != nil {
		return nil, &queue.RetryError{Cause: err}
	}
	if len(recs) == 1 {
		out.Round, _ = strconv.ParseUint(recs[0].Build.Labels[roundLabel], 10, 64) // Else 0: from the beginning.
	}
	told := answer(out)
	return &told, nil
}

// place asks the engine for a build, and notes at it from which round on events tell of it: a repeat must be told of all of them, too.
func (s *Server) place(ctx context.Context, submission queue.Submission) (*placed, error) {
	// The engine names a large one itself.
	fresh := len(submission.Jobs) <= s.Queue.StageSize
	if fresh {
		submission.Build.ID = s.Queue.NewID()
	}
	round := s.Queue.Round()
	submission.Build.Labels[roundLabel] = strconv.FormatUint(round, 10)
	receipt, err := s.Queue.Submit(ctx, submission)
	if err != nil {
		return nil, err
	}
	if !fresh || receipt.Build != submission.Build.ID {
		recs, err := s.History.Builds(ctx, queue.BuildFilter{IDs: []job.ID{receipt.Build}, Limit: 1})
		if err != nil {
			return nil, &queue.RetryError{Cause: err}
		}
		if len(recs) == 1 {
			if recs[0].Build.Labels[digestLabel] != submission.Build.Labels[digestLabel] {
				return nil, queue.ErrRequest // The key was that of another.
			}
			if first, err := strconv.ParseUint(recs[0].Build.Labels[roundLabel], 10, 64); err == nil {
				round = first
			}
		}
	}
	return &placed{receipt, round}, nil
}
