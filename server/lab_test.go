package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/depot"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/server"
	"github.com/headrace/headrace/store/memory"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// update has TestOpenAPIDocument write the document anew.
var update = flag.Bool("update", false, "write server/openapi.json anew")

// lab is a server on an engine in memory.
type lab struct {
	*api.Client
	t      *testing.T
	queue  *queue.Queue
	store  *memory.Store
	server *server.Server
	depot  *depot.Folder
	web    *httptest.Server
	// handler is that of the server that there is now; calls go on while another takes over.
	handler *atomic.Pointer[http.Handler]
	stop    func()
	// guarded: it wants tokens.
	guarded bool
	// patience is how long it waits for bodies.
	patience time.Duration
	// lastBuild is the last one that was submitted.
	lastBuild job.ID
}

// newLab makes one that runs until the test has ended.
func newLab(t *testing.T) *lab {
	t.Helper()
	return makeLab(t, false)
}

// guardedLab makes one that wants tokens; its client has the administrator's.
func guardedLab(t *testing.T) *lab {
	t.Helper()
	return makeLab(t, true)
}

func makeLab(t *testing.T, guarded bool) *lab {
	t.Helper()
	l := &lab{t: t, store: memory.New(), guarded: guarded, handler: &atomic.Pointer[http.Handler]{}}
	var err error
	if l.depot, err = depot.Open(filepath.Join(t.TempDir(), "depot"), depot.Options{}); err != nil {
		t.Fatal(err)
	}
	l.web = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*l.handler.Load()).ServeHTTP(w, r) }))
	l.start()
	l.web.Start()
	t.Cleanup(func() {
		l.stop()
		l.web.Close()
		if err := l.depot.Close(); err != nil {
			t.Errorf("close the depot: %v", err)
		}
	})
	if l.Client, err = api.NewClient(l.web.URL, ""); err != nil {
		t.Fatal(err)
	}
	l.Patience = -1
	if guarded {
		err = l.server.FirstToken(t.Context(), func(secret string) error { l.Token = secret; return nil })
		if err != nil || l.Token == "" {
			t.Fatalf("the first token: %q, %v", l.Token, err)
		}
	}
	l.HTTP.Transport = &held{next: l.HTTP.Transport, t: t}
	return l
}

// start has a new owner and a new server take over.
func (l *lab) start() {
	l.t.Helper()
	q, err := queue.Open(queue.Config{Store: l.store, History: l.store})
	if err != nil {
		l.t.Fatal(err)
	}
	s, err := server.New(server.Config{Queue: q, History: l.store, Failures: l.store, Depot: l.depot, Open: !l.guarded, BodyPatience: l.patience})
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		if err := q.Run(ctx); err != nil {
			l.t.Errorf("run: %v", err)
		}
	})
	run.Go(func() {
		if err := s.Run(ctx); err != nil {
			l.t.Errorf("run the server: %v", err)
		}
	})
	h := s.Handler()
	l.queue, l.server = q, s
	l.handler.Store(&h)
	l.stop = func() {
		s.Close()
		cancel()
		run.Wait()
	}
	// The engine has loaded once it answers.
	if _, err := q.Workers(ctx); err != nil {
		l.t.Fatal(err)
	}
}

// restart has another process take over, as it were.
func (l *lab) restart() {
	l.t.Helper()
	l.stop()
	l.start()
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// submit asks for a build of these jobs.
func (l *lab) submit(jobs ...api.JobSpec) api.Receipt {
	l.t.Helper()
	r, err := l.Submit(l.t.Context(), &api.Submission{BuildSpec: api.BuildSpec{Name: "b"}, Jobs: jobs})
	l.must(err)
	l.lastBuild = r.Build
	return r
}

// spec describes a worker of the lab.
func spec(slots int32) *api.WorkerSpec {
	return &api.WorkerSpec{Channels: []string{api.DefaultChannel}, Kinds: []string{api.DefaultKind}, Systems: []string{}, Slots: slots}
}

// newID gives an id.
func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }

