package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
)

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// typePrefix begins the type of each problem of ours.
const typePrefix = "urn:headrace:"

// Problem is what the server tells instead of an answer: a problem document of RFC 9457. It is an error that is the engine's error
// of the same kind, so that errors.Is works on both sides of the wire.
type Problem struct {
	// Type tells kinds of problems apart: "urn:headrace:" and a word of Kinds, or "about:blank" where the status says it all.
	Type   string `json:"type"`
	Title  string `json:"title" doc:"The kind of problem, for people."`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty" doc:"What happened, for people."`
	// Errors names the fields that are not as they must be.
	Errors []FieldError `json:"errors,omitempty" doc:"The fields that are not as they must be."`
	// Retry: the same request may well succeed later.
	Retry bool `json:"retry,omitempty" doc:"The same request may succeed later, under the same Idempotency-Key."`
	// Size is how many bytes the server has, where an upload does not go on from there.
	Size *int64 `json:"size,omitempty" doc:"How many bytes the server has of what was to be appended to."`
}

// FieldError is a field that is not as it must be.
type FieldError struct {
	Location string `json:"location,omitempty" doc:"The field, such as body.jobs[3].needs[0] or query.limit."`
	Message  string `json:"message" doc:"What was expected."`
}

// Error tells the detail with the fields.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Detail)
	if p.Detail == "" {
		b.WriteString(p.Title)
	}
	for i, e := range p.Errors {
		if i == 0 {
			b.WriteString(": ")
		} else {
			b.WriteString("; ")
		}
		if e.Location != "" {
			b.WriteString(strings.TrimPrefix(e.Location, "body.") + ": ")
		}
		b.WriteString(e.Message)
	}
	return b.String()
}

// Is makes it the engine's error of its kind.
func (p *Problem) Is(target error) bool {
	k := kindOf(p.Type)
	return k != nil && k.err != nil && errors.Is(target, k.err)
}

// As makes it a *queue.RetryError where the request may be sent again, and the *job.InvalidError of its first field.
func (p *Problem) As(target any) bool {
	switch t := target.(type) {
	case **queue.RetryError:
		if p.Retry {
			*t = &queue.RetryError{Cause: errors.New(p.Detail)}
			return true
		}
	case **job.InvalidError:
		if len(p.Errors) > 0 {
			*t = &job.InvalidError{Field: strings.TrimPrefix(p.Errors[0].Location, "body."), Want: p.Errors[0].Message}
			return true
		}
	}
	return false
}

// GetStatus gives the HTTP status code.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is that of problem documents.
func (p *Problem) ContentType(string) string { return ProblemType }

// Errors of the HTTP interface itself.
var (
	// ErrUnauthorized: no token, or one that is not known or no longer valid.
	ErrUnauthorized = errors.New("a valid token is needed")
	// ErrForbidden: the token does not allow that, or not in this channel.
	ErrForbidden = errors.New("not allowed")
	// ErrTooMany: too many attempts with wrong tokens, or too many requests.
	ErrTooMany = errors.New("too many requests")
	// ErrTooLarge: the body, or what is uploaded, is larger than it may be.
	ErrTooLarge = errors.New("too large")
	// ErrMismatch: what was uploaded is not what was announced, or does not go on where the server's part ends.
	ErrMismatch = errors.New("does not match")
	// ErrGone: the log or artifact is not kept any more, or never was.
	ErrGone = errors.New("not kept")
	// ErrVersion: the worker speaks a version of the protocol that the server does not.
	ErrVersion = errors.New("protocol version not supported")
	// ErrInternal: the server failed.
	ErrInternal = errors.New("internal error")
)

// kind is a kind of problem.
type kind struct {
	word   string
	status int
	title  string
	err    error // that it stands for
}

