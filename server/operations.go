package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// operation describes one of the API.
type operation struct {
	id      string
	method  string
	path    string // below prefix
	summary string
	about   string
	tag     string
	role    role // that it needs
	status  int  // of success; 0: 200, or 204 without a body
	also    []int
	limit   int64 // bytes of the body; 0: 1 MiB
	own     bool  // a repeat is harmless by itself, or says by the lease what it is of: an Idempotency-Key has no effect
}

// problems are the codes that each operation may answer with.
var problems = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict,
	http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusInternalServerError,
	http.StatusServiceUnavailable,
}

// describe gives the operation as the document has it.
func (s *Server) describe(o *operation) huma.Operation {
	op := huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary, Description: o.about, Tags: []string{o.tag},
		DefaultStatus: o.status, Errors: slices.Concat(problems, o.also), MaxBodyBytes: o.limit, RejectUnknownQueryParameters: true,
		BodyReadTimeout: s.BodyPatience,
	}
	if o.method != http.MethodGet {
		op.Errors = append(op.Errors, http.StatusRequestTimeout)
	}
	if o.method != http.MethodGet && !o.own {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "Under one key the request happens once; a repeat gets the first answer, for at least 24 hours.",
		})
	}
	if o.role != nobody {
		op.Security = []map[string][]string{{"token": {}}}
		op.Extensions = map[string]any{"x-role": o.role.String()}
	}
	return op
}

// bodyPatience is how long the body of a request may take to come.
const bodyPatience = 30 * time.Second

// handle serves an operation whose input is small: it is checked against its schema, and what is wrong is named.
func handle[I, O any](s *Server, o operation, do func(context.Context, *I) (*O, error)) {
	op := s.describe(&o)
	op.Middlewares = huma.Middlewares{func(c huma.Context, next func(huma.Context)) {
		// Before the input is looked at: what is wrong with it is not for everybody to know.
		if err := s.admit(c.Context(), o.role); err != nil {
			r, w := humago.Unwrap(c)
			writeProblem(w, s.told(r.Context(), err))
			return
		}
		began := time.Now()
		next(c)
		s.metrics.requests.WithLabelValues(o.id, strconv.Itoa(c.Status())).Observe(time.Since(began).Seconds())
	}}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		unhurried(ctx)
		ctx, err := s.requested(ctx)
		if err != nil {
			return nil, err
		}
		out, err := do(ctx, in)
		if _, bare := any(out).(*struct{}); bare && errors.Is(err, job.ErrNotFound) {
			switch before, unknown := s.Queue.Answered(ctx); {
			case before:
				return nil, nil // It is gone, by this very request or since.
			case unknown != nil:
				err = unknown
			}
		}
		if err != nil {
			p := s.told(ctx, err)
			if o.method == http.MethodGet {
				for i := range p.Errors { // The engine knows no queries.
					if name, ok := strings.CutPrefix(p.Errors[i].Location, "body."); ok {
						p.Errors[i].Location = "query." + name
					}
				}
			}
			return nil, p
		}
		return out, nil
	})
}

// told turns an error into the problem that it is, and logs what is our own fault.
func (s *Server) told(ctx context.Context, err error) *api.Problem {
	if errors.Is(context.Cause(ctx), errToken) { // It has expired or was revoked meanwhile.
		p := api.ProblemOf(api.ErrUnauthorized)
		p.Detail = errToken.Error()
		return p
	}
	p := api.ProblemOf(err)
	if p.Status == http.StatusInternalServerError && ctx.Err() == nil {
		s.Log.Error("a request failed", "err", err)
	}
	return p
}

// body describes what a raw operation takes or gives.
type body struct {
	mediaType string
	of        reflect.Type // nil: any bytes
}

// param is a parameter of a raw operation.
type param struct {
	name, in, about string
	kind            string // of JSON: string, integer or boolean
	must            bool
}