// call makes a raw request, and gives status and body.
func (l *lab) call(method, path, text string, header ...string) (int, []byte) {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), method, l.web.URL+path, strings.NewReader(text))
	l.must(err)
	if text != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if l.Token != "" {
		r.Header.Set("Authorization", "Bearer "+l.Token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := l.HTTP.Do(r)
	l.must(err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	l.must(err)
	return response.StatusCode, answer
}

// problem makes a raw request, and gives the problem that it must be answered with.
func (l *lab) problem(method, path, text string, header ...string) *api.Problem {
	l.t.Helper()
	status, answer := l.call(method, path, text, header...)
	p := &api.Problem{}
	if err := json.Unmarshal(answer, p); err != nil || status < 400 {
		l.t.Fatalf("%s %s: %d %s, want a problem", method, path, status, answer)
	}
	return p
}

// held holds every response to the OpenAPI document: its status, its media type, its body and, where the request is one that the
// server took, that request.
type held struct {
	next http.RoundTripper
	t    *testing.T
}

// document is the OpenAPI document, compiled.
var document = sync.OnceValues(func() (*described, error) {
	s, err := server.New(server.Config{Queue: &queue.Queue{}, History: memory.New(), Failures: memory.New()})
	if err != nil {
		return nil, err
	}
	text, err := s.OpenAPI()
	if err != nil {
		return nil, err
	}
	d := &described{}
	if err := json.Unmarshal(text, &d.paths); err != nil {
		return nil, err
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	d.compiler = jsonschema.NewCompiler()
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource("openapi.json", whole); err != nil {
		return nil, err
	}
	for path := range d.paths.Paths {
		pattern := regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), "[^/]+")
		if strings.HasSuffix(path, "/artifacts/{name}") {
			pattern = strings.TrimSuffix(pattern, "[^/]+") + ".+"
		}
		d.patterns = append(d.patterns, pathPattern{path, regexp.MustCompile("^" + pattern + "$")})
	}
	return d, nil
})

type described struct {
	paths struct {
		Paths map[string]map[string]describedOperation
	}
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	patterns []pathPattern
}

type describedOperation struct {
	OperationID string
	Role        string `json:"x-role"`
	Responses   map[string]struct{ Content map[string]any }
}

type pathPattern struct {
	path    string
	pattern *regexp.Regexp
}

// RoundTrip implements http.RoundTripper.
func (h *held) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := h.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	below, ok := strings.CutPrefix(r.URL.Path, "/api/v1")
	if !ok {
		return response, nil
	}
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	if response.StatusCode < 400 && (kind == "text/event-stream" || kind == "text/plain" || kind == "application/octet-stream") {
		return response, nil // They stream.
	}
	text, err := io.ReadAll(response.Body)
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(text))
	if err != nil {
		return response, nil // It was cut off, which is the test's business.
	}
	d, err := document()
	if err != nil {
		h.t.Errorf("the document: %v", err)
		return response, nil
	}
	if err := d.check(r.Method, below, response.StatusCode, kind, text); err != nil {
		h.t.Errorf("%s %s: %d %s: %v", r.Method, r.URL.Path, response.StatusCode, text, err)
	}
	return response, nil
}

func (d *described) check(method, path string, status int, kind string, text []byte) error {
	for _, p := range d.patterns {
		if !p.pattern.MatchString(path) {
			continue
		}
		op, ok := d.paths.Paths[p.path][strings.ToLower(method)]
		if !ok {
			continue
		}
		code := strconv.Itoa(status)
		response, ok := op.Responses[code]
		if !ok {
			return fmt.Errorf("the document knows no status %s", code)
		}
		if len(response.Content) == 0 {
			if len(text) > 0 {
				return fmt.Errorf("there is a body where the document has none")
			}
			return nil
		}
		if _, ok := response.Content[kind]; !ok {
			return fmt.Errorf("the document knows no media type %q", kind)
		}
		escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
		at := "openapi.json#/paths/" + escape.Replace(p.path) + "/" + strings.ToLower(method) + "/responses/" + code + "/content/" + escape.Replace(kind) + "/schema"
		d.mu.Lock()
		schema, err := d.compiler.Compile(at)
		d.mu.Unlock()
		if err != nil {
			return err
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return err
		}
		return schema.Validate(v)
	}
	if status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		return nil
	}
	return fmt.Errorf("the document does not know the operation")
}

// The document in the repository is the one that is served.
func TestOpenAPIDocument(t *testing.T) {
	t.Parallel()
	const path = "openapi.json"
	l := newLab(t)
	text, err := l.server.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	pretty.WriteByte('\n')
	if *update {
		if err := os.WriteFile(path, pretty.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(kept), pretty.String()); diff != "" {
		t.Errorf("openapi.json is out of date; go test ./server -run %s -update writes it anew:\n%s", t.Name(), diff)
	}
}