// kinds is the one table of what errors are on the wire. The first that fits counts.
var kinds = [...]kind{
	{"unauthorized", http.StatusUnauthorized, "A valid token is needed", ErrUnauthorized},
	{"forbidden", http.StatusForbidden, "Not allowed", ErrForbidden},
	{"too-many-requests", http.StatusTooManyRequests, "Too many requests", ErrTooMany},
	{"too-large", http.StatusRequestEntityTooLarge, "Too large", ErrTooLarge},
	{"mismatch", http.StatusConflict, "Does not match", ErrMismatch},
	{"exists", http.StatusConflict, "Exists already", job.ErrExists},
	{"gone", http.StatusNotFound, "Not kept", ErrGone},
	{"version", http.StatusConflict, "Protocol version not supported", ErrVersion},
	{"request-reused", http.StatusConflict, "Idempotency-Key used for another request", queue.ErrRequest},
	{"unfinished", http.StatusConflict, "Not ended yet", queue.ErrUnfinished},
	{"feed-truncated", http.StatusGone, "That place of the feed is not kept any more", queue.ErrFeedTruncated},
	{"feed-ahead", http.StatusConflict, "The feed has not come to that place", queue.ErrFeedAhead},
	{"lease-lost", http.StatusConflict, "Lease lost", job.ErrLeaseLost},
	{"not-ready", http.StatusConflict, "Not ready", job.ErrNotReady},
	{"ended", http.StatusConflict, "Already ended", job.ErrEnded},
	{"in-use", http.StatusConflict, "In use", job.ErrBusy},
	{"worker-live", http.StatusConflict, "A worker of this name is alive", job.ErrWorkerLive},
	{"signed-off", http.StatusConflict, "The worker's session is over", job.ErrSignedOff},
	{"not-found", http.StatusNotFound, "Not found", job.ErrNotFound},
	{"unavailable", http.StatusServiceUnavailable, "The engine cannot answer now", queue.ErrClosed},
	{"internal", http.StatusInternalServerError, "Internal error", ErrInternal},
}

// Words of the kinds that engine errors with contents of their own have.
const (
	invalidWord  = "invalid"
	conflictWord = "conflict"
	cycleWord    = "cycle"
	neededWord   = "needed"
	retryWord    = "unavailable"
)

func kindOf(problemType string) *kind {
	word, ok := strings.CutPrefix(problemType, typePrefix)
	if !ok {
		return nil
	}
	for i := range kinds {
		if kinds[i].word == word {
			return &kinds[i]
		}
	}
	return nil
}

// ProblemOf tells an error as a problem. An error that is in no table is told as an internal one, without its text: that is
// for the server's log alone.
func ProblemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var invalid *job.InvalidError
	var conflict *job.ConflictError
	var cycle *job.CycleError
	var needed *job.NeededError
	var retry *queue.RetryError
	switch {
	case errors.As(err, &invalid):
		return Invalid("body."+invalid.Field, invalid.Want)
	case errors.As(err, &conflict):
		return problem(conflictWord, http.StatusConflict, "An unfinished job of this key differs", err)
	case errors.As(err, &cycle):
		return problem(cycleWord, http.StatusUnprocessableEntity, "Jobs need each other in a circle", err)
	case errors.As(err, &needed):
		return problem(neededWord, http.StatusConflict, "Others need it", err)
	case errors.As(err, &retry):
		p := problem(retryWord, http.StatusServiceUnavailable, "The engine cannot answer now", err)
		p.Retry = true
		return p
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		p := problem(retryWord, http.StatusServiceUnavailable, "The engine cannot answer now", errors.New("the request was ended before it was answered"))
		p.Retry = true
		return p
	}
	for i := range kinds {
		if k := &kinds[i]; errors.Is(err, k.err) {
			p := problem(k.word, k.status, k.title, err)
			p.Retry = k.status == http.StatusServiceUnavailable || k.status == http.StatusTooManyRequests
			return p
		}
	}
	return problem("internal", http.StatusInternalServerError, "Internal error", errors.New("the server failed; its log says why"))
}

func problem(word string, status int, title string, err error) *Problem {
	return &Problem{Type: typePrefix + word, Status: status, Title: title, Detail: err.Error()}
}

// Invalid tells that a field is not as it must be; location begins with body, query, path or header.
func Invalid(location, want string) *Problem {
	return &Problem{
		Type: typePrefix + invalidWord, Status: http.StatusUnprocessableEntity, Title: "Not as it must be", Detail: "the request is not as it must be",
		Errors: []FieldError{{Location: location, Message: want}},
	}
}

// Plain tells a problem of HTTP itself, which has no kind of ours.
func Plain(status int, detail string) *Problem {
	return &Problem{Type: "about:blank", Status: status, Title: http.StatusText(status), Detail: detail}
}
