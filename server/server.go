package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/depot"
	"github.com/headrace/headrace/queue"
)

// Config is what a Server is made of.
type Config struct {
	Queue   *queue.Queue
	History queue.History
	// Failures lists remembered failures: it is the store that History is.
	Failures queue.Failures
	// Log gets one line a transition; nil: none.
	Log *slog.Logger
	// Version is that of this program.
	Version string
	// WorkerVersion is what workers are told to be; "": it does not matter.
	WorkerVersion string
	// Hold is how long a worker's call waits at most if there is nothing to say; 0: 55 s.
	Hold time.Duration
	// BodyPatience is how long the body of a request may take to come, or the next piece of one that streams; 0: 30 s.
	BodyPatience time.Duration
	// Open asks nobody for a token, and lets all do all: for tests, and programs that guard the handler themselves.
	Open bool
	// Public lets whoever has no token read everything.
	Public bool
	// Keep is for how long logs and artifacts are kept after the last of them was written; 0: until their job is deleted.
	Keep time.Duration
	// KeepBuilds is for how long builds are kept after they ended, with the jobs that no other build refers to; 0: until they are deleted.
	KeepBuilds time.Duration
	// Depot keeps logs and artifacts; nil: nothing is kept of them.
	Depot Depot
}

// Depot keeps what attempts leave.
type Depot interface {
	depot.Logs
	depot.Artifacts
	depot.Keeper
}

// hold is Config.Hold where that does not say: below the minute after which proxies cut off what is silent.
const hold = 55 * time.Second

// Server serves a queue.
type Server struct {
	Config
	mux     *http.ServeMux
	api     huma.API
	lines   lines
	guard   guard
	metrics *metrics
	nudge   chan struct{}   // a schedule was changed
	closing context.Context // ends when no call is to be held any more
	close   context.CancelFunc
	// revoking: two that each leave one token of an administrator leave none.
	revoking sync.Mutex
}

// New makes a server. Close must be called in the end.
func New(cfg Config) (*Server, error) {
	if cfg.Queue == nil || cfg.History == nil || cfg.Failures == nil {
		return nil, errors.New("new server: Queue, History and Failures must be set")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Hold <= 0 {
		cfg.Hold = hold
	}
	if cfg.BodyPatience <= 0 {
		cfg.BodyPatience = bodyPatience
	}
	s := &Server{Config: cfg, mux: http.NewServeMux(), lines: lines{byName: map[string]*line{}}, nudge: make(chan struct{}, 1)}
	s.closing, s.close = context.WithCancel(context.Background())
	s.guard.init()
	s.metrics = newMetrics(s)
	describe := huma.DefaultConfig("Headrace", api.Version)
	describe.Info.Description = "The queue of a build farm: graphs of jobs, handed to the machines that should run them."
	describe.DocsPath, describe.SchemasPath, describe.OpenAPIPath = "", "", ""
	describe.CreateHooks = nil // no $schema links in what is answered
	describe.Servers = []*huma.Server{{URL: prefix}}
	describe.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "A token of this server, see headrace token."},
	}
	heed.Do(tellProblems)
	s.api = humago.NewWithPrefix(s.mux, prefix, describe)
	s.operations()
	s.plainOperations()
	s.mux.HandleFunc("/", s.unknown)
	return s, nil
}

// prefix begins the path of every operation.
const prefix = "/api/v1"

// heed makes huma tell problems as we do; it knows one way for a whole program.
var heed sync.Once

func tellProblems() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		p := api.Plain(status, message)
		if status == http.StatusUnprocessableEntity || status == http.StatusBadRequest {
			p = api.Invalid("", "")
			p.Status, p.Errors = status, nil
		}
		for _, err := range errs {
			var told *api.Problem
			if errors.As(err, &told) {
				return told // of the body, as it was read
			}
			if err == nil {
				continue
			}
			e := api.FieldError{Message: err.Error()}
			var d huma.ErrorDetailer
			if errors.As(err, &d) {
				detail := d.ErrorDetail() // without its value, which may be a secret
				e = api.FieldError{Location: detail.Location, Message: detail.Message}
			}
			p.Errors = append(p.Errors, e)
		}
		if len(p.Errors) == 0 && message != "" {
			p.Detail = message
		}
		return p
	}
}

// Handler gives what answers requests.
func (s *Server) Handler() http.Handler { return s.guarded(s.mux) }

// Close has all calls that are held answered, with what there is to say, and holds none any more: before a shutdown.
func (s *Server) Close() {
	s.close()
	s.lines.wakeAll()
}

// OpenAPI gives the document that describes the API, as JSON.
func (s *Server) OpenAPI() ([]byte, error) { return s.api.OpenAPI().MarshalJSON() }

// unknown answers for paths that there are not, and for methods that a path does not have.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	var has []string
	if plainPath(r.URL.EscapedPath()) {
		has = s.methodsAt(r)
	}
	if len(has) > 0 {
		w.Header().Set("Allow", strings.Join(has, ", "))
		writeProblem(w, api.Plain(http.StatusMethodNotAllowed, clip(r.URL.Path)+" has no "+clip(r.Method)+", but "+strings.Join(has, ", ")))
		return
	}
	writeProblem(w, api.Plain(http.StatusNotFound, "there is nothing at "+clip(r.URL.Path)))
}

// methodsAt gives the methods that the path of a request has.
func (s *Server) methodsAt(r *http.Request) (has []string) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "/" {
			has = append(has, method)
		}
	}
	return has
}

// clip shortens what a message repeats of a request.
func clip(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
