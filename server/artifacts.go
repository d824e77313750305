package server

import (
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"path"
	"reflect"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/depot"
	"github.com/headrace/headrace/job"
)

// artifactPatience is how long one upload may take; a larger file is resumed.
const artifactPatience = 6 * time.Hour

func (s *Server) artifactOperations() {
	nameParam := param{name: "name", in: "path", about: "The name of the artifact, with / between its parts.", kind: "string"}
	s.raw(operation{
		id: "put-artifact", own: true, method: http.MethodPut, path: "/jobs/{id}/attempts/{attempt}/artifacts/{name...}", tag: "artifacts", role: worker,
		summary: "Upload an artifact of an attempt", about: "In one call or several: each goes on where the last one ended, and the answer says how much is there; one with an empty body asks. It is visible when it is whole and its SHA-256 is right, and not before.",
	}, &body{mediaType: "application/octet-stream"}, &body{mediaType: "application/json", of: reflect.TypeFor[api.Uploaded]()},
		[]param{
			jobParam, attemptParam, nameParam, leaseParam,
			{name: "size", in: "query", about: "Of the whole file, in bytes.", kind: "integer", must: true},
			{name: "sha256", in: "query", about: "Of the whole file, in hexadecimal.", kind: "string", must: true},
			{name: "offset", in: "query", about: "Where the first byte of the body stands in the file; left out, 0.", kind: "integer"},
		}, s.putArtifact)
	s.raw(operation{
		id: "list-artifacts", method: http.MethodGet, path: "/jobs/{id}/attempts/{attempt}/artifacts", tag: "artifacts", role: reader,
		summary: "List the artifacts of an attempt by name",
	}, nil, &body{mediaType: "application/json", of: reflect.TypeFor[api.List[api.Artifact]]()}, []param{jobParam, attemptParam},
		func(w http.ResponseWriter, r *http.Request) error {
			at, _, err := s.attempt(r)
			if err != nil {
				return err
			}
			list := api.List[api.Artifact]{Items: []api.Artifact{}}
			if s.Depot != nil {
				have, err := s.Depot.Artifacts(r.Context(), at)
				if err != nil {
					return kept(err, nil)
				}
				for i := range have {
					list.Items = append(list.Items, api.Artifact{
						Name: have[i].Name, Size: have[i].Size, SHA256: hex.EncodeToString(have[i].Sum[:]), At: have[i].Time.UTC(),
					})
				}
			}
			return write(w, http.StatusOK, list)
		})
	s.raw(operation{
		id: "get-artifact", method: http.MethodGet, path: "/jobs/{id}/attempts/{attempt}/artifacts/{name...}", tag: "artifacts", role: reader,
		also:    []int{http.StatusPartialContent, http.StatusNotModified, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable},
		summary: "Download an artifact", about: "Ranges of bytes can be asked for. The ETag is the SHA-256.",
	}, nil, &body{mediaType: "application/octet-stream"}, []param{jobParam, attemptParam, nameParam}, s.getArtifact)
}

func (s *Server) putArtifact(w http.ResponseWriter, r *http.Request) error {
	l, err := s.leaseIn(r)
	if err != nil {
		return err
	}
	u := depot.Upload{Name: r.PathValue("name")}
	if u.Size, err = wholeIn(r, "size", -1); err != nil || u.Size < 0 {
		return api.Invalid("query.size", "want the size of the file in bytes")
	}
	sum, err := hex.DecodeString(r.URL.Query().Get("sha256"))
	if err != nil || len(sum) != len(u.Sum) {
		return api.Invalid("query.sha256", "want 64 hexadecimal digits")
	}
	copy(u.Sum[:], sum)
	offset, err := wholeIn(r, "offset", 0)
	if err != nil {
		return err
	}
	held, err := s.Queue.LeaseOf(r.Context(), l.Job)
	if err != nil || held.Lease != l {
		if err == nil || errors.Is(err, job.ErrNotFound) {
			err = job.ErrLeaseLost
		}
		return err
	}
	if s.Depot == nil {
		return api.ErrGone
	}
	from := s.newPaced(w, http.MaxBytesReader(w, r.Body, u.Size-min(offset, u.Size)+1), artifactPatience)
	received, err := s.Depot.Put(r.Context(), depot.Attempt{Job: l.Job, Number: l.Attempt}, u, offset, from)
	if err == nil {
		from.done()
	}
	var invalid *job.InvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Field == "name":
		return api.Invalid("path.name", invalid.Want)
	case errors.As(err, &invalid):
		return api.Invalid("query."+invalid.Field, invalid.Want)
	case err != nil && received > 0 && !isTold(err):
		// The body was cut off: what came is kept.
		p := api.ProblemOf(api.ErrMismatch)
		p.Detail, p.Size, p.Retry = fmt.Sprintf("the upload ended early: %d of %d bytes are there", received, u.Size), &received, true
		return p
	case err != nil:
		return kept(err, &received)
	}
	return write(w, http.StatusOK, api.Uploaded{Received: received, Complete: received == u.Size})
}

// isTold reports whether an error is the depot's own, and not one of what it read from.
func isTold(err error) bool {
	var gap *depot.GapError
	var limit *depot.LimitError
	var sum *depot.SumError
	var taken *depot.TakenError
	return errors.As(err, &gap) || errors.As(err, &limit) || errors.As(err, &sum) || errors.As(err, &taken) ||
		errors.Is(err, depot.ErrBusy) || errors.Is(err, depot.ErrClosed) || errors.Is(err, depot.ErrNotKept)
}

func (s *Server) getArtifact(w http.ResponseWriter, r *http.Request) error {
	at, _, err := s.attempt(r)
	if err != nil {
		return err
	}
	if s.Depot == nil {
		return api.ErrGone
	}
	content, a, err := s.Depot.OpenArtifact(r.Context(), at, r.PathValue("name"))
	var invalid *job.InvalidError
	if errors.As(err, &invalid) {
		return api.Invalid("path.name", invalid.Want)
	}
	if err != nil {
		return kept(err, nil)
	}
	defer content.Close() // Only read from.
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	// What jobs make is never shown as a page of ours.
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(a.Name)}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("ETag", `"`+hex.EncodeToString(a.Sum[:])+`"`)
	serveContent(w, r, a.Time, content)
	return nil
}
