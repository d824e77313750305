package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/depot"
	"github.com/headrace/headrace/internal/apitest"
	"github.com/headrace/headrace/job"
	"github.com/headrace/headrace/queue"
	"github.com/headrace/headrace/server"
	"github.com/headrace/headrace/store/memory"
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
	return makeLab(t, false, depot.Limits{})
}

// guardedLab makes one that wants tokens; its client has the administrator's.
func guardedLab(t *testing.T) *lab {
	t.Helper()
	return makeLab(t, true, depot.Limits{})
}

func makeLab(t *testing.T, guarded bool, limits depot.Limits) *lab {
	t.Helper()
	l := &lab{t: t, store: memory.New(), guarded: guarded, handler: &atomic.Pointer[http.Handler]{}}
	var err error
	if l.depot, err = depot.Open(filepath.Join(t.TempDir(), "depot"), depot.Options{Limits: limits}); err != nil {
		t.Fatal(err)
	}
	now := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*l.handler.Load()).ServeHTTP(w, r) })
	l.web = httptest.NewUnstartedServer(apitest.Checked(now, func(err error) { t.Error(err) }))
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
		err = l.server.AdminToken(t.Context(), "", func(secret string) error { l.Token = secret; return nil })
		if err != nil || l.Token == "" {
			t.Fatalf("the first token: %q, %v", l.Token, err)
		}
	}
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