// raw serves an operation that reads or writes its bodies itself, as a stream or because it is called very often.
func (s *Server) raw(o operation, in, out *body, params []param, do func(http.ResponseWriter, *http.Request) error) {
	op := s.describe(&o)
	registry := s.api.OpenAPI().Components.Schemas
	schema := func(b *body) *huma.MediaType {
		if b.of == nil {
			return &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
		}
		return &huma.MediaType{Schema: huma.SchemaFromType(registry, b.of)}
	}
	for _, p := range params {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: p.name, In: p.in, Description: p.about, Required: p.must || p.in == "path", Schema: &huma.Schema{Type: p.kind},
		})
	}
	if in != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{in.mediaType: schema(in)}}
	}
	status := o.status
	if status == 0 {
		status = http.StatusOK
	}
	answer := &huma.Response{Description: http.StatusText(status)}
	if out != nil {
		answer.Content = map[string]*huma.MediaType{out.mediaType: schema(out)}
	}
	op.Responses = map[string]*huma.Response{strconv.Itoa(status): answer}
	problem := huma.SchemaFromType(registry, reflect.TypeFor[api.Problem]())
	for _, code := range op.Errors {
		if code < http.StatusBadRequest {
			op.Responses[strconv.Itoa(code)] = &huma.Response{Description: http.StatusText(code)}
			if code == http.StatusPartialContent { // one range, or several
				op.Responses[strconv.Itoa(code)].Content = map[string]*huma.MediaType{out.mediaType: schema(out), "multipart/byteranges": schema(&body{})}
			}
			continue
		}
		op.Responses[strconv.Itoa(code)] = &huma.Response{
			Description: http.StatusText(code), Content: map[string]*huma.MediaType{api.ProblemType: {Schema: problem}},
		}
	}
	described := op
	described.Path = strings.ReplaceAll(op.Path, "...}", "}") // The document knows no parameter of several parts.
	s.api.OpenAPI().AddOperation(&described)
	// Past huma, which has nothing to do here, and would keep a context of its own while a call is held.
	s.mux.HandleFunc(op.Method+" "+prefix+op.Path, func(plain http.ResponseWriter, r *http.Request) {
		w, done := s.metrics.timed(o.id, plain)
		defer done()
		err := s.admit(r.Context(), o.role)
		if err == nil {
			err = knownQuery(r, params)
		}
		if err == nil {
			var ctx context.Context
			if ctx, err = s.requested(r.Context()); err == nil {
				if ctx != r.Context() {
					r = r.WithContext(ctx)
				}
				err = do(w, r)
			}
		}
		if err != nil {
			writeProblem(w, s.told(r.Context(), err))
		}
	})
}

// knownQuery refuses parameters of the query that an operation does not have.
func knownQuery(r *http.Request, params []param) error {
	for name := range r.URL.Query() {
		if !slices.ContainsFunc(params, func(p param) bool { return p.in == "query" && p.name == name }) {
			return api.Invalid("query."+clip(name), "unknown query parameter")
		}
	}
	return nil
}

// read decodes the body of a raw operation, of at most limit bytes; what is wrong is named.
func (s *Server) read(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	relax := s.heedPace(w)
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return misread(err, "body")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return api.Invalid("body", "want one JSON value and nothing after it")
	}
	relax()
	return nil
}

// unhurried takes the deadline for the body away, which has come: else it would end the request while it is held.
func unhurried(ctx context.Context) {
	if a := askingOf(ctx); a != nil {
		_ = http.NewResponseController(a.w).SetReadDeadline(time.Time{}) // A server that cannot has none.
	}
}

// heedPace has the body come in time. relax must be called when it has: else the deadline would end the request while it is held. If it has
// not, the deadline stays: what is left of the body is not waited for either.
func (s *Server) heedPace(w http.ResponseWriter) (relax func()) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(s.BodyPatience)) // A server that cannot has none.
	return func() { _ = c.SetReadDeadline(time.Time{}) }
}

// misread tells what is wrong with a body that could not be read.
func misread(err error, at string) error {
	var large *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var moment *time.ParseError
	switch {
	case errors.As(err, &moment):
		return api.Invalid(at, fmt.Sprintf("want a time in RFC 3339, as 2006-01-02T15:04:05Z, got %q", clip(strings.Trim(moment.Value, `"`))))
	case errors.As(err, &large):
		p := api.ProblemOf(api.ErrTooLarge)
		p.Detail = "the body is larger than " + strconv.FormatInt(large.Limit, 10) + " bytes"
		return p
	case errors.As(err, &kind):
		where := at
		if kind.Field != "" {
			where += "." + kind.Field
		}
		return api.Invalid(where, "want "+wireKind(kind.Type)+", got "+kind.Value)
	case errors.As(err, &syntax):
		return api.Invalid(at, "is no JSON: "+syntax.Error()+" at byte "+strconv.FormatInt(syntax.Offset, 10))
	case errors.Is(err, io.EOF):
		return api.Invalid(at, "is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return api.Invalid(at, "ends in the middle")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return api.Invalid(at, "has an unknown field, "+clip(name))
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return api.Plain(http.StatusRequestTimeout, "the body came too slowly")
	}
	return api.Invalid(at, clip(err.Error()))
}

// wireKind names a Go type as JSON knows it.
func wireKind(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[job.ID]():
		return "a UUID"
	case t == reflect.TypeFor[time.Time]():
		return "a time in RFC 3339"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "a boolean"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "a whole number (" + t.Kind().String() + ")"
	}
}

// write answers with JSON.
func write(w http.ResponseWriter, status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // Whoever has gone asks again.
	return nil
}

// writeProblem answers with a problem, unless an answer has begun.
func writeProblem(w http.ResponseWriter, p *api.Problem) {
	if p.Retry {
		w.Header().Set("Retry-After", "1")
	}
	text, err := json.Marshal(p)
	if err != nil {
		text = []byte("{}")
	}
	w.Header().Set("Content-Type", api.ProblemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(text) // Whoever has gone asks again.
}

// operations registers all of them.
func (s *Server) operations() {
	s.buildOperations()
	s.jobOperations()
	s.workerOperations()
	s.channelOperations()
	s.failureOperations()
	s.tokenOperations()
	s.logOperations()
	s.artifactOperations()
	s.eventOperations()
	s.scheduleOperations()
}
